"""Saving, reusing, stopping and resuming runs; their tables."""

import dataclasses
import fcntl
import json
import os
import signal
import sys
import time

import polars as pl
import pytest

import narrows
from fake_executor import ENGINE
from narrows import checksums, engine, files, progress, runner
from narrows.runner import Runner

from conftest import python  # isort: skip

TEXT = '[network]\nrate = "1mbit"\n[[flows]]\nrtt = "40ms"\nscheme = "bbr"\n[sweep]\n"network.buffer" = ["1bdp", "2bdp", "3bdp"]\n'


ONE = (("network.buffer", "1bdp"),)


@pytest.fixture
def planned():
    return engine.plan(TEXT, "text", None, [("repeat", "2")])


def runs(out):
    return sorted(path.name for path in (out / "runs").iterdir())


def test_results_keep_plan_order(planned, monkeypatch):
    """Results come in the order of the plan, regardless of the order of finishing."""

    def later_first(item, traces, handle, stop):
        time.sleep(0.05 * (planned[-1].id != item.id))
        return engine.run(item, traces, handle)

    reported = []

    class Listener(progress.Silent):
        def result(self, item, result):
            reported.append(item.id)

    done = Runner(jobs=6, execute=later_first, listener=Listener()).run(planned)
    assert [result["id"] for result in done] == [item.id for item in planned] == reported


def test_finished_runs_are_reused(planned, tmp_path, executed):
    """Finished runs are reused, and only the others are executed."""
    Runner(out=tmp_path).run(planned[:4])
    before = len(executed)
    done = Runner(out=tmp_path).run(planned)
    assert len(executed) - before == 2
    assert [result["id"] for result in done] == [item.id for item in planned]
    assert all("build" not in result for result in done)


@pytest.mark.parametrize(
    ("changed", "repeated"), [("cubic", {"cubic", "bbr cubic"}), ("sim", {"bbr", "cubic", "bbr cubic"}), ("", set())]
)
def test_changed_scheme_repeats_its_own_runs_only(changed, repeated, tmp_path, monkeypatch):
    """A run depends on the sources of its schemes; all runs depend on the sources of the simulator."""
    head = '[network]\nrate = "1mbit"\n'
    texts = {
        names: head + "".join(f'[[flows]]\nrtt = "40ms"\nscheme = "{name}"\n' for name in names.split())
        for names in ("bbr", "cubic", "bbr cubic")
    }
    planned = {names: engine.plan(text, "text", None, []) for names, text in texts.items()}
    every = [item for items in planned.values() for item in items]
    Runner(out=tmp_path).run(every)
    sources = ENGINE.sources()
    if changed == "sim":
        sources["backends"]["sim"] = "new"
    elif changed:
        sources["schemes"][changed] = "new"
    monkeypatch.setattr(engine, "_sources", lambda: sources)
    executed = set()

    def execute(item, traces, handle, stop):
        executed.add(item.id)
        return engine.run(item, traces, handle)

    Runner(out=tmp_path, execute=execute).run(every)
    assert executed == {item.id for names in repeated for item in planned[names]}


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace('"version": "0.1.0"', '"version": "0.0.9"'),
        lambda text: text.replace('"build": "', '"build": "other'),
        lambda text: text.replace('"flows"', '"flow"'),
        lambda text: text.replace('"goodput_mbit_s": 0', '"goodput_mbit_s": 1'),
    ],
    ids=["cut", "empty", "not a result", "other version", "other build", "field missing", "changed digit"],
)
def test_damaged_or_foreign_run_is_repeated(planned, tmp_path, damage):
    """A damaged run, and one of another version or build, is executed again."""
    Runner(out=tmp_path).run(planned[:1])
    path = tmp_path / "runs" / f"{planned[0].id}.json"
    whole = path.read_text()
    path.write_text(damage(whole))
    assert path.read_text() != whole
    Runner(out=tmp_path).run(planned[:1])
    again, before = ({**json.loads(text), "wall_s": 0, "checksum": ""} for text in (path.read_text(), whole))
    assert again == before


def test_run_is_repeated_for_missing_trace(tmp_path, executed):
    """A run without a trace is executed again if a trace is requested."""
    (traced,) = engine.plan(TEXT, "text", None, [*ONE, ("trace.samples", "1s")], trace=True)
    Runner(out=tmp_path).run([dataclasses.replace(traced, trace=False)])
    Runner(out=tmp_path).run([traced])
    assert (tmp_path / "traces" / traced.id / "samples.parquet").is_file()
    before = len(executed)
    Runner(out=tmp_path).run([traced])
    assert len(executed) == before


