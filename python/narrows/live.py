"""DCCP on sockets: what `narrows dccp` does."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows import engine, runner
from narrows.options import FAILURE, INTERRUPTED, TERMINATED, fail, say
from narrows.quantities import quantity
from narrows.scenario import Misuse, to_toml

PORT = 6511
"""The UDP port registered for DCCP."""

DISSECTOR = Path(__file__).with_name("dccp-in-udp.lua")
"""Makes Wireshark and tshark read captures."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What both ends have in common."""

    duration: str | None = None
    timeout: str = "10s"
    capture: Path | None = None
    as_json: bool = False

    def go(self, flow: dict[str, Any], address: str, *, sender: bool, once: bool, connections: int = 1) -> None:
        """Run to the end. Ctrl-C or SIGTERM closes the connection and prints its result; a second waits for nobody."""
        duration_s = None if self.duration is None else seconds(self.duration, "--duration")
        timeout_s = seconds(self.timeout, "--timeout")
        if self.capture is not None:
            runner.writable(self.capture, folder=False, flag="--capture")
        text = to_toml(flow)
        handle = engine.Handle()
        failed: list[BaseException] = []
        finished = threading.Event()

        def tell(kind: str, report: str) -> None:
            row = json.loads(report)
            if kind == "listening":
                say(f"listening at {row}")
            elif kind == "progress":
                say(progress(row))
            elif self.as_json:
                print(engine.dump(row), flush=True)
            else:
                print(summary(row), flush=True)

        def work() -> None:
            try:
                engine.live(
                    text, sender=sender, address=address, duration_s=duration_s, timeout_s=timeout_s, once=once,
                    connections=connections,                     capture=self.capture, handle=handle, tell=tell,
                )  # fmt: skip
            except BaseException as error:
                failed.append(error)
            finally:
                finished.set()

        # Handlers run in the main thread only, which has to be in Python for that: it waits for an event.
        # They only take note: one signal may come while another is handled, or while something is printed.
        signals: list[int] = []

        def stop(number: int, _: object) -> None:
            signals.append(number)
            handle.cancel()

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            thread = threading.Thread(target=work)
            thread.start()
            told, over = 0, False
            while not over:
                over = finished.wait(0.1)
                while told < min(len(signals), 2):
                    told += 1
                    say("closing" if told == 1 else "stopping")
            thread.join()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.capture is not None and self.capture.exists():
            script, file = shlex.quote(f"lua_script:{DISSECTOR}"), shlex.quote(str(self.capture))
            say(f"to read the capture: tshark -X {script} -r {file}")
        if failed and not isinstance(failed[0], engine.LiveFailed):
            raise failed[0]
        if signals:
            # Whoever asked for the end has it, also where the other side had no part in it.
            why = f"stopped: {failed[0]}" if failed else "stopped"
            fail(why, INTERRUPTED if signals[0] == signal.SIGINT else TERMINATED)
        if failed:
            fail(str(failed[0]), FAILURE)


def send(
    host: str,
    *,
    scheme: str | None,
    rate: str | None,
    video: str | None,
    size: int,
    run: Run,
    queue: int | None = None,
    overflow: str | None = None,
) -> None:
    """Send to a host.

    Raises:
        Misuse: An argument cannot be meant.
    """
    if rate is not None and video is not None:
        raise Misuse("--rate, --video: accepted: one of them, or neither")
    flow: dict[str, Any] = {"scheme": scheme or engine.datagram_scheme(), "dccp": {"datagram_bytes": size}}
    if overflow is not None and rate is None and video is None:
        raise Misuse("--overflow: without --rate or --video nothing overflows; accepted: together with one of them")
    flow["dccp"] |= {k: v for k, v in (("queue", queue), ("overflow", overflow)) if v is not None}
    if rate is not None:
        flow["app"] = {"kind": "cbr", "rate": rate, "write": f"{size}B"}
    if video is not None:
        flow["app"] = {"kind": "video", "rate": video}
    try:
        run.go(flow, resolve(host, "HOST"), sender=True, once=True)
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
        raise Misuse(f"{flags[error.key]}: {error.message}\n  accepted: {error.accepted}") from None


