"""The command on the built engine, in separate processes."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import polars
import pytest

from narrows import engine

from conftest import BRIEF, BUILT_ENV, ROOT, built, json_rows, python, ran, start_narrows  # isort: skip


def call(*args, cwd=None, status=0):
    done = python("-m", "narrows", *args, cwd=cwd, timeout=300)
    assert done.returncode == status, done.stderr
    return done


COMPARE = ("compare", "bbr", "cubic", "--rate", "100mbit", "--rtt", "40ms", "--buffer", "4bdp", "--duration", "5s")


def test_run_json_fixed_fields_hold_numbers():
    """A run prints the documented fields, and its numbers are plausible."""
    (row,) = json_rows(call(*COMPARE, "--json"))
    assert tuple(row)[: len(engine.RUN_FIELDS)] == engine.RUN_FIELDS
    assert [flow["scheme"] for flow in row["flows"]] == ["bbr", "cubic"]
    assert sum(flow["goodput_mbit_s"] for flow in row["flows"]) == pytest.approx(100 * 1448 / 1500, rel=0.05)
    assert 0.9 < row["links"][0]["utilization"] <= 1
    assert row["flows"][0]["rtt_min_ms"] >= 40
    assert row["warmup_s"] == 0.5


@pytest.mark.slow
def test_engine_reads_only_bounded_files_of_the_folder(tmp_path):
    """A trace outside of the folder, not a regular file, endless, too large or not text is refused by name."""
    folder = tmp_path / "mine"
    folder.mkdir()
    trace = "".join(f"{ms}\n" for ms in range(1, 101))
    (tmp_path / "outside").write_text(trace)
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "inside").write_text(trace)
    (folder / "binary").write_bytes(b"\xff\xfe")
    os.mkfifo(folder / "pipe")
    with (folder / "large").open("wb") as file:
        file.truncate(65 << 20)

    def runs(name, *options, status=2):
        path = f'capacity_trace = "{name}"'
        text = f'duration = "1s"\n[network]\n{path}\nbuffer = "50pkt"\n[[flows]]\nrtt = "20ms"\nscheme = "cubic"\n'
        (folder / "s.toml").write_text(text)
        return call("run", folder / "s.toml", *options, status=status).stderr

    out = "lies outside the scenario's folder; --allow-outside permits that"
    refused = {
        "../outside": out,
        str(tmp_path / "outside"): out,
        "link": out,
        "pipe": "not a regular file",
        "large": "more than 64 MiB",
        "binary": "invalid utf-8",
        "absent": "No such file",
    }
    for name, reason in refused.items():
        message = runs(name)
        assert reason in message and Path(name).name in message, (name, message)
        assert "Traceback" not in message
    for device in ("/dev/zero", "/proc/self/mem"):
        assert Path(device).name in runs(device, "--allow-outside")
    for name in ("../outside", "link"):
        runs(name, "--allow-outside", status=0)
    runs("inside", status=0)


@pytest.mark.slow
def test_datagrams_and_subflows_reach_parquet(tmp_path):
    """Fields of datagrams and multipath connections reach the Parquet files unchanged."""
    flow = '[[flows]]\nrtt = "20ms"\nscheme = "newreno"\n'
    call_of = 'label = "call"\nprotocol = "dccp"\napp = { kind = "cbr", rate = "1mbit" }\n'
    text = f'duration = "3s"\n[network]\nrate = "10mbit"\n{flow}{call_of}{flow}label = "D"\nsubflows = 2\n'
    (tmp_path / "mixed.toml").write_text(text)
    (row,) = json_rows(call("run", "mixed.toml", "--json", "-o", "kept", cwd=tmp_path))
    datagrams, joined = row["flows"][0]["datagrams"], row["connections"]
    flows = polars.read_parquet(tmp_path / "kept" / "flows.parquet")
    kept = {key.removeprefix("datagrams."): value for key, value in flows.to_dicts()[0].items() if "datagrams." in key}
    assert kept == datagrams and datagrams["delivered"] > 50
    assert flows["label"].to_list() == ["call", "D/1", "D/2"]
    assert flows["connection"].to_list() == [None, "D", "D"]
    (connection,) = polars.read_parquet(tmp_path / "kept" / "connections.parquet").to_dicts()
    assert joined == [{key: connection[key] for key in engine.CONNECTION_FIELDS}]


UNSERVED = "{0} finds no router `{0}` on its path"
"""The engine's diagnostic of a scheme whose router algorithm is missing."""


