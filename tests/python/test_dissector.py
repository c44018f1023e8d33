"""Captures of DCCP in UDP, decoded by tshark with the project's dissector."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from attempts import Tally, generators, many
from narrows import live

from loopback import (  # isort: skip
    ACK, CLOSE, DATA, DATA_ACK, REQUEST, RESET, RESPONSE, SYNC, SYNC_ACK, Starter, done, free_port, listening, records,
)  # fmt: skip

TSHARK = ["tshark", "-X", f"lua_script:{live.DISSECTOR}"]
FIELDS = ("ip.src", "udp.srcport", "dccp.type", "dccp.seq_raw", "dccp.ack_raw", "dccp.option_type", "dccp.checksum.status",
          "udp.checksum.status", "frame.protocols", "data.len", "_ws.malformed", "_ws.expert.severity")  # fmt: skip
WARNING = 0x600000
CHANGE_L, CHANGE_R, VECTORS = "32", "34", {"38", "39"}
REPORT = {"193", "194"}
"""Loss Intervals and Receive Rate (RFC 4342 section 8)."""


def tshark_reads_dccp() -> str:
    """Return why tshark cannot decode DCCP; empty if it can."""
    if shutil.which("tshark") is None:
        return "tshark is not installed (Debian: tshark)"
    about = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True).stdout
    return "" if "with Lua" in about else "this tshark has no Lua"


def decoded(file: Path, *options: str) -> list[dict[str, str]]:
    """Decode a capture with tshark."""
    fields = [part for name in FIELDS for part in ("-e", name)]
    plain = ["-o", "dccp.relative_sequence_numbers:FALSE", "-o", "udp.check_checksum:TRUE", *options]
    command = [*TSHARK, "-r", str(file), *plain, "-T", "fields", *fields]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Lua: Error" not in shown.stderr, shown.stderr
    return [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in shown.stdout.splitlines()]


def kinds(rows: list[dict[str, str]]) -> list[int]:
    """Return the DCCP types of decoded packets."""
    return [int(row["dccp.type"]) for row in rows]


@pytest.mark.slow
@pytest.mark.skipif(bool(tshark_reads_dccp()), reason=tshark_reads_dccp())
@pytest.mark.parametrize("scheme", ["ccid2", "ccid3"])
def test_tshark_decodes_every_packet(start: Starter, tmp_path: Path, scheme: str) -> None:
    """tshark decodes every packet of a capture as DCCP in UDP, and the packets are consistent."""
    port = free_port()
    files = {"send": tmp_path / "send.pcap", "recv": tmp_path / "recv.pcap"}
    receiver = listening(start, "127.0.0.1", port, "--once", "--capture", str(files["recv"]))
    to = f"127.0.0.1:{port}"
    limits = ["--rate", "1mbit", "--duration", "1s"]
    sender = start("send", to, "--scheme", scheme, *limits, "--json", "--capture", str(files["send"]))
    sent, status = done(sender, 0)
    received, _ = done(receiver, 0)
    assert f"tshark -X lua_script:{live.DISSECTOR} -r {files['send']}" in status
    for file in files.values():
        rows = decoded(file, "-d", f"udp.port=={port},dccp")
        # Loopback loses nothing, so both captures have all packets of both ends.
        assert len(rows) == len(list(records(file.read_bytes()))) == sent["packets_sent"] + sent["packets_received"]
        for row in rows:
            assert row["frame.protocols"].removesuffix(":data") == "raw:ip:udp:dccp"
            assert (row["udp.checksum.status"], row["dccp.checksum.status"]) == ("1", "2"), "good, and not checked"
            assert not row["_ws.malformed"]
            assert all(int(found) < WARNING for found in row["_ws.expert.severity"].split(",") if found)
        ours = [row for row in rows if row["udp.srcport"] != str(port)]
        theirs = [row for row in rows if row["udp.srcport"] == str(port)]
        assert (len(ours), len(theirs)) == (sent["packets_sent"], received["packets_sent"])
        for side, other in ((ours, theirs), (theirs, ours)):
            numbers = [int(row["dccp.seq_raw"]) for row in side]
            assert [number - numbers[0] for number in numbers] == list(range(len(side))), "consecutive"
            known = {row["dccp.seq_raw"] for row in other}
            assert {row["dccp.ack_raw"] for row in side if row["dccp.ack_raw"]} <= known, (
                "acknowledged packets were sent"
            )
        sent_kinds, answers = kinds(ours), kinds(theirs)
        assert (sent_kinds[0], sent_kinds[-1]) == (REQUEST, CLOSE)
        carried = [row for row, kind in zip(ours, sent_kinds, strict=True) if kind in (DATA, DATA_ACK)]
        assert [row["data.len"] for row in carried] == ["1400"] * sent["datagrams"]
        assert (answers[0], set(answers[1:-1]) - {SYNC_ACK}, answers[-1]) == (RESPONSE, {ACK}, RESET)
        assert answers.count(SYNC_ACK) == sent_kinds.count(SYNC), "a Sync tests whether the peer is alive"
        wanted = set(ours[0]["dccp.option_type"].split(","))
        assert {CHANGE_L, CHANGE_R} <= wanted, "features are negotiated"
        vectors = [row for row in theirs if VECTORS & set(row["dccp.option_type"].split(","))]
        assert len(vectors) >= len(theirs) - 3, "all but the first and last packets report arrivals"
        reports = [row for row in theirs if set(row["dccp.option_type"].split(",")) >= REPORT]
        assert bool(reports) == (scheme == "ccid3"), "CCID 3 reports loss intervals and the receive rate too"


@pytest.mark.slow
@pytest.mark.skipif(bool(tshark_reads_dccp()), reason=tshark_reads_dccp())
def test_tshark_heuristic_finds_only_dccp(start: Starter, tmp_path: Path) -> None:
    """tshark's heuristic finds DCCP on any port, and leaves other packets alone."""
    port = free_port()
    file = tmp_path / "send.pcap"
    receiver = listening(start, "127.0.0.1", port, "--once")
    limits = ["--rate", "1mbit", "--duration", "200ms"]
    sent, _ = done(start("send", f"127.0.0.1:{port}", *limits, "--json", "--capture", str(file)), 0)
    done(receiver, 0)
    # Some ephemeral ports belong to protocols, so the heuristic must come first.
    heuristic = ["-o", "udp.try_heuristic_first:TRUE"]
    rows = decoded(file, *heuristic)
    assert len(rows) == sent["packets_sent"] + sent["packets_received"]
    assert all(row["dccp.type"] for row in rows)
    # A packet with a DCCP checksum does not count as DCCP in UDP.
    data = bytearray(file.read_bytes())
    for _, at, _ in list(records(data)):
        data[at + 20 + 8 + 6] = 1
    file.write_bytes(data)
    assert not any(row["dccp.type"] for row in decoded(file, *heuristic))


