"""`narrows brf switch` and `controller`: what they accept, and a segment of this machine's kernel where there is root."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from conftest import BUILT_ENV, built, call, narrows_in  # isort: skip

LINK_MBIT = 100
CGROUPS = next(
    (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if line.split()[2] == "cgroup2"),
    None,
)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--port", "eth0:exit", "--rate", "1mbit"), "--port eth0:exit: accepted: IF, or IF:bottleneck"),
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
    """A wrong option is misuse, and the message says what is accepted."""
    result = call("brf", "switch", *args)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_missing_interface_and_parameter_are_refused(tmp_path):
    """A dry run checks ports and parameters."""
    for args, message in [
        (("--port", "none0"), "--port none0: no such interface in this network namespace"),
        (("--port", "lo"), "--port lo: not an Ethernet device"),
        (("--port", "lo", "--set", "alpha=2"), "--set alpha=2: accepted: 0.5 to 1"),
        (("--port", "lo", "--set", "beat=2"), "--set beat=2: no such parameter; accepted: alpha, beta"),
    ]:
        done = narrows_in(tmp_path, "brf", "switch", *args, "--rate", "10mbit", "--dry-run")
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr


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
    """The judgements of a controller about 96 % and 99.2 % of the link."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH, agent.address],
        env=BUILT_ENV,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "cannot import name '_engine'" in done.stderr:
        pytest.skip("the engine is not built: maturin develop")
    assert done.returncode == 0, done.stderr
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
    """An answer without whole counters is no answer: the controller logs that once, and judges without a queue."""
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


def test_controller_without_os_ken_is_refused(tmp_path):
    """Without os-ken the controller says what to install."""
    if (
        built("1")
        and subprocess.run([sys.executable, "-c", "import os_ken"], capture_output=True, check=False).returncode == 0
    ):
        pytest.skip("os-ken is installed")
    done = narrows_in(tmp_path, "brf", "controller", "--port", "p0", "--control", "127.0.0.1:9")
    assert (done.returncode, "pip install 'narrows[sdn]'" in done.stderr) == (2, True), done.stderr


# The sender connects when its time has come, and both print bytes per 10 ms and time stamps of the same clock.
RECEIVER = """
import json, selectors, socket, sys, time
wait, end = selectors.DefaultSelector(), time.monotonic() + float(sys.argv[1])
server = socket.create_server(("", 5000), backlog=16)
wait.register(server, selectors.EVENT_READ)
print("ready", flush=True)
slots = {}
while (now := time.monotonic()) < end:
    for key, _ in wait.select(0.05):
        if key.fileobj is server:
            wait.register(server.accept()[0], selectors.EVENT_READ)
            continue
        got = len(key.fileobj.recv(1 << 18))
        if got == 0:
            wait.unregister(key.fileobj)
            continue
        flow = slots.setdefault(key.fileobj.getpeername()[1], {})
        slot = int(time.monotonic() * 100)
        flow[slot] = flow.get(slot, 0) + got
print(json.dumps(slots), flush=True)
"""
SENDER = """
import socket, sys, time
port, scheme, start, stop = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
time.sleep(max(0, start - time.monotonic()))
own = socket.socket()
own.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, scheme.encode())
own.bind(("10.0.0.1", port))
own.settimeout(1)
own.connect(("10.0.0.2", 5000))
while time.monotonic() < stop:
    try:
        own.send(bytes(1 << 14))
    except TimeoutError:
        pass
"""


