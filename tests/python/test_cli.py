"""What a person or a script sees of the command: output, messages, exit statuses."""

import json

import pytest
from typer.testing import CliRunner

import fake_engine
from narrows import api, engine, options
from narrows.cli import app
from narrows.options import spelled_out

SCENARIO = """
name = "two flows"
duration = "10s"
[network]
rate = "100mbit"
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


def call(*args):
    return CliRunner().invoke(app, options.spelled_out([str(a) for a in args]))


def rows(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_json_is_one_object_per_run_with_the_fixed_fields_first():
    result = call("compare", "bbr", "cubic", "--repeat", 3, "--json")
    assert result.exit_code == 0
    printed = rows(result)
    assert [row["seed"] for row in printed] == [1, 2, 3]
    for row in printed:
        assert tuple(row)[: len(engine.RUN_FIELDS)] == engine.RUN_FIELDS
        assert tuple(row["flows"][0])[: len(engine.FLOW_FIELDS)] == engine.FLOW_FIELDS
        assert tuple(row["links"][0])[: len(engine.LINK_FIELDS)] == engine.LINK_FIELDS
        assert row["convergence_s"] is None


def test_json_stays_pure_when_results_are_kept_and_reused(tmp_path):
    for _ in range(2):
        result = call("compare", "bbr", "--json", "-o", tmp_path / "out")
        assert len(rows(result)) == 1
    assert "reused 1 of 1 runs" in result.stderr


def test_schemes_run_against_each_other_by_default_and_alone_with_each():
    together = rows(call("compare", "bbr", "cubic", "--rtt", "10ms,50ms", "--json"))
    assert [[(f["scheme"], f["rtt_base_ms"]) for f in r["flows"]] for r in together] == [[("bbr", 10), ("cubic", 50)]]
    alone = rows(call("compare", "--each", "bbr", "cubic", "--rtt", "10ms,50ms", "--json"))
    assert [[(f["scheme"], f["rtt_base_ms"]) for f in r["flows"]] for r in alone] == [
        [("bbr", 10), ("bbr", 50)],
        [("cubic", 10), ("cubic", 50)],
    ]


def test_a_scheme_named_several_times_is_several_flows_and_count_multiplies_them():
    printed = rows(call("compare", "newreno", "newreno", "bbr", "--count", 2, "--json"))
    assert [f["scheme"] for f in printed[0]["flows"]] == ["newreno"] * 4 + ["bbr"] * 2


def test_set_with_commas_sweeps(scenario):
    printed = rows(call("sweep", scenario, "--set", "network.buffer=1bdp,4bdp", "--repeat", 2, "--json"))
    assert [(r["point"]["network.buffer"], r["seed"]) for r in printed] == [
        ("1bdp", 1), ("1bdp", 2), ("4bdp", 1), ("4bdp", 2),
    ]  # fmt: skip


def test_flags_replace_what_the_file_says(scenario):
    printed = rows(call("run", scenario, "--duration", "20s", "--seed", 7, "--json"))
    assert (printed[0]["duration_s"], printed[0]["seed"]) == (20, 7)


def test_scheme_replaces_that_of_all_flows_and_several_sweep(scenario):
    (one,) = rows(call("run", scenario, "--scheme", "newreno", "--json"))
    assert [flow["scheme"] for flow in one["flows"]] == ["newreno", "newreno"]
    two = rows(call("sweep", scenario, "--scheme", "newreno,bbr", "--json"))
    assert [row["point"] for row in two] == [{"flows.scheme": "newreno"}, {"flows.scheme": "bbr"}]


@pytest.mark.parametrize("args", [["--scheme", "nosuch"], ["--scheme", "bbr", "--set", "flows.scheme=cubic"]])
def test_a_wrong_scheme_is_named_by_its_flag(scenario, args):
    result = call("run", scenario, *args)
    assert result.exit_code == 2
    assert result.stderr.startswith("narrows: --scheme")
    assert "accepted: " in result.stderr


def test_schemes_with_different_parameters_are_told_apart_in_tables():
    together = call("compare", "bbr:cwnd_gain=1.5", "bbr").stdout
    assert "bbr:cwnd_gain=1.5 " in together
    assert "  bbr " in together
    alone = call("compare", "--each", "bbr:cwnd_gain=1.5", "bbr").stdout.partition("used")[0]
    assert sum(line.startswith(" bbr") for line in alone.splitlines()) == 2, "they are not averaged"


def test_the_nearest_scheme_is_hinted_at():
    result = call("schemes", "cubik")
    assert result.exit_code == 2
    assert "there is no scheme 'cubik'; did you mean 'cubic'?" in result.stderr


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["compare", "bbr", "cubic", "nosuch"], ["SCHEME: there is no scheme", "nosuch", "accepted: fixed"]),
        (["compare", "bbr", "--rate", "-5mbit"], ["--rate", "accepted"]),
        (["compare", "bbr", "--rtt", "40"], ["--rtt: '40' is not a time"]),
        (["compare", "bbr", "--set", "network.rate=-1mbit"], ["--set network.rate: a negative rate"]),
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
def test_misuse_ends_with_status_2_and_names_what_was_wrong(args, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    for text in named:
        assert text in result.stderr
    assert len(result.stderr.splitlines()) < 24
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_an_error_in_a_file_names_file_line_and_what_is_accepted(scenario, tmp_path):
    scenario.write_text(SCENARIO.replace('buffer = "1bdp"', 'bufer = "1bdp"'))
    result = call("run", scenario, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert f"{scenario}:6: network.bufer" in result.stderr
    assert "accepted: access_delay" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_failing_run_ends_with_status_1_and_keeps_the_others(tmp_path):
    out = tmp_path / "out"
    result = call("compare", "--each", "bbr", "cubic", "broken", "--jobs", 1, "-o", out)
    assert result.exit_code == 1
    assert "the scheme broke" in result.stderr
    assert len(list((out / "runs").iterdir())) == 2
    assert not (out / "results.jsonl").exists()


def test_the_table_states_warmup_seeds_and_fits_80_columns():
    result = call("compare", "bbr", "cubic", "--repeat", 3, "--set", "network.buffer=1bdp,4bdp")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "the first 6 s are left out of the means" in text
    assert "3 seeds: mean ± 95 % half-width" in text
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


def test_many_flows_become_one_row_per_scheme():
    result = call("compare", "bbr", "cubic", "--count", 50)
    body = [line for line in result.stdout.splitlines() if line.split()[:1] in (["bbr"], ["cubic"])]
    assert len(body) == 2
    assert all(" 50 " in line for line in body)


def test_schemes_json_lists_names_and_parameters():
    listed = json.loads(call("schemes", "--json").stdout)
    assert [row["name"] for row in listed][:6] == ["fixed", "newreno", "cubic", "bbr", "broken", "guess"]
    assert listed[3]["params"][0]["name"] == "cwnd_gain"
    one = json.loads(call("schemes", "reno", "--json").stdout)
    assert one["name"] == "newreno"
    assert "Its law." in one["page"]


def test_one_scheme_is_shown_with_law_and_parameters():
    text = call("schemes", "bbr").stdout
    assert "Its law." in text
    assert "cwnd_gain" in text


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
def test_the_time_of_trace_may_be_left_out(given, meant):
    assert options.spelled_out(given) == meant


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
def test_misuse_of_files_and_lists_is_named_and_leaves_nothing(args, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'seed = 1\nname = "\xff"\n')
    (tmp_path / "taken").write_text("mine")
    result = call(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    for text in named:
        assert text in result.stderr
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
def test_what_is_learned_has_a_place_before_anything_runs(place, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "two.toml").write_text(SCENARIO)
    before = fake_engine.calls["run"]
    result = call("run", "two.toml", "--learn", place)
    assert result.exit_code == 2, result.output
    assert named in result.stderr
    assert "--learn" in result.stderr
    assert fake_engine.calls["run"] == before
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["here", "two.toml"]


def test_a_note_is_told_once_with_all_its_lines():
    def planned(*notes):
        return engine.Planned("0", 1, {}, 1, "", notes=tuple(engine.Note(*note) for note in notes))

    rcp, brf = ("a.toml", 6, "rcp finds nothing"), ("a.toml", 9, "brf finds nothing")
    runs = [planned(rcp, brf), planned(rcp), planned(("a.toml", 12, "brf finds nothing")), planned()]
    assert api.notes(runs) == ["a.toml:6: rcp finds nothing", "a.toml:9,12: brf finds nothing"]
    assert api.notes([planned(("command line", 12, "brf finds nothing"))] * 2) == ["brf finds nothing"]


def test_a_time_after_trace_is_its_own_even_if_it_is_a_bad_one():
    assert spelled_out(["--trace", "10", "-o", "x"]) == ["--trace", "10", "-o", "x"]
    assert spelled_out(["compare", "--trace", "bbr"]) == ["compare", "--trace", "10ms", "bbr"]
    assert spelled_out(["--trace"]) == ["--trace", "10ms"]
