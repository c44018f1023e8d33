"""`--on quic` on the built engine: over loopback without rights, between namespaces as root."""

import json
import shutil
import subprocess

import pytest

from narrows import qlog

from conftest import json_rows, narrows_in, ran, refused, without_rights_in  # isort: skip
from qlogs import points  # isort: skip

BRIEF = ("--rate", "10mbit", "--rtt", "10ms", "--duration", "2s")
"""A path and a duration for every run."""


@pytest.mark.realtime
@pytest.mark.parametrize(("place", "schemes"), [("quic", ("bbr-gc", "cubic")), ("noq", ("bbr3", "cubic"))])
def test_compare_runs_on_quic(tmp_path, place, schemes):
    """Two schemes share a link over real sockets; the result names the backend; unmeasured values are null."""
    done = ran(narrows_in(tmp_path, "compare", *schemes, *BRIEF, "--on", place, "--json"))
    (row,) = json_rows(done)
    prefix = "narrows" if place == "quic" else "noq"
    assert (row["host"]["on"], row["host"]["schemes"]) == (place, [f"{prefix}:{name}" for name in schemes])
    assert all(flow["timeouts"] is None for flow in row["flows"])
    # A busy machine delivers late and less, never early and more than the link carries.
    assert all(flow["goodput_mbit_s"] > 0 for flow in row["flows"])
    assert sum(flow["goodput_mbit_s"] for flow in row["flows"]) < 10
    assert all(10 <= flow["rtt_min_ms"] <= flow["rtt_p50_ms"] <= flow["rtt_p99_ms"] for flow in row["flows"])


FLOW = 'duration = "1s"\n[network]\nrate = "10mbit"\n[[flows]]\nscheme = "vegas"\nrtt = "10ms"\n'


@pytest.mark.long
@pytest.mark.realtime
@pytest.mark.parametrize(
    ("words", "schemes"),
    [
        (("compare", "bbr-gc", "bbr3", "cubic", *BRIEF), [["bbr-gc", "bbr3", "cubic"]]),
        (("run", "flow.toml"), [["vegas"]]),
        (("sweep", "flow.toml", "--set", "network.rate=5mbit,10mbit"), [["vegas"], ["vegas"]]),
    ],
    ids=["compare", "run", "sweep"],
)
def test_user_without_rights_runs_quic(tmp_path, words, schemes):
    """A user without rights runs scenarios over loopback."""
    (tmp_path / "flow.toml").write_text(FLOW)
    done = ran(without_rights_in(tmp_path, *words, "--on", "quic", "--json"))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [[flow["scheme"] for flow in row["flows"]] for row in rows] == schemes
    assert {row["host"]["between"] for row in rows} == {"loopback"}
    assert all(flow["goodput_mbit_s"] > 0 for row in rows for flow in row["flows"])


@pytest.mark.realtime
def test_root_of_user_namespace_runs_quic(tmp_path):
    """Root of a user namespace, as in a rootless container, runs scenarios over loopback."""
    prefix = ("unshare", "-Ur")
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("needs user namespaces")
    done = ran(narrows_in(tmp_path, "compare", "bbr-gc", "cubic", *BRIEF, "--on", "quic", "--json", prefix=prefix))
    (row,) = json_rows(done)
    assert row["host"]["between"] == "loopback"
    assert all(flow["goodput_mbit_s"] > 0 for flow in row["flows"])


@pytest.mark.realtime
def test_traces_of_quic_have_series_and_internals(tmp_path):
    """A trace has the connection's window, RTT and rate, and the internals of a scheme of ours."""
    import polars as pl

    ran(narrows_in(tmp_path, "compare", "bbr-gc", *BRIEF, "--on", "quic", "--trace", "100ms", "-o", "out"))
    (samples,) = (tmp_path / "out" / "traces").glob("*/samples.parquet")
    series = set(pl.read_parquet(samples)["series"].unique())
    assert {"cwnd_bytes", "pacing_rate_mbit_s", "inflight_bytes"} <= series
    assert any(name.startswith("bw") or "bandwidth" in name for name in series), sorted(series)


@pytest.mark.realtime
def test_qlog_of_quic_accounts_for_its_packets(tmp_path):
    """The file of a run on QUIC is drawn, and agrees with the counts of the result."""
    settings = ("--set", "network.loss=1%", "--set", "warmup=0s")
    words = ("compare", "bbr", *BRIEF, *settings, "--on", "quic", "--qlog", "run.sqlog", "--json")
    done = ran(narrows_in(tmp_path, *words))
    (flow,) = json_rows(done)[0]["flows"]
    loaded = qlog.load([tmp_path / "run.sqlog"])
    (own,) = loaded.flows.iter_rows(named=True)
    lost = sum(value for _, value in points(loaded, "losses_pkt"))
    assert lost == round(flow["retransmit_percent"] / 100 * flow["packets_sent"]) > 0
    # Packets without data are few, and the flow loses the share of its packets that the link drops.
    assert flow["packets_sent"] <= own["packets_sent"] + 20
    assert own["loss_percent"] < 20
    # The log counts acknowledged packets, the result counts arrived packets.
    assert own["throughput_mbit_s"] == pytest.approx(flow["throughput_mbit_s"], rel=0.25)
    ran(narrows_in(tmp_path, "plot", "run.sqlog"))


MARKING = """duration = "3s"
[network]
rate = "10mbit"
buffer = "400pkt"
queue = { kind = "codel", ecn = true, target = "2ms" }
[tcp]
ecn = true
[[flows]]
scheme = "cubic"
rtt = "20ms"
"""


@pytest.mark.long
@pytest.mark.realtime
def test_marks_of_the_network_reach_the_scheme(tmp_path):
    """A queue that marks slows CUBIC down without a loss; without marks, its mean RTT in this queue is 170 ms."""
    (tmp_path / "marks.toml").write_text(MARKING)
    done = ran(without_rights_in(tmp_path, "run", "marks.toml", "--on", "quic", "--json"))
    (row,) = json_rows(done)
    assert row["links"][0]["marks"] > 0
    assert row["links"][0]["drops"] == 0
    assert row["flows"][0]["rtt_mean_ms"] < 100


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("place", "scheme", "message"),
    [
        ("quic", "dctcp", "needs the number of marked packets"),
        ("quic", "bbr3:ecn=true", "with ecn = 1 it needs the number of marked packets"),
        ("noq", "vegas", "accepted: cubic, newreno, bbr3"),
    ],
)
def test_unsuitable_schemes_are_refused(tmp_path, place, scheme, message):
    """A scenario that QUIC cannot run is invalid usage, before anything runs."""
    refused(narrows_in(tmp_path, "compare", scheme, *BRIEF, "--on", place), message)
