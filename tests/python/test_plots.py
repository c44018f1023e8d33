"""Figures show what they are given, in stable colours."""

import numpy as np
import polars as pl
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

import narrows
from narrows import engine, plots
from narrows.cli import app
from narrows.quantities import axis, quantity
from narrows.results import spec
from narrows.scenario import Misuse


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return narrows.compare(
        "bbr", "cubic", rtt=["10ms", "50ms"], repeat=3, trace=True, out=tmp_path_factory.mktemp("results"),
        set={"network.buffer": ["0.5bdp", "1bdp", "10bdp"], "network.loss": ["0%", "1%"]},
    )  # fmt: skip


def lines(figure):
    return [line for panel in figure.axes for line in panel.lines if len(line.get_xdata()) > 1]


def test_time_has_a_panel_per_series_and_a_line_per_flow(results):
    figure = results.plot("time", series=["cwnd_bytes", "queue_pkt"])
    assert [panel.get_ylabel() for panel in figure.axes] == ["cwnd\nkB", "queue\npackets"]
    assert [len(panel.lines) for panel in figure.axes] == [2, 1]
    assert len(figure.axes[0].lines[0].get_xdata()) == 30
    assert figure.axes[0].lines[0].get_color() == plots.colour("bbr")


def test_series_joined_by_plus_share_a_panel(results):
    figure = results.plot("time", series=["cwnd_bytes+inflight_bytes", "nosuch+rtt_ms"])
    assert [panel.get_ylabel() for panel in figure.axes] == ["kB", "RTT\nms"]
    assert [len(panel.lines) for panel in figure.axes] == [4, 2]
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["cwnd", "inflight"]
    solid, dashed = figure.axes[0].lines[0], figure.axes[0].lines[2]
    assert solid.get_color() == dashed.get_color()
    assert solid.get_linestyle() != dashed.get_linestyle()
    with pytest.raises(Misuse, match="another unit"):
        results.plot("time", series=["cwnd_bytes+rtt_ms"])


def test_readings_of_an_allocator_are_drawn_and_its_states_are_steps_between_names(results, tmp_path):
    series = ["allocator_rate_mbit_s+allocator_free_mbit_s", "allocator_state"]
    for flows in (["cubic"], ["cubic", "bbr"]):
        keys = {"network.allocator": "rcp"}
        traced = narrows.compare(*flows, duration="30s", trace=True, out=tmp_path / str(len(flows)), set=keys)
        rates, states = traced.plot("time", series=series).axes
        assert (rates.get_ylabel(), states.get_ylabel()) == ("Mbit/s", "allocator state\n")
        told = rates.get_legend()
        assert [text.get_text() for text in told.get_texts()] == ["allocator rate", "allocator free"]
        looks = [
            [(line.get_color(), line.get_linestyle()) for line in some] for some in (told.get_lines(), rates.lines)
        ]
        assert looks[0] == looks[1]
        assert [text.get_text() for text in states.get_yticklabels()] == ["flow table", "measurement"]
        assert states.lines[0].get_ydata().tolist() == [0] * 10 + [1] * 20
    with pytest.raises(Misuse, match="accepted: a panel of its own"):
        traced.plot("time", series=["drops+allocator_state"])
    readings = traced.links.row(0, named=True)
    assert readings["allocator.readings.rate_mbit_s"] == 50.0
    assert readings["allocator.readings.state"] == "measurement"


def test_the_states_of_a_lone_flow_are_shaded(results, tmp_path):
    figure = narrows.compare("bbr", duration="30s", trace=True, out=tmp_path).plot("time")
    assert [text.get_text() for text in figure.legends[1].get_texts()] == ["startup", "probe bw"]
    for panel in figure.axes:
        (shaded,) = panel.collections  # the other state is white
        box = shaded.get_paths()[0].get_extents()
        assert (box.x0, box.x1) == (0, 10)
    assert all(not panel.collections for panel in results.plot("time").axes), "two flows have no common state"


