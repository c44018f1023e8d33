"""`--on kernel`: its values, and with root runs on this machine's kernel."""

import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from attempts import many
from fake_executor import ENGINE
from narrows import engine, hosts, qlog
from narrows.cli import kernel

from conftest import (  # isort: skip
    FIGURE,
    ONE_FLOW,
    ROOT,
    call,
    json_rows,
    narrows_in,
    python,
    ran,
    refused,
    start_narrows,
    without_rights_in,
    write_paper,
)  # fmt: skip

pytestmark = pytest.mark.realtime
BRIEF = ("--rate", "20mbit", "--rtt", "10ms", "--duration", "2s")


def needs_root():
    """Skip a test that creates network namespaces."""
    if os.geteuid() != 0 or not Path("/dev/net/tun").exists():
        pytest.skip("needs root and /dev/net/tun")


def confined(prefix):
    """Skip a test whose command cannot run after these words."""
    if os.geteuid() != 0 and prefix[0] == "setpriv":
        pytest.skip("needs root")
    if shutil.which(prefix[0]) is None or subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip(f"needs {' '.join(prefix)}")


def needs_programs(done):
    """Skip a test whose command lacks the programs of the kernel; return the process."""
    if "no programs" in done.stderr:
        pytest.skip("needs an installation with BPF")
    return done


def devices():
    """Return the names of network devices, the namespaces of all threads, and the schemes of the kernel."""
    spaces = set()
    for link in Path("/proc").glob("[0-9]*/task/*/ns/net"):
        with contextlib.suppress(OSError):  # the thread has ended
            spaces.add(link.readlink())
    return sorted(path.name for path in Path("/sys/class/net").iterdir()), spaces, engine.kernel_schemes()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--on", "kernel"), "the fake kernel runs nothing"),
        (("--on", "moon"), "--on: `moon` runs nothing; accepted: sim, kernel, shim, quic, noq"),
    ],
)
def test_impossible_places_are_refused(args, message, executor):
    """A backend that cannot run the scenario is invalid usage, and the message states what is accepted."""
    refused(call("compare", *BRIEF, "bbr", *args), message)


def test_cluster_runs_the_simulator_only(tmp_path, executor, monkeypatch):
    """Runs on the kernel refuse a Ray cluster."""
    monkeypatch.setenv("FAKE_KERNEL", "1")
    file = tmp_path / "one.toml"
    file.write_text(ONE_FLOW)
    refused(call("sweep", file, "--on", "kernel", "--ray", "auto"), "accepted: without --on kernel")


def test_worlds_share_a_folder(tmp_path, executor, monkeypatch):
    """Runs on each backend have different ids, so all backends keep their runs in one folder."""
    monkeypatch.setenv("FAKE_KERNEL", "1")
    for on in ("sim", "kernel", "kernel", "shim"):
        assert call("compare", *BRIEF, "bbr", "-o", tmp_path, "--on", on).exit_code == 0
    ids = sorted(path.stem for path in (tmp_path / "runs").iterdir())
    assert ids[1:] == [f"{ids[0]}-kernel", f"{ids[0]}-shim"]


def test_kernel_runs_follow_the_kernel(executor, monkeypatch):
    """A saved run on the kernel is stale after a change of the kernel, the emulator, or a scheme of ours in the run."""
    monkeypatch.setenv("FAKE_KERNEL", "1")
    monkeypatch.setattr(engine, "kernel_schemes", lambda: {"bbr"})
    text = '[network]\nrate = "1mbit"\n[[flows]]\nrtt = "40ms"\nscheme = "{}"\n'
    own, ours = (engine.plan(text.format(name), "text", None, on=engine.KERNEL)[0] for name in ("bbr", "cubic"))
    before = [engine.fingerprint(item) for item in (own, ours)]
    assert before[0] != engine.fingerprint(engine.plan(text.format("bbr"), "text", None)[0])
    sources = ENGINE.sources()
    changed = {**sources, "schemes": dict.fromkeys(sources["schemes"], "new")}
    monkeypatch.setattr(engine, "_sources", lambda: changed)
    after = [engine.fingerprint(item) for item in (own, ours)]
    assert (after[0] == before[0], after[1] == before[1]) == (True, False)
    over_shim = engine.plan(text.format("bbr"), "text", None, on=engine.SHIM)[0]
    monkeypatch.setattr(engine, "_sources", lambda: sources)
    same = engine.fingerprint(over_shim)
    monkeypatch.setattr(engine, "_sources", lambda: changed)
    assert engine.fingerprint(over_shim) != same  # on the shim, bbr is ours
    monkeypatch.setattr(engine, "_sources", lambda: {**sources, "backends": {"kernel": "new"}})
    assert engine.fingerprint(own) != before[0]
    monkeypatch.setattr(engine, "_sources", lambda: sources)
    monkeypatch.setattr("platform.release", lambda: "0.0.1")
    assert engine.fingerprint(own) != before[0]


