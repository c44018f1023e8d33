"""`narrows brf switch` and `controller`: their options, and with root a segment of this machine's kernel."""

import contextlib
import importlib.util
import json
import re
import signal
import socket
import sys
import threading
import time

import pytest

from narrows import hosts

from conftest import ROOT, call, narrows_in, python, ran, refused, start_narrows  # isort: skip
from segments import LINK_MBIT, Segment, detach, needs_segment, rates  # isort: skip


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--port", "eth0:exit", "--rate", "1mbit"), "--port eth0:exit: accepted: IF, or IF:bottleneck"),
        (("--port", "a:senders", "--port", "b", "--rate", "1mbit"), "--port: accepted: one port as IF:bottleneck"),
        (("--port", "a", "--port", "b", "--rate", "1mbit"), "--port: accepted: one port as IF:bottleneck"),
        (
            ("--port", "eth0", "--rate", "fast"),
            "--rate: 'fast' is not a rate above zero; accepted: a number with a unit, 100mbit",
        ),
        (("--port", "eth0", "--rate", "1mbit", "--period", "5"), "--period: '5' is not a time above zero"),
        (
            ("--port", "eth0", "--rate", "1mbit", "--controller", "moon"),
            "--controller: `moon`; accepted: self, external",
        ),
        (("--port", "eth0", "--rate", "1mbit", "--controller", "external"), "--controller external needs --control"),
        (("--port", "eth0", "--rate", "1mbit", "--set", "alpha"), "--set: `alpha` sets nothing; accepted: KEY=VALUE"),
        (("--port", "eth0", "--rate", "1mbit", "--buffer", "0"), "--buffer: `0` is too small"),
    ],
)
def test_invalid_switch_options_are_refused(args, message):
    """A wrong option is invalid usage, and the message states what is accepted."""
    refused(call("brf", "switch", *args), message)


def test_single_port_is_named_as_the_bottleneck(monkeypatch):
    """A single port without a role is the bottleneck, and a line states this; a stated role is used."""
    seen = []
    monkeypatch.setattr(hosts, "plan_brf_switch", lambda settings: seen.append(settings["ports"]) or ["the plan"])
    words = ("brf", "switch", "--rate", "10mbit", "--dry-run", "--port")
    said = call(*words, "p0").stdout.splitlines()
    assert said == ["p0: the only port, so the bottleneck (as --port p0:bottleneck)", "the plan"]
    assert call(*words, "p0:bottleneck").stdout.splitlines() == ["the plan"]
    assert seen == 2 * [[("p0", "bottleneck")]]
    refused(call(*words, "p0:senders"), "accepted: one port as IF:bottleneck")


def test_document_defines_every_item_of_a_switch(monkeypatch):
    """The columns and counters that `narrows brf status` prints for a switch are rows of the document."""
    document = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    _, _, section = document.partition("## What to watch in a segment\n")
    rows = re.findall(r"^\| ([^|]+) \|", section.partition("\n## ")[0], re.MULTILINE)
    defined = {item.strip(" `") for row in rows for item in row.split(", ")}
    source = (ROOT / "crates" / "brf" / "src" / "switch" / "maps.rs").read_text(encoding="utf-8")
    fields = re.findall(r"pub (\w+): u64", source.partition("pub struct Counters {")[2].partition("\n}")[0])
    assert len(fields) > 5
    report = {
        "rate_mbit_s": 10.0, "state": "load", "period_ms": 5.0, "queue_mean_ms": 0.1, "queue_most_ms": 1.0,
        "reductions": 0, "classes": [], "flows": [], "flows_total": 0, "flows_refused": 1,
        "counters": dict.fromkeys(fields, 7),
    }  # fmt: skip
    row = {"process": 1, "ports": ["a"], "runs": True, "report": report}
    monkeypatch.setattr(hosts, "brf_switches", lambda: [row])
    monkeypatch.setattr(hosts, "brf_status", lambda: {"loaded": False, "attachments": []})
    _, totals, classes, flows, counters, full = call("brf", "status").stdout.splitlines()
    heads = [item for line in (classes, flows) for item in re.split(r" {2,}", line.strip())]
    columns = {re.sub(r", (Mbit/s|ms)$", "", item) for item in heads} - {"class", "flow"}
    printed = columns | {item.rpartition(" ")[0] for item in counters.split(", ")} | {full.partition(":")[0]}
    assert {"dropped", "rates", "written", "table full"} <= printed
    assert printed - defined == set()
    assert all(item in totals and item in defined for item in ("state", "period", "queue", "cuts"))


