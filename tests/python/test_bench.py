"""The benchmark: rows, failures, and the comparison with ns-3."""

import json
import os

import pytest

from narrows import engine
from narrows.bench import ns3 as ns3_runs

from conftest import built, call, json_rows, refused  # isort: skip


CASE = """
duration = "10s"
[network]
rate = "1gbit"
[[flows]]
scheme = "cubic"
rtt = "20ms"
count = 10
"""
COSTS = {"bbr": 10.0, "cubic": 20.0, "newreno": 15.0, "bbq": 35.0}


def measure_case(name, repeats):
    return {
        "case": name, "flows": 10, "data_packets": 2_000_000, "events": 9_000_000, "wall_s": 0.5, "packets_per_s": 4e6,
        "wall_all_s": [0.5] * repeats, "peak_flow_bytes": 5000, "failed": [], "event_hash": "00ff",
        "counters": {"sack_blocks": 10, "recoveries": 2, "paced_waits": 7, "rate_samples": 9},
    }  # fmt: skip


def measure_schemes(repeats, names):
    return [
        {"scheme": name, "ns_per_ack": COSTS[name], "ratio": COSTS[name] / 10, "reference": "bbr", "acks": 1000,
         "ns_all": [COSTS[name]] * repeats}
        for name in dict.fromkeys(["bbr", *(names or COSTS)])
    ]  # fmt: skip


def measure_routers(repeats, names):
    return [
        {"router": name, "flows": flows, "opened": flows, "ns_per_packet": 10.0 * cost, "ratio": cost,
         "ns_per_wake": 50.0 * flows if place else None, "ns_per_wake_and_flow": 50.0 if place else None,
         "wakes": 7 * place, "packets": 20_000, "memory_bytes": 120 * place * flows, "bytes_per_flow": 120.0 * place,
         "ns_all": [10.0 * cost] * repeats}
        for flows in (1, 1000)
        for place, (name, cost) in enumerate(zip(("none", *(names or ("rcp", "xcp"))), (1.0, 2.5, 3.0), strict=False))
    ]  # fmt: skip


def measure_datagrams(scheme, path, duration_s):
    """Plain UDP takes 1 µs per datagram in batches and 3 µs by calls; DCCP takes 1 µs in memory and 2 µs on sockets."""
    each = {"batches": 1e-6, "calls": 3e-6, "memory": 1e-6, "loopback": 2e-6}[path]
    assert (scheme is None) == (path in ("batches", "calls"))
    return {"datagrams": 1000, "wall_s": 1000 * each, "datagram_bytes": 1400}


@pytest.fixture(autouse=True)
def measured(monkeypatch, executor):
    """Replace the measurements by invented ones."""
    names = ("cubic-10", "bbr-10")
    cases = [{"name": name, "description": f"case {name}", "scenario": CASE} for name in names]
    for name, function in {
        "bench_cases": lambda: cases, "bench": measure_case, "bench_schemes": measure_schemes,
        "bench_routers": measure_routers, "bench_datagrams": measure_datagrams, "datagram_schemes": lambda: ["cubic"],
    }.items():  # fmt: skip
        monkeypatch.setattr(engine, name, function)


def bench(*args):
    return call("bench", *args)


def test_case_table_counts_activity():
    """The table has a row per case with speed, memory, and counters that show which parts worked."""
    result = bench("--no-ns3", "--repeats", "2")
    assert result.exit_code == 0
    row = next(line.split() for line in result.stdout.splitlines() if "cubic-10" in line)
    assert row == ["cubic-10", "2,000,000", "0.500", "4.00", "5.0", "10", "2", "7", "9"]
    assert "bbr-10" in result.stdout


def test_bench_json_one_row_per_line():
    """`--json` prints one row per line."""
    result = bench("--no-ns3", "--json", "cubic-10", "--repeats", "2")
    (row,) = json_rows(result)
    assert (row["case"], len(row["wall_all_s"])) == ("cubic-10", 2)


def test_idle_feature_fails_bench(monkeypatch):
    """A feature that never worked fails its case, and the command exits with status 1."""
    failed = {"cubic-10": [], "bbr-10": ["pacing never acted"]}
    measure = lambda name, repeats: {**measure_case(name, repeats), "failed": failed[name]}  # noqa: E731
    monkeypatch.setattr(engine, "bench", measure)
    result = bench("--no-ns3")
    refused(result, "these cases failed: bbr-10", status=1)
    assert "bbr-10 FAILED: pacing never acted" in result.stdout


