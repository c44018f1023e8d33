"""`--on quic` and `narrows perf` on the built engine, over loopback; they need no rights."""

import json
import signal
import subprocess
import sys

import pytest

from narrows import perf, qlog

from conftest import BUILT_ENV, json_rows, narrows_in  # isort: skip
from loopback import free_port  # isort: skip
from qlogs import points  # isort: skip

BRIEF = ("--rate", "10mbit", "--rtt", "10ms", "--duration", "2s")
"""A path and a duration for every run."""


@pytest.mark.parametrize(("place", "schemes"), [("quic", ("bbr-gc", "cubic")), ("noq", ("bbr3", "cubic"))])
def test_compare_runs_on_quic(tmp_path, place, schemes):
    """Two schemes share a link over real sockets; the result says where they ran, and what nobody measures is null."""
    done = narrows_in(tmp_path, "compare", *schemes, *BRIEF, "--on", place, "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json_rows(done)
    prefix = "narrows" if place == "quic" else "noq"
    assert (row["host"]["on"], row["host"]["schemes"]) == (place, [f"{prefix}:{name}" for name in schemes])
    assert all(flow["timeouts"] is None for flow in row["flows"])
    # A busy machine delivers late and less, never early and more than the link carries.
    assert all(flow["goodput_mbit_s"] > 0 for flow in row["flows"])
    assert sum(flow["goodput_mbit_s"] for flow in row["flows"]) < 10
    assert all(10 <= flow["rtt_min_ms"] <= flow["rtt_p50_ms"] <= flow["rtt_p99_ms"] for flow in row["flows"])


def test_traces_of_quic_have_series_and_internals(tmp_path):
    """A trace has the connection's window, RTT and rate, and the internals of a scheme of ours."""
    import polars as pl

    done = narrows_in(tmp_path, "compare", "bbr-gc", *BRIEF, "--on", "quic", "--trace", "100ms", "-o", "out")
    assert done.returncode == 0, done.stderr
    (samples,) = (tmp_path / "out" / "traces").glob("*/samples.parquet")
    series = set(pl.read_parquet(samples)["series"].unique())
    assert {"cwnd_bytes", "pacing_rate_mbit_s", "inflight_bytes"} <= series
    assert any(name.startswith("bw") or "bandwidth" in name for name in series), sorted(series)


def test_qlog_of_quic_accounts_for_its_packets(tmp_path):
    """The file of a run on QUIC is drawn, and what it shows is what the result counts."""
    arguments = (*BRIEF, "--set", "network.loss=1%", "--on", "quic", "--qlog", "run.sqlog", "--json")
    done = narrows_in(tmp_path, "compare", "bbr", *arguments)
    assert done.returncode == 0, done.stderr
    (flow,) = json_rows(done)[0]["flows"]
    loaded = qlog.load([tmp_path / "run.sqlog"])
    (own,) = loaded.flows.iter_rows(named=True)
    lost = sum(value for _, value in points(loaded, "losses_pkt"))
    assert lost == round(flow["retransmit_percent"] / 100 * flow["packets_sent"]) > 0
    # Those that carry no data are few, and the flow loses the share of its packets that the link drops.
    assert flow["packets_sent"] <= own["packets_sent"] + 20
    assert own["loss_percent"] < 20
    # The log counts what was acknowledged, the result what arrived.
    assert own["throughput_mbit_s"] == pytest.approx(flow["throughput_mbit_s"], rel=0.25)
    drawn = narrows_in(tmp_path, "plot", "run.sqlog")
    assert drawn.returncode == 0, drawn.stderr


@pytest.mark.parametrize(
    ("place", "scheme", "message"),
    [
        ("quic", "dctcp", "needs the number of marked packets"),
        ("quic", "bbr3:ecn=true", "with ecn = 1 it needs the number of marked packets"),
        ("noq", "vegas", "accepted: cubic, newreno, bbr3"),
    ],
)
def test_unsuitable_schemes_are_refused(tmp_path, place, scheme, message):
    """What QUIC cannot run is misuse, before anything runs."""
    done = narrows_in(tmp_path, "compare", scheme, *BRIEF, "--on", place)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("bbr", ("bbr", [])),
        ("bbr:cwnd_gain=1.5,lt_bw=off", ("bbr", [("cwnd_gain", "1.5"), ("lt_bw", "off")])),
        ("noq:cubic", ("noq:cubic", [])),
    ],
)
def test_schemes_of_perf_are_split(text, parsed):
    """The prefix of noq's own controllers is no parameter."""
    assert perf.parse_scheme(text) == parsed


@pytest.fixture
def server(tmp_path):
    """Start a server of throughput tests; return it with its port and the fingerprint of its certificate."""
    narrows_in(tmp_path, "--version")  # skips the test without an engine
    started = []

    def start(*args):
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, "-m", "narrows", "perf", "server", "--listen", f"127.0.0.1:{port}", *args],
            cwd=tmp_path, env=BUILT_ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert f"127.0.0.1:{port}" in process.stderr.readline()
        return process, port, process.stderr.readline().split()[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_perf_measures_and_prints_as_iperf3(tmp_path, server):
    """Client and server print the same bytes, in the layout of iperf3, and the server ends after one test."""
    process, port, fingerprint = server("--once", "--json", "--scheme", "cubic")
    where = ("perf", "client", f"127.0.0.1:{port}", "--fingerprint", fingerprint)
    done = narrows_in(tmp_path, *where, "--duration", "2s", "--streams", 2, "--interval", "500ms", "--json")
    assert done.returncode == 0, done.stderr
    (own,) = json_rows(done)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    other = json.loads(out)
    assert own["end"]["sum_received"]["bytes"] == other["end"]["sum_received"]["bytes"] > 0
    assert (own["start"]["test_start"]["num_streams"], own["end"]["complete"]) == (2, True)
    assert own["intervals"][0]["sum"]["cwnd_bytes"] > 0


def test_perf_stops_on_ctrl_c(server):
    """The server ends on Ctrl-C with the status of the signal."""
    process, _, _ = server()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, "stopped" in err) == (130, True), err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--scheme", "bbr-gc:gain"), "is no parameter"),
        (("--scheme", "noq:vegas", "--insecure"), "accepted: noq:cubic, noq:newreno, noq:bbr3"),
        (("--insecure", "--fingerprint", "00"), "exclude each other"),
        (("--fingerprint", "00"), "64 hexadecimal digits"),
    ],
)
def test_perf_refuses_with_what_is_accepted(tmp_path, args, message):
    """Misuse ends with status 2 before anything is sent."""
    done = narrows_in(tmp_path, "perf", "client", "127.0.0.1:9", *args)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
