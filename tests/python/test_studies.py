"""The measures of the studies, on cases whose results follow from the definitions."""

import sys

import pytest

from conftest import ROOT, python, ran  # isort: skip

EXPLICIT = ROOT / "studies" / "explicit"
sys.path.insert(0, str(EXPLICIT))

import fairness  # noqa: E402
import measure  # noqa: E402

Flow = fairness.Flow


def test_max_min_rates_fill_every_link():
    """Progressive filling uses every link and gives no flow more than its application sends."""
    # A long flow uses both links, and each link has a short flow. The first link gives 30 / 2 each; then 100 - 15.
    flows = [Flow("long", (0, 1)), Flow("first", (0,)), Flow("second", (1,))]
    assert fairness.max_min_rates(flows, [30.0, 100.0]) == pytest.approx([15.0, 15.0, 85.0])
    # Other flows share the capacity that a slow application leaves.
    flows = [Flow("slow", limit=4.0), Flow("fast"), Flow("fast")]
    assert fairness.max_min_rates(flows, [100.0]) == pytest.approx([4.0, 48.0, 48.0])
    assert fairness.max_min_rates([], [100.0]) == []


def test_fair_shares_average_over_measured_lifetime():
    """A fair share is the mean rate over the measured part of a flow's lifetime."""
    # Alone from 5 to 10 s, half of the link until 20 s, alone until 25 s: a share of (5 + 10 / 2 + 5) / 20.
    flows = [Flow("stays"), Flow("comes and goes", start=10.0, stop=20.0)]
    assert fairness.fair_shares(flows, [100.0], 5.0, 25.0) == pytest.approx([75.0, 50.0])
    # A flow that is idle every other second has half of its share, and leaves the other half.
    flows = [Flow("bulk"), Flow("on-off", on=1.0, off=1.0)]
    assert fairness.fair_shares(flows, [100.0], 2.0, 12.0) == pytest.approx([75.0, 25.0])


def test_flows_and_capacities_follow_from_files():
    """Flows and capacities follow from the scenario, including loss before or behind the queue."""
    part = fairness.flows_of(
        {"network": {}, "flows": [{"scheme": "fixed:window=9,rate=50", "count": 2, "start": "500ms"}]}
    )
    assert part == [Flow("fixed:window=9,rate=50", start=0.5, limit=50.0)] * 2
    chain = {
        "network": {"loss": "10%"},
        "links": [{"from": "A", "to": "B", "rate": "1gbit"}, {"from": "B", "to": "C", "rate": "30mbit"}],
        "flows": [{"scheme": "x", "from": "A", "to": "C"}, {"scheme": "x", "from": "B", "to": "C"}],
    }
    assert [flow.links for flow in fairness.flows_of(chain)] == [(0, 1), (1,)]
    assert fairness.capacities_of(chain) == pytest.approx([900.0 * fairness.PAYLOAD, 27.0 * fairness.PAYLOAD])
    # Packets lost before a queue do not use the link.
    chain["network"]["loss_at"] = "ingress"
    assert fairness.capacities_of(chain) == pytest.approx([1000.0 * fairness.PAYLOAD, 30.0 * fairness.PAYLOAD])


def test_narrowest_takes_minimum_per_second():
    """Of links in series, the narrowest counts in each second."""
    fast, slow = "\n".join(["500"] * 9 + ["2000"] * 3), "\n".join(["1000"] * 4 + ["1500"] * 5 + ["2000"])
    # Packets in the two seconds: 9 and 3 on the fast link, 4 and 6 on the slow one; the minima are 4 and 3.
    assert fairness.narrowest([fast, slow], 0.0, 4.0) == pytest.approx(3.5 * 1500 * 8 / 1e6 * fairness.PAYLOAD)


def test_settled_needs_a_second_of_good_samples():
    """Convergence is the first sample from which all samples are good for a second."""
    times = [i * 0.25 for i in range(21)]  # 0 to 5 s
    good = [time > 2.0 or time == 1.25 for time in times]
    # The sample at 2.25 covers the interval that begins at 2.0.
    assert measure.settled(times, good, 1.0, 5.0) == pytest.approx(1.0)
    assert measure.settled(times, good, 2.5, 5.0) == 0.0
    assert measure.settled(times, good, 1.0, 2.75) is None
    assert measure.windowed([2.0, 4.0, 6.0]) == [3.0, 5.0, 6.0]
    assert measure.jain([1.0, 1.0, 0.0]) == pytest.approx(2 / 3)
    assert measure.jain([0.0, 0.0]) == 0.0


def test_label_matches_numbered_flows_only():
    """A label matches its numbered flows and no others."""
    names = ["mouse", "mouse-12", "mouse-x", "dormouse", "mouses"]
    assert [name for name in names if measure.named({"flow": name}, "mouse")] == ["mouse", "mouse-12"]


@pytest.mark.slow
def test_study_parts_plan_for_every_contestant():
    """The engine accepts every part of the study for every contestant."""
    done = ran(python(EXPLICIT / "study.py", "--plan", timeout=120))
    files = {path.stem for path in EXPLICIT.glob("*.toml")} - {"aqm", "predict"}
    planned = {line.split()[0].partition("-")[0] for line in done.stdout.splitlines()}
    assert planned == files
