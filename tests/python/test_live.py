"""DCCP on sockets: two processes over loopback."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def free_port(family: socket.AddressFamily = socket.AF_INET) -> int:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        return int(probe.getsockname()[1])


class Starter:
    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def __call__(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "narrows", "dccp", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process


@pytest.fixture
def start() -> Iterator[Starter]:
    starter = Starter()
    yield starter
    for process in starter.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def listening(start: Starter, where: str, port: int, *arguments: str) -> subprocess.Popen[str]:
    process = start("recv", "--listen", f"{where}:{port}", "--json", *arguments)
    tables = [Path("/proc/net/udp"), Path("/proc/net/udp6")]
    until = time.monotonic() + 20
    while not any(f":{port:04X} " in table.read_text() for table in tables if table.exists()):
        assert time.monotonic() < until and process.poll() is None, "the receiver does not listen"
        time.sleep(0.02)
    return process


def done(process: subprocess.Popen[str], status: int, within: float = 20) -> tuple[dict[str, Any], str]:
    out, err = process.communicate(timeout=within)
    assert process.returncode == status, err
    return (json.loads(out) if out.strip() else {}), err


@pytest.mark.parametrize("where", ["127.0.0.1", "[::1]"])
def test_every_datagram_of_a_constant_rate_arrives_and_both_ends_agree(start: Starter, where: str) -> None:
    port = free_port(socket.AF_INET6 if "[" in where else socket.AF_INET)
    receiver = listening(start, where, port, "--once")
    sender = start("send", f"{where}:{port}", "--rate", "2mbit", "--size", "1000", "--duration", "1s", "--json")
    sent, _ = done(sender, 0)
    received, _ = done(receiver, 0)
    # 2 Mbit/s of 8000 bits for a second: 250, and one at the start.
    assert 249 <= sent["datagrams"] <= 252
    assert sent["datagrams"] == sent["datagrams_written"] == received["datagrams"]
    assert sent["bytes"] == received["bytes"] == sent["bytes_acknowledged"] == 1000 * sent["datagrams"]
    assert (sent["lost"], sent["end"], received["end"]) == (0, "closed", "closed")
    # A datagram more or less of 250, and the waits of a busy machine.
    assert sent["throughput_mbit_s"] == pytest.approx(2, rel=0.05)
    assert received["throughput_mbit_s"] == pytest.approx(2, rel=0.05)
    delay = received["delay"]
    assert 0 < delay["min_ms"] <= delay["p50_ms"] * 1.02 <= delay["p95_ms"] * 1.04 <= delay["p99_ms"] * 1.06


def test_all_that_arrives_at_full_rate_is_read(start: Starter) -> None:
    port = free_port()
    receiver = listening(start, "127.0.0.1", port, "--once")
    sent, _ = done(start("send", f"127.0.0.1:{port}", "--duration", "1s", "--json"), 0)
    received, _ = done(receiver, 0)
    # One call of the system brings more datagrams than a connection keeps.
    assert received["datagrams"] > 10_000
    assert received["queue_drops"] == 0
    assert sent["bytes_acknowledged"] <= received["bytes"] <= sent["bytes"]


@pytest.mark.parametrize("scheme", ["ccid3", "dccp-bbr", "bbr:cwnd_gain=1.5"])
def test_schemes_carry_a_video(start: Starter, scheme: str) -> None:
    port = free_port()
    receiver = listening(start, "127.0.0.1", port, "--once")
    sender = start("send", f"127.0.0.1:{port}", "--scheme", scheme, "--video", "1mbit", "--duration", "1s", "--json")
    sent, _ = done(sender, 0)
    received, _ = done(receiver, 0)
    assert sent["scheme"] == scheme.partition(":")[0]
    assert sent["ccid"] == received["ccid"]
    assert sent["datagrams"] == received["datagrams"] > 30


def test_a_port_that_nobody_has_refuses(start: Starter) -> None:
    _, err = done(start("send", f"127.0.0.1:{free_port()}"), 1)
    assert "refused" in err


def test_no_answer_ends_in_the_stated_time(start: Starter) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        begin = time.monotonic()
        _, err = done(start("send", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "1500ms"), 1)
    assert 1.5 <= time.monotonic() - begin < 6
    assert "no answer in 1.5s" in err


def wait_for_data(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    assert "datagrams" in process.stderr.readline()


@pytest.mark.parametrize("killed", ["sender", "receiver"])
def test_a_killed_peer_is_noticed_in_the_stated_time(start: Starter, killed: str) -> None:
    port = free_port()
    receiver = listening(start, "127.0.0.1", port, "--once", "--timeout", "1s")
    sender = start("send", f"127.0.0.1:{port}", "--rate", "1mbit", "--timeout", "1s", "--json")
    wait_for_data(sender)
    victim, other = (sender, receiver) if killed == "sender" else (receiver, sender)
    victim.kill()
    begin = time.monotonic()
    report, err = done(other, 1)
    assert time.monotonic() - begin < 5
    assert "gone" in err
    assert (report["end"], report["datagrams"] > 50) == ("peer gone", True)


@pytest.mark.parametrize("which", ["sender", "receiver"])
def test_ctrl_c_closes_properly(start: Starter, which: str) -> None:
    port = free_port()
    receiver = listening(start, "127.0.0.1", port, "--once")
    sender = start("send", f"127.0.0.1:{port}", "--rate", "1mbit", "--json")
    wait_for_data(sender)
    (sender if which == "sender" else receiver).send_signal(signal.SIGINT)
    sent, _ = done(sender, 130 if which == "sender" else 0)
    received, _ = done(receiver, 130 if which == "receiver" else 0)
    assert (sent["end"], received["end"]) == ("closed", "closed")
    assert 0 <= sent["datagrams"] - received["datagrams"] <= 1


def test_a_port_in_use_is_a_failure(start: Starter) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        _, err = done(start("recv", "--listen", f"127.0.0.1:{other.getsockname()[1]}"), 1)
    assert "in use" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("send",),
        ("send", "127.0.0.1:0"),
        ("send", "127.0.0.1:x"),
        ("send", "[::1"),
        ("send", "127.0.0.1", "--rate", "fast"),
        ("send", "127.0.0.1", "--rate", "1mbit", "--video", "1mbit"),
        ("send", "127.0.0.1", "--scheme", "none"),
        ("send", "127.0.0.1", "--size", "0"),
        ("send", "127.0.0.1", "--duration", "1mbit"),
        ("recv", "--timeout", "0s"),
        ("recv", "--listen", "127.0.0.1:99999"),
    ],
)
def test_misuse_ends_with_status_2(start: Starter, arguments: tuple[str, ...]) -> None:
    assert done(start(*arguments), 2)[1]


def bare(capture: Path, to: Path) -> int:
    """The same capture with DCCP in IP as protocol 33, which every tshark decodes: without the UDP headers."""
    data = capture.read_bytes()
    out, at, count = bytearray(data[:24]), 24, 0
    while at < len(data):
        seconds, nanos, length, _ = struct.unpack_from("<IIII", data, at)
        packet = bytearray(data[at + 16 : at + 16 + length])
        assert struct.unpack_from(">H", packet, 24)[0] == length - 20, "the length in the UDP header"
        del packet[20:28]
        packet[2:4] = struct.pack(">H", length - 8)
        packet[9], packet[10:12] = 33, b"\0\0"
        out += struct.pack("<IIII", seconds, nanos, len(packet), len(packet)) + packet
        at, count = at + 16 + length, count + 1
    to.write_bytes(out)
    return count


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed (Debian: tshark)")
def test_tshark_decodes_every_packet(start: Starter, tmp_path: Path) -> None:
    port = free_port()
    files = {"send": tmp_path / "send.pcap", "recv": tmp_path / "recv.pcap"}
    receiver = listening(start, "127.0.0.1", port, "--once", "--capture", str(files["recv"]))
    to = f"127.0.0.1:{port}"
    sender = start("send", to, "--rate", "1mbit", "--duration", "1s", "--json", "--capture", str(files["send"]))
    sent, _ = done(sender, 0)
    done(receiver, 0)
    for file in files.values():
        fields = ["-o", "udp.check_checksum:true", "-T", "fields", "-e", "udp.checksum.status"]
        udp = subprocess.run(["tshark", "-r", str(file), *fields], capture_output=True, text=True, check=True)
        assert set(udp.stdout.split()) == {"1"}, "UDP checksums are right"
        count = bare(file, tmp_path / "bare.pcap")
        assert count >= sent["packets_sent"] + sent["packets_received"]
        fields = ["-o", "dccp.check_checksum:false", "-T", "fields", "-e", "dccp.type", "-e", "_ws.malformed"]
        fields += ["-e", "_ws.expert.severity"]
        read = ["tshark", "-r", str(tmp_path / "bare.pcap"), *fields]
        shown = subprocess.run(read, capture_output=True, text=True, check=True)
        rows = [line.split("\t") for line in shown.stdout.splitlines()]
        assert len(rows) == count
        assert all(kind and not malformed for kind, malformed, *_ in rows)
        worst = max([int(value) for _, _, severity in rows for value in severity.split(",") if value] or [0])
        assert worst < 0x800000, "no errors"
        kinds = {row[0] for row in rows}
        # Request, Response, Data, Ack, Close, Reset.
        assert {"0", "1", "2", "3", "6", "7"} <= kinds
