"""Throughput tests of QUIC between hosts, for `narrows perf`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from narrows import engine, hosts
from narrows.errors import UsageError
from narrows.iperf import Recording
from narrows.live import resolve
from narrows.progress import print_status
from narrows.quantities import seconds
from narrows.supervision import conclude, supervised

PORT = 6512
"""The default port."""

OWN = "noq:"
"""The prefix of noq's own controllers."""

MIN_INTERVAL_S = 0.05
"""The shortest interval between reports: a receiver reports to its sender every 20 ms."""

MAX_DURATION_S = 24 * 3600.0
"""The longest test."""


SILENCE_S = 1.0
"""The shortest silence of the peer that a line shows: more than the longest RTT of a usual path."""


def parse_scheme(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Split `NAME[:KEY=VALUE,...]`; the prefix `noq:` belongs to the name.

    Raises:
        UsageError: A parameter has no value.
    """
    prefix = OWN if text.startswith(OWN) else ""
    name, _, rest = text.removeprefix(prefix).partition(":")
    params = []
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals or not key or not value:
            raise UsageError(f"--scheme: {item!r} is no parameter; accepted: NAME[:KEY=VALUE,...], noq:NAME")
        params.append((key.strip(), value.strip()))
    return prefix + name, params


def _bounded(text: str, flag: str, least: float, most: float) -> float:
    """Parse a duration within bounds, in seconds.

    Raises:
        UsageError: The text is no duration, or out of bounds.
    """
    found = seconds(text, flag)
    if not least <= found <= most:
        raise UsageError(f"{flag}: {text!r} is out of range; accepted: {1e3 * least:g}ms to {most:g}s")
    return found


@dataclass(kw_only=True)
class Session:
    """A server, or one test of a client."""

    scheme: str
    interval: str = "1s"
    as_json: bool = False
    recordings: dict[int, Recording] = field(default_factory=dict, init=False)
    """Recordings of running tests, by number; only for JSON."""

    def serve(
        self,
        listen: str,
        *,
        certificate: Path | None,
        key: Path | None,
        once: bool,
        duration: str | None,
        connections: int,
        per_address: int | None,
        longest: str,
    ) -> None:
        """Serve tests until a signal, the end of `duration`, or with `once` the end of the first test.

        Args:
            listen: The address and port.
            certificate: The file of the certificate; `None` for a self-made one.
            key: The file of its key.
            once: End after a test.
            duration: The longest duration of the server.
            connections: The limit of simultaneous tests.
            per_address: The limit of connections per address; `None`: half of `connections`.
            longest: The longest test that a client may request.

        Raises:
            UsageError: A setting is invalid.
            Stopped: A signal ended the server.
            LiveFailed: The address cannot be used.
        """
        if (certificate is None) != (key is None):
            raise UsageError("--cert, --key: a certificate needs its key; accepted: both, or neither")
        identity = None if certificate is None or key is None else (str(certificate), str(key))
        limit = None if duration is None else seconds(duration, "--duration")
        most = _bounded(longest, "--longest", 1e-3, MAX_DURATION_S)
        name, params = parse_scheme(self.scheme)
        address = resolve(listen, "--listen", port=None)
        interval = _bounded(self.interval, "--interval", MIN_INTERVAL_S, MAX_DURATION_S)
        places = (connections + 1) // 2 if per_address is None else per_address
        handle = engine.Handle()
        conclude(
            *supervised(
                lambda: hosts.perf_server(
                    address, name, params, interval, identity, once, limit, connections, places, most, handle,
                    self.report,
                ),
                handle,
            )
        )  # fmt: skip

    def test(self, host: str, *, duration: str, streams: int, reverse: bool, name: str | None, trust: str) -> None:
        """Run one test against a server.

        Args:
            host: The server, with or without a port.
            duration: How long data is sent.
            streams: Parallel streams.
            reverse: The server sends.
            name: The name in its certificate; by default that of the host.
            trust: `system`, `any`, `ca:FILE` or `fingerprint:DIGITS`.

        Raises:
            UsageError: A setting is invalid.
            Stopped: A signal ended the test.
            LiveFailed: The server cannot be reached or is not trusted, or the connection failed.
        """
        address = resolve(host, "HOST", port=PORT)
        bracketed, several = host.startswith("["), host.count(":") > 1  # an address of IPv6, with or without a port
        plain = host[1:].partition("]")[0] if bracketed else host if several else host.partition(":")[0]
        plain = plain.partition("%")[0]  # the scope of a link-local address is in no certificate
        expected = plain if name is None else name
        chosen, params = parse_scheme(self.scheme)
        limit = _bounded(duration, "--duration", 1e-3, MAX_DURATION_S)
        interval = _bounded(self.interval, "--interval", MIN_INTERVAL_S, MAX_DURATION_S)
        handle = engine.Handle()
        conclude(
            *supervised(
                lambda: hosts.perf_client(
                    address, chosen, params, interval, limit, streams, reverse, expected, trust, handle,
                    self.report,
                ),
                handle,
            )
        )  # fmt: skip

    def report(self, row: dict[str, Any]) -> None:
        """Print an event of the engine, or keep it for the document of its test."""
        kind = row.pop("event")
        if kind == "listening":
            print_status(f"listening at {row['address']}\n  fingerprint {row['fingerprint']}")
        elif kind == "warning":
            print_status(f"narrows: warning: {row['text']}")
        elif kind == "begun":
            if self.as_json:
                self.recordings[row["test"]] = Recording()
            if not row["client"]:
                print_status(opening(row))
        elif kind == "interval":
            recording = self.recordings.get(row["test"])
            if recording is not None:
                recording.add(row)
            print_status(line(row))
        elif self.as_json:
            print(engine.json_line(self.recordings.pop(row["test"]).document(row)), flush=True)
        else:
            print(summary(row), flush=True)


def opening(row: Mapping[str, Any]) -> str:
    """Format the start of a test at a server."""
    verb = "receives" if row["sends"] else "sends"
    return f"{row['peer']} {verb} {_streams(row)} for {row['duration_s']:g} s"


def _streams(row: Mapping[str, Any]) -> str:
    return f"{row['streams']} stream{'s' if row['streams'] > 1 else ''}"


def line(row: Mapping[str, Any]) -> str:
    """Format an interval as one line, without the conditions if the peer is silent: they are out of date."""
    silent = row["silent_s"]
    rest = f", nothing received for {silent:.1f} s" if silent >= SILENCE_S else _conditions(row)
    return f"{row['start_s']:.1f}–{row['end_s']:.1f} s: {row['mbit_s']:.2f} Mbit/s{rest}"


def _conditions(row: Mapping[str, Any]) -> str:
    """Format the conditions of the path, with a comma before each value."""
    parts = []
    if row["rtt_ms"] is not None:
        parts.append(f"RTT {row['rtt_ms']:.2f} ms")
    if row["sends"]:
        share = 100 * row["lost"] / row["packets"] if row["packets"] else 0.0
        parts.append(f"{row['lost']} lost ({share:.2f} %)")
        if row["cwnd_bytes"] is not None:
            parts.append(f"cwnd {row['cwnd_bytes'] / 1e3:.1f} kB")
        if row["pacing_mbit_s"] is not None:
            parts.append(f"pacing {row['pacing_mbit_s']:.2f} Mbit/s")
        if row["state"] is not None:
            parts.append(str(row["state"]))
    return "".join(f", {part}" for part in parts)


def summary(row: Mapping[str, Any]) -> str:
    """Format the result of a test: the sender's line and the receiver's, as iperf3 does."""
    direction = "to" if row["sends"] else "from"
    scheme = "" if row["scheme"] is None else f"{row['scheme']}, "
    lines = [f"{scheme}{_streams(row)} {direction} {row['peer']}"]
    for name, tally, own in (("sent", row["sent"], row["sends"]), ("received", row["received"], not row["sends"])):
        if tally is None:
            lines.append(f"  {name}: the other end did not say")
            continue
        moved = sum(tally["streams"])
        rate = moved * 8e-6 / tally["seconds"] if tally["seconds"] else 0.0
        lost = f", {tally['lost']} lost" if tally["lost"] is not None and not own else ""
        conditions = _conditions(row["total"]) if own else lost
        lines.append(f"  {name}: {moved} bytes in {tally['seconds']:.2f} s, {rate:.2f} Mbit/s{conditions}")
    if row["failure"] is not None:
        lines.append(f"  the test failed: {row['failure']}")
    elif not row["complete"]:
        lines.append("  the test ended early")
    return "\n".join(lines)
