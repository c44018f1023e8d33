"""Tables of sweeps: a row for each flow of each point, and a heading for each axis."""

import itertools

import pytest

import narrows
from narrows import engine

from conftest import ONE_FLOW  # isort: skip


def swept(axes, flows):
    """Return results of one run per point of a grid; no two goodputs are equal.

    Args:
        axes: The swept keys, with their values.
        flows: Gives the schemes and base RTTs of the flows of a point.
    """
    (planned,) = engine.plan(ONE_FLOW, "text", None, [])
    run = engine.run(planned, None, None)
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    count = itertools.count(1)
    runs = []
    for point in points:
        rows = [
            run["flows"][0] | {"flow": i, "label": str(i), "scheme": scheme, "rtt_base_ms": rtt, "goodput_mbit_s": next(count)}
            for i, (scheme, rtt) in enumerate(flows(point))
        ]  # fmt: skip
        runs.append(run | {"id": f"run {len(runs)}", "point": point, "flows": rows})
    return narrows.Results(points, runs)


def shown(results, place=0):
    """Return headings and rows of a table."""
    table = results.table().renderables[place]
    heads = [str(column.header).replace(".\n", ".").replace("\n", " ") for column in table.columns]
    return heads, list(zip(*(list(column.cells) for column in table.columns), strict=True))


def goodputs(heads, rows):
    """Return the goodputs of the rows."""
    return [float(row[heads.index("goodput Mbit/s")]) for row in rows]


def test_flow_table_keeps_runs_of_rivals_apart():
    """A flow with a fixed scheme has a row per rival, which the axis names."""
    axes = {"flows.scheme": ["bbr", "cubic"], "network.loss": ["0.1%", "1%"]}
    heads, rows = shown(swept(axes, lambda point: [("newreno", 40), (point["flows.scheme"], 40)]))
    assert heads[:4] == ["flows.scheme", "loss", "flow", "scheme"]
    assert [row[:4] for row in rows[:4]] == [
        ("bbr", "0.1%", "1", "newreno"), ("", "", "2", "bbr"), ("bbr", "1%", "1", "newreno"), ("", "", "2", "bbr"),
    ]  # fmt: skip
    assert goodputs(heads, rows) == list(range(1, 9))


def test_flow_table_names_two_scheme_axes_apart():
    """Two axes of schemes have two headings, and every run has its rows."""
    axes = {"flows.scheme": ["bbr", "cubic"], "flows.0.scheme": ["newreno", "bbr"]}
    found = swept(axes, lambda point: [(point["flows.0.scheme"], 40), (point["flows.scheme"], 40)])
    heads, rows = shown(found)
    assert heads[:4] == ["flows.scheme", "flows.0.scheme", "flow", "scheme"]
    assert goodputs(heads, rows) == list(range(1, 9))
    assert len(set(heads)) == len(heads)
    assert shown(found, 1)[0][:2] == ["flows.scheme", "flows.0.scheme"]


def test_axis_of_one_flow_named_apart_from_scheme():
    """The axis of one flow's scheme and the column of schemes have different headings."""
    axes = {"flows.0.scheme": ["newreno", "bbr"]}
    heads, rows = shown(swept(axes, lambda point: [(point["flows.0.scheme"], 40), ("cubic", 40)]))
    assert heads[:3] == ["flows.0.scheme", "flow", "scheme"]
    assert goodputs(heads, rows) == [1, 2, 3, 4]


@pytest.mark.parametrize("key", ["flows.scheme", "flows.0.scheme"])
def test_axis_that_rows_state_has_no_column(key):
    """An axis of schemes has no column if the scheme of each row is its value, also by an alias."""
    axes = {key: ["reno", "bbr"]}
    heads, rows = shown(swept(axes, lambda point: [(point[key].replace("reno", "newreno"), 40)]))
    assert heads[:2] == ["scheme", "base RTT ms"]
    assert [row[0] for row in rows] == ["newreno", "bbr"]


def test_axis_shown_if_rows_look_equal():
    """An axis of schemes has a column if two of its values print as the same scheme."""
    axes = {"flows.scheme": ["bbr", "bbr:cwnd_gain=2"]}
    heads, rows = shown(swept(axes, lambda _: [("bbr", 40)]))
    assert heads[:2] == ["flows.scheme", "scheme"]
    assert goodputs(heads, rows) == [1, 2]


def test_rtt_axis_shown_if_a_flow_has_its_own():
    """The axis of RTTs has a column if the base RTT of a row does not state its value."""
    axes = {"flows.rtt": ["10ms", "50ms"]}
    heads, rows = shown(swept(axes, lambda point: [("bbr", float(point["flows.rtt"][:2]))]))
    assert heads[0] == "scheme"
    heads, rows = shown(swept(axes, lambda point: [("bbr", 20.0), ("bbr", float(point["flows.rtt"][:2]))]))
    assert heads[0] == "rtt"
    assert goodputs(heads, rows) == [1, 2, 3, 4]


def test_many_flows_keep_rivals_apart():
    """With many flows, the flows of one scheme have a row per rival."""
    axes = {"flows.scheme": ["bbr", "cubic"]}
    heads, rows = shown(swept(axes, lambda point: [("newreno", 40)] * 10 + [(point["flows.scheme"], 40)] * 10))
    assert [row[:2] for row in rows] == [("bbr", "newreno"), ("", "bbr"), ("cubic", "newreno"), ("", "cubic")]
    assert [float(row[heads.index("Mbit/s per flow")]) for row in rows] == [5.5, 15.5, 25.5, 35.5]


def test_jain_index_needs_rivals():
    """Jain's index is printed for several flows, not for one."""
    assert "Jain" not in repr(narrows.run(ONE_FLOW))
    assert "Jain's index" in repr(narrows.run(ONE_FLOW + '[[flows]]\nrtt = "40ms"\nscheme = "cubic"\n'))
