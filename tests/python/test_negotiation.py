"""`narrows nodectl` in separate processes, over loopback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from narrows import negotiation

from conftest import call  # isort: skip
from loopback import Starter  # isort: skip

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="narrows nodectl needs Linux")

PORT = 47_490
"""UDP port of the clients of these tests."""


@pytest.fixture
def start() -> Iterator[Starter]:
    """Start daemons that end with the test."""
    daemons = Starter("nodectl")
    yield daemons
    daemons.stop()


def address(process: subprocess.Popen[str]) -> str:
    """Return the address at which a daemon listens."""
    until = time.monotonic() + 60
    assert process.stderr is not None
    while time.monotonic() < until:
        line = process.stderr.readline()
        assert line, "the daemon ended"
        if line.startswith("listens at "):
            return line.removeprefix("listens at ").strip()
    raise AssertionError("the daemon does not listen")


@pytest.mark.realtime
def test_request_receives_at_the_nodes_rate(start: Starter) -> None:
    """A file arrives at the rate of the node, and node, server and client report the same negotiation."""
    node = start("node", "--listen", "127.0.0.1:0", "--rate", "16mbit", "--responder-port", str(PORT), "--json")
    via = address(node)
    server = start("server", "--listen", "127.0.0.1:0", "--via", via, "--no-program", "--json")
    client = start(
        "request", address(server), "--bind", "127.0.0.21", "--responder-port", str(PORT), "--size", "1MB",
        "--max", "200mbit", "--subflows", "2", "--json",
    )  # fmt: skip
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    report = json.loads(out)
    assert (report["bytes"], report["complete"]) == (1_000_000, True)
    assert report["goodput_mbit_s"] < 16 * 1.05
    time.sleep(0.5)  # the termination
    for daemon in (server, node):
        daemon.send_signal(signal.SIGINT)
    served, log = server.communicate(timeout=30)
    assert (server.returncode, json.loads(served)["served"]) == (0, 2), log
    assert "may send 8.00 Mbit/s" in log, log
    passed, log = node.communicate(timeout=30)
    assert node.returncode == 0, log
    own = json.loads(passed)
    assert dict(own["port"])["given"] == 0 and own["unreadable"] == 0
    assert "gets 8.00 Mbit/s" in log


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("node",), "--port, --rate: the node has no rate to allocate"),
        (("node", "--rate", "fast"), "--rate: 'fast' is not a rate above zero"),
        (("node", "--port", "nowhere0"), "--port: there is no interface 'nowhere0'"),
        (("node", "--rate", "1mbit", "--set", "alpha=0"), "--set: "),
        (("node", "--rate", "1mbit", "--next", "10.0.0.1/8=127.0.0.1"), "--next: "),
        (("server", "--via", "256.1.1.1"), "--via: '256.1.1.1' is no IPv4 address"),
        (("request", "127.0.0.1"), "--size, --duration: the transmission has no end"),
        (("request", "127.0.0.1", "--size", "1MB", "--min", "2mbit", "--max", "1mbit"), "--min, --max: "),
    ],
)
def test_invalid_settings_are_refused(start: Starter, arguments: tuple[str, ...], message: str) -> None:
    """An invalid setting ends the command with status 2, and the message names it."""
    process = start(*arguments)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, message in err) == (2, True), err


def test_request_without_data_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that trickles bytes instead of data is a failure, also if a duration ends the request."""
    report = {"bytes": 0, "complete": False, "seconds": 2.7, "goodput_mbit_s": 0.0, "wait_s": 0.0}
    monkeypatch.setattr(negotiation, "run", lambda *_, **__: report)
    done = call("nodectl", "request", "127.0.0.1:7970", "--duration", "3s", "--json")
    assert (done.exit_code, done.stderr) == (1, "narrows: 127.0.0.1:7970: no data arrived\n")


def test_absent_server_is_a_failure(start: Starter) -> None:
    """A missing server is a failure, not invalid usage."""
    process = start("request", "127.0.0.1:9", "--size", "1MB", "--responder-port", str(PORT + 1))
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "127.0.0.1:9" in err) == (1, True), err
