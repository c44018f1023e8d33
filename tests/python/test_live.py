"""DCCP on sockets, between two processes over loopback."""

from __future__ import annotations

import json
import random
import resource
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

from loopback import (  # isort: skip
    ACK, DATA, DATA_ACK, REQUEST, RESPONSE, Starter, connected, done, free_port, freeze, listening, records, transferred,
    wait_for_data, wait_for_line,
)  # fmt: skip


@pytest.mark.realtime
@pytest.mark.parametrize("where", ["127.0.0.1", "[::1]"])
def test_constant_rate_arrives_and_both_ends_agree(start: Starter, where: str) -> None:
    """Every datagram of a constant rate arrives, and both ends report the same counts and plausible delays."""
    sent, received = transferred(start, "--rate", "2mbit", "--size", "1000", "--duration", "1s", where=where)
    # 2 Mbit/s in datagrams of 8000 bits are 250 per second, and one at the start.
    assert 249 <= sent["datagrams"] <= 252
    assert sent["datagrams"] == sent["datagrams_written"] == received["datagrams"]
    assert sent["bytes"] == received["bytes"] == sent["bytes_acknowledged"] == 1000 * sent["datagrams"]
    assert (sent["lost"], sent["end"], received["end"]) == (0, "closed", "closed")
    # The tolerance covers a datagram in 250, and the delays of a busy machine.
    assert sent["throughput_mbit_s"] == pytest.approx(2, rel=0.05)
    assert received["throughput_mbit_s"] == pytest.approx(2, rel=0.05)
    delay = received["delay"]
    assert 0 < delay["min_ms"] <= delay["p50_ms"] * 1.02 <= delay["p95_ms"] * 1.04 <= delay["p99_ms"] * 1.06


@pytest.mark.realtime
def test_full_rate_is_read_without_drops(start: Starter) -> None:
    """The receiver reads everything that arrives at full rate."""
    sent, received = transferred(start, "--duration", "1s")
    # One system call returns more datagrams than a connection can queue.
    assert received["datagrams"] > 10_000
    assert received["queue_drops"] == 0
    assert sent["bytes_acknowledged"] <= received["bytes"] <= sent["bytes"]


@pytest.mark.realtime
def test_video_frames_fit_default_queue_only(start: Starter) -> None:
    """The frames of a video fit the default queue; a short queue drops datagrams."""
    for limits, most in (((), 0), (("--queue", "20"), None)):
        sent, _ = transferred(start, "--video", "20mbit", "--duration", "1s", *limits)
        # A frame has about 80 datagrams, a key frame more.
        assert sent["datagrams_written"] == sent["datagrams"] + sent["queue_drops"] > 1_000
        assert sent["queue_drops"] == 0 if most == 0 else sent["queue_drops"] > 100


@pytest.mark.realtime
def test_paced_sender_rtt_matches_capture(start: Starter, tmp_path: Path) -> None:
    """A paced sender reports the RTT that its capture shows."""
    port, file = free_port(), tmp_path / "send.pcap"
    receiver = listening(start, "127.0.0.1", port, "--once")
    limits = ("--rate", "1mbit", "--duration", "2s", "--capture", str(file))
    sent, _ = done(start("send", f"127.0.0.1:{port}", *limits, "--json"), 0)
    done(receiver, 0)
    left: dict[int, float] = {}
    samples: list[float] = []
    data = file.read_bytes()
    for now, at, length in records(data):
        # IP and UDP take 28 bytes; then DCCP with long sequence numbers (RFC 4340 section 5.1).
        packet = data[at + 28 : at + length]
        source, kind = struct.unpack_from(">H", data, at + 20)[0], packet[8] >> 1 & 15
        if source != port and kind == DATA:
            left[int.from_bytes(packet[10:16], "big")] = now
        elif source == port and kind == ACK:
            # The first data are in a DataAck, and a Sync may be acknowledged too.
            samples += [now - left[named] for named in [int.from_bytes(packet[18:24], "big")] if named in left]
    assert len(samples) > 50
    # In the reported mean, the last eight samples have two thirds of the weight.
    recent = samples[-16:]
    assert 0.8 * min(recent) < sent["rtt_ms"] < 1.2 * sum(recent) / len(recent) + 0.2


