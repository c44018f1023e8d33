"""The benchmark's rows, its failures, and ns-3 beside it."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from narrows import bench
from narrows.cli import app


def call(*args):
    return CliRunner().invoke(app, ["bench", *args])


def test_every_case_has_a_row_that_tells_what_acted():
    result = call("--no-ns3", "--repeats", "2")
    assert result.exit_code == 0
    row = next(line.split() for line in result.stdout.splitlines() if "cubic-10" in line)
    assert row == ["cubic-10", "2,000,000", "0.500", "4.00", "5.0", "10", "2", "7", "9"]
    assert "bbr-10" in result.stdout


def test_json_has_one_row_per_line():
    result = call("--no-ns3", "--json", "cubic-10", "--repeats", "2")
    (row,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (row["case"], len(row["wall_all_s"])) == ("cubic-10", 2)


def test_a_feature_that_never_ran_fails_the_bench(monkeypatch):
    monkeypatch.setenv("FAKE_ENGINE_BENCH_FAILS", "1")
    result = call("--no-ns3")
    assert result.exit_code == 1
    assert "these cases failed: bbr-10" in result.stderr
    assert "bbr-10 FAILED: pacing never acted" in result.stdout


def test_events_that_are_not_those_of_a_run_fail_the_bench(monkeypatch):
    monkeypatch.setenv("FAKE_ENGINE_BENCH_HASH", "00fe")
    result = call("--no-ns3", "cubic-10", "--json")
    assert result.exit_code == 1
    row = json.loads(result.stdout)
    assert (row["event_hash"], row["run_hash"]) == ("00fe", "00ff")
    assert row["failed"] == ["its events (00fe) are not those of a run of the same scenario (00ff)"]


def test_the_cost_of_schemes_has_a_row_for_each_with_the_ratio_to_the_first():
    result = call("--schemes", "--repeats", "2")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["fixed", "10.0", "1.00"] in rows
    assert ["bbr", "25.0", "2.50"] in rows
    assert ["guess", "†", "35.0", "3.50"] in rows
    assert "fixed" in result.stdout.partition("ratio to")[2]


def test_the_cost_of_some_schemes_is_data_too():
    result = call("--schemes", "cubic", "--json", "--repeats", "2")
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert (first["scheme"], second["scheme"]) == ("fixed", "cubic"), "what is compared with is measured too"
    assert (second["reference"], second["ratio"], len(second["ns_all"])) == ("fixed", 2.0, 2)


def test_the_cost_of_an_unknown_scheme_is_misuse():
    result = call("--schemes", "cubik")
    assert result.exit_code == 2
    assert "there is no scheme 'cubik'; did you mean 'cubic'?" in result.stderr
    assert "accepted: fixed, newreno, cubic" in result.stderr


def test_the_built_engine_measures_every_scheme():
    """In a process of its own, since the other tests use a stand-in for the engine."""
    code = "import narrows._engine as e; print(e.bench_schemes(1, [])); print(e.schemes())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("the engine is not built: maturin develop")
    rows, schemes = (json.loads(line) for line in done.stdout.splitlines())
    assert [row["scheme"] for row in rows] == [scheme["name"] for scheme in schemes]
    assert all(row["ns_per_ack"] > 0 and row["ratio"] > 0 and len(row["ns_all"]) == 1 for row in rows)
    assert (rows[0]["ratio"], rows[0]["reference"]) == (1.0, schemes[0]["name"])


def test_the_cost_of_allocators_has_a_row_for_each_number_of_flows():
    result = call("--allocators", "--repeats", "2")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["none", "1", "10.0", "1.0", "–", "–", "0", "0"] in rows
    assert ["rcp", "1,000", "25.0", "2.5", "50,000", "50.0", "120,000", "120"] in rows


def test_the_cost_of_some_allocators_is_data_too():
    result = call("--allocators", "xcp", "--json", "--repeats", "2")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["allocator"], row["flows"]) for row in rows] == [
        ("none", 1),
        ("xcp", 1),
        ("none", 1000),
        ("xcp", 1000),
    ]


def test_the_cost_of_an_unknown_allocator_or_of_two_things_is_misuse():
    result = call("--allocators", "rpc")
    assert result.exit_code == 2
    assert "ALLOCATOR: there is no allocator `rpc`; accepted: rcp, xcp" in result.stderr
    assert call("--allocators", "--schemes").exit_code == 2


def test_the_built_engine_measures_every_allocator():
    """In a process of its own, since the other tests use a stand-in for the engine."""
    code = "import narrows._engine as e; print(e.bench_allocators(1, []))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("the engine is not built: maturin develop")
    rows = json.loads(done.stdout)
    names = list(dict.fromkeys(row["allocator"] for row in rows))
    assert names[:3] == ["none", "rcp", "xcp"]
    assert [(row["flows"], row["allocator"]) for row in rows] == [
        (flows, name) for flows in (1, 1_000, 100_000) for name in names
    ]
    for row in rows:
        assert row["ns_per_packet"] > 0
        assert row["ratio"] > 0
        assert (row["memory_bytes"] > 0) == (row["allocator"] != "none")


def test_the_cost_of_datagrams_has_a_row_for_each_path_with_the_ratio_to_plain_udp():
    result = call("--dccp", "--repeats", "2")
    assert result.exit_code == 0
    rows = [line.split()[:-1] for line in result.stdout.splitlines() if line.strip()]
    # A microsecond for 1400 bytes: 11.2 Gbit/s.
    assert ["UDP", "batches", "1,000", "11,200", "1.00"] in rows
    assert ["UDP", "calls", "3,000", "3,733", "0.33"] in rows
    assert ["cubic", "memory", "1,000", "11,200", "1.00"] in rows
    assert ["cubic", "loopback", "2,000", "5,600", "0.50"] in rows
    assert "round 2 of 2: cubic, loopback" in result.stderr


def test_the_cost_of_datagrams_is_data_too_and_leaves_the_cores_as_they_were():
    before = os.sched_getaffinity(0)
    result = call("--dccp", "bbr", "--json", "--repeats", "2")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["transport"], row["scheme"], row["path"]) for row in rows] == [
        ("udp", None, "batches"), ("udp", None, "calls"), ("dccp", "bbr", "memory"), ("dccp", "bbr", "loopback"),
    ]  # fmt: skip
    assert {row["reference"] for row in rows} == {"UDP, batches"}
    assert rows[3]["ratio"] == pytest.approx(0.5)
    assert all(len(row["mbit_s_all"]) == 2 and row["core"] in before for row in rows)
    assert os.sched_getaffinity(0) == before


def test_the_cost_of_datagrams_under_an_unknown_scheme_is_misuse():
    result = call("--dccp", "cubik")
    assert result.exit_code == 2
    assert "there is no scheme 'cubik'" in result.stderr
    assert call("--dccp", "--schemes").exit_code == 2


def test_the_built_engine_measures_datagrams():
    """In a process of its own, since the other tests use a stand-in for the engine."""
    code = """if True:
        import json, narrows._engine as e
        cases = [(None, "batches"), (None, "calls")]
        cases += [(name, path) for name in json.loads(e.datagram_schemes()) for path in ("memory", "loopback")]
        print(json.dumps([[name, path, json.loads(e.bench_datagrams(name, path, 0.05))] for name, path in cases]))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip("the engine is not built: maturin develop")
    rows = json.loads(done.stdout)
    assert len(rows) > 2
    for _, path, found in rows:
        assert found["datagrams"] > 0
        # What is measured begins with the handshake and ends with the last datagram, whose chunk or batch is finished.
        assert 0.02 < found["wall_s"] < (5 if path == "loopback" else 1)