@pytest.mark.slow
def test_missing_router_warned_once(tmp_path):
    """A scheme without its router algorithm gives one warning, with all its lines in a file."""
    done = call("compare", *BRIEF, "rcp", "brf", "--duration", "1s", "--repeat", 2, "--loss", "0%,1%", "--json")
    assert len(json_rows(done)) == 4
    warning = f"narrows: warning: {UNSERVED.format('brf')} and sends as CUBIC does"
    assert [line for line in done.stderr.splitlines() if "warning" in line] == [warning]
    assert "warning" not in call("compare", *BRIEF, "rcp", "brf", "--each", "--duration", "1s").stderr
    flow = '[[flows]]\nscheme = "nodectl"\nrtt = "20ms"\n'
    network = f'duration = "1s"\n[network]\nrate = "10mbit"\n{engine.ROUTER} = "none"\n'
    (tmp_path / "none.toml").write_text(network + 2 * flow)
    done = call("run", "none.toml", cwd=tmp_path)
    assert f"narrows: warning: none.toml:6,9: {UNSERVED.format('nodectl')}" in done.stderr


def test_diagnostic_becomes_python_warning():
    """A diagnostic is a warning in Python."""
    read = "import narrows; narrows.compare('rcp', 'brf', duration='1s')"
    done = python("-c", read, check=True)
    assert done.stderr.count(f"UserWarning: {UNSERVED.format('brf')} and sends as CUBIC does") == 1


@pytest.mark.slow
def test_learn_needs_existing_folder(tmp_path):
    """`--learn` rejects a missing folder without creating it; otherwise it writes one string per link."""
    network = 'duration = "1s"\n[network]\nrate = "10mbit"\n'
    (tmp_path / "brf.toml").write_text(network + '[[flows]]\nscheme = "brf"\nrtt = "20ms"\n')
    done = call("run", "brf.toml", "--learn", "new/learned.json", cwd=tmp_path, status=2)
    assert "--learn: there is no folder new" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["brf.toml"]
    call("run", "brf.toml", "--learn", "learned.json", cwd=tmp_path)
    assert json.loads((tmp_path / "learned.json").read_text()).keys() == {"bottleneck"}


@pytest.mark.slow
def test_table_fits_80_columns():
    """The table of a comparison fits 80 columns and states the warm-up."""
    done = call(*COMPARE, "--repeat", 2, "--set", "network.buffer=1bdp,4bdp")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "the first 0.5 s are left out of the means" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_threads_do_not_change_bytes(tmp_path):
    """One thread and several threads give the same results and the same bytes of traces; seeds give different ones."""
    found = []
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        call(*COMPARE, "--repeat", 3, "--loss", "0.1%", "--trace", "100ms", "--packets", "--jobs", jobs, "-o", out)
        traces = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("traces/*/*.parquet")}
        results = [{**json.loads(line), "wall_s": 0} for line in (out / "results.jsonl").read_text().splitlines()]
        found.append((traces, results))
    assert len(found[0][0]) == 6
    assert found[0] == found[1]
    assert len({row["event_hash"] for row in found[0][1]}) == 3, "seeds differ"


SCENARIO = """
duration = "5s"
[network]
rate = "10mbit"
buffer = "1bdp"
[[flows]]
scheme = "bbr"
rtt = "40ms"
"""
GRAPH = """
duration = "5s"
[[links]]
from = "a"
to = "b"
rate = "10mbit"
delay = "5ms"
[[flows]]
scheme = "bbr"
from = "a"
to = "c"
"""


