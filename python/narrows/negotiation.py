"""Negotiates rates between real hosts, for `narrows nodectl`."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from narrows import _engine, engine
from narrows.arguments import pairs
from narrows.errors import Stopped, UsageError
from narrows.progress import print_status
from narrows.quantities import MOST_MBIT_S, quantity, rate, seconds
from narrows.supervision import supervised


def port() -> int:
    """Return the default port of nodes, responders and servers.

    Raises:
        HostUnable: This is not Linux.
    """
    if not hasattr(_engine, "negotiation_port"):
        raise engine.HostUnable("narrows nodectl needs Linux")
    return int(_engine.negotiation_port())


def negotiate(
    role: str, settings: Mapping[str, Any], handle: engine.Handle, on_event: Callable[[str, str], None]
) -> dict[str, Any]:
    """Run a daemon that negotiates rates until it ends or the handle is cancelled.

    Args:
        role: "node", "server" or "client".
        settings: Its settings; rates in Mbit/s on the wire, times in seconds.
        handle: Ends the daemon when cancelled.
        on_event: Called with "listening" and an address, or "log" and a text.

    Raises:
        ValueError: A setting is invalid.
        HostUnable: This is not Linux.
        HostFailed: The kernel refused a step.
        LiveFailed: A socket cannot be opened, or the server is silent.

    Returns:
        Its report.
    """
    if not hasattr(_engine, "negotiate"):
        raise engine.HostUnable("narrows nodectl needs Linux")
    return _engine.negotiate(role, settings, handle, on_event)


def address(text: str, flag: str) -> str:
    """Resolve a host with an optional port to an IPv4 address with a port.

    Raises:
        UsageError: The text is no address, or cannot be resolved.
    """
    host, colon, number = text.partition(":")
    try:
        chosen = int(number) if colon else port()
        if not 0 <= chosen <= 65_535:
            raise ValueError
        found = socket.getaddrinfo(host, chosen, socket.AF_INET, socket.SOCK_DGRAM)
    except (ValueError, OSError):
        raise UsageError(
            f"{flag}: {text!r} is no IPv4 address of this network; accepted: ADDRESS or ADDRESS:PORT"
        ) from None
    return f"{found[0][4][0]}:{chosen}"


def next_hop(text: str) -> tuple[str, int, str]:
    """Parse `--next`: network, its bits, and the node.

    Raises:
        UsageError: The text is malformed.
    """
    network, equals, to = text.rpartition("=")
    try:
        net = ipaddress.IPv4Network(network if equals else "0.0.0.0/0")
    except ValueError as error:
        raise UsageError(
            f"--next: {error}; accepted: ADDRESS, or NET/BITS=ADDRESS such as 10.1.0.0/16=10.0.0.2"
        ) from None
    return str(net.network_address), net.prefixlen, address(to, "--next")


def interface_speed(name: str) -> float:
    """Return the speed of a network interface in Mbit/s.

    Raises:
        UsageError: There is no such interface, or it reports no speed.
    """
    folder = Path("/sys/class/net") / name
    if "/" in name or not folder.is_dir():
        raise UsageError(f"--port: there is no interface {name!r}; accepted: one of `ip link`")
    try:
        speed = int((folder / "speed").read_text())
    except (OSError, ValueError):
        speed = -1
    if speed <= 0:
        raise UsageError(f"--port: {name} does not tell its speed; accepted: with --rate")
    return float(speed)


def run(role: str, settings: dict[str, Any], *, duration: str | None, as_json: bool) -> dict[str, Any]:
    """Run a daemon until it ends. Ctrl-C, SIGTERM and the duration end it gracefully.

    Raises:
        UsageError: A setting is invalid.
        Stopped: A signal ended a client.
        LiveFailed: A socket cannot be opened, or the server is silent.
    """
    left = None if duration is None else seconds(duration, "--duration")
    handle = engine.Handle()
    report: dict[str, Any] = {}

    def work() -> None:
        report.update(negotiate(role, settings, handle, lambda kind, text: _print_event(role, kind, text)))

    timer = None if left is None or role == "client" else threading.Timer(left, handle.cancel)
    if timer is not None:
        timer.start()
    try:
        failed, signals = supervised(work, handle)
    finally:
        if timer is not None:
            timer.cancel()
    if isinstance(failed, ValueError) and not isinstance(failed, engine.HostUnable):
        raise UsageError(str(failed))
    if failed is not None:
        raise failed
    if as_json:
        print(engine.json_line(report), flush=True)
    if signals and role == "client":
        raise Stopped("stopped", signals[0])
    return report


def _print_event(role: str, kind: str, text: str) -> None:
    what = "answers requests" if role == "client" else "listens"
    print_status(f"{what} at {text}" if kind == "listening" else text)


def node(
    listen: str,
    *,
    interface: str | None,
    rate: str | None,
    next_nodes: Sequence[str],
    sets: Sequence[str],
    limit: int,
    responder_port: int | None,
    duration: str | None,
    as_json: bool,
) -> None:
    """Run a node.

    Raises:
        UsageError, LiveFailed: As for `run`.
    """
    if interface is None and rate is None:
        raise UsageError("--port, --rate: the node has no rate to allocate; accepted: one of them, or both")
    mbit = _rate(rate, "--rate")
    own = interface_speed(interface) if interface is not None and mbit is None else mbit
    if interface is not None and mbit is not None and not (Path("/sys/class/net") / interface).is_dir():
        raise UsageError(f"--port: there is no interface {interface!r}; accepted: one of `ip link`")
    settings = {
        "listen": address(listen, "--listen"),
        "rate_mbit_s": own,
        "next": [next_hop(text) for text in next_nodes],
        "responder_port": responder_port or port(),
        "params": pairs(sets),
        "messages_per_s": limit,
    }
    report = run("node", settings, duration=duration, as_json=as_json)
    if not as_json:
        print(f"{report['received']} messages received, {report['sent']} sent; {report['unreadable']} unreadable,"
              f" {report['foreign']} foreign, {report['limited']} beyond the limit")  # fmt: skip


def _rate(text: str | None, flag: str) -> float | None:
    return None if text is None else rate(text, flag)


def server(
    listen: str,
    *,
    via: str | None,
    max_rate: str | None,
    connections: int,
    program: bool,
    duration: str | None,
    as_json: bool,
) -> None:
    """Run a server.

    Raises:
        UsageError, LiveFailed: As for `run`.
    """
    settings = {
        "listen": address(listen, "--listen"),
        "via": None if via is None else address(via, "--via"),
        "max_mbit_s": _rate(max_rate, "--max") or MOST_MBIT_S,
        "connections": connections,
        "program": program,
    }
    report = run("server", settings, duration=duration, as_json=as_json)
    if not as_json:
        print(f"{report['served']} connections served, {report['failed']} failed, {report['refused']} refused;"
              f" {report['bytes']} bytes")  # fmt: skip


def request(
    host: str,
    *,
    size: str | None,
    subflows: int,
    content: int,
    max_rate: str | None,
    min_rate: str | None,
    limit: str | None,
    bind: str | None,
    responder_port: int | None,
    duration: str | None,
    timeout: str,
    as_json: bool,
) -> None:
    """Receive from a server.

    Raises:
        UsageError, Stopped, LiveFailed: As for `run`.
    """
    if size is None and duration is None:
        raise UsageError("--size, --duration: the transmission has no end; accepted: one of them, or both")
    amount = 0
    if size is not None:
        found = quantity(size)
        if found is None or found[1] != "kB" or not 1 <= found[0] * 1e3 < 2**63:
            raise UsageError(f"--size: {size!r} is no amount of data; accepted: a number with a unit, 500kB or 10MB")
        amount = round(found[0] * 1e3)
    most = _rate(max_rate, "--max") or MOST_MBIT_S
    least = _rate(min_rate, "--min") or 0.0
    if least > most:
        raise UsageError("--min, --max: the least rate exceeds the greatest; accepted: --min up to --max")
    settings = {
        "server": address(host, "SERVER"),
        "local": None if bind is None else address(bind, "--bind").partition(":")[0],
        "content": content,
        "subflows": subflows,
        "max_mbit_s": most,
        "min_mbit_s": least,
        "limit_mbit_s": _rate(limit, "--limit") or MOST_MBIT_S,
        "size": amount,
        "duration_s": None if duration is None else seconds(duration, "--duration"),
        "responder_port": responder_port or port(),
        "timeout_s": seconds(timeout, "--timeout"),
    }
    report = run("client", settings, duration=duration, as_json=as_json)
    if not as_json:
        state = "complete" if report["complete"] else "ended"
        print(f"{state}: {report['bytes']} bytes in {report['seconds']:.2f} s, {report['goodput_mbit_s']:.2f} Mbit/s;"
              f" first data after {report['wait_s'] * 1e3:.0f} ms")  # fmt: skip
    if not report["bytes"]:
        raise engine.LiveFailed(f"{settings['server']}: no data arrived")
    if amount and not report["complete"] and duration is None:
        raise engine.LiveFailed(f"{settings['server']}: only {report['bytes']} of {amount} bytes arrived")