PAPER = """
title = "On shares"
authors = ["A. Author"]
citation = "A. Author: On shares. 2020."
"""
SHARES = """
duration = "10s"
repeat = 2
[network]
rate = "10mbit"
[[flows]]
scheme = "bbr"
rtt = "40ms"
[sweep]
"flows.scheme" = ["bbr", "cubic"]
"""
ONE = "SELECT seed, goodput_mbit_s AS value FROM flows WHERE scheme = 'bbr'"
ALL = "SELECT seed, min(goodput_mbit_s) AS value FROM flows GROUP BY seed"
PAIR = (
    "SELECT a.seed, a.goodput_mbit_s AS value, b.goodput_mbit_s AS than FROM flows a JOIN flows b USING (seed)"
    " WHERE a.scheme = 'bbr' AND b.scheme = 'cubic'"
)


def test_third_verdict_where_the_kernel_has_all_schemes(tmp_path, executor, monkeypatch):
    """`reproduce --on kernel` judges only claims that the kernel's runs decide, and the report has a third column."""
    claims = "".join(
        f'[[claim]]\nid = "{name}"\ntext = "{name} of them"\nsource = "page 1"\nkind = "{kind}"\n{more}sql = """{sql}"""\n'
        for name, kind, more, sql in (
            ("one", "at_least", "paper = 30\n", ONE),
            ("all", "at_least", "paper = 30\n", ALL),
            ("pair", "greater", "", PAIR),
        )
    )
    write_paper(tmp_path / "papers" / "shares", PAPER, fig1=(SHARES, FIGURE + claims))
    monkeypatch.setenv("FAKE_KERNEL", "bbr")
    args = ("reproduce", "--papers", tmp_path / "papers", "-o", tmp_path / "out", "--on", "kernel")
    result = ran(call(*args, "--json"))
    judged = {(row["world"], row["id"]) for row in json_rows(result)}
    assert judged == {("today", "one"), ("today", "all"), ("today", "pair"), ("kernel", "one")}
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("not run") == 2 and "on the kernel" in page
    monkeypatch.setenv("FAKE_KERNEL", "newreno")
    refused(call(*args), "the fake kernel lacks one of bbr")


def test_picture_of_both_worlds_shows_this_simulator():
    """The simulator's half of README's picture equals this version's, else run `studies/kernel/worlds.py sim`."""
    folder = ROOT / "studies" / "kernel"
    code = "import json, worlds; print(json.dumps(worlds.measure(['sim'])['goodput_mbit_s'].to_list()))"
    done = python("-c", code, cwd=folder, check=True)
    with (folder / "worlds.csv").open(encoding="utf-8") as file:
        drawn = [float(row["goodput_mbit_s"]) for row in csv.DictReader(file) if row["world"] == "sim"]
    assert len(drawn) == 120
    assert json.loads(done.stdout) == pytest.approx(drawn, abs=0.01)


def test_kernel_prints_the_table_of_the_simulator(tmp_path):
    """Both worlds print the same fields, except for values that neither packets nor the kernel provide."""
    needs_root()
    rows = {}
    for on in ("sim", "kernel"):
        done = ran(narrows_in(tmp_path, "compare", "bbr", "cubic", *BRIEF, "--json", "--on", on))
        rows[on] = json.loads(done.stdout)
    sim, kernel = rows["sim"], rows["kernel"]
    assert set(sim) - set(kernel) == {"event_hash", "counters", "peak_flow_bytes"}
    assert set(kernel) - set(sim) == {"host"}
    assert [list(row) for row in kernel["flows"]] == [list(row) for row in sim["flows"]]
    assert kernel["links"][0].keys() == sim["links"][0].keys()
    assert kernel["host"]["schemes"] == ["bbr", "cubic"]
    assert kernel["host"]["kernel"] == os.uname().release
    shared = sum(flow["throughput_mbit_s"] for flow in kernel["flows"])
    assert 14 < shared < 20.1, "most of 20 Mbit/s, on a busy machine too"