@pytest.mark.slow
def test_receiver_serves_several_and_refuses_next(start: Starter) -> None:
    """A receiver serves several senders at a time and refuses the next as too busy, until one leaves."""
    port = free_port()
    to = f"127.0.0.1:{port}"
    receiver = listening(start, "127.0.0.1", port, "--connections", "2")
    senders = [start("send", to, "--rate", rate, "--json") for rate in ("1mbit", "2mbit")]
    for sender in senders:
        wait_for_data(sender)
    _, refused = done(start("send", to, "--rate", "1mbit"), 1)
    assert "the peer refused the connection: too busy (9)" in refused
    reports = []
    for sender in senders:
        sender.send_signal(signal.SIGINT)
        reports.append(done(sender, 130)[0])
    # A connection is free again, while the receiver still answers packets of closed connections.
    last, _ = done(start("send", to, "--rate", "1mbit", "--duration", "300ms", "--json"), 0)
    receiver.send_signal(signal.SIGINT)
    out, err = receiver.communicate(timeout=20)
    received = [json.loads(line) for line in out.splitlines()]
    assert [row["end"] for row in received] == ["closed"] * 3, err
    assert len({row["remote"] for row in received}) == 3
    sent = sorted(row["datagrams"] for row in [*reports, last])
    arrived = sorted(row["datagrams"] for row in received)
    assert all(0 <= left - came <= 1 for left, came in zip(sent, arrived, strict=True))


@pytest.mark.slow
def test_killed_or_aborting_senders_end_no_receiver(start: Starter) -> None:
    """A receiver survives senders that are killed or abort."""
    port = free_port()
    receiver = listening(start, "127.0.0.1", port, "--timeout", "1s")
    to = f"127.0.0.1:{port}"
    sender = start("send", to, "--rate", "1mbit")
    wait_for_data(sender)
    sender.kill()
    abort = start("send", to, "--rate", "1mbit")
    wait_for_data(abort)
    # The second signal does not wait for the peer.
    abort.send_signal(signal.SIGINT)
    abort.send_signal(signal.SIGINT)
    assert abort.wait(timeout=20) == 130
    last, _ = done(start("send", to, "--rate", "1mbit", "--duration", "1500ms", "--json"), 0)
    assert last["end"] == "closed"
    receiver.send_signal(signal.SIGINT)
    out, err = receiver.communicate(timeout=20)
    assert receiver.returncode == 130, err
    ends = [json.loads(line)["end"] for line in out.splitlines()]
    assert (ends.count("peer gone"), len(ends)) == (1, 3), "the second is closed or reset, by the order of arrival"


@pytest.mark.slow
def test_receiver_answers_from_addressed_address(start: Starter) -> None:
    """A receiver at a wildcard address answers from the address that the sender used."""
    port = free_port()
    receiver = listening(start, "0.0.0.0", port, "--once")
    sent, _ = done(start("send", f"127.0.0.2:{port}", "--rate", "1mbit", "--duration", "300ms", "--json"), 0)
    received, _ = done(receiver, 0)
    assert sent["datagrams"] == received["datagrams"] > 0


@pytest.mark.realtime
@pytest.mark.parametrize("scheme", ["ccid3", "dccp-bbr", "bbr:cwnd_gain=1.5"])
def test_schemes_carry_a_video(start: Starter, scheme: str) -> None:
    """CCID 3, a scheme for datagrams and a scheme for TCP each carry a video."""
    sent, received = transferred(start, "--scheme", scheme, "--video", "1mbit", "--duration", "1s")
    assert sent["scheme"] == scheme.partition(":")[0]
    assert sent["ccid"] == received["ccid"]
    assert sent["datagrams"] == received["datagrams"] > 30