@pytest.mark.realtime
def test_missing_interface_and_parameter_are_refused(tmp_path):
    """A dry run checks ports and parameters."""
    for args, message in [
        (("--port", "none0"), "--port none0: no such interface in this network namespace"),
        (("--port", "lo"), "--port lo: not an Ethernet device"),
        (("--port", "lo", "--patience", "5ms"), "--patience 5ms: the programs would give up between two decisions"),
        (("--port", "lo", "--set", "alpha=2"), "--set alpha=2: accepted: 0.5 to 1"),
        (("--port", "lo", "--set", "beat=2"), "--set beat=2: no such parameter; accepted: alpha, beta"),
    ]:
        refused(narrows_in(tmp_path, "brf", "switch", *args, "--rate", "10mbit", "--dry-run"), message)


class Agent:
    """The control socket of a switch."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(10)
        self.reports = []
        self.statistics = {"waiting": 0, "room": 100, "capacity_bytes_s": 12_500_000}
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.socket.getsockname()[1]}"

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                text, peer = self.socket.recvfrom(4096)
                message = json.loads(text)
                if "ask" in message:
                    self.socket.sendto(json.dumps(self.statistics).encode(), peer)
                else:
                    self.reports.append(message)


WATCH = """
import json, sys
from narrows import sdn
link = sdn.SwitchLink(sys.argv[1])
watcher = sdn.Watcher(link, lambda line: None)
kinds = [watcher.on_port(1.0, 0, 0), watcher.on_port(2.0, 12_000_000, 0), watcher.on_port(3.0, 24_400_000, 0)]
print(json.dumps(kinds))
"""


def watched(agent):
    """The controller's judgements at 96 % and 99.2 % of the link's rate."""
    done = ran(python("-c", WATCH, agent.address, timeout=60))
    return json.loads(done.stdout)


def test_controller_reports_load_and_queue():
    """Equation 5 judges the port's counters, equation 6 the queue that the switch states; both are reported."""
    agent = Agent()
    assert watched(agent) == [None, None, "load"]
    agent.statistics["waiting"] = 11
    assert watched(agent) == ["queue", "queue", "queue"]
    deadline = time.monotonic() + 10
    while len(agent.reports) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert agent.reports == [{"congestion": "load"}] + 3 * [{"congestion": "queue", "packets": 11}]


HOSTILE = [
    b'"x"', b"null", b"[]", b"", b"\xff", b"[" * 4_000, b'{"waiting":' * 300, b"9" * 4_000,
    *(
        json.dumps({"waiting": 0, "room": 1, "capacity_bytes_s": 1, **own}).encode()
        for own in (
            {"waiting": "x"}, {"waiting": None}, {"waiting": 1e30}, {"waiting": 10**30}, {"waiting": -1},
            {"waiting": True}, {"room": []}, {"capacity_bytes_s": "1"}, {"capacity_bytes_s": 1.5}, {"room": 2**63},
        )
    ),
    b'{"waiting": 1e999, "room": 1, "capacity_bytes_s": 1}', b'{"waiting": 1}',
]  # fmt: skip


@pytest.mark.parametrize("rate", [None, 12_500_000])
def test_hostile_answers_count_as_none(rate):
    """An answer with missing counters is ignored: the controller logs that once, and judges without a queue."""
    from narrows import sdn

    lines = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(10)
        link = sdn.SwitchLink(f"127.0.0.1:{agent.getsockname()[1]}")
        watcher = sdn.Watcher(link, lines.append, rate_bytes_s=rate)

        def answer(text):
            def serve():
                agent.sendto(text, agent.recvfrom(4096)[1])

            serving = threading.Thread(target=serve)
            serving.start()
            found = watcher.on_port(1.0, 1, 0)
            serving.join()
            return found

        try:
            for text in HOSTILE:
                assert answer(text) is None, text
            assert len(lines) == 1 and "does not answer" in lines[0]
            whole = {"waiting": 7, "room": 10, "capacity_bytes_s": 100}
            assert answer(json.dumps(whole).encode()) == "queue"
            assert lines[1] == "the switch answers"
        finally:
            link.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_controller_ends_with_the_status_of_its_signal(number):
    """Ctrl-C and SIGTERM end a controller that serves, each with its own exit status."""
    if importlib.util.find_spec("os_ken") is None:
        pytest.skip("needs os-ken")
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    controller = start_narrows("brf", "controller", "--port", "p0", "--control", "127.0.0.1:9", "--listen", port)
    assert f"controller listens for OpenFlow 1.3 at port {port}" in controller.stdout.readline()
    controller.send_signal(number)
    assert "stopped" in controller.communicate(timeout=60)[0]
    assert controller.returncode == 128 + number


