"""Sends and receives DCCP over UDP on real sockets, for `narrows dccp`."""

from __future__ import annotations

import ipaddress
import shlex
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows import engine
from narrows.errors import UsageError
from narrows.files import check_writable
from narrows.progress import print_status
from narrows.quantities import seconds
from narrows.records import DatagramReport, Overview
from narrows.supervision import conclude, supervised
from narrows.toml import to_toml

PORT = 6511
"""The UDP port registered for DCCP."""

DISSECTOR = Path(__file__).with_name("dccp-in-udp.lua")
"""The script with which Wireshark and tshark decode captures."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """Settings that sender and receiver share."""

    duration: str | None = None
    timeout: str = "10s"
    capture: Path | None = None
    as_json: bool = False

    def run(self, flow: dict[str, Any], address: str, *, sender: bool, once: bool, connections: int = 1) -> None:
        """Run until the end. Ctrl-C or SIGTERM closes the connections; a second signal aborts them.

        Args:
            flow: The keys of the scenario's flow.
            address: The peer's address, or the address to listen at.
            sender: Send instead of receive.
            once: Stop after one connection.
            connections: The receiver's limit of simultaneous connections.

        Raises:
            Stopped: A signal ended the session.
            UsageError: A setting is invalid.
            ScenarioError: A key of the flow is invalid.
            LiveFailed: No connection was established, or the peer fell silent.
        """
        duration_s = None if self.duration is None else seconds(self.duration, "--duration")
        timeout_s = seconds(self.timeout, "--timeout")
        if self.capture is not None:
            check_writable(self.capture, folder=False, flag="--capture")
        capture = None if self.capture is None else str(self.capture)
        text = to_toml(flow)
        handle = engine.Handle()
        failed, signals = supervised(
            lambda: engine.live(
                text, sender, address, duration_s, timeout_s, once, connections, capture, handle, self._print_event
            ),
            handle,
        )
        if self.capture is not None and self.capture.exists():
            script, file = shlex.quote(f"lua_script:{DISSECTOR}"), shlex.quote(str(self.capture))
            print_status(f"to read the capture: tshark -X {script} -r {file}")
        conclude(failed, signals)

    def _print_event(self, kind: str, row: Any) -> None:
        if kind == "listening":
            print_status(f"listening at {row}")
        elif kind == "progress":
            print_status(progress(row))
        elif kind == "overview":
            print_status(overview(row))
        elif kind == "warning":
            print_status(f"narrows: warning: {row}")
        elif self.as_json:
            print(engine.json_line(row), flush=True)
        else:
            print(summary(row), flush=True)


def send(
    host: str,
    *,
    scheme: str | None,
    rate: str | None,
    video: str | None,
    size: int,
    session: Session,
    queue: int | None = None,
    overflow: str | None = None,
) -> None:
    """Send datagrams to a host.

    Raises:
        UsageError: An argument is invalid.
        Stopped, ScenarioError, LiveFailed: As for `Session.run`.
    """
    if rate is not None and video is not None:
        raise UsageError("--rate, --video: these exclude each other; accepted: one of them, or neither")
    flow: dict[str, Any] = {"scheme": scheme or engine.datagram_scheme(), "dccp": {"datagram_bytes": size}}
    if overflow is not None and rate is None and video is None:
        raise UsageError(
            "--overflow: the queue never overflows without a live source; accepted: with --rate or --video"
        )
    flow["dccp"] |= {key: value for key, value in (("queue", queue), ("overflow", overflow)) if value is not None}
    if rate is not None:
        flow["app"] = {"kind": "cbr", "rate": rate, "write": f"{size}B"}
    if video is not None:
        flow["app"] = {"kind": "video", "rate": video}
    try:
        session.run(flow, resolve(host, "HOST"), sender=True, once=True)
    except engine.ScenarioError as error:
        flags = {
            "scheme": "--scheme",
            "dccp.datagram_bytes": "--size",
            "dccp.queue": "--queue",
            "dccp.overflow": "--overflow",
            "app.rate": "--rate" if video is None else "--video",
        }
        if error.key not in flags:
            raise
        raise UsageError(f"{flags[error.key]}: {error.message}\n  accepted: {error.accepted}") from None


def receive(listen: str, *, once: bool, connections: int, session: Session) -> None:
    """Receive datagrams at an address.

    Raises:
        UsageError: An argument is invalid.
        Stopped, ScenarioError, LiveFailed: As for `Session.run`.
    """
    flow = {"scheme": engine.datagram_scheme()}
    session.run(flow, resolve(listen, "--listen", port=None), sender=False, once=once, connections=connections)


def resolve(text: str, flag: str, port: int | None = PORT) -> str:
    """Resolve a host with a port to an address with a port: `[::1]:6511`, `127.0.0.1:6511`.

    Args:
        text: The host, with or without a port.
        flag: The argument that errors name.
        port: The port of a text without one; `None` rejects it.

    Raises:
        UsageError: The text is malformed, lacks a port, or cannot be the name of a host.
        OSError: The host is unknown.
    """
    host, number = text, "" if port is None else str(port)
    accepted = "HOST, HOST:PORT, [IPV6]:PORT" if port is not None else "ADDRESS:PORT, [IPV6]:PORT"
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        number = rest[1:] if rest.startswith(":") else number
        wrong = "]" not in text or rest not in ("", f":{number}")
    else:
        colons = text.count(":")
        if colons == 1:
            host, number = text.split(":")
        wrong = colons > 1 and not _is_ipv6(text)
    missing = not number and port is None
    if wrong or not host or not (missing or (number.isascii() and number.isdigit())):
        raise UsageError(f"{flag}: {text!r} is not a host with a port; accepted: {accepted}")
    if missing:
        raise UsageError(f"{flag}: {text!r} is not an address with a port; accepted: {accepted}")
    if len(number) > 5 or not 0 < int(number) < 65536:
        raise UsageError(f"{flag}: {text!r} has port {number[:20]}; accepted: ports 1 to 65535")
    try:
        found = socket.getaddrinfo(host, int(number), type=socket.SOCK_DGRAM)
    except UnicodeError:  # an empty or long label, or a letter that IDNA lacks
        raise UsageError(f"{flag}: {host!r} cannot be the name of a host; accepted: {accepted}") from None
    except OSError as error:
        raise OSError(f"{flag}: {host}: {error.strerror or error}") from error
    family, where = found[0][0], found[0][4]
    address = str(where[0])
    if len(where) == 4 and where[3]:  # the scope of a link-local IPv6 address
        address = f"{address.partition('%')[0]}%{where[3]}"
    return f"[{address}]:{number}" if family == socket.AF_INET6 else f"{address}:{number}"


def _is_ipv6(text: str) -> bool:
    """Return whether a text is an address of IPv6, with or without a scope."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def progress(row: DatagramReport) -> str:
    """Format a connection's progress as one line."""
    delay = f", delay {row['delay']['p50_ms']:.2f} ms" if row["delay"] else ""
    rtt = f", RTT {row['rtt_ms']:.2f} ms" if row["rtt_ms"] else ""
    lost = "" if row["lost"] is None else f", {row['lost']} lost"
    done = f"{row['datagrams']} datagrams, {row['throughput_mbit_s']:.2f} Mbit/s"
    peer = f"{row['remote']}, " if row["role"] == "receiver" else ""  # a receiver may serve several connections
    return f"{peer}{row['duration_s']:.0f} s: {done}{lost}{rtt}{delay}"