@pytest.mark.slow
def test_closed_port_refuses(start: Starter) -> None:
    """A closed port refuses the connection."""
    _, err = done(start("send", f"127.0.0.1:{free_port()}"), 1)
    assert "refused" in err


@pytest.mark.realtime
def test_silent_peer_times_out(start: Starter) -> None:
    """A sender ends after the stated time without an answer, not earlier."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        begin = time.monotonic()
        _, err = done(start("send", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "1500ms"), 1)
    assert time.monotonic() - begin >= 1.5
    assert "no answer in 1.5s" in err


def dccp(kind: int, ports: tuple[int, int], seq: int, ack: int | None) -> bytes:
    """Encode a packet without options, with long sequence numbers."""
    tail = b"" if ack is None else b"\0\0" + ack.to_bytes(6, "big")
    tail += bytes(4) if kind in (REQUEST, RESPONSE) else b""
    head = struct.pack(">HHBBHBB", *ports, (16 + len(tail)) // 4, 0, 0, kind << 1 | 1, 0)
    return head + seq.to_bytes(6, "big") + tail


@pytest.mark.slow
def test_peer_without_features_ends_sender_after_timeout(start: Starter) -> None:
    """A sender ends after the timeout if the server answers every packet but confirms no feature."""
    over = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.1)

        def answer() -> None:
            number = 1000
            while not over.is_set():
                try:
                    packet, peer = server.recvfrom(2048)
                except TimeoutError:
                    continue
                source, destination = struct.unpack_from(">HH", packet)
                kind = RESPONSE if packet[8] >> 1 & 15 == REQUEST else ACK
                seq = int.from_bytes(packet[10:16], "big")
                server.sendto(dccp(kind, (destination, source), number, seq), peer)
                number += 1

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            begin = time.monotonic()
            report, err = done(start("send", f"127.0.0.1:{server.getsockname()[1]}", "--timeout", "3s", "--json"), 1)
            took = time.monotonic() - begin
        finally:
            over.set()
            thread.join()
    assert took >= 3
    assert "no progress for 3s" in err
    assert (report["end"], report["datagrams"]) == ("stalled", 0)


@pytest.mark.slow
def test_unfinished_requests_lock_out_nobody(start: Starter) -> None:
    """Incomplete requests keep no client out."""
    port = free_port()
    receiver = listening(start, "127.0.0.1", port, "--once")
    for host in range(2, 34):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
            attacker.bind((f"127.0.0.{host}", 0))
            for number in range(8):
                attacker.sendto(dccp(REQUEST, (1000 + number, 5001), number, None), ("127.0.0.1", port))
    sent, _ = done(start("send", f"127.0.0.1:{port}", "--rate", "1mbit", "--duration", "300ms", "--json"), 0)
    received, _ = done(receiver, 0)
    assert sent["datagrams"] == received["datagrams"] > 0


@pytest.mark.slow
def test_full_disk_ends_capture_only(start: Starter, tmp_path: Path) -> None:
    """A capture that cannot grow ends and is named; the receiver continues to serve."""
    port, file = free_port(), tmp_path / "recv.pcap"
    receiver = listening(start, "127.0.0.1", port, "--capture", str(file))
    # A limit of the file's size stands for a full disk.
    resource.prlimit(receiver.pid, resource.RLIMIT_FSIZE, (30_000, 30_000))
    for _ in range(2):
        sent, _ = done(start("send", f"127.0.0.1:{port}", "--rate", "2mbit", "--duration", "500ms", "--json"), 0)
        assert sent["end"] == "closed"
    receiver.send_signal(signal.SIGINT)
    out, err = receiver.communicate(timeout=20)
    assert receiver.returncode == 130
    assert len(out.splitlines()) == 2
    assert err.count(f"warning: {file}: File too large") == 1, err


@pytest.mark.long
def test_reordering_and_duplication_keep_counts(start: Starter) -> None:
    """On a network that reorders, duplicates and loses datagrams, received + lost is at most sent."""
    seed = 15
    print(f"seed {seed}")
    draw = random.Random(seed)
    to, over = free_port(), threading.Event()
    receiver = listening(start, "127.0.0.1", to, "--once")
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as front,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as back,
    ):
        front.bind(("127.0.0.1", 0))
        front.settimeout(0.001)
        back.connect(("127.0.0.1", to))
        back.settimeout(0.001)

        def network() -> None:
            peer, waiting, dropped = None, [], 0
            while not over.is_set():
                for way, other in ((front, "in"), (back, "out")):
                    try:
                        packet, source = way.recvfrom(4096)
                    except (TimeoutError, ConnectionRefusedError):
                        continue
                    peer = source if other == "in" else peer
                    now = time.monotonic()
                    data = other == "in" and packet[8] >> 1 & 15 in (DATA, DATA_ACK)
                    if data and draw.random() < 0.05:
                        dropped += 1
                        continue
                    for _ in range(1 + (data and draw.random() < 0.2)):
                        late = draw.uniform(0.02, 0.15) if data and draw.random() < 0.2 else 0
                        waiting.append((now + late, other, packet))
                due = [item for item in waiting if item[0] <= time.monotonic()]
                waiting = [item for item in waiting if item not in due]
                for _, other, packet in sorted(due):
                    if other == "in":
                        back.send(packet)
                    elif peer is not None:
                        front.sendto(packet, peer)
            counts.append(dropped)

        counts: list[int] = []
        thread = threading.Thread(target=network)
        thread.start()
        try:
            where = f"127.0.0.1:{front.getsockname()[1]}"
            sent, _ = done(start("send", where, "--rate", "2mbit", "--duration", "3s", "--json"), 0)
            received, _ = done(receiver, 0)
        finally:
            over.set()
            thread.join()
    assert received["datagrams"] + sent["lost"] <= sent["datagrams"], (sent, received)
    assert sent["datagrams_acknowledged"] + sent["lost"] + sent["unreported"] == sent["datagrams"]
    assert received["duplicates"] > 20
    # Lost datagrams are those that the network lost, and those that came too late for the receiver's history.
    missing = sent["datagrams"] - received["datagrams"]
    assert sent["lost"] <= missing <= sent["lost"] + sent["unreported"]
    assert counts[0] <= missing <= counts[0] + received["too_late"] + 1, "the Close may overtake a datagram"


@pytest.mark.realtime
@pytest.mark.parametrize("killed", ["sender", "receiver"])
def test_killed_peer_is_detected_in_time(start: Starter, killed: str) -> None:
    """Either end detects a killed peer within the stated time."""
    receiver, sender = connected(start, receiver=("--once", "--timeout", "1s"), sender=("--timeout", "1s"))
    victim, other = (sender, receiver) if killed == "sender" else (receiver, sender)
    victim.kill()
    report, err = done(other, 1)
    assert "the peer is gone: no packet for 1s" in err
    assert (report["end"], report["datagrams"] > 50) == ("peer gone", True)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("which", ["sender", "receiver"])
def test_signals_close_the_connection(start: Starter, which: str, number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM at either end close the connection, with the status of the signal."""
    receiver, sender = connected(start)
    (sender if which == "sender" else receiver).send_signal(number)
    sent, _ = done(sender, 128 + number if which == "sender" else 0)
    received, _ = done(receiver, 128 + number if which == "receiver" else 0)
    assert (sent["end"], received["end"]) == ("closed", "closed")
    assert 0 <= sent["datagrams"] - received["datagrams"] <= 1