def test_changed_events_fail_bench(monkeypatch):
    """A case fails if its events differ from those of a normal run of its scenario."""
    measure = lambda name, repeats: {**measure_case(name, repeats), "event_hash": "00fe"}  # noqa: E731
    monkeypatch.setattr(engine, "bench", measure)
    result = bench("--no-ns3", "cubic-10", "--json")
    assert result.exit_code == 1
    row = json.loads(result.stdout)
    assert (row["event_hash"], row["run_hash"]) == ("00fe", "00ff")
    assert row["failed"] == ["its events (00fe) differ from those of a run of its scenario (00ff)"]


def test_scheme_costs_relate_to_first():
    """The table of scheme costs has a row per scheme, with the ratio to the first scheme."""
    result = bench("--schemes", "--repeats", "2")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["bbr", "10.0", "1.00"] in rows
    assert ["cubic", "20.0", "2.00"] in rows
    assert ["bbq", "†", "35.0", "3.50"] in rows
    assert "bbr" in result.stdout.partition("ratio to")[2]


def test_scheme_costs_json_selected():
    """`--json` with names prints those schemes, and the reference of their ratios."""
    result = bench("--schemes", "cubic", "--json", "--repeats", "2")
    first, second = json_rows(result)
    assert (first["scheme"], second["scheme"]) == ("bbr", "cubic"), "the reference is measured too"
    assert (second["reference"], second["ratio"], len(second["ns_all"])) == ("bbr", 2.0, 2)


def test_scheme_costs_unknown_scheme_rejected():
    """An unknown scheme is invalid usage; the error suggests the nearest name and lists all."""
    result = bench("--schemes", "cubik")
    refused(result, "there is no scheme 'cubik'; did you mean 'cubic'?", "accepted: bbr, cubic, newreno")


def test_scheme_costs_built_engine_covers_registry():
    """The built engine measures every registered scheme."""
    rows, schemes = built("[engine.bench_schemes(1), [scheme.name for scheme in engine.schemes()]]")
    assert [row["scheme"] for row in rows] == schemes
    assert all(row["ns_per_ack"] > 0 and row["ratio"] > 0 and len(row["ns_all"]) == 1 for row in rows)
    assert (rows[0]["ratio"], rows[0]["reference"]) == (1.0, schemes[0])


def test_router_costs_by_number_of_flows():
    """The table of router costs has a row per router algorithm and number of flows."""
    result = bench("--routers", "--repeats", "2")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["none", "1", "10.0", "1.0", "–", "–", "0", "0"] in rows
    assert ["rcp", "1,000", "25.0", "2.5", "50,000", "50.0", "120,000", "120"] in rows


def test_router_costs_json_selected():
    """`--json` with names prints those router algorithms beside a link without any."""
    result = bench("--routers", "xcp", "--json", "--repeats", "2")
    rows = json_rows(result)
    assert [(row[engine.ROUTER], row["flows"]) for row in rows] == [
        ("none", 1),
        ("xcp", 1),
        ("none", 1000),
        ("xcp", 1000),
    ]


def test_router_costs_invalid_usage_rejected():
    """An unknown router algorithm, and two kinds of measurement at once, are invalid usage."""
    result = bench("--routers", "rpc")
    refused(result, "ROUTER: there is no router algorithm 'rpc'; did you mean", "accepted: rcp, xcp")
    assert bench("--routers", "--schemes").exit_code == 2


@pytest.mark.slow
def test_router_costs_built_engine_covers_registry():
    """The built engine measures every registered router algorithm."""
    rows, routers = built("[engine.bench_routers(1), [router.name for router in engine.routers()]]")
    names = list(dict.fromkeys(row[engine.ROUTER] for row in rows))
    assert names[:3] == ["none", "rcp", "xcp"]
    assert names == ["none", *routers]
    assert [(row["flows"], row[engine.ROUTER]) for row in rows] == [
        (flows, name) for flows in (1, 1_000, 100_000) for name in names
    ]
    for row in rows:
        assert row["ns_per_packet"] > 0
        assert row["ratio"] > 0
        assert (row["memory_bytes"] > 0) == (row[engine.ROUTER] != "none")