@pytest.mark.parametrize(
    ("text", "line", "named"),
    [
        (SCENARIO.replace("buffer", "bufer"), 5, ["bufer", "buffer"]),
        (SCENARIO.replace('"10mbit"', "10"), 4, ["network.rate", "mbit"]),
        (SCENARIO.replace('"40ms"', '"40"'), 8, ["rtt", "ms"]),
        (SCENARIO.replace('"10mbit"', '"-10mbit"'), 4, ["network.rate", "-10mbit"]),
        (SCENARIO.replace('"10mbit"', '"0mbit"'), 4, ["network.rate"]),
        (SCENARIO.replace('"1bdp"', '"0pkt"'), 5, ["network.buffer"]),
        (SCENARIO.replace('"bbr"', '"bbx"'), 7, ["bbx", "bbr"]),
        (GRAPH, None, ["c"]),
        (SCENARIO.replace('rate = "10mbit"', 'capacity_trace = "empty.trace"'), None, ["empty.trace"]),
        (SCENARIO.replace('rate = "10mbit"', 'capacity_trace = "unsorted.trace"'), None, ["unsorted.trace"]),
        (SCENARIO.replace('rate = "10mbit"', 'capacity_trace = "missing.trace"'), None, ["missing.trace"]),
        ("[network\n", 1, ["TOML"]),
    ],
    ids=["unknown key", "missing unit", "time without unit", "negative rate", "zero capacity", "zero buffer",
         "unknown scheme", "unreachable node", "empty trace", "unsorted trace", "missing trace", "not TOML"],
)  # fmt: skip
def test_invalid_file_names_file_and_line(text, line, named, tmp_path):
    """An invalid scenario gives one screen that names the file, the line and the key, and writes nothing."""
    (tmp_path / "empty.trace").write_text("")
    (tmp_path / "unsorted.trace").write_text("5\n3\n")
    (tmp_path / "s.toml").write_text(text)
    done = call("run", "s.toml", "-o", "out", cwd=tmp_path, status=2)
    assert done.stdout == ""
    assert ("s.toml" if line is None else f"s.toml:{line}") in done.stderr
    for part in named:
        assert part in done.stderr
    assert len(done.stderr.splitlines()) <= 24
    assert not (tmp_path / "out").exists(), "nothing is half-written"


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--rate", "-5mbit"], "--rate"), (["--rate", "5"], "--rate"), (["--buffer", "0"], "--buffer"),
        (["--rtt", "40"], "--rtt"), (["--loss", "200%"], "--loss"), (["--queue", "nosuch"], "--queue"),
        (["--duration", "0s"], "--duration"), (["--set", "network.bufer=1bdp"], "--set network.bufer"),
    ],
)  # fmt: skip
def test_invalid_option_is_named(args, named):
    """An invalid value names its option."""
    done = call("compare", *BRIEF, "bbr", *args, status=2)
    assert f"narrows: {named}" in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_ctrl_c_stops_long_run(tmp_path):
    """Ctrl-C stops a long run with status 130 and prints no result."""
    process = start_narrows("compare", "cubic", "--rate", "10gbit", "--duration", "10000s", "-o", tmp_path / "out")
    end = time.monotonic() + 20
    while not (tmp_path / "out" / ".lock").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert stdout == ""
    assert "stopped after 0 of 1 runs" in stderr


