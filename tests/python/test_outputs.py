"""Commands on sockets end when their output fails, and escape text of peers. They run on the built engine."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import BUILT_ENV, python, start_narrows
from loopback import free_port
from narrows import progress

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
FULL = "narrows: standard output: No space left on device"
NODE = {
    "listen": "127.0.0.1:0", "rate_mbit_s": 1.0, "next": [], "responder_port": 9, "params": [], "messages_per_s": 10,
}  # fmt: skip
FLOW = 'scheme = "ccid2"\n'
CALLS = {
    "live": f"engine._engine.live({FLOW!r}, False, '127.0.0.1:0', 5.0, 1.0, False, 1, None, handle, raising)",
    "perf": "engine._engine.perf_server('127.0.0.1:0', 'cubic', [], 1.0, None, False, 5.0, 1, 1, 60.0, handle, raising)",
    "node": f"engine._engine.negotiate('node', {NODE!r}, handle, raising)",
}
"""Work that reports its address immediately, and ends by itself after some time."""


def closed_pipe():
    """Return the writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.slow
@pytest.mark.parametrize("work", ["live", "perf", pytest.param("node", marks=LINUX)])
def test_exception_of_a_callback_reaches_the_caller(work):
    """The first exception of a callback ends the work, is raised, and is not printed as ignored."""
    code = f"""
import threading
from narrows import engine
handle, calls = engine.Handle(), []
def raising(*event):
    calls.append(event)
    raise LookupError("mine")
threading.Timer(5, handle.cancel).start() if {work == "node"} else None
try:
    {CALLS[work]}
except LookupError as error:
    print("raised", error, len(calls))
"""
    done = python("-c", code)
    assert (done.stdout, done.stderr) == ("raised mine 1\n", "")


@pytest.mark.slow
def test_receiver_on_a_full_disk_fails():
    """A result that cannot be written ends a receiver with status 1, and the message names the output."""
    port = free_port()
    with Path("/dev/full").open("w") as full:
        receiver = start_narrows("dccp", "recv", "--listen", f"127.0.0.1:{port}", "--once", stdout=full)
        sender = _retried("dccp", "send", f"127.0.0.1:{port}", "--duration", "200ms")
        _, err = receiver.communicate(timeout=60)
    assert (receiver.returncode, err.splitlines()[-1]) == (1, FULL), err
    assert "Traceback" not in err and "ignored" not in err
    assert sender.returncode == 0


def _retried(*arguments):
    """Run a client until a server listens."""
    until = time.monotonic() + 60
    while True:
        client = start_narrows(*arguments)
        client.communicate(timeout=60)
        if client.returncode == 0 or time.monotonic() > until:
            return client


@pytest.mark.slow
def test_perf_fails_on_a_full_disk():
    """A client whose result cannot be written fails; a server behind a closed pipe prints nothing and ends with 1."""
    port, pipe = free_port(), closed_pipe()
    server = start_narrows("perf", "server", "--listen", f"127.0.0.1:{port}", "--once", stdout=pipe)
    os.close(pipe)
    assert server.stderr.readline().startswith("listening at ")
    with Path("/dev/full").open("w") as full:
        client = start_narrows("perf", "client", f"127.0.0.1:{port}", "--insecure", "--duration", "500ms", stdout=full)
        _, err = client.communicate(timeout=60)
    assert (client.returncode, err.splitlines()[-1]) == (1, FULL), err
    _, err = server.communicate(timeout=60)
    assert server.returncode == 1
    assert "Traceback" not in err and "Broken" not in err and "ignored" not in err, err


@LINUX
def test_node_behind_a_closed_pipe_ends():
    """A node with a closed log ends with status 1."""
    pipe = closed_pipe()
    node = start_narrows(
        "nodectl", "node", "--listen", "127.0.0.1:0", "--rate", "1mbit", "--duration", "5s", stderr=pipe
    )
    os.close(pipe)
    out, _ = node.communicate(timeout=60)
    assert (node.returncode, out) == (1, "")


@pytest.mark.slow
@LINUX
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_switch_on_a_full_disk_fails():
    """A switch whose log cannot be written detaches and ends with status 1."""
    script = f"""
ip link add d0 type veth peer name d1 || exit 77
ip link set d0 up
{sys.executable} -m narrows brf switch --port d0:bottleneck --rate 10mbit >/dev/full
echo $? >&2
tc qdisc show dev d0 >&2
"""
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", script], env=BUILT_ENV, capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode == 77 or ("narrows: " in done.stderr and FULL not in done.stderr):
        pytest.skip(f"needs a kernel with veth and BPF: {done.stderr.strip()}")
    lines = done.stderr.splitlines()
    assert FULL in lines and lines[lines.index(FULL) + 1] == "1", done.stderr
    assert "Traceback" not in done.stderr and "htb" not in done.stderr, done.stderr


def test_status_shows_control_characters_escaped(capsys):
    """Text of peers and files cannot move the cursor; letters, line breaks and tabulators stay."""
    progress.print_status("naïve\t10 µs\n\x1b]0;title\x07\x9b2J\u202etxt.exe\r")
    assert capsys.readouterr().err == "naïve\t10 µs\n\\x1b]0;title\\x07\\x9b2J\\u202etxt.exe\\r\n"


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_on_full_disk_names_standard_output(option):
    """Help and version on a full disk end with the name of the output and status 1."""
    with Path("/dev/full").open("w") as full:
        done = start_narrows(option, stdout=full)
        _, messages = done.communicate()
    assert (done.returncode, messages) == (1, f"{FULL}\n")
