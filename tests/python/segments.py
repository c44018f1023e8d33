"""A BRF segment of this machine's kernel: sender, switch and receiver in network namespaces."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import BUILT_ENV, narrows_in  # isort: skip

LINK_MBIT = 100
CGROUPS = next(
    (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if line.split()[2] == "cgroup2"),
    None,
)
# Turns off checksum offload, TSO, GSO and GRO: packets then carry their checksums and fit the link's MTU.
WITHOUT_OFFLOADS = """
import array, fcntl, socket, struct, sys
ETHTOOL, OFF = 0x8946, {"tx checksum": 0x17, "TSO": 0x1F, "GSO": 0x24, "GRO": 0x2C}
with socket.socket() as own:
    for command in OFF.values():
        value = array.array("B", struct.pack("II", command, 0))
        fcntl.ioctl(own, ETHTOOL, struct.pack("16sP8x", sys.argv[1].encode(), value.buffer_info()[0]))
"""
# The sender connects at its start time; both print bytes per 10 ms, with timestamps of the same clock.
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
    """Sender, switch and receiver in separate namespaces, and hosts attached to BRF."""

    senders = "p0"
    """The port towards the sender, as an argument of `narrows brf switch`."""

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
            self.run(host, sys.executable, "-c", WITHOUT_OFFLOADS, "e0")
            self.run("w", sys.executable, "-c", WITHOUT_OFFLOADS, port)
        self.join()
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

    def join(self):
        """Join the ports of the switch by a bridge."""
        self.ip(f"-n {self.own}w link add b0 up type bridge mcast_snooping 0")
        for port in ("p0", "p1"):
            self.ip(f"-n {self.own}w link set {port} master b0 up")

    def run(self, place, *command):
        """Run a command in a namespace and return its output."""
        command = ["ip", "netns", "exec", f"{self.own}{place}", *map(str, command)]
        return subprocess.run(command, env=BUILT_ENV, check=True, capture_output=True, text=True).stdout

    def wrong_checksums(self):
        """TCP segments that sender and receiver dropped for their checksums."""
        return [int(column(self.run(place, "cat", "/proc/net/snmp"), "InCsumErrors")) for place in ("s", "r")]

    def ip(self, words):
        """Run `ip`."""
        subprocess.run(["ip", *words.split()], check=True, capture_output=True)

    def narrows(self, *args):
        """Run a command and return its output."""
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
            "w", sys.executable, "-m", "narrows", "brf", "switch", "--port", self.senders, "--port", "p1:bottleneck",
            "--rate", f"{LINK_MBIT}mbit", *args, joins=False,
        )  # fmt: skip
        return wait_for(child, "the switch runs")

    def receiver(self, seconds):
        """Start the receiver of the flows, and wait until it listens."""
        return wait_for(self.start("r", sys.executable, "-c", RECEIVER, seconds), "ready\n")

    def sender(self, port, scheme, start, stop):
        """Start the sender of a flow, which waits until `start`."""
        self.start("s", sys.executable, "-c", SENDER, port, scheme, start, stop)

    def status(self):
        """The report of the switch."""
        return json.loads(self.run("w", sys.executable, "-m", "narrows", "brf", "status", "--json"))["switches"]


def wait_for(child, text):
    """Read lines of a process until one contains a text; return the process."""
    lines = [child.stdout.readline()]
    while text not in lines[-1]:
        assert lines[-1], lines
        lines.append(child.stdout.readline())
    return child


def detach(switch, number):
    """End a switch by a signal, and check that it has detached."""
    switch.send_signal(number)
    said = switch.communicate(timeout=30)[0]
    assert ("detached" in said, switch.returncode) == (True, 128 + number), said


def column(snmp, name):
    """A counter of TCP in `/proc/net/snmp`."""
    names, values = (line.split() for line in snmp.splitlines() if line.startswith("Tcp:"))
    return values[names.index(name)]


def needs_segment(folder):
    """Skip if this machine cannot run a segment."""
    if os.geteuid() != 0 or shutil.which("ip") is None or CGROUPS is None:
        pytest.skip("needs root, ip and a cgroup2 file system")
    done = narrows_in(folder, "kernel", "list", "--json")
    if "has no programs" in narrows_in(folder, "brf", "status").stderr:
        pytest.skip("needs a build with BPF")
    if any(row["name"] == "brf" and row["registered"] for row in json.loads(done.stdout)):
        pytest.skip("needs a kernel in which nobody uses the scheme brf")


def rates(received, port, start, stop):
    """Mbit/s of payload of a flow between two times."""
    flow = {int(slot): count for slot, count in received[str(port)].items()}
    return sum(flow.get(slot, 0) for slot in range(int(start * 100), int(stop * 100))) * 8e-6 / (stop - start)