def overview(row: Overview) -> str:
    """Format the progress of many connections as one line."""
    waiting = f", {row['half_open']} incomplete handshakes" if row["half_open"] else ""
    rate = f"{row['datagrams']} datagrams, {row['throughput_mbit_s']:.2f} Mbit/s"
    return f"{row['connections']} connections{waiting}: {rate}"


def summary(row: DatagramReport) -> str:
    """Format the result of a connection."""
    direction = "to" if row["role"] == "sender" else "from"
    reason = f", {row['reset_name'] or 'code'} ({row['reset_code']})" if row["end"] == "reset" else ""
    end = f"{row['end']}{reason} after {row['duration_s']:.2f} s"
    lines = [
        f"{row['role']} {direction} {row['remote']}: {end}, CCID {row['ccid']}",
        f"  {row['datagrams']} datagrams, {row['bytes']} bytes, {row['throughput_mbit_s']:.2f} Mbit/s",
    ]
    if row["role"] == "sender":
        known = row["lost"] is not None
        lost = f"{row['lost']} lost ({row['loss_percent']:.2f} %)" if known else "individual losses not reported"
        unreported = f", {row['unreported']} not reported" if row["unreported"] else ""
        lines.append(
            f"  {lost}{unreported}, {row['marked']} marked, {row['queue_drops']} dropped by the full queue, "
            f"{row['timeouts']} timeouts"
        )
    elif row["duplicates"]:
        lines.append(f"  {row['duplicates']} duplicates, not counted as datagrams")
    if row["delay"]:
        delay = row["delay"]
        lines.append(
            f"  one-way delay: min {delay['min_ms']:.3f}, mean {delay['mean_ms']:.3f}, median {delay['p50_ms']:.3f}, "
            f"95 % {delay['p95_ms']:.3f}, 99 % {delay['p99_ms']:.3f} ms"
        )
    return "\n".join(lines)