def receive(listen: str, *, once: bool, connections: int, run: Run) -> None:
    """Listen.

    Raises:
        Misuse: An argument cannot be meant.
    """
    run.go(
        {"scheme": engine.datagram_scheme()},
        resolve(listen, "--listen"),
        sender=False,
        once=once,
        connections=connections,
    )


def seconds(text: str, flag: str) -> float:
    """A time.

    Raises:
        Misuse: It is none, or not positive.
    """
    found = quantity(text)
    if found is None or found[1] != "ms" or not 0 < found[0] < 1e12:
        raise Misuse(f"{flag}: {text!r} is not a time above zero; accepted: a number with a unit, 10s or 500ms")
    return found[0] / 1e3


def resolve(text: str, flag: str) -> str:
    """The address of a host with its port: `[::1]:6511`, `127.0.0.1:6511`.

    Raises:
        Misuse: It cannot be one.
        OSError: There is no such host.
    """
    host, port = text, str(PORT)
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest[1:] if rest.startswith(":") else port
        wrong = "]" not in text or rest not in ("", f":{port}")
    else:
        wrong = False
        if text.count(":") == 1:
            host, port = text.split(":")
    if wrong or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise Misuse(f"{flag}: {text!r} is no host with a port; accepted: HOST, HOST:PORT, [IPV6]:PORT")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)
    except OSError as error:
        raise OSError(f"{host}: {error.strerror or error}") from error
    family, where = found[0][0], found[0][4]
    address = str(where[0])
    if len(where) == 4 and where[3]:  # an interface of IPv6
        address = f"{address.partition('%')[0]}%{where[3]}"
    return f"[{address}]:{port}" if family == socket.AF_INET6 else f"{address}:{port}"


def progress(row: dict[str, Any]) -> str:
    """One line on the way."""
    delay = f", delay {row['delay']['p50_ms']:.2f} ms" if row["delay"] else ""
    rtt = f", RTT {row['rtt_ms']:.2f} ms" if row["rtt_ms"] else ""
    lost = "" if row["lost"] is None else f", {row['lost']} lost"
    done = f"{row['datagrams']} datagrams, {row['throughput_mbit_s']:.2f} Mbit/s"
    # A receiver may have several.
    whose = f"{row['remote']}, " if row["role"] == "receiver" else ""
    return f"{whose}{row['duration_s']:.0f} s: {done}{lost}{rtt}{delay}"


def summary(row: dict[str, Any]) -> str:
    """What is printed of a connection at its end."""
    way = "to" if row["role"] == "sender" else "from"
    # A Reset has a reason; some have no name.
    why = f", {row['reset_name'] or 'code'} ({row['reset_code']})" if row["end"] == "reset" else ""
    lines = [
        f"{row['role']} {way} {row['remote']}: {row['end']}{why} after {row['duration_s']:.2f} s, CCID {row['ccid']}",
        f"  {row['datagrams']} datagrams, {row['bytes']} bytes, {row['throughput_mbit_s']:.2f} Mbit/s",
    ]
    if row["role"] == "sender":
        told = row["lost"] is not None
        lost = f"{row['lost']} lost ({row['loss_percent']:.2f} %)" if told else "losses not reported one by one"
        lines.append(
            f"  {lost}, {row['marked']} marked, "
            f"{row['queue_drops']} dropped for want of room, {row['timeouts']} timeouts"
        )
    if row["delay"]:
        d = row["delay"]
        lines.append(
            f"  one-way delay: least {d['min_ms']:.3f}, mean {d['mean_ms']:.3f}, median {d['p50_ms']:.3f}, "
            f"95 % {d['p95_ms']:.3f}, 99 % {d['p99_ms']:.3f} ms"
        )
    return "\n".join(lines)