def test_controller_without_os_ken_is_refused(tmp_path):
    """Without os-ken the controller names the missing package."""
    if importlib.util.find_spec("os_ken") is not None:
        pytest.skip("os-ken is installed")
    done = narrows_in(tmp_path, "brf", "controller", "--port", "p0", "--control", "127.0.0.1:9")
    refused(done, "pip install 'narrows[sdn]'")


@pytest.fixture
def segment(tmp_path):
    """A segment, if this machine can have one."""
    needs_segment(tmp_path)
    with Segment(tmp_path) as own:
        yield own


@pytest.mark.long
@pytest.mark.realtime
def test_segment_shares_equally_and_keeps_classes(segment):
    """Kernel flows that obey share equally, CUBIC beside them keeps its class, and the queue of the class stays short."""
    switch = segment.switch()
    receiver = segment.receiver(14)
    begin = time.monotonic() + 3  # by then all processes are running
    plan = [(6001, "brf", 0), (6002, "brf", 0.5), (6003, "brf", 3), (6004, "cubic", 5.5)]
    for port, scheme, start in plan:
        segment.sender(port, scheme, begin + start, begin + 8.5)
    time.sleep(max(0, begin + 5 - time.monotonic()))
    alone = segment.status()[0]["report"]
    time.sleep(max(0, begin + 8 - time.monotonic()))
    beside = segment.status()[0]["report"]
    received = json.loads(receiver.communicate(timeout=60)[0])
    halves = [rates(received, port, begin + 1.5, begin + 3) for port in (6001, 6002)]
    thirds = [rates(received, port, begin + 3.5, begin + 5) for port in (6001, 6002, 6003)]
    quarters = [rates(received, port, begin + 6.5, begin + 8) for port in (6001, 6002, 6003, 6004)]
    print("halves", halves, "thirds", thirds, "beside CUBIC", quarters, "queue", alone["queue_mean_ms"], "ms")
    full = LINK_MBIT * 1448 / 1500
    for found, count in ((halves, 2), (thirds, 3), (quarters, 4)):
        assert all(0.9 * full / count < rate < 1.1 * full / count for rate in found), found
    drops = [own["drops"] for own in alone["classes"] if own["name"] in ("brf", "mice", "limited", "elephants")]
    assert not any(drops), alone["classes"]
    assert alone["queue_mean_ms"] < 1, alone
    assert beside["counters"]["written"] > 100 and beside["counters"]["silent"] == 0
    assert segment.wrong_checksums() == [0, 0]
    detach(switch, signal.SIGINT)
    assert segment.status() == []


@pytest.mark.realtime
def test_killed_switch_stalls_no_flow(segment):
    """After SIGKILL flows continue as CUBIC, and the next command removes filters and classes."""
    switch = segment.switch()
    receiver = segment.receiver(12)
    begin = time.monotonic() + 3  # by then all processes are running
    for port, start in ((6001, 0), (6002, 0), (6003, 4)):
        segment.sender(port, "brf", begin + start, begin + 7)
    time.sleep(max(0, begin + 2 - time.monotonic()))
    switch.kill()
    switch.wait()
    received = json.loads(receiver.communicate(timeout=60)[0])
    for port, start in ((6001, 3), (6002, 3), (6003, 5)):
        seconds = [rates(received, port, begin + second, begin + second + 1) for second in range(start, 7)]
        print(port, seconds)
        assert all(rate > 0.5 for rate in seconds), (port, seconds)
    assert [row["runs"] for row in segment.status()] == [False]
    ports = ("--port", "p0", "--port", "p1:bottleneck")
    said = segment.run("w", sys.executable, "-m", "narrows", "brf", "switch", *ports, "--rate", "10mbit", "--dry-run")
    assert "p1: filter brf_data on egress" in said
    detach(segment.switch(), signal.SIGTERM)
    left = segment.run("w", "tc", "qdisc")
    assert "htb" not in left and "clsact" not in left, left