@pytest.mark.long
def test_halved_gain_changes_claims(tmp_path):
    """Halving a gain in Nodectl's table 3 changes the claims about that scheme, and no others."""
    params = json.loads(call("schemes", "bbr", "--json").stdout)["params"]
    gain = next(param for param in params if "gain" in param["name"] and param["kind"] == "number")
    papers = tmp_path / "papers"
    shutil.copytree(ROOT / "papers" / "nodectl", papers / "nodectl")
    scenario = papers / "nodectl" / "tab3.toml"
    reproduce = ("reproduce", "nodectl", "tab3", "--quick", "--papers", papers, "--json")
    before = {row["id"]: row["ours"] for row in json_rows(call(*reproduce, "-o", tmp_path / "before"))}
    text = scenario.read_text()
    halved = max(gain["min"], gain["default"] / 2)
    assert halved < gain["default"]
    scenario.write_text(text.replace('"bbr"', f'"bbr:{gain["name"]}={halved}"'))
    after = {row["id"]: row["ours"] for row in json_rows(call(*reproduce, "-o", tmp_path / "after"))}
    ours = [key for key in before if key.startswith("bbr-")]
    assert ours
    assert any(before[key] != after[key] for key in ours if key[4].isdigit())
    assert all(before[key] == after[key] for key in before if key.startswith("newreno-"))


def test_sources_of_schemes_follow_what_they_use():
    """The built engine has a fingerprint of every scheme's sources; no two schemes have the same fingerprint."""
    rows = built("dict(sources=engine._sources(), names=[row.name for row in engine.schemes()])")
    assert set(rows["sources"]["backends"]) == {"sim", "kernel", "quic"}
    assert set(rows["names"]) == set(rows["sources"]["schemes"])
    assert len(set(rows["sources"]["schemes"].values())) == len(rows["names"])


@pytest.mark.slow
def test_stubs_match_engine(tmp_path):
    """The stub file declares every function and class of the compiled module, with their arguments."""
    (tmp_path / "allowed").write_text("narrows._engine.__all__\n")
    options = ["--concise", "--allowlist", tmp_path / "allowed"]
    env = {**BUILT_ENV, "MYPYPATH": str(ROOT / "python")}
    ran(python("-m", "mypy.stubtest", *options, "narrows._engine", cwd=ROOT, env=env))


TWO = ROOT / "scenarios" / "two-rtts.toml"


@pytest.mark.parametrize(
    ("args", "set_to"),
    [
        (("compare", "bbr:cwnd_gain=1.5,lt_bw=off", "cubic"), ["cwnd_gain=1.5,lt_bw=off", ""]),
        (("compare", "bbr", "cubic", "--set", "flows.0.params.cwnd_gain=1.5"), ["cwnd_gain=1.5", ""]),
        (
            ("compare", "bbr", "bbr", "--set", "flows.scheme=bbr:cwnd_gain=1.5,lt_bw=off"),
            ["cwnd_gain=1.5,lt_bw=off"] * 2,
        ),
        (("run", TWO, "--set", "network.buffer=1bdp", "--scheme", "bbr:cwnd_gain=1.5"), ["cwnd_gain=1.5"] * 2),
    ],
)
def test_scheme_parameters_accepted_everywhere(args, set_to):
    """A scheme takes parameters as an argument, by `--set`, and by `--scheme`."""
    row = json_rows(call(*args, "--duration", "2s", "--repeat", 1, "--json"))[0]
    assert [flow["params"] for flow in row["flows"]] == set_to


@pytest.mark.parametrize(
    "args",
    [
        ("--set", "flows.params.cwnd_gain=1.5,2.5"),
        ("--scheme", "bbr:cwnd_gain=1.5,bbr:cwnd_gain=2.5"),
        ("--set", "flows.scheme=bbr:cwnd_gain=1.5,bbr:cwnd_gain=2.5"),
    ],
)
def test_parameter_swept_by_options(args):
    """`--set` and `--scheme` sweep a parameter, and its values change the events."""
    given = ("--set", "network.buffer=1bdp", "--duration", "2s", "--repeat", 1)
    if args[0] == "--set" and "params" in args[1]:
        given = (*given, "--scheme", "bbr")
    found = json_rows(call("sweep", TWO, *args, *given, "--json"))
    assert [row["flows"][1]["params"] for row in found] == ["cwnd_gain=1.5", "cwnd_gain=2.5"]
    assert found[0]["event_hash"] != found[1]["event_hash"]