@pytest.mark.parametrize(
    ("names", "spans"),
    [
        ([], []),
        (["a", "a", "b", "b"], [(0, 2, "a"), (2, 3, "b")]),
        (["x_up", "x_down"] * 100, [(0, 199, "x")]),  # stripes finer than 2 % of the whole
        (["x_up"] * 50 + ["x_down"] * 50, [(0, 50, "x_up"), (50, 99, "x_down")]),
        (["slow_start", "a"] * 100, [(i, min(i + 1, 199), n) for i, n in enumerate(["slow_start", "a"] * 100)]),
    ],
)
def test_states_become_spans_and_short_ones_their_family(names, spans):
    assert plots._spans([float(i) for i in range(len(names))], names) == spans


def test_shares_add_up_to_all_of_it(results):
    figure = results.plot("share")
    drawn = {line.get_label(): line for line in figure.axes[0].containers}
    assert set(drawn) == {"bbr", "cubic"}
    total = sum(container.lines[0].get_ydata() for container in drawn.values())
    np.testing.assert_allclose(total, 100)
    np.testing.assert_allclose(drawn["bbr"].lines[0].get_xdata(), [0.5, 1, 10])


def test_throughput_against_loss_has_the_loss_on_the_axis(results):
    panel = results.plot("loss").axes[0]
    assert panel.get_xlabel() == "loss, %"
    np.testing.assert_allclose(panel.containers[0].lines[0].get_xdata(), [0, 1])


def test_delay_against_throughput_has_less_delay_to_the_right(results):
    panel = results.plot("delay").axes[0]
    left, right = panel.get_xlim()
    assert left > 0 > right > -0.05 * left, "a queue that is always empty is inside the frame"
    assert len(panel.patches) == 12, "an ellipse for each scheme at each of the six points"


def test_bars_and_printed_points_stand_side_by_side(results):
    points = [{"x": "1bdp", "series": "cubic", "y": 44.0}]
    panel = results.plot("bar", x="network.buffer", points=points).axes[0]
    bars = [patch for patch in panel.patches if patch.get_width() > 0]
    assert len(bars) == 6
    diamond = next(line for line in panel.lines if line.get_marker() == "D")
    middles = [bar.get_x() + bar.get_width() / 2 for bar in bars]
    assert min(abs(middle - diamond.get_xdata()[0]) for middle in middles) < 1e-9


def test_a_query_makes_a_plot(results):
    sql = 'SELECT "network.buffer" AS x, scheme AS series, rtt_mean_ms / rtt_base_ms AS y, seed FROM flows'
    panel = results.plot("line", sql=sql, ylabel="ratio").axes[0]
    assert panel.get_ylabel() == "ratio"
    np.testing.assert_allclose(panel.containers[0].lines[0].get_ydata(), 1.5)


GRID = """
SELECT "network.buffer" AS x, scheme AS series, rtt_base_ms || ' ms' AS panel, goodput_mbit_s AS y, seed FROM flows"""
ROWS = f"""
SELECT x, series, panel, 'goodput' AS row, y, seed FROM ({GRID}) AS a
UNION ALL SELECT x, series, panel, 'a tenth of it' AS row, y / 10 AS y, seed FROM ({GRID}) AS b"""


def test_a_column_called_panel_makes_panels_side_by_side(results):
    figure = results.plot("line", sql=GRID, ylabel="Mbit/s", xlabel="buffer")
    left, right = figure.axes
    assert [panel.get_title() for panel in figure.axes] == ["10.0 ms", "50.0 ms"]
    assert left.get_ylim() == right.get_ylim(), "heights can be compared"
    assert (left.get_ylabel(), right.get_ylabel(), right.get_xlabel()) == ("Mbit/s", "", "buffer")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["bbr", "cubic"], "once for all"
    flows = results.flows.filter((pl.col("rtt_base_ms") == 50) & (pl.col("scheme") == "cubic"))
    expected = flows.group_by("network.buffer", maintain_order=True).agg(pl.col("goodput_mbit_s").mean())
    np.testing.assert_allclose(right.containers[0].lines[0].get_ydata(), expected["goodput_mbit_s"])