def test_partial_files_are_removed(planned, tmp_path):
    """Partial files of a killed process are removed."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / f".{planned[0].id}.json.77.88").write_text("{")
    (tmp_path / "traces" / ".abc.77").mkdir(parents=True)
    (tmp_path / "traces" / ".abc.77" / "samples.arrow").write_text("x")
    Runner(out=tmp_path).run(planned[:1])
    assert runs(tmp_path) == [f"{planned[0].id}.json"]
    assert list((tmp_path / "traces").iterdir()) == []


def test_folder_accepts_one_process(planned, tmp_path):
    """A second process cannot write to the same folder."""
    with (tmp_path / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="another narrows"):
            Runner(out=tmp_path).run(planned)


def test_trace_holds_all_batches(tmp_path):
    """A Parquet trace holds all batches of the engine, and no Arrow file remains."""
    results = narrows.run(TEXT, set={"network.buffer": "1bdp"}, trace="10ms", out=tmp_path)
    samples = results.samples
    assert samples.height > 100_000, "several batches"
    assert (samples["time_s"].min(), samples["time_s"].max()) == (pytest.approx(0, abs=0.1), pytest.approx(60, abs=0.1))
    states = samples.filter(pl.col("series") == "state")["text"].unique().sort().to_list()
    assert {"startup", "probe_rtt"} < set(states)
    assert not list(tmp_path.rglob("*.arrow"))


def test_failed_write_leaves_nothing(tmp_path, monkeypatch):
    """A failed write leaves no file."""

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        files.write_atomic(tmp_path / "a.json", "text")
    assert list(tmp_path.iterdir()) == []


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


SWEEP = ["compare", "bbr", "--set", "network.buffer=1bdp,2bdp,3bdp,4bdp,5bdp,6bdp", "--jobs", "2", "-o", "out"]


INTERRUPTED_IMPORT = """
import sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "narrows.api":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
sys.argv[0] = sys.argv[1]
import narrows
"""


@pytest.mark.parametrize(("started", "status", "quiet"), [("/usr/bin/narrows", 130, True), ("notebook.py", -2, False)])
def test_ctrl_c_while_the_package_loads(started, status, quiet):
    """Ctrl-C ends the command quietly even while the package loads; other programs get the interrupt."""
    done = python("-c", INTERRUPTED_IMPORT, started)
    assert (done.returncode, done.stderr == "") == (status, quiet), done.stderr


@pytest.mark.slow
def test_ctrl_c_keeps_runs_and_command_resumes(command, tmp_path):
    """Ctrl-C keeps finished runs, and the same command executes the others."""
    process = command(*SWEEP, env={"FAKE_RUN_S": "0.4"})
    out = tmp_path / "out"
    wait_for(lambda: (out / "runs").is_dir() and len(list((out / "runs").glob("*.json"))) >= 2)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stdout == ""
    kept = len(runs(out))
    assert 2 <= kept < 6
    assert f"stopped after {kept} of 6 runs; out keeps them, and the same command executes the others" in stderr
    assert "Traceback" not in stderr
    assert not (out / "results.jsonl").exists()
    process = command(*SWEEP)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0
    assert f"reused {kept} of 6 runs" in stderr
    assert len((out / "results.jsonl").read_text().splitlines()) == 6


@pytest.mark.slow
def test_kill_leaves_whole_runs_only(command, tmp_path):
    """A killed process leaves only whole runs, and the same command resumes."""
    process = command(*SWEEP, "--trace", env={"FAKE_RUN_S": "0.3"})
    out = tmp_path / "out"
    wait_for(lambda: (out / "runs").is_dir() and len(list((out / "runs").glob("*.json"))) >= 2)
    process.kill()
    process.communicate(timeout=60)
    for path in (out / "runs").glob("*.json"):
        assert checksums.read_run(path) is not None
        assert (out / "traces" / path.stem / "samples.parquet").is_file()
    process = command(*SWEEP, "--trace")
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 0, stderr
    assert "reused" in stderr
    assert all(not path.name.startswith(".") for path in (out / "traces").iterdir())


def test_results_without_flows_have_table(planned):
    """Results without flows have a table."""
    result = engine.run(planned[0], None, None)
    results = narrows.Results([planned[0].point], [result | {"flows": []}])
    assert results.flows.height == 0
    assert "bottleneck" in repr(results)


def test_datagram_and_connection_columns_are_typed(planned, tmp_path):
    """Fields of datagrams and multipath connections are columns of whole numbers or floats, null elsewhere."""
    result = engine.run(planned[0], None, None)
    plain = result["flows"][0] | {"label": "D/9", "bytes_delivered": 5}
    datagrams = plain | {"label": "call", "datagrams": {"delivered": 7, "unsent": 0, "delay_mean_ms": None}}
    subflows = [plain | {"label": f"D/{number}"} for number in (1, 2)]
    row = dict.fromkeys(engine.CONNECTION_FIELDS, 3) | {"connection": "D", "scheme": "x", "subflows": 2}
    mixed = result | {"flows": [plain, datagrams, *subflows], "connections": [row]}
    results = narrows.Results([planned[0].point], [mixed])
    results.save(tmp_path)
    flows = pl.read_parquet(tmp_path / "flows.parquet")
    assert flows["connection"].to_list() == [None, None, "D", "D"], "a label alone makes no subflow"
    assert flows["datagrams.delivered"].to_list() == [None, 7, None, None]
    assert flows["datagrams.delay_mean_ms"].dtype == pl.Float64
    assert pl.read_parquet(tmp_path / "connections.parquet").equals(results.connections)
    whole = ("subflows", *engine.CONNECTION_COUNTS)
    assert {results.connections.schema[name] for name in whole} == {pl.Int64}
    assert {flows.schema[name] for name in ("datagrams.delivered", "datagrams.unsent", "bytes_delivered")} == {pl.Int64}


def test_tables_show_subflows_and_connections(planned):
    """Tables name subflows and show the goodput of their connection.

    Many subflows are grouped, and a lone connection has no fair share.
    """
    result = engine.run(planned[0], None, None)
    plain = result["flows"][0] | {"label": "rival", "goodput_mbit_s": 7.0}

    def shown(names):
        subflows = [plain | {"label": f"{name}/{n}", "goodput_mbit_s": 2.5 * n} for name in names for n in (1, 2)]
        row = dict.fromkeys(engine.CONNECTION_FIELDS, 3) | {"scheme": "x", "subflows": 2, "goodput_mbit_s": 7.25}
        rows = [row | {"connection": name, "completion_s": None} for name in names]
        mixed = result | {"flows": [*subflows, plain], "connections": rows, "convergence_s": None}
        found = narrows.Results([planned[0].point], [mixed])
        return [line.split() for line in repr(found).splitlines()]

    lines = shown(["D"])
    assert [line[:1] + line[3:4] for line in lines if line[:1] in (["D/1"], ["D/2"], ["rival"])] == [
        ["D/1", "2.50"], ["D/2", "5.00"], ["rival", "7.00"],
    ]  # fmt: skip
    assert ["D", "x", "2", "7.25"] in lines
    assert "Fair shares did not last five seconds." in " ".join(word for line in lines for word in line)
    # Many flows: one row for the subflows, one for the single flow.
    lines = shown([f"D-{n}" for n in range(13)])
    scheme = plain["scheme"]
    counts = [line[2:4] for line in lines if line[:1] == [scheme]]
    assert counts == [["26", "3.75"], ["1", "7.00"]]
    assert ["x", "2", "13", "7.25"] in lines
    # A lone connection has no competitor.
    alone = result | {
        "flows": [plain | {"label": "D/1"}, plain | {"label": "D/2"}],
        "connections": [dict.fromkeys(engine.CONNECTION_FIELDS, 3) | {"connection": "D", "scheme": "x", "subflows": 2}],
        "convergence_s": None,
    }
    assert "Fair" not in repr(narrows.Results([planned[0].point], [alone]))


def test_progress_bar_needs_terminal_and_delay(monkeypatch):
    """The progress bar appears only on a terminal, and only after a delay."""
    for bar, after, appears in ((True, 0, True), (True, 1000, False), (False, 0, False)):
        monkeypatch.setattr(progress, "PROGRESS_AFTER_S", after)
        terminal = progress.Terminal(lambda text: None, bar, None)
        terminal.progress(0.5, 1, 2)
        assert terminal.bar_visible == appears
        terminal.close()
        assert not terminal.bar_visible


def test_ray_missing_names_package(command, tmp_path):
    """`--ray` without the package names it."""
    (tmp_path / "s.toml").write_text(TEXT)
    process = command("sweep", "s.toml", "--ray", "auto")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "narrows[ray]" in stderr


def test_ray_runs_remotely_and_saves_locally(planned, tmp_path, monkeypatch):
    """Runs execute on Ray (here a stand-in that executes tasks immediately), and their results are saved locally."""
    started = []

    class Task:
        def __init__(self, function):
            self.function = function

        def remote(self, *args):
            started.append(args)
            return self.function(*args)

    class Ray:
        init = staticmethod(lambda **options: started.append(options))
        remote = Task
        wait = staticmethod(lambda references, timeout: (references, []))
        get = staticmethod(lambda reference: reference)

    monkeypatch.setitem(sys.modules, "ray", Ray)
    done = Runner(out=tmp_path, execute=runner.ray_executor("ray://head:10001")).run(planned)
    assert started[0] == {"address": "ray://head:10001", "log_to_driver": False}
    assert len(started) == 1 + len(planned)
    assert [result["id"] for result in done] == [item.id for item in planned]
    assert len(runs(tmp_path)) == len(planned)