def test_an_unknown_case_is_misuse():
    result = call("nosuch")
    assert result.exit_code == 2
    assert "cubic-10, bbr-10" in result.stderr


@pytest.fixture
def ns3(tmp_path, monkeypatch):
    """A stand-in for the built dumbbell, which is never built here."""
    (tmp_path / "dumbbell.cc").write_text("")
    monkeypatch.setattr(bench, "NS3_SOURCE", tmp_path / "dumbbell.cc")
    monkeypatch.setattr(bench, "_ns3_built", lambda: tmp_path / "dumbbell")

    def script(body):
        path = tmp_path / "dumbbell"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    return script


def test_ns3_runs_the_same_dumbbell_shortened_and_the_ratio_is_printed(ns3, tmp_path):
    ns3(f"""echo "$@" >> {tmp_path}/asked; echo '{{"data_packets": 99000, "wall_s": 4, "packets_per_s": 24750}}'""")
    result = call("cubic-10")
    assert "ns-3 delivers 24,750 data packets per second on this machine: narrows is 162 times as fast" in result.stderr
    # 100 000 packets of 1500 B at 1 Gbit/s take 1.2 s
    assert (tmp_path / "asked").read_text().split() == [
        "--flows=10", "--rate=1000", "--rtt=20", "--seconds=1.2", "--spread=0", "--scheme=TcpCubic",
    ]  # fmt: skip


def test_an_ns3_that_fails_says_so_and_fails_nothing(ns3):
    ns3("echo 'no such scheme' >&2; exit 1")
    result = call("cubic-10")
    assert result.exit_code == 0
    assert "no such scheme" in result.stderr


def test_without_ns3_the_bench_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "NS3_SOURCE", tmp_path / "dumbbell.cc")
    assert "source tree" in call("cubic-10").stderr
    (tmp_path / "dumbbell.cc").write_text("")
    monkeypatch.setattr(bench, "NS3_HEADERS", tmp_path / "ns3")
    assert "libns3-dev" in call("cubic-10").stderr