@pytest.mark.slow
def test_abort_is_no_refusal(start: Starter) -> None:
    """An abort is reported as such, with its name, and not as a refusal."""
    receiver, sender = connected(start, receiver=())
    # A stopped sender cannot answer the CloseReq; when it continues, it finds the Reset too.
    freeze(sender)
    receiver.send_signal(signal.SIGINT)
    wait_for_line(receiver, "closing")
    receiver.send_signal(signal.SIGINT)
    done(receiver, 130)
    sender.send_signal(signal.SIGCONT)
    report, err = done(sender, 1)
    assert "the peer reset the connection: aborted (2)" in err and "refused" not in err
    assert (report["end"], report["reset_code"], report["reset_name"]) == ("reset", 2, "aborted")


@pytest.mark.slow
def test_ctrl_c_status_with_dead_peer(start: Starter) -> None:
    """Ctrl-C exits with its status even if the peer is dead."""
    receiver, sender = connected(start, sender=("--timeout", "2s"))
    freeze(receiver)
    sender.send_signal(signal.SIGINT)
    sent, err = done(sender, 130)
    assert (sent["end"], "stopped" in err, "gone" in err) == ("peer gone", True, True)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_stops_unanswered_sender(start: Starter, times: int) -> None:
    """Ctrl-C, once or twice, stops a sender without an answer; it does not wait for its timeout of a minute."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        sender = start("send", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "60s")
        assert silent.recv(2048)
        for _ in range(times):
            sender.send_signal(signal.SIGINT)
        _, err = done(sender, 130)
    assert "no answer" not in err


@pytest.mark.slow
def test_second_ctrl_c_does_not_wait(start: Starter) -> None:
    """A second Ctrl-C does not wait for the peer."""
    receiver, sender = connected(start, sender=("--timeout", "60s"))
    freeze(receiver)
    sender.send_signal(signal.SIGINT)
    wait_for_line(sender, "closing")
    with pytest.raises(subprocess.TimeoutExpired):
        sender.wait(timeout=1)
    sender.send_signal(signal.SIGINT)
    sent, err = done(sender, 130)
    assert (sent["end"], "stopping" in err) == ("reset", True)
    receiver.send_signal(signal.SIGCONT)
    assert done(receiver, 0)[0]["end"] == "closed", "the Close came first"


def test_port_in_use_fails(start: Starter) -> None:
    """A port in use is a failure."""
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
        ("send", "127.0.0.1", "--queue", "0"),
        ("send", "127.0.0.1", "--rate", "1mbit", "--overflow", "never"),
        ("send", "127.0.0.1", "--overflow", "drop-newest"),
        ("send", "127.0.0.1", "--size", "65000", "--queue", "100000"),
        ("send", "127.0.0.1", "--duration", "1mbit"),
        ("send", "127.0.0.1", "--duration", "0s"),
        ("recv", "--connections", "0"),
        ("recv", "--timeout", "0s"),
        ("recv", "--listen", "127.0.0.1:99999"),
    ],
)
def test_dccp_invalid_usage_exits_2(start: Starter, arguments: tuple[str, ...]) -> None:
    """Invalid usage exits with status 2 and a message."""
    assert done(start(*arguments), 2)[1]


@pytest.mark.slow
def test_send_errors_name_their_option(start: Starter) -> None:
    """Errors of rates and schemes name their own option and the accepted values."""
    for rate, error in (("0mbit", "narrows: --video: `0mbit` carries"), ("10", "narrows: --video: `10` has no unit")):
        _, err = done(start("send", "127.0.0.1", "--video", rate), 2)
        assert err.startswith(error) and "accepted: a rate" in err and "--rate" not in err
    _, err = done(start("send", "127.0.0.1", "--rate", "10"), 2)
    assert err.startswith("narrows: --rate: `10` has no unit")
    for scheme, error in (("lia", "DCCP cannot carry `lia`"), ("none", "there is no scheme `none`")):
        _, err = done(start("send", "127.0.0.1", "--scheme", scheme), 2)
        assert err.startswith(f"narrows: --scheme: {error}")
        accepted = err.partition("accepted: ")[2].strip().split(", ")
        assert {"ccid2", "cubic"} < set(accepted) and not {"lia", "rcp", "nodectl"} & set(accepted)