def test_kernel_traces_plot_like_simulated_ones(tmp_path):
    """A trace has the series that the kernel reports, and `plot` draws it."""
    needs_root()
    ran(narrows_in(tmp_path, "compare", "bbr", *BRIEF, "--on", "kernel", "--trace", "20ms", "-o", "out"))
    code = (
        "import narrows; s = narrows.Results.load('out').samples; print(*sorted(set(s['series'])));"
        "print(s.filter((s['series'] == 'bw_estimate_mbit_s') & (s['time_s'] > 1))['value'].mean())"
    )
    shown = python("-c", code, cwd=tmp_path, check=True)
    series, estimate = shown.stdout.splitlines()
    assert {"cwnd_bytes", "rtt_ms", "goodput_mbit_s", "pacing_gain", "queue_pkt", "min_rtt_ms"} <= set(series.split())
    assert 15 < float(estimate) < 25
    ran(narrows_in(tmp_path, "plot", "out", "-o", "figure.svg"))


@pytest.mark.long
def test_stopped_runs_leave_nothing_behind(tmp_path):
    """Ctrl-C ends a run early, SIGKILL leaves no device, namespace or scheme, and the next run works."""
    needs_root()
    before = devices()
    stopped, killed = (start_narrows("compare", "cubic", "--duration", "60s", "--on", "kernel") for _ in range(2))
    deadline = time.monotonic() + 30
    while len(devices()[1]) < len(before[1]) + 4:  # two hosts of each
        assert time.monotonic() < deadline
        time.sleep(0.2)
    killed.kill()
    stopped.send_signal(signal.SIGINT)
    _, message = stopped.communicate(timeout=20)
    assert stopped.returncode == 130, message
    killed.communicate()
    assert devices() == before
    assert narrows_in(tmp_path, "compare", "cubic", *BRIEF, "--on", "kernel").returncode == 0


@pytest.mark.long
def test_two_runs_at_once_do_not_collide(tmp_path):
    """Two processes run the same scenario at the same time."""
    needs_root()
    both = [start_narrows("compare", "cubic", *BRIEF, "--json", "--on", "kernel") for _ in range(2)]
    for process in both:
        out, error = process.communicate(timeout=60)
        assert process.returncode == 0, error
        assert json.loads(out)["flows"][0]["goodput_mbit_s"] > 10


def test_without_root_one_sentence_and_status_2(tmp_path):
    """A user without root gets one sentence."""
    needs_root()
    done = without_rights_in(tmp_path, "compare", "bbr", "--on", "kernel")
    expected = "narrows: --on kernel needs root: it creates network namespaces and devices in them\n"
    assert (done.returncode, done.stderr) == (2, expected)


@pytest.mark.parametrize(
    ("world", "reason"),
    [
        (["setarch", os.uname().machine, "--uname-2.6"], "is too old; accepted: Linux 6.10 or later"),
        (
            ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh"],
            "has no BTF (/sys/kernel/btf/vmlinux); accepted: kernels with CONFIG_DEBUG_INFO_BTF",
        ),
    ],
    ids=["old kernel", "no BTF"],
)
def test_unable_kernel_loads_nothing(world, reason):
    """An old kernel and one without BTF are named with status 2, and nothing is loaded."""
    if os.geteuid() != 0 or not Path("/sys/kernel/btf/vmlinux").exists() or shutil.which(world[0]) is None:
        pytest.skip(f"needs root, BTF and {world[0]}")
    done = needs_programs(python("-m", "narrows", "kernel", "load", "bbr-gc", prefix=world))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("narrows: kernel ") and done.stderr.endswith(f"{reason}\n")
    assert not Path("/sys/fs/bpf/narrows/bbr_gc").exists()


BPF = Path("/sys/fs/bpf")
PINNED = BPF / "narrows" / "bbr_gc"