def test_a_column_called_row_puts_panels_below_each_other(results):
    figure = results.plot("line", sql=ROWS, points=[{"x": "1bdp", "y": 1.0, "panel": "50.0 ms", "row": "goodput"}])
    assert [panel.get_title() for panel in figure.axes] == ["10.0 ms", "50.0 ms", "", ""]
    assert [panel.get_ylabel() for panel in figure.axes] == ["a tenth of it", "", "goodput", ""]
    above, below = figure.axes[1], figure.axes[3]
    np.testing.assert_allclose(10 * above.containers[0].lines[0].get_ydata(), below.containers[0].lines[0].get_ydata())
    diamonds = [sum(line.get_marker() == "D" for line in panel.lines) for panel in figure.axes]
    assert diamonds == [0, 0, 0, 1]


def test_panels_are_wrapped_and_may_have_axes_of_their_own(results):
    sql = GRID.replace("rtt_base_ms || ' ms'", '"network.buffer"')
    wrapped = results.plot("line", sql=sql)
    assert len(wrapped.axes) == 4
    assert [panel.axison for panel in wrapped.axes] == [True, True, True, False]
    assert wrapped.axes[1].xaxis.get_tick_params()["labelbottom"], "nothing stands below it"
    own = results.plot("line", sql=sql, columns=3, own_axes=True)
    assert len({panel.get_ylim() for panel in own.axes}) == 3


@pytest.mark.parametrize("kind", list(plots.KINDS))
@pytest.mark.parametrize("form", ["png", "svg"])
def test_every_kind_draws_something(results, kind, form, tmp_path):
    path = tmp_path / f"figure.{form}"
    plots.save(results.plot(kind), path)
    if form == "png":
        pixels = imread(path)[..., :3]
        assert pixels.std() > 0.01, "not a blank page"
    else:
        assert path.read_text().count("<path") > 10


def test_the_same_results_give_the_same_file(results):
    for form in ("png", "svg"):
        assert plots.image(results.plot("share"), form) == plots.image(results.plot("share"), form)


def test_colours_follow_the_registry_and_neighbours_differ():
    names = [scheme.name for scheme in engine.schemes()]
    assert [plots.colour(name) for name in names] == list(plots.TONES[: len(names)])
    assert plots.colour("reno") == plots.colour("newreno")


def test_a_longer_registry_has_tones_and_other_lines(monkeypatch):
    monkeypatch.setattr(engine, "scheme_order", lambda: {f"s{i}": i for i in range(24)})
    looks = [plots.style(f"s{i}") for i in range(24)]
    assert len({look["color"] for look in looks[:21]}) == 21
    assert len({tuple(map(str, look.values())) for look in looks}) == 24


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kind": "pie"}, "accepted: time, share"),
        ({"kind": "line", "y": "speed"}, "no column 'speed'"),
        ({"kind": "line", "x": "network.rate"}, "no column 'network.rate'"),
        ({"kind": "line", "table": "rows"}, "no table"),
        ({"kind": "time", "run": 99}, "no run 99"),
        ({"kind": "time", "series": ["speed"]}, "accepted: cwnd_bytes"),
        ({"kind": "line", "colour": "red"}, "colour"),
        ({"kind": "line", "points": [{"x": "seven", "y": 1}]}, "not on the axis"),
    ],
)
def test_a_plot_that_cannot_be_drawn_says_why(results, options, named):
    with pytest.raises(Misuse, match=named):
        results.plot(**options)


def test_plots_over_time_need_a_trace():
    with pytest.raises(Misuse, match="without a trace"):
        narrows.compare("bbr").plot("time")