LEAST = (20, 28, 16, 24, 24, 24, 24, 28, 24, 24)
"""Header bytes without options, by type, with long sequence numbers."""


def hostile(draw: random.Random) -> bytes:
    """Draw a DCCP packet: noise, or a header with options whose lengths may be wrong, perhaps truncated."""
    if draw.random() < 0.1:
        return draw.randbytes(draw.randrange(60))
    kind = draw.randrange(10)
    options = b""
    for _ in range(draw.randrange(8)):
        option = draw.choice([*range(3), *range(32, 45), *range(192, 196), draw.randrange(256)])
        value = draw.randbytes(draw.randrange(12)) if option >= 32 else b""
        length = len(value) + 2 if draw.random() < 0.7 else draw.randrange(256)
        options += bytes([option, length]) + value if option >= 32 else bytes([option])
    options += bytes(-len(options) % 4)
    offset = (LEAST[kind] + len(options)) // 4 if draw.random() < 0.85 else draw.randrange(256)
    ports = draw.randrange(1 << 16), draw.randrange(1 << 16)
    head = struct.pack(">HHBBHBB", *ports, offset, draw.randrange(256), 0, kind << 1 | 1, 0)
    packet = head + draw.randbytes(LEAST[kind] - len(head)) + options + draw.randbytes(draw.randrange(30))
    return packet[: draw.randrange(len(packet) + 1)] if draw.random() < 0.2 else packet


def capture_of(packets: list[bytes], draw: random.Random) -> bytes:
    """Return a capture of DCCP packets in UDP, on DCCP's port and others. A third of the packets is truncated."""
    records = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
    for number, packet in enumerate(packets):
        port = 6511 if draw.random() < 0.5 else draw.randrange(20_000, 60_000)
        length = 8 + len(packet) if draw.random() < 0.95 else draw.randrange(1 << 16)
        udp = struct.pack(">HHHH", port, draw.randrange(20_000, 60_000), length, 0) + packet
        ip = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0, 0x7F000001, 0x7F000002)
        frame = ip + udp
        kept = frame[: draw.randrange(28, len(frame) + 1)] if draw.random() < 0.3 else frame
        records.append(struct.pack("<IIII", number, 0, len(kept), len(frame)) + kept)
    return b"".join(records)


@pytest.mark.skipif(bool(tshark_reads_dccp()), reason=tshark_reads_dccp())
@pytest.mark.parametrize("passes", [(), ("-2",)])
@pytest.mark.attempts
def test_dissector_survives_hostile_captures(tmp_path: Path, passes: tuple[str, ...]) -> None:
    """Damaged, hostile and truncated packets cause no error of the script, and it decodes later packets."""
    tally = Tally(f"hostile packets in tshark{', two passes' if passes else ''}")
    ((_, draw),) = generators("dissector", 1)
    good = struct.pack(">HHBBHBB", 1, 2, 6, 0, 0, 3 << 1 | 1, 0) + bytes(14)
    packets = [hostile(draw) for _ in range(many(500, 5_000, 20_000))]
    file = tmp_path / "hostile.pcap"
    file.write_bytes(capture_of(packets, draw))
    tail = tmp_path / "tail.pcap"
    tail.write_bytes(file.read_bytes() + capture_of([good] * 200, random.Random(1))[24:])
    command = [*TSHARK, "-o", "udp.try_heuristic_first:TRUE", *passes, "-r"]
    shown = subprocess.run([*command, str(file), "-V"], capture_output=True, text=True, check=False)
    assert shown.returncode == 0
    malformed = shown.stdout.count("Malformed Packet: DCCP")
    assert malformed, "no packet was hostile"
    for text in (shown.stdout, shown.stderr):
        assert not [line for line in text.splitlines() if "lua" in line.lower()][:3]
    fields = ["-T", "fields", "-e", "dccp.type"]
    rows = subprocess.run([*command, str(tail), *fields], capture_output=True, text=True, check=True).stdout
    assert rows.splitlines()[len(packets) :].count("3") > 120, "the script no longer finds DCCP"
    tally.outcomes.update({"called malformed": malformed, "decoded or left alone": len(packets) - malformed})
    tally.close()


def test_dissector_command_prints_path(start: Starter) -> None:
    """`narrows dccp dissector` prints the path of the dissector."""
    out, _ = start("dissector").communicate(timeout=20)
    assert Path(out.strip()).read_text(encoding="utf-8").startswith("-- DCCP in UDP (RFC 6773)")
