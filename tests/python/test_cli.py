"""The command: output, messages and exit statuses."""

import json
import re

import pytest
import typer.main

import fake_executor
from narrows import api, engine
from narrows.cli import app
from narrows.cli.options import spelled_out

from conftest import BRIEF, call, json_rows, ran, refused  # isort: skip

SCENARIO = """
name = "two flows"
duration = "10s"
[network]
rate = "1mbit"
buffer = "1bdp"
[[flows]]
scheme = "bbr"
rtt = "10ms"
[[flows]]
scheme = "cubic"
rtt = "50ms"
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(SCENARIO)
    return path


def test_compare_json_fixed_fields_first():
    """`--json` prints one object per run, with the documented fields first."""
    result = ran(call("compare", *BRIEF, "bbr", "cubic", "--repeat", 3, "--json"))
    printed = json_rows(result)
    assert [row["seed"] for row in printed] == [1, 2, 3]
    for row in printed:
        assert tuple(row)[: len(engine.RUN_FIELDS)] == engine.RUN_FIELDS
        assert tuple(row["flows"][0])[: len(engine.FLOW_FIELDS)] == engine.FLOW_FIELDS
        assert tuple(row["links"][0])[: len(engine.LINK_FIELDS)] == engine.LINK_FIELDS
        assert row["convergence_s"] is None


def test_json_output_pure_with_reused_runs(tmp_path):
    """Standard output is JSON only, even if results are saved and reused."""
    for _ in range(2):
        result = call("compare", *BRIEF, "bbr", "--json", "-o", tmp_path / "out")
        assert len(json_rows(result)) == 1
    assert "reused 1 of 1 runs" in result.stderr


def test_compare_each_runs_schemes_alone():
    """Schemes compete by default; with `--each` every scheme runs alone with all the flows."""
    together = json_rows(call("compare", *BRIEF, "bbr", "cubic", "--rtt", "10ms,50ms", "--json"))
    assert [[(f["scheme"], f["rtt_base_ms"]) for f in r["flows"]] for r in together] == [[("bbr", 10), ("cubic", 50)]]
    alone = json_rows(call("compare", *BRIEF, "--each", "bbr", "cubic", "--rtt", "10ms,50ms", "--json"))
    assert [[(f["scheme"], f["rtt_base_ms"]) for f in r["flows"]] for r in alone] == [
        [("bbr", 10), ("bbr", 50)],
        [("cubic", 10), ("cubic", 50)],
    ]


def test_compare_repeated_scheme_gives_several_flows():
    """A scheme named several times gives several flows, and `--count` multiplies flows."""
    printed = json_rows(call("compare", *BRIEF, "newreno", "newreno", "bbr", "--count", 2, "--json"))
    assert [f["scheme"] for f in printed[0]["flows"]] == ["newreno"] * 4 + ["bbr"] * 2


def test_set_with_commas_sweeps(scenario):
    """Several values of `--set` make a grid."""
    printed = json_rows(call("sweep", scenario, "--set", "network.buffer=1bdp,4bdp", "--repeat", 2, "--json"))
    assert [(r["point"]["network.buffer"], r["seed"]) for r in printed] == [
        ("1bdp", 1), ("1bdp", 2), ("4bdp", 1), ("4bdp", 2),
    ]  # fmt: skip


def test_options_replace_values_of_the_file(scenario):
    """Options replace the values of the scenario file."""
    printed = json_rows(call("run", scenario, "--duration", "20s", "--seed", 7, "--json"))
    assert (printed[0]["duration_s"], printed[0]["seed"]) == (20, 7)


def test_scheme_option_replaces_or_sweeps_schemes(scenario):
    """`--scheme` replaces the scheme of all flows, and several schemes sweep."""
    (one,) = json_rows(call("run", scenario, "--scheme", "newreno", "--json"))
    assert [flow["scheme"] for flow in one["flows"]] == ["newreno", "newreno"]
    two = json_rows(call("sweep", scenario, "--scheme", "newreno,bbr", "--json"))
    assert [row["point"] for row in two] == [{"flows.scheme": "newreno"}, {"flows.scheme": "bbr"}]


@pytest.mark.parametrize("args", [["--scheme", "nosuch"], ["--scheme", "bbr", "--set", "flows.scheme=cubic"]])
def test_scheme_option_error_names_option(scenario, args):
    """An error in a value of `--scheme` names that option and the accepted values."""
    refused(call("run", scenario, *args), "narrows: --scheme", "accepted: ")


def test_tables_separate_parameters_of_a_scheme():
    """Tables have a row for each set of parameters of a scheme; they do not average them."""
    together = call("compare", *BRIEF, "bbr:cwnd_gain=1.5", "bbr").stdout
    assert "bbr:cwnd_gain=1.5 " in together
    assert "  bbr " in together
    alone = call("compare", *BRIEF, "--each", "bbr:cwnd_gain=1.5", "bbr").stdout.partition("used")[0]
    assert sum(line.startswith(" bbr") for line in alone.splitlines()) == 2, "not averaged"


def test_schemes_unknown_name_suggests_nearest():
    """The error for an unknown scheme suggests the nearest name."""
    refused(call("schemes", "cubik"), "there is no scheme 'cubik'; did you mean 'cubic'?")


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["compare", "bbr", "cubic", "nosuch"], ["SCHEME: there is no scheme", "nosuch", "accepted: bbr, cubic"]),
        (["compare", "bbr", "--rate", "-5mbit"], ["--rate", "accepted"]),
        (["compare", "bbr", "--rtt", "40"], ["--rtt: `40` has no unit", "accepted"]),
        (["compare", "bbr", "--set", "network.rate=-1mbit"], ["--set network.rate: `-1mbit` is negative"]),
        (["compare", "bbr", "cubic", "--rtt", "1ms,2ms,3ms"], ["--rtt", "3 values for 2 flows"]),
        (["compare", "bbr", "--rtt", "1ms,"], ["--rtt: '1ms,'", "accepted"]),
        (["compare", "bbr", "--each", "--rtt", "1ms,2ms", "--start", "0s,1s,2s"], ["--rtt", "3 flows"]),
        (["compare", "bbr", "--count", "0"], ["--count"]),
        (["compare", "bbr", "--set", "network.buffer"], ["--set", "key=value"]),
        (["compare", "bbr", "--trace"], ["--trace", "-o DIR"]),
        (["compare", "bbr", "--packets", "-o", "out"], ["--packets"]),
        (["run", "missing.toml"], ["missing.toml", "accepted"]),
        (["schemes", "nosuch"], ["nosuch", "cubic"]),
        (["compare"], ["SCHEME"]),
        (["nosuch"], ["nosuch"]),
        (["compare", "bbr", "--repeat", "many"], ["--repeat"]),
    ],
)
def test_invalid_usage_exits_2_and_names_place(args, named, tmp_path, monkeypatch):
    """Invalid usage exits with status 2, names place and accepted values on one screen, and writes nothing."""
    monkeypatch.chdir(tmp_path)
    result = call(*args)
    refused(result, *named)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) < 24
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_file_error_names_file_line_and_accepted(scenario, tmp_path):
    """An error in a scenario file names the file, the line and the accepted values."""
    scenario.write_text(SCENARIO.replace('buffer = "1bdp"', 'bufer = "1bdp"'))
    result = call("run", scenario, "-o", tmp_path / "out")
    refused(result, f"{scenario}:6: network.bufer", "did you mean `buffer`?", "  accepted: ")
    assert not (tmp_path / "out").exists()


def test_failed_run_exits_1_and_keeps_others(tmp_path, monkeypatch):
    """A failing run exits with status 1; finished runs are kept."""
    fake_executor.install(monkeypatch.setattr)
    monkeypatch.setenv("FAKE_BROKEN", "vegas")
    out = tmp_path / "out"
    result = call("compare", *BRIEF, "--each", "bbr", "cubic", "vegas", "--jobs", 1, "-o", out)
    refused(result, "the scheme broke", status=1)
    assert len(list((out / "runs").iterdir())) == 2
    assert not (out / "results.jsonl").exists()


def test_table_states_warmup_and_fits_80_columns():
    """The table states warm-up and seeds, and fits 80 columns."""
    result = ran(call("compare", *BRIEF, "bbr", "cubic", "--repeat", 3, "--set", "network.buffer=1bdp,4bdp"))
    text = " ".join(result.stdout.split())
    assert "the first 0.5 s are left out of the means" in text
    assert "3 seeds: mean ± 95 % half-width" in text
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


def test_table_many_flows_give_one_row_per_scheme():
    """With many flows the table has one row per scheme."""
    result = call("compare", *BRIEF, "bbr", "cubic", "--count", 50)
    body = [line for line in result.stdout.splitlines() if line.split()[:1] in (["bbr"], ["cubic"])]
    assert len(body) == 2
    assert all(" 50 " in line for line in body)


def test_schemes_json_lists_names_and_parameters():
    """`schemes --json` lists names and parameters; with a name or alias it prints that scheme with its page."""
    listed = json.loads(call("schemes", "--json").stdout)
    assert [row["name"] for row in listed][:3] == ["bbr", "cubic", "newreno"]
    assert "cwnd_gain" in [param["name"] for param in listed[0]["params"]]
    one = json.loads(call("schemes", "reno", "--json").stdout)
    assert one["name"] == "newreno"
    assert "## Control law" in one["page"]


def test_schemes_name_prints_page_and_parameters():
    """`schemes NAME` prints the documentation and the parameters of a scheme."""
    text = call("schemes", "bbr").stdout
    assert "Control law" in text
    assert "cwnd_gain" in text
    assert re.search(r"hystart +linux +linux, rfc9406, off ", call("schemes", "cubic").stdout)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["--trace"], ["--trace", "10ms"]),
        (["--trace", "1ms"], ["--trace", "1ms"]),
        (["--trace", "-o", "x"], ["--trace", "10ms", "-o", "x"]),
        (["--trace", "bbr"], ["--trace", "10ms", "bbr"]),
        (["--trace=5s"], ["--trace=5s"]),
    ],
)
def test_trace_option_time_is_optional(given, meant):
    """`--trace` without a time gets the default interval."""
    assert spelled_out(given) == meant


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["run", "latin.toml"], ["latin.toml:2", "0xff", "UTF-8"]),
        (["compare", "bbr", "-o", "taken"], ["--out", "taken is a file", "accepted"]),
        (["compare", "bbr", "-o", "taken/x"], ["--out", "taken is a file", "accepted"]),
        (["compare", "bbr", "cubic", "--rtt", "10ms,,20ms"], ["--rtt", "accepted"]),
        (["compare", "bbr", "--set", "duration=1s", "--set", "duration=2s"], ["--set duration", "twice", "accepted"]),
        (["reproduce", "-o", "taken"], ["--out", "taken is a file", "accepted"]),
    ],
)
def test_invalid_files_and_lists_rejected_untouched(args, named, tmp_path, monkeypatch):
    """Invalid files and lists are rejected with their names, and existing files stay untouched."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'seed = 1\nname = "\xff"\n')
    (tmp_path / "taken").write_text("mine")
    result = call(*args)
    refused(result, *named)
    assert result.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latin.toml", "taken"]
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("new/learned.json", "there is no folder new"),
        ("here/new/deeper/learned.json", "there is no folder here/new/deeper"),
        ("here", "here is a folder"),
        ("two.toml/learned.json", "two.toml is a file"),
    ],
)
def test_learn_unwritable_place_rejected_before_runs(place, named, tmp_path, monkeypatch, executed):
    """`--learn` with an unwritable path is rejected before anything runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "two.toml").write_text(SCENARIO)
    before = len(executed)
    result = call("run", "two.toml", "--learn", place)
    refused(result, named, "--learn")
    assert len(executed) == before
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["here", "two.toml"]


def test_diagnostics_merge_lines_of_equal_messages():
    """A diagnostic appears once, with all its lines."""

    def planned(*rows):
        return engine.Planned("0", 1, {}, 1, "", (), diagnostics=tuple(engine.Diagnostic(*row) for row in rows))

    rcp, brf = ("a.toml", 6, "rcp finds nothing"), ("a.toml", 9, "brf finds nothing")
    runs = [planned(rcp, brf), planned(rcp), planned(("a.toml", 12, "brf finds nothing")), planned()]
    assert api.diagnostics(runs) == ["a.toml:6: rcp finds nothing", "a.toml:9,12: brf finds nothing"]
    assert api.diagnostics([planned(("command line", 12, "brf finds nothing"))] * 2) == ["brf finds nothing"]


def test_trace_option_keeps_invalid_time():
    """A number after `--trace` is its time even if its unit is missing; without a number the default applies."""
    assert spelled_out(["--trace", "10", "-o", "x"]) == ["--trace", "10", "-o", "x"]
    assert spelled_out(["compare", "--trace", "bbr"]) == ["compare", "--trace", "10ms", "bbr"]
    assert spelled_out(["--trace"]) == ["--trace", "10ms"]


VERBS = {
    "Accept", "Acknowledge", "Allocate", "Attach", "Call", "Check", "Compare", "Detach", "Detect", "Draw", "Expect",
    "Forward", "Generate", "Give", "Grant", "Keep", "Let", "Limit", "List", "Listen", "Load", "Make", "Measure",
    "Negotiate", "Pace", "Poll", "Print", "Read", "Receive", "Record", "Replace", "Report", "Reproduce", "Request",
    "Run", "Select", "Send", "Serve", "Set", "Show", "Start", "Stop", "Test", "Unload", "Use", "Wait", "Write",
}  # fmt: skip
"""Verbs with which help texts begin."""


def helps(command, name):
    """Yield the help text of a command, of its parameters, and of its own commands."""
    yield name, command.help
    for param in command.params:
        yield f"{name} {param.name}", param.help
    for inner in getattr(command, "commands", {}).values():
        yield from helps(inner, f"{name} {inner.name}")


def test_help_texts_begin_with_verb():
    """Every help text of a command, argument or option begins with a verb and ends with a full stop."""
    texts = dict(helps(typer.main.get_command(app), "narrows"))
    assert len(texts) > 80
    assert {name: text for name, text in texts.items() if not text or text.split()[0] not in VERBS} == {}
    assert [name for name, text in texts.items() if not text.split("\n\n")[0].rstrip().endswith(".")] == []