def test_plot_and_report_commands_write_files(results, tmp_path):
    for args in (["plot", results.out], ["plot", results.out, "--kind", "share", "--logx", "-o", tmp_path / "s.svg"]):
        done = CliRunner().invoke(app, [str(a) for a in args])
        assert done.exit_code == 0, done.stderr
    assert (results.out / "time.png").stat().st_size > 5000
    assert "<svg" in (tmp_path / "s.svg").read_text()
    done = CliRunner().invoke(app, ["report", str(results.out), "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/png;base64,") == len(plots.KINDS)
    assert "left out of the means" in page
    assert "queue delay mean ms" in page


@pytest.mark.parametrize("args", [["plot", "."], ["report", "."], ["plot", "nosuch"]])
def test_a_folder_without_results_is_misuse(args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 2
    assert "no results in" in done.stderr


def test_a_wrong_ending_is_misuse(results):
    done = CliRunner().invoke(app, ["plot", str(results.out), "-o", "figure.txt"])
    assert done.exit_code == 2
    assert ".png, .svg or .pdf" in done.stderr


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("5mbit", (5, "Mbit/s")), ("1.5gbit", (1500, "Mbit/s")), ("10ms", (10, "ms")), ("2s", (2000, "ms")),
        ("0.1bdp", (0.1, "BDP")), ("5bdp@10ms", (5, "BDP")), ("100pkt", (100, "packets")), ("0.1%", (0.1, "%")),
        ("64kB", (64, "kB")), ("7", (7, "")), ("1e-3", (0.001, "")), ("codel", None), ("5 apples", None),
    ],
)  # fmt: skip
def test_texts_with_units_become_numbers(text, meant):
    found = quantity(text)
    assert found == (meant if meant is None else (pytest.approx(meant[0]), meant[1]))


def test_an_axis_is_numeric_only_where_all_values_are_of_one_kind():
    assert axis(["1bdp", "10bdp"]) == ([1, 10], "BDP")
    assert axis(["0", "1%"]) == ([0, 1], "%")
    assert axis(["1bdp", "100pkt"]) is None
    assert axis(["1bdp", "codel"]) is None


def test_variants_of_a_scheme_have_series_of_their_own(tmp_path):
    names = ["bbr:cwnd_gain=1.5", "bbr"]
    results = narrows.compare(*names, trace=True, out=tmp_path, set={"network.buffer": ["1bdp", "2bdp"]})
    assert results.flows["spec"].unique(maintain_order=True).to_list() == names
    lines = {box.get_label(): box.lines[0].get_linestyle() for box in results.plot("line").axes[0].containers}
    assert sorted(lines) == sorted(names)
    assert lines[names[0]] != lines[names[1]]
    bars = results.plot("bar", x="network.buffer").axes[0].patches
    assert {bool(bar.get_hatch()) for bar in bars} == {True, False}
    for kind in ("share", "delay"):
        assert [text.get_text() for text in results.plot(kind).legends[0].get_texts()] == names
    assert [text.get_text() for text in results.plot("time").legends[0].get_texts()] == [
        "1 bbr:cwnd_gain=1.5, 40 ms", "2 bbr, 40 ms",
    ]  # fmt: skip
    assert results.plot("bar", x="spec", series=None).axes[0].get_xlabel() == "scheme"


def test_many_places_are_a_curve_on_a_linear_axis(results):
    few = results.plot("line", x="network.buffer").axes[0]
    assert few.get_xscale() == "log"
    assert all(box.lines[0].get_marker() not in ("", "None") for box in few.containers)
    sql = "SELECT time_s AS x, value AS y, seed FROM samples WHERE series = 'rtt_ms' AND time_s > 0"
    assert results.plot("line", sql=sql).axes[0].get_xscale() == "log", "29 places"
    both = f"{sql} UNION ALL SELECT time_s + 0.5 AS x, value AS y, seed FROM samples WHERE series = 'rtt_ms'"
    many = results.plot("line", sql=both).axes[0]
    assert many.get_xscale() == "linear", "59 places"
    assert all(box.lines[0].get_marker() in ("", "None") for box in many.containers)
    assert results.plot("line", sql=both, logx=True).axes[0].get_xscale() == "log"


def test_a_swept_parameter_is_a_column_and_no_series():
    flow = {"scheme": "bbr", "params": "cwnd_gain=1.5,lt_bw=off"}
    assert spec(flow, {}) == "bbr:cwnd_gain=1.5,lt_bw=off"
    assert spec(flow, {"flows.params.cwnd_gain": "1.5"}) == "bbr:lt_bw=off"
    assert spec(flow, {"flows.1.params.cwnd_gain": "1.5", "flows.params.lt_bw": "off"}) == "bbr"
    assert spec({"scheme": "bbr"}, {"network.buffer": "1bdp"}) == "bbr"
