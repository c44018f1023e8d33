"""`narrows brf`, and with root BRF on this machine's kernel."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from narrows import engine, hosts
from narrows.cli import brf

from conftest import call, narrows_in, ran, refused, start_narrows, without_rights_in  # isort: skip

BRIEF = ("--rate", "20mbit", "--rtt", "20ms", "--duration", "3s")
STATUS = dict.fromkeys(brf.COUNTERS, 7) | {"loaded": True, "attachments": []}


def needs_root():
    """Skip a test that loads programs into the kernel and creates network namespaces."""
    if os.geteuid() != 0 or not Path("/dev/net/tun").exists() or not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("needs root, /dev/net/tun and BPF")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--limit", "20"), "--limit: '20' is not a rate above zero; accepted: a number with a unit, 100mbit"),
        (("--limit", "1bit", "--dry-run"), "--limit: '1bit' is less than a byte per second; accepted: 8bit or more"),
        (("--limit", "20ms"), "--limit: '20ms' is not a rate above zero; accepted: a number with a unit, 100mbit"),
        (("--set", "timeout"), "--set: `timeout` sets nothing; accepted: KEY=VALUE"),
    ],
)
def test_wrong_options_are_misuse(monkeypatch, args, message):
    """An invalid value is refused before anything is attached."""
    monkeypatch.setattr(hosts, "attach_brf", lambda *_: pytest.fail("it is not reached"))
    refused(call("brf", "attach", *args), message)


def test_attach_says_what_it_does(monkeypatch):
    """Options reach the engine, and the output names the attachment and how to undo it."""
    seen = []

    def attach(*args):
        seen.append(args)
        return {"cgroup": "/c", "link": "/l", "scheme": "brf", "loads": True, "adopts": args[1]}

    monkeypatch.setattr(hosts, "attach_brf", attach)
    result = ran(
        call("brf", "attach", "--cgroup", "/c", "--no-adopt", "--limit", "2gbit", "--set", "timeout=2", "--dry-run")
    )
    assert seen == [(Path("/c"), False, 2000.0, [("timeout", "2")], True)]
    assert "would attach to /c (link /l)" in result.stdout
    assert "undo with `narrows brf detach`" in call("brf", "attach").stdout


def test_status_shows_every_counter(monkeypatch):
    """The table explains each counter, and JSON has all counters."""
    there = {"id": 1, "cgroup": "/c", "adopts": True}
    gone = {"id": 2, "cgroup": None, "adopts": False}
    monkeypatch.setattr(hosts, "brf_switches", list)
    monkeypatch.setattr(hosts, "brf_status", lambda: STATUS | {"attachments": [there, gone]})
    shown = call("brf", "status").stdout
    assert "attached to /c for all connections" in shown
    assert "cgroup 2, which was removed" in shown
    assert all(name in shown for name in brf.COUNTERS)
    assert json.loads(call("brf", "status", "--json").stdout)["read"] == 7
    monkeypatch.setattr(hosts, "brf_status", lambda: {"loaded": False, "attachments": []})
    assert call("brf", "status").stdout == "nothing is attached\n"
    monkeypatch.setattr(hosts, "brf_status", lambda: {"loaded": False, "attachments": [there]})
    first, second = call("brf", "status").stdout.splitlines()
    assert first.startswith("attached to /c") and "`narrows brf detach`, then attach again" in second


def test_detach_reports_what_it_removed(monkeypatch):
    """Each attachment has a line."""
    monkeypatch.setattr(hosts, "clean_brf_switches", list)
    monkeypatch.setattr(hosts, "detach_brf", lambda _: ["detached from /c", "unloaded `brf`"])
    assert call("brf", "detach").stdout.splitlines() == ["detached from /c", "unloaded `brf`"]
    monkeypatch.setattr(hosts, "detach_brf", lambda _: [])
    assert call("brf", "detach").stdout == "nothing is attached\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_attaching_says_what_stays(number, monkeypatch):
    """A signal during attaching or detaching is reported afterwards, with what stays attached."""

    def attach(*args):
        assert signal.getsignal(number) not in (signal.SIG_DFL, signal.default_int_handler), "it is held back"
        os.kill(os.getpid(), number)
        return {"cgroup": "/c", "link": "/l", "scheme": "brf", "loads": True, "adopts": args[1]}

    monkeypatch.setattr(hosts, "attach_brf", attach)
    done = call("brf", "attach")
    expected = "narrows: stopped; brf is attached to /c: undo with `narrows brf detach`\n"
    assert (done.exit_code, done.stderr) == (128 + number, expected)
    done = call("brf", "attach", "--dry-run")
    assert (done.exit_code, done.stderr) == (128 + number, "narrows: stopped\n")
    monkeypatch.setattr(hosts, "clean_brf_switches", list)
    monkeypatch.setattr(hosts, "detach_brf", lambda _: [f"detached from {attach(None, True)['cgroup']}"])
    done = call("brf", "detach")
    assert (done.exit_code, done.stdout) == (128 + number, "detached from /c\n")


@pytest.mark.parametrize(
    "words", [("attach",), ("status",), ("detach",), ("switch", "--port", "lo", "--rate", "1mbit")]
)
def test_refusal_without_root_names_the_command(words, tmp_path):
    """Without root each command ends with status 2 and one sentence that names it."""
    done = without_rights_in(tmp_path, "brf", *words)
    if "no programs" in done.stderr:
        pytest.skip("needs an installation with BPF")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith(f"narrows: `narrows brf {words[0]}` needs root: "), done.stderr


@pytest.mark.realtime
def test_kernel_runs_rates_of_the_network(tmp_path):
    """`compare brf cubic --on kernel` runs the program, and its counters prove that it ran."""
    needs_root()
    done = ran(narrows_in(tmp_path, "compare", "brf", "cubic", *BRIEF, "--json", "--on", "kernel"))
    row = json.loads(done.stdout)
    assert row["host"]["schemes"] == ["brf", "cubic"]
    rates = row["host"]["rates"]
    assert (rates["scheme"], rates["offered"], rates["accepted"], rates["errors"]) == ("brf", 1, 1, 0)
    assert 0 < rates["read"] <= rates["acks"], rates
    own, other = (flow["goodput_mbit_s"] for flow in row["flows"])
    assert own + other < 20
    assert 1 / 3 < own / other < 3, "the router gives each flow half, on a busy machine too"


def test_killed_run_leaves_no_program():
    """SIGKILL ends the scheme and the programs of the host with the run."""
    needs_root()
    before = engine.kernel_schemes()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run = start_narrows("compare", "brf", "--duration", "60s", "--on", "kernel", **quiet)

    def until(condition):
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end and (run.poll() is None or run.returncode < 0), run.returncode
            time.sleep(0.05)

    own = set()

    def started():
        own.update(name for name in engine.kernel_schemes() - before if name.startswith("narrows"))
        return own

    try:
        until(started)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    until(lambda: not own & engine.kernel_schemes())
