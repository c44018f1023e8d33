"""A BRF segment whose switch is Open vSwitch with its user-space datapath, watched by the OpenFlow controller."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from segments import LINK_MBIT, Segment, detach, needs_segment, rates, wait_for  # isort: skip

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
CONTROL = "127.0.0.1:7272"


class OpenSegment(Segment):
    """A segment joined by a bridge of Open vSwitch, which runs its own daemons."""

    senders = "p0:senders"

    def join(self):
        """Start Open vSwitch in the namespace of the switch; its bridge expects a controller, which starts later."""
        self.place = Path(tempfile.mkdtemp(prefix="ovs"))  # the paths of UNIX sockets have a short limit
        socket = f"unix:{self.place}/db.sock"
        subprocess.run(["ovsdb-tool", "create", self.place / "conf.db", SCHEMA], check=True)
        self.ip(f"-n {self.own}w link set lo up")
        self.daemon("ovsdb-server", self.place / "conf.db", f"--remote=p{socket}")
        self.until(lambda: (self.place / "db.sock").exists())
        self.vsctl("--no-wait", "init")
        self.daemon("ovs-vswitchd", socket, "--disable-system")
        self.vsctl("add-br", "b0", "--", "set", "bridge", "b0", "datapath_type=netdev", "protocols=OpenFlow13")
        for port in ("p0", "p1"):
            self.ip(f"-n {self.own}w link set {port} up")
            self.vsctl("add-port", "b0", port)
        self.vsctl("set-controller", "b0", "tcp:127.0.0.1:6653")

    def daemon(self, *command):
        """Start a daemon of Open vSwitch."""
        folders = {f"OVS_{name}DIR": str(self.place) for name in ("RUN", "LOG", "DB", "SYSCONF")}
        command = [*map(str, command), "--no-chdir", f"--pidfile={self.place}/{command[0]}"]
        words = ["ip", "netns", "exec", f"{self.own}w", *command]
        with (self.place / "log").open("a") as log:
            self.children.append(subprocess.Popen(words, env=os.environ | folders, stdout=log, stderr=log))

    def vsctl(self, *words):
        """Run `ovs-vsctl`."""
        command = ["ovs-vsctl", "--timeout=60", f"--db=unix:{self.place}/db.sock", *words]
        subprocess.run(command, check=True, capture_output=True)

    def until(self, condition):
        """Wait for a condition while all daemons run."""
        while not condition():
            assert all(child.poll() is None for child in self.children), (self.place / "log").read_text()
            time.sleep(0.01)

    def controller(self):
        """Start the controller, and wait until it has found the port."""
        child = self.start(
            "w", sys.executable, "-m", "narrows", "brf", "controller", "--port", "p1", "--control", CONTROL,
            "--poll", "500ms", joins=False,
        )  # fmt: skip
        return wait_for(child, "port `p1` is number")

    def __exit__(self, *details):
        super().__exit__(*details)
        with contextlib.suppress(AttributeError):
            shutil.rmtree(self.place)


@pytest.fixture
def segment(tmp_path):
    """A segment of Open vSwitch, if this machine can have one."""
    needs_segment(tmp_path)
    missing = [tool for tool in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl") if shutil.which(tool) is None]
    if missing or not SCHEMA.exists():
        pytest.skip("needs Open vSwitch (apt install openvswitch-switch)")
    if importlib.util.find_spec("os_ken") is None:
        pytest.skip("needs os-ken")
    with OpenSegment(tmp_path) as own:
        yield own


@pytest.mark.long
@pytest.mark.realtime
def test_flows_share_through_ovs_and_survive_controller(segment):
    """Two flows share a link of Open vSwitch, whose controller reports to the switch; killing it stalls no flow."""
    switch = segment.switch("--controller", "external", "--control", CONTROL)
    controller = segment.controller()
    receiver = segment.receiver(13)
    begin = time.monotonic() + 3  # by then all processes are running
    for port in (6001, 6002):
        segment.sender(port, "brf", begin, begin + 8)
    time.sleep(max(0, begin + 4 - time.monotonic()))
    before = segment.status()[0]["report"]
    controller.kill()
    said = controller.communicate(timeout=30)[0]
    received = json.loads(receiver.communicate(timeout=60)[0])
    halves = [rates(received, port, begin + 1.5, begin + 4) for port in (6001, 6002)]
    after = {port: [rates(received, port, begin + n, begin + n + 1) for n in range(4, 8)] for port in (6001, 6002)}
    report = segment.status()[0]["report"]
    print("halves", halves, "after", after, "queue", before["queue_mean_ms"], "ms; the controller:", said)
    full = LINK_MBIT * 1448 / 1500
    assert all(0.7 * full / 2 < rate < 1.3 * full / 2 for rate in halves), halves
    assert all(rate > 0.2 * full / 2 for seconds in after.values() for rate in seconds), after
    assert before["counters"]["written"] > 100 and report["counters"]["written"] > before["counters"]["written"]
    assert "does not answer" not in said, "the switch states its queue"
    assert segment.wrong_checksums() == [0, 0]
    detach(switch, signal.SIGTERM)
    left = segment.run("w", "tc", "qdisc")
    assert "htb" not in left and "clsact" not in left, left
