"""The benchmark's rows, its failures, and ns-3 beside it."""

import json

import pytest
from typer.testing import CliRunner

from narrows import bench
from narrows.cli import app


def call(*args):
    return CliRunner().invoke(app, ["bench", *args])


def test_every_case_has_a_row_that_tells_what_acted():
    result = call("--no-ns3", "--repeats", "2")
    assert result.exit_code == 0
    for text in ("cubic-10", "bbr-10", "4,000,000", "sack_blocks 10", "paced_waits 7"):
        assert text in " ".join(result.stdout.split())


def test_json_has_one_row_per_line():
    result = call("--json", "cubic-10", "--repeats", "2")
    (row,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (row["case"], len(row["wall_all_s"])) == ("cubic-10", 2)


def test_a_feature_that_never_ran_fails_the_bench(monkeypatch):
    monkeypatch.setenv("FAKE_ENGINE_BENCH_FAILS", "1")
    result = call("--no-ns3")
    assert result.exit_code == 1
    assert "these cases failed: bbr-10" in result.stderr
    assert "paced_waits never ran" in " ".join(result.stdout.split())


def test_events_that_are_not_those_of_a_run_fail_the_bench():
    row = {"event_hash": "a", "run_hash": "b", "failed": []}
    assert bench.checked(row)["failed"] == ["its events (a) are not those of a run (b)"]


def test_an_unknown_case_is_misuse():
    result = call("nosuch")
    assert result.exit_code == 2
    assert "cubic-10, bbr-10" in result.stderr


@pytest.fixture
def ns3(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "_ns3_installed", lambda: True)

    def script(body):
        path = tmp_path / "run"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return bench.ns3(tmp_path)

    return script


def test_the_ratio_to_ns3_is_that_of_packets_per_second(ns3):
    rows = ns3("""echo '[{"case": "cubic-10", "packets_per_s": 25000}, {"case": "other", "packets_per_s": 1}]'""")
    (line,) = bench.compared([{"case": "cubic-10", "packets_per_s": 4e6}], rows)
    assert "25,000" in line
    assert "160 times" in line


def test_an_ns3_that_fails_says_so_and_fails_nothing(ns3):
    assert "does not build" in ns3("echo 'it does not build' >&2; exit 1")
    assert isinstance(ns3("echo nonsense"), str)


def test_without_ns3_the_bench_says_so(tmp_path, monkeypatch):
    assert "source tree" in bench.ns3(tmp_path)
    (tmp_path / "run").write_text("#!/bin/sh\n")
    monkeypatch.setattr(bench, "_ns3_installed", lambda: False)
    assert "libns3-dev" in bench.ns3(tmp_path)
