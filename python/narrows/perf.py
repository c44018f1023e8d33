"""Throughput tests of QUIC between hosts, for `narrows perf`."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from narrows import engine, hosts
from narrows.errors import UsageError
from narrows.live import resolve
from narrows.progress import print_status
from narrows.quantities import seconds
from narrows.supervision import conclude, supervised

PORT = 6512
"""The default port."""

OWN = "noq:"
"""The prefix of noq's own controllers."""


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


@dataclass(kw_only=True)
class Session:
    """A server, or one test of a client."""

    scheme: str
    interval: str = "1s"
    as_json: bool = False
    _intervals: dict[str, list[dict[str, Any]]] = field(default_factory=dict, init=False)
    _begun: float = field(default_factory=time.time, init=False)

    def serve(
        self,
        listen: str,
        *,
        certificate: Path | None,
        key: Path | None,
        once: bool,
        duration: str | None,
        connections: int,
    ) -> None:
        """Serve tests until a signal, the end of `duration`, or `once` the first test.

        Raises:
            UsageError: A setting is invalid.
            Stopped: A signal ended the server.
            LiveFailed: The address cannot be used.
        """
        if (certificate is None) != (key is None):
            raise UsageError("--cert, --key: a certificate needs its key; accepted: both, or neither")
        identity = None if certificate is None or key is None else (str(certificate), str(key))
        limit = None if duration is None else seconds(duration, "--duration")
        name, params = parse_scheme(self.scheme)
        address, interval = resolve(listen, "--listen", port=None), seconds(self.interval, "--interval")
        handle = engine.Handle()
        conclude(
            *supervised(
                lambda: hosts.perf_server(
                    address, name, params, interval, identity, once, limit, connections, handle, self._report
                ),
                handle,
            )
        )

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
            LiveFailed: The server cannot be reached or is not trusted.
        """
        address = resolve(host, "HOST", port=PORT)
        plain = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        chosen, params = parse_scheme(self.scheme)
        limit, interval = seconds(duration, "--duration"), seconds(self.interval, "--interval")
        handle = engine.Handle()
        conclude(
            *supervised(
                lambda: hosts.perf_client(
                    address, chosen, params, interval, limit, streams, reverse, name or plain, trust, handle,
                    self._report,
                ),
                handle,
            )
        )  # fmt: skip

    def _report(self, text: str) -> None:
        row = json.loads(text)
        kind = row.pop("event")
        if kind == "listening":
            print_status(f"listening at {row['address']}\n  fingerprint {row['fingerprint']}")
        elif kind == "warning":
            print_status(f"narrows: warning: {row['text']}")
        elif kind == "interval":
            self._intervals.setdefault(row["peer"], []).append(row)
            print_status(line(row))
        elif self.as_json:
            print(engine.json_line(self._document(row)), flush=True)
        else:
            print(summary(row), flush=True)

    def _document(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the result in the layout of iperf3."""
        total = row["total"]
        received = row["received_bytes"]
        ended = {
            "sum_sent": _sum(total) if row["sends"] else None,
            "sum_received": None
            if received is None
            else {
                "start": 0.0, "end": row["received_s"], "seconds": row["received_s"], "bytes": received,
                "bits_per_second": received * 8 / row["received_s"] if row["received_s"] else 0.0,
            },
        }  # fmt: skip
        return {
            "start": {
                "version": f"narrows {engine.version()}",
                "timestamp": {"timesecs": int(self._begun)},
                "connected": [{"remote": row["peer"]}],
                "test_start": {
                    "protocol": "QUIC", "num_streams": row["streams"], "congestion": row["scheme"],
                    "sender": row["sends"],
                },
            },
            "intervals": [{"sum": _sum(one)} for one in self._intervals.pop(row["peer"], [])],
            "end": {**ended, "complete": row["complete"]},
        }  # fmt: skip


def _sum(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "start": row["start_s"], "end": row["end_s"], "seconds": row["end_s"] - row["start_s"], "bytes": row["bytes"],
        "bits_per_second": row["mbit_s"] * 1e6, "packets": row["packets"], "lost_packets": row["lost"],
        "rtt_ms": row["rtt_ms"], "cwnd_bytes": row["cwnd_bytes"], "pacing_mbit_s": row["pacing_mbit_s"],
        "state": row["state"],
    }  # fmt: skip


def line(row: dict[str, Any]) -> str:
    """Format an interval as one line."""
    parts = [f"{row['mbit_s']:.2f} Mbit/s"]
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
    return f"{row['start_s']:.1f}–{row['end_s']:.1f} s: {', '.join(parts)}"


def summary(row: dict[str, Any]) -> str:
    """Format the result of a test."""
    total = row["total"]
    direction = "to" if row["sends"] else "from"
    streams = f"{row['streams']} stream{'s' if row['streams'] > 1 else ''}"
    lines = [f"{row['scheme']}, {streams} {direction} {row['peer']}: {line(total)}"]
    if row["sends"]:
        if row["received_bytes"] is None:
            lines.append("  the receiver did not say what arrived")
        elif row["received_s"]:
            rate = row["received_bytes"] * 8e-6 / row["received_s"]
            lines.append(f"  received: {row['received_bytes']} bytes, {rate:.2f} Mbit/s")
    if not row["complete"]:
        lines.append("  the test ended early")
    return "\n".join(lines)