@pytest.fixture
def loader(tmp_path):
    """Run `narrows kernel` with words; what it loaded is unloaded afterwards."""
    if os.geteuid() != 0 or not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("needs root and BTF")
    if "bbr_gc" in engine.kernel_schemes():
        pytest.skip("needs a kernel without bbr_gc")

    def run(*words):
        return needs_programs(narrows_in(tmp_path, "kernel", *words))

    yield run
    narrows_in(tmp_path, "kernel", "unload", "bbr-gc")
    assert "bbr_gc" not in engine.kernel_schemes() and not PINNED.exists()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bbr-gc", ["rtt=least"]),
        ("bbr-gc", ["rtt_max_window=10"]),
        ("bbr-gc", ["rtt=least", "rtt_max_window=10", "quanta=true", "between=drain"]),
        ("bbr-gc", ["rtt=smoothed", "lt_bw=false", "extra_acked=false", "between=cruise", "early_down=false"]),
        ("bbr-cws", ["lt_bw=false", "extra_acked=false", "drain_rounds=0", "converge=false"]),
        ("bbr", ["lt_bw=false", "extra_acked=false", "probe_rtt_duration=0"]),
        ("bbr3", ["probe_rtt_duration=0", "drain_rounds=0", "startup_losses=0"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_verifier_accepts_other_settings(name, settings, loader):
    """The verifier sees only the code that settings enable: programs load with every choice of such settings."""
    try:
        done = loader("load", name, *(word for setting in settings for word in ("--set", setting)))
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    finally:
        loader("unload", name)


def test_taken_name_is_refused(loader):
    """A load under a taken name exits with status 2 and names the reason; the scheme of that name stays registered."""
    ran(loader("load", "bbr-gc"))
    refused(loader("load", "bbr-gc"), "already: it is loaded; accepted: ")
    foreign = BPF / "narrows-test-elsewhere"
    PINNED.rename(foreign)
    try:
        refused(loader("load", "bbr-gc"), "another program or module has this name")
        assert not PINNED.exists() and "bbr_gc" in engine.kernel_schemes()
    finally:
        foreign.rename(PINNED)


@pytest.mark.long
def test_sigkill_while_loading_leaves_a_usable_kernel(loader):
    """After SIGKILL at any moment of a load the next command cleans up, and loads."""
    loader("status")
    for tenth in range(1, 16):
        process = start_narrows("kernel", "load", "bbr-gc", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(tenth / 10)
        process.kill()
        process.wait()
        if "bbr_gc" not in engine.kernel_schemes():
            ran(loader("load", "bbr-gc"))
        ran(loader("unload", "bbr-gc"))
        assert "bbr_gc" not in engine.kernel_schemes() and not PINNED.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_loading_says_what_stays(number, monkeypatch):
    """A signal during a load or an unload is reported after the step, with the program that is then loaded."""

    def load(*_):
        assert signal.getsignal(number) not in (signal.SIG_DFL, signal.default_int_handler), "it is held back"
        os.kill(os.getpid(), number)
        return "bbr_gc"

    monkeypatch.setattr(hosts, "load_program", load)
    done = call("kernel", "load", "bbr-gc")
    expected = "narrows: stopped; `bbr_gc` is loaded: undo with `narrows kernel unload bbr_gc`\n"
    assert (done.exit_code, done.stderr) == (128 + number, expected)
    monkeypatch.setattr(hosts, "unload_program", lambda name: (load(), 0))
    done = call("kernel", "unload", "bbr-gc")
    assert (done.exit_code, done.stderr) == (128 + number, "narrows: stopped; `bbr_gc` is unloaded\n")


@pytest.mark.attempts
def test_interrupted_load_tells_the_truth(loader):
    """After Ctrl-C at any moment of a load the scheme is registered if and only if the command reported it."""
    loader("status")
    for tenth in range(1, 16, many(5, 1, 1)):
        process = start_narrows("kernel", "load", "bbr-gc", stderr=subprocess.STDOUT)
        time.sleep(tenth / 10)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
        assert process.returncode in (0, 130, -signal.SIGINT), said
        loaded = "bbr_gc" in engine.kernel_schemes()
        assert loaded == ("loaded" in said), (tenth, process.returncode, said)
        if loaded:
            assert loader("unload", "bbr-gc").returncode == 0


def test_status_shows_calls_and_their_time(monkeypatch, capsys):
    """The table shows the number of calls and the time per call, and a dash without calls."""
    row = {
        "name": "bbr_gc", "sockets": 1, "opened": 2, "acks": 3, "calls": 5000, "ns_per_call": 400.0, "ns_per_ack": 250.0,
        "cpu_percent": 0.1, "observed_s": 2.0, "timeouts": 7, "errors": 9, "parameters": [],
    }  # fmt: skip
    monkeypatch.setattr(
        hosts, "program_status", lambda _: [row, row | {"calls": 0, "ns_per_call": None, "ns_per_ack": None}]
    )
    kernel.status(seconds=1.0, as_json=False)
    heads, busy, idle = capsys.readouterr().out.splitlines()
    assert " ".join(heads.split()) == ("name sockets opened acks calls ns/call ns/ack cpu % timeouts errors parameters")
    assert busy.split() == ["bbr_gc", "1", "2", "3", "5000", "400", "250", "0.10", "7", "9", "defaults"]
    assert idle.split()[4:7] == ["0", "–", "–"]


@pytest.mark.parametrize("words", [("load", "bbr-gc"), ("unload", "bbr-gc"), ("status",)])
def test_programs_need_root(words, tmp_path):
    """Without root the commands end with status 2 and one sentence."""
    needs_root()
    done = needs_programs(without_rights_in(tmp_path, "kernel", *words))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith(f"narrows: `narrows kernel {words[0]}` needs root: "), done.stderr


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (("unshare", "-Ur"), "root outside of a user namespace: "),
        (("setpriv", "--bounding-set", "-sys_admin,-bpf"), "root with CAP_SYS_ADMIN, or with CAP_BPF, "),
        (("setpriv", "--bounding-set", "-sys_admin,-net_admin"), "root with CAP_SYS_ADMIN, or with CAP_BPF, "),
    ],
    ids=["user namespace", "container", "no network"],
)
@pytest.mark.parametrize("words", [("kernel", "load", "bbr-gc"), ("brf", "attach"), ("brf", "detach")], ids=" ".join)
def test_root_without_rights_loads_nothing(prefix, expected, words, tmp_path):
    """Root of a user namespace, and root without the right to load programs, get a message about the missing right."""
    confined(prefix)
    done = needs_programs(narrows_in(tmp_path, *words, prefix=prefix))
    start = f"narrows: `narrows {' '.join(words[:2])}` needs {expected}"
    assert (done.returncode, done.stdout, done.stderr.startswith(start)) == (2, "", True), done.stderr


def test_root_of_user_namespace_is_none_on_kernel(tmp_path):
    """Root of a user namespace is refused as a user without root is, before anything is created."""
    confined(("unshare", "-Ur"))
    done = narrows_in(tmp_path, "compare", "bbr", "--on", "kernel", prefix=("unshare", "-Ur"))
    start = "narrows: --on kernel needs root outside of a user namespace: "
    assert (done.returncode, done.stderr.startswith(start)) == (2, True), done.stderr


@pytest.mark.long
def test_qlog_of_the_kernel_is_drawn(tmp_path):
    """A run on the kernel writes a qlog file that is read and drawn, with the window and the RTT of its flow."""
    needs_root()
    done = ran(narrows_in(tmp_path, "compare", "cubic", *BRIEF, "--on", "kernel", "--qlog", "run.sqlog", "--json"))
    ((flow,),) = (row["flows"] for row in json_rows(done))
    loaded = qlog.load([tmp_path / "run.sqlog"])
    (own,) = loaded.flows.iter_rows(named=True)
    assert own["throughput_mbit_s"] == pytest.approx(flow["throughput_mbit_s"], rel=0.25)
    assert {"cwnd_bytes", "rtt_ms"} <= set(loaded.samples["series"].unique())
    ran(narrows_in(tmp_path, "plot", "run.sqlog"))


@pytest.mark.long
def test_schemes_of_hosts_and_of_networks_are_compared(tmp_path):
    """One command runs schemes with and without a network's help on the kernel, each alone, and fills the link."""
    needs_root()
    schemes = ["brf", "nodectl", "bbr3", "cubic"]
    done = narrows_in(tmp_path, "compare", *schemes, "--each", *BRIEF, "--duration", "4s", "--on", "kernel", "--json")
    if "BPF" in done.stderr and done.returncode == 2:
        pytest.skip("needs an installation with BPF")
    rows = json_rows(ran(done))
    assert [row["flows"][0]["scheme"] for row in rows] == schemes
    assert all(row["flows"][0]["goodput_mbit_s"] > 0.6 * 20 for row in rows)
    rates, negotiation = rows[0]["host"]["rates"], rows[1]["host"]["negotiation"]
    assert rates["advised"] > 50 and negotiation is not None, (rates, negotiation)
