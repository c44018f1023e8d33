"""Commands in separate processes, over loopback, and their captures."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REQUEST, RESPONSE, DATA, ACK, DATA_ACK, _, CLOSE, RESET, SYNC, SYNC_ACK = range(10)
"""Types of DCCP packets (RFC 4340 section 5.1)."""


def free_port(family: socket.AddressFamily = socket.AF_INET) -> int:
    """Return a free UDP port of the loopback interface."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        return int(probe.getsockname()[1])


class Starter:
    """Starts commands of a group (`narrows dccp`) with arguments, and remembers the processes."""

    def __init__(self, group: str = "dccp") -> None:
        self.group = group
        self.started: list[subprocess.Popen[str]] = []

    def __call__(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "narrows", self.group, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def stop(self) -> None:
        """Kill processes that still run."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def listening(start: Starter, where: str, port: int, *arguments: str) -> subprocess.Popen[str]:
    """Start a receiver, and wait until its socket is bound."""
    process = start("recv", "--listen", f"{where}:{port}", "--json", *arguments)
    tables = [Path("/proc/net/udp"), Path("/proc/net/udp6")]
    until = time.monotonic() + 20
    while not any(f":{port:04X} " in table.read_text() for table in tables if table.exists()):
        assert time.monotonic() < until and process.poll() is None, "the receiver does not listen"
        time.sleep(0.02)
    return process


def done(process: subprocess.Popen[str], status: int, within: float = 20) -> tuple[dict[str, Any], str]:
    """Wait for the end with this status; return the JSON report, if any, and standard error."""
    out, err = process.communicate(timeout=within)
    assert process.returncode == status, err
    return (json.loads(out) if out.strip() else {}), err


def transferred(start: Starter, *options: str, where: str = "127.0.0.1") -> tuple[dict[str, Any], dict[str, Any]]:
    """Send with these options until the end; return the reports of sender and receiver."""
    port = free_port(socket.AF_INET6 if "[" in where else socket.AF_INET)
    receiver = listening(start, where, port, "--once")
    sent, _ = done(start("send", f"{where}:{port}", *options, "--json"), 0)
    return sent, done(receiver, 0)[0]


def connected(
    start: Starter, receiver: tuple[str, ...] = ("--once",), sender: tuple[str, ...] = ()
) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """Start a receiver and a sender of 1 Mbit/s with these options, and wait for data."""
    port = free_port()
    receiving = listening(start, "127.0.0.1", port, *receiver)
    sending = start("send", f"127.0.0.1:{port}", "--rate", "1mbit", "--json", *sender)
    wait_for_data(sending)
    return receiving, sending


def wait_for_data(process: subprocess.Popen[str]) -> None:
    """Wait for the first line of progress."""
    assert process.stderr is not None
    assert "datagrams" in process.stderr.readline()


def freeze(process: subprocess.Popen[str]) -> None:
    """Stop a process, and wait until all its threads have stopped: they run on until one of them handles the signal."""
    process.send_signal(signal.SIGSTOP)
    until = time.monotonic() + 20
    for state in Path(f"/proc/{process.pid}/task").glob("*/stat"):
        while state.read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < until and process.poll() is None, "the process does not stop"
            time.sleep(0.001)


def wait_for_line(process: subprocess.Popen[str], text: str) -> None:
    """Wait for a line on standard error that contains a text."""
    assert process.stderr is not None
    while text not in process.stderr.readline():
        pass


def records(capture: bytes) -> Iterator[tuple[float, int, int]]:
    """Yield time in milliseconds, first byte and length of each IP packet of a capture."""
    at = 24
    while at < len(capture):
        seconds, nanoseconds, length = struct.unpack_from("<III", capture, at)
        yield (seconds + nanoseconds * 1e-9) * 1e3, at + 16, length
        at += 16 + length