def test_parameter_swept_in_file(tmp_path):
    """`[sweep]` sweeps a parameter."""
    file = tmp_path / "sweep.toml"
    file.write_text(
        'duration = "2s"\n[network]\nrate = "10mbit"\n[[flows]]\nscheme = "bbr"\nrtt = "40ms"\n'
        '[sweep]\n"flows.params.cwnd_gain" = [1.5, 2]\n'
    )
    assert [row["flows"][0]["params"] for row in json_rows(call("run", file, "--json"))] == ["cwnd_gain=1.5", ""]


@pytest.mark.parametrize(
    ("args", "said", "accepted"),
    [
        (("compare", "bbr:cwn_gain=2"), "SCHEME: `bbr` has no parameter `cwn_gain`; did you mean `cwnd_gain`?",
         "cwnd_gain (1 to 10)"),
        (("run", TWO, "--scheme", "bbr:bw_window=0"), "--scheme: `bw_window` = 0 is out of range",
         "bw_window (a whole number from 1 to 1000000 rounds)"),
        (("run", TWO, "--scheme", "bbr", "--set", "flows.params.pacing_margin=70"),
         "--set flows.params.pacing_margin: `pacing_margin` = 70 is out of range", "pacing_margin (0 to 50 %)"),
        (("run", TWO, "--scheme", "bbr:lt_bw=2"), "--scheme: `2` is not a value of `lt_bw`", "lt_bw (on or off)"),
        (("run", TWO, "--scheme", "cubik"), "--scheme: there is no scheme `cubik`; did you mean `cubic`?", "bbr, "),
        (("run", TWO, "--scheme", "bbr:cwnd_gain"), "--scheme: `cwnd_gain` does not set a parameter",
         "bbr:parameter=value"),
    ],
)  # fmt: skip
def test_invalid_parameter_names_accepted(args, said, accepted):
    """An invalid parameter names its option and the accepted names or values."""
    done = call(*args, status=2)
    assert said in done.stderr
    assert accepted in done.stderr.partition("accepted: ")[2]


@pytest.mark.slow
def test_schemes_fit_80_columns_with_ranges():
    """The list of schemes fits 80 columns, and a page shows parameters with range and unit."""
    assert max(map(len, call("schemes").stdout.splitlines())) <= 80
    page = call("schemes", "bbr").stdout
    row = next(line.split() for line in page.splitlines() if line.strip().startswith("probe_rtt_duration "))
    assert row[:7] == ["probe_rtt_duration", "200", "ms", "0", "…", "100000", "ms"]


def test_python_set_accepts_tables():
    """`set` takes a dictionary for a table, alone or in a list that sweeps."""
    code = """
import narrows
codel = {"kind": "codel", "target": "1ms"}
one = narrows.compare("cubic", duration="10s", set={"network.queue": codel})
two = narrows.compare("cubic", duration="10s", set={"network.queue": ["codel", codel]})
delays = two.links["queue_delay_mean_ms"].to_list()
print(two.keys, len(two), one.links["queue_delay_mean_ms"][0] == delays[1], delays[0] > delays[1])
"""
    done = python("-c", code)
    assert done.stdout.split("]")[-1].split() == ["2", "True", "True"], done.stderr


def test_compare_ecn_makes_queue_mark():
    """`--ecn` negotiates ECN, and the queue of `--queue` marks instead of dropping."""
    done = call(
        "compare", *BRIEF, "cubic", "--ecn", "--queue", "codel", "--buffer", "20bdp", "--duration", "3s", "--json"
    )
    (link,) = json_rows(done)[0]["links"]
    assert link["marks"] > 0
    assert link["drops"] == 0


@pytest.mark.slow
def test_report_of_comparison_without_grid(tmp_path):
    """A report works for a comparison without a grid, whose plots have the same column as series and axis."""
    call("compare", *BRIEF, "bbr", "cubic", "--duration", "2s", "-o", tmp_path / "out")
    call("report", tmp_path / "out")
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