def test_datagram_costs_relate_to_plain_udp():
    """The table of datagram costs has a row per transport and path, with the ratio to plain UDP in batches."""
    result = bench("--dccp", "--repeats", "2")
    assert result.exit_code == 0
    rows = [line.split()[:-1] for line in result.stdout.splitlines() if line.strip()]
    # 1400 bytes per microsecond are 11.2 Gbit/s.
    assert ["UDP", "batches", "1,000", "11,200", "1.00"] in rows
    assert ["UDP", "calls", "3,000", "3,733", "0.33"] in rows
    assert ["cubic", "memory", "1,000", "11,200", "1.00"] in rows
    assert ["cubic", "loopback", "2,000", "5,600", "0.50"] in rows
    assert "round 2 of 2: cubic, loopback" in result.stderr


def test_datagram_costs_json_restores_affinity():
    """`--json` prints the rows of one scheme, and the process may use all its cores again afterwards."""
    before = os.sched_getaffinity(0)
    result = bench("--dccp", "bbr", "--json", "--repeats", "2")
    rows = json_rows(result)
    assert [(row["transport"], row["scheme"], row["path"]) for row in rows] == [
        ("udp", None, "batches"), ("udp", None, "calls"), ("dccp", "bbr", "memory"), ("dccp", "bbr", "loopback"),
    ]  # fmt: skip
    assert {row["reference"] for row in rows} == {"UDP, batches"}
    assert rows[3]["ratio"] == pytest.approx(0.5)
    assert all(len(row["mbit_s_all"]) == 2 and row["core"] in before for row in rows)
    assert os.sched_getaffinity(0) == before


def test_datagram_costs_unknown_scheme_rejected():
    """An unknown scheme, and two kinds of measurement at once, are invalid usage."""
    result = bench("--dccp", "cubik")
    refused(result, "there is no scheme 'cubik'")
    assert bench("--dccp", "--schemes").exit_code == 2


@pytest.mark.slow
def test_datagram_costs_built_engine_measures():
    """The built engine measures plain UDP and all schemes for datagrams in plausible time."""
    udp = "[(None, 'batches'), (None, 'calls')]"
    dccp = "[(name, path) for name in engine.datagram_schemes() for path in ('memory', 'loopback')]"
    rows = built(f"[(path, engine.bench_datagrams(name, path, 0.05)) for name, path in {udp} + {dccp}]")
    assert len(rows) > 2
    for path, found in rows:
        assert found["datagrams"] > 0
        # The measurement begins with the handshake, and ends when the last chunk or batch of datagrams is complete.
        assert 0.02 < found["wall_s"] < (5 if path == "loopback" else 1)


def test_unknown_case_rejected():
    """An unknown case is invalid usage; the error lists all cases."""
    result = bench("nosuch")
    refused(result, "cubic-10, bbr-10")


@pytest.fixture
def ns3(tmp_path, monkeypatch):
    """Replace the dumbbell for ns-3 by a shell script."""
    monkeypatch.setattr(ns3_runs, "build", lambda source: tmp_path / "dumbbell")

    def script(body):
        path = tmp_path / "dumbbell"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    return script


def test_ns3_runs_shortened_dumbbell(ns3, tmp_path):
    """ns-3 runs the same dumbbell for fewer packets, and the ratio of speeds is printed."""
    ns3(f"""echo "$@" >> {tmp_path}/arguments; echo '{{"data_packets": 99000, "wall_s": 4, "packets_per_s": 24750}}'""")
    result = bench("cubic-10")
    assert "ns-3 delivers 24,750 data packets per second on this machine: narrows is 162 times as fast" in result.stderr
    # 100 000 packets of 1500 B at 1 Gbit/s take 1.2 s
    assert (tmp_path / "arguments").read_text().split() == [
        "--flows=10", "--rate=1000", "--rtt=20", "--seconds=1.2", "--spread=0", "--scheme=TcpCubic",
    ]  # fmt: skip


def test_ns3_failure_reported_without_failing(ns3):
    """A failure of ns-3 is reported and does not fail the benchmark."""
    ns3("echo 'no such scheme' >&2; exit 1")
    result = bench("cubic-10")
    assert result.exit_code == 0
    assert "no such scheme" in result.stderr


def test_ns3_absence_reported(monkeypatch, tmp_path):
    """The benchmark states why there is no comparison with ns-3."""
    monkeypatch.setattr(ns3_runs, "SOURCE", tmp_path / "dumbbell.cc")
    assert "source tree" in bench("cubic-10").stderr
    (tmp_path / "dumbbell.cc").write_text("")
    monkeypatch.setattr(ns3_runs, "HEADERS", tmp_path / "ns3")
    assert "libns3-dev" in bench("cubic-10").stderr