class Segment:
    """Sender, switch and receiver in namespaces of their own, and hosts attached to BRF."""

    def __init__(self, folder):
        self.folder, self.own = folder, f"nbs{os.getpid()}"
        self.cgroup = Path(CGROUPS) / self.own
        self.children = []

    def __enter__(self):
        for name in ("s", "w", "r"):
            self.ip(f"netns add {self.own}{name}")
        for host, port, address in (("s", "p0", "10.0.0.1/24"), ("r", "p1", "10.0.0.2/24")):
            self.ip(f"link add e0 netns {self.own}{host} type veth peer name {port} netns {self.own}w")
            self.ip(f"-n {self.own}{host} address add {address} dev e0")
            self.ip(f"-n {self.own}{host} link set e0 up")
        self.ip(f"-n {self.own}w link add b0 up type bridge mcast_snooping 0")
        for port in ("p0", "p1"):
            self.ip(f"-n {self.own}w link set {port} master b0 up")
        self.cgroup.mkdir()
        self.narrows("brf", "attach", "--cgroup", self.cgroup, "--no-adopt")
        return self

    def __exit__(self, *_):
        for child in self.children:
            child.kill()
            child.wait()
        with contextlib.suppress(AssertionError):
            self.narrows("brf", "detach", "--cgroup", self.cgroup)
        for name in ("s", "w", "r"):
            subprocess.run(["ip", "netns", "del", self.own + name], check=False)
        with contextlib.suppress(OSError):
            self.cgroup.rmdir()

    def ip(self, words):
        """Run `ip`."""
        subprocess.run(["ip", *words.split()], check=True, capture_output=True)

    def narrows(self, *args):
        """Run a command and return what it prints."""
        done = narrows_in(self.folder, *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, place, *command, joins=True):
        """Start a process in a namespace."""
        join = f"echo $$ >{self.cgroup}/cgroup.procs && " if joins else ""
        child = subprocess.Popen(
            ["sh", "-c", f'{join}exec ip netns exec {self.own}{place} "$@"', "sh", *map(str, command)],
            cwd=self.folder, env=BUILT_ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.children.append(child)
        return child

    def switch(self, *args):
        """Start a switch and wait until it runs."""
        child = self.start(
            "w", sys.executable, "-m", "narrows", "brf", "switch", "--port", "p0", "--port", "p1:bottleneck",
            "--rate", f"{LINK_MBIT}mbit", *args, joins=False,
        )  # fmt: skip
        lines = []
        while "the switch runs" not in (lines[-1] if lines else ""):
            lines.append(child.stdout.readline())
            assert lines[-1], lines
        return child

    def status(self):
        """The report of the switch."""
        done = subprocess.run(
            ["ip", "netns", "exec", f"{self.own}w", sys.executable, "-m", "narrows", "brf", "status", "--json"],
            env=BUILT_ENV, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)["switches"]


@pytest.fixture
def segment(tmp_path):
    """A segment, where this machine can have one."""
    if os.geteuid() != 0 or shutil.which("ip") is None or CGROUPS is None:
        pytest.skip("needs root, ip and a cgroup2 file system")
    done = narrows_in(tmp_path, "kernel", "list", "--json")
    if "has no programs" in narrows_in(tmp_path, "brf", "status").stderr:
        pytest.skip("needs a build with BPF")
    if any(row["name"] == "brf" and row["registered"] for row in json.loads(done.stdout)):
        pytest.skip("needs a kernel in which nobody uses the scheme brf")
    with Segment(tmp_path) as own:
        yield own


def rates(received, port, start, stop):
    """Mbit/s of payload of a flow between two times."""
    flow = {int(slot): count for slot, count in received[str(port)].items()}
    return sum(flow.get(slot, 0) for slot in range(int(start * 100), int(stop * 100))) * 8e-6 / (stop - start)


def test_segment_shares_equally_and_keeps_classes(segment):
    """Kernel flows that obey share equally, CUBIC beside them keeps its class, and the queue of the class stays short."""
    switch = segment.switch()
    receiver = segment.start("r", sys.executable, "-c", RECEIVER, 14)
    assert receiver.stdout.readline() == "ready\n"
    begin = time.monotonic() + 3  # until then all processes run
    plan = [(6001, "brf", 0), (6002, "brf", 0.5), (6003, "brf", 3), (6004, "cubic", 5.5)]
    for port, scheme, start in plan:
        segment.start("s", sys.executable, "-c", SENDER, port, scheme, begin + start, begin + 8.5)
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
        assert all(0.7 * full / count < rate < 1.3 * full / count for rate in found), found
    drops = [own["drops"] for own in alone["classes"] if own["name"] in ("brf", "mice", "limited", "elephants")]
    assert not any(drops), alone["classes"]
    assert alone["queue_mean_ms"] < 3, alone
    assert beside["counters"]["written"] > 100 and beside["counters"]["silent"] == 0
    switch.send_signal(signal.SIGINT)
    assert "detached" in switch.communicate(timeout=30)[0]
    assert segment.status() == []


def test_killed_switch_stalls_no_flow(segment):
    """After SIGKILL flows go on as CUBIC, and the next command removes filters and classes."""
    switch = segment.switch()
    receiver = segment.start("r", sys.executable, "-c", RECEIVER, 12)
    assert receiver.stdout.readline() == "ready\n"
    begin = time.monotonic() + 3  # until then all processes run
    for port, start in ((6001, 0), (6002, 0), (6003, 4)):
        segment.start("s", sys.executable, "-c", SENDER, port, "brf", begin + start, begin + 7)
    time.sleep(max(0, begin + 2 - time.monotonic()))
    switch.kill()
    switch.wait()
    received = json.loads(receiver.communicate(timeout=60)[0])
    for port, start in ((6001, 3), (6002, 3), (6003, 5)):
        seconds = [rates(received, port, begin + second, begin + second + 1) for second in range(start, 7)]
        print(port, seconds)
        assert all(rate > 0.5 for rate in seconds), (port, seconds)
    assert [row["runs"] for row in segment.status()] == [False]
    place = ["ip", "netns", "exec", f"{segment.own}w"]
    done = subprocess.run(
        [*place, sys.executable, "-m", "narrows", "brf", "switch", "--port", "p0", "--port", "p1:bottleneck", "--rate",
         "10mbit", "--dry-run"],
        env=BUILT_ENV, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "p1: filter brf_data on egress" in done.stdout, done
    again = segment.switch()
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=30)
    left = subprocess.run([*place, "tc", "qdisc"], capture_output=True, text=True, check=True).stdout
    assert "htb" not in left and "clsact" not in left, left
