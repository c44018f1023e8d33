"""Figures show their data, in stable colours."""

import numpy as np
import polars as pl
import pytest
from matplotlib.image import imread

import narrows
from narrows import engine, plots
from narrows.errors import OptionError, UsageError
from narrows.frames import spec
from narrows.plots import style
from narrows.plots.checks import check_options
from narrows.plots.time import state_spans
from narrows.quantities import axis, quantity

from conftest import call, ran, refused  # isort: skip

pytestmark = pytest.mark.usefixtures("executor")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return narrows.compare(
        "bbr", "cubic", rtt=["10ms", "50ms"], repeat=3, trace=True, out=tmp_path_factory.mktemp("results"),
        set={"network.buffer": ["0.5bdp", "1bdp", "10bdp"], "network.loss": ["0%", "1%"]},
    )  # fmt: skip


def lines(figure):
    return [line for panel in figure.axes for line in panel.lines if len(line.get_xdata()) > 1]


def test_time_plot_has_panel_per_series(results):
    """A plot over time has a panel per series and a line per flow."""
    figure = results.plot("time", series=["cwnd_bytes", "queue_pkt"])
    assert [panel.get_ylabel() for panel in figure.axes] == ["cwnd\nkB", "queue\npackets"]
    assert [len(panel.lines) for panel in figure.axes] == [2, 1]
    assert len(figure.axes[0].lines[0].get_xdata()) == 30
    assert figure.axes[0].lines[0].get_color() == style.scheme_colour("bbr")


def test_time_plot_plus_joins_series_in_panel(results):
    """Series joined by `+` share a panel, with dashes for the second; series of different units cannot share one.

    A common series that the scheme does not report is left out.
    """
    figure = results.plot("time", series=["cwnd_bytes+inflight_bytes", "min_rtt_ms+rtt_ms"])
    assert [panel.get_ylabel() for panel in figure.axes] == ["kB", "smoothed RTT\nms"]
    assert [len(panel.lines) for panel in figure.axes] == [4, 2]
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["cwnd", "inflight"]
    solid, dashed = figure.axes[0].lines[0], figure.axes[0].lines[2]
    assert solid.get_color() == dashed.get_color()
    assert solid.get_linestyle() != dashed.get_linestyle()
    with pytest.raises(UsageError, match="different units"):
        results.plot("time", series=["cwnd_bytes+rtt_ms"])


def test_time_plot_draws_router_readings(results, tmp_path):
    """Readings of a router algorithm are drawn; its states are steps between their names."""
    router = engine.ROUTER
    series = [f"{router}_rate_mbit_s+{router}_free_mbit_s", f"{router}_state"]
    for flows in (["cubic"], ["cubic", "bbr"]):
        keys = {f"network.{router}": "rcp"}
        traced = narrows.compare(*flows, duration="30s", trace=True, out=tmp_path / str(len(flows)), set=keys)
        rates, states = traced.plot("time", series=series).axes
        assert (rates.get_ylabel(), states.get_ylabel()) == ("Mbit/s", f"{router} state\n")
        legend = rates.get_legend()
        assert [text.get_text() for text in legend.get_texts()] == [f"{router} rate", f"{router} free"]
        styles = [
            [(line.get_color(), line.get_linestyle()) for line in some] for some in (legend.get_lines(), rates.lines)
        ]
        assert styles[0] == styles[1]
        assert [text.get_text() for text in states.get_yticklabels()] == ["flow table", "measurement"]
        assert states.lines[0].get_ydata().tolist() == [0] * 10 + [1] * 20
    with pytest.raises(UsageError, match="accepted: a panel of its own"):
        traced.plot("time", series=[f"drops+{router}_state"])
    readings = traced.links.row(0, named=True)
    assert readings[f"{router}.readings.rate_mbit_s"] == 50.0
    assert readings[f"{router}.readings.state"] == "measurement"


def test_time_plot_shades_states_of_lone_flow(results, tmp_path):
    """The states of a lone flow shade the background; several flows have no shading."""
    figure = narrows.compare("bbr", duration="30s", trace=True, out=tmp_path).plot("time")
    assert [text.get_text() for text in figure.legends[1].get_texts()] == ["startup", "probe bw"]
    for panel in figure.axes:
        (shaded,) = panel.collections  # the other state stays white
        box = shaded.get_paths()[0].get_extents()
        assert (box.x0, box.x1) == (0, 10)
    assert all(not panel.collections for panel in results.plot("time").axes), "several flows have no common state"


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
def test_state_spans_merge_short_visits(names, spans):
    """Visits to states become spans, and families of short visits merge."""
    assert state_spans([float(i) for i in range(len(names))], names) == spans


def test_share_plot_adds_up_to_100(results):
    """The shares of all schemes add up to 100 %, at the values of the buffer."""
    figure = results.plot("share")
    drawn = {line.get_label(): line for line in figure.axes[0].containers}
    assert set(drawn) == {"bbr", "cubic"}
    total = sum(container.lines[0].get_ydata() for container in drawn.values())
    np.testing.assert_allclose(total, 100)
    np.testing.assert_allclose(drawn["bbr"].lines[0].get_xdata(), [0.5, 1, 10])


def test_loss_plot_has_loss_on_x_axis(results):
    """The plot against loss has the loss on its x axis, in a panel per buffer."""
    figure = results.plot("loss")
    assert [panel.get_title() for panel in figure.axes[:3]] == [f"buffer = {n} BDP" for n in ("0.5", "1", "10")]
    panel = figure.axes[2]
    assert panel.get_xlabel() == "loss, %"
    np.testing.assert_allclose(panel.containers[0].lines[0].get_xdata(), [0, 1])


def test_bar_plot_places_printed_points_on_bars(results):
    """A printed point is on the bar of its series."""
    points = [{"x": "1bdp", "series": "cubic", "y": 44.0}]
    panel = results.plot("bar", x="network.buffer", points=points).axes[0]
    bars = [patch for patch in panel.patches if patch.get_width() > 0]
    assert len(bars) == 6
    diamond = next(line for line in panel.lines if line.get_marker() == "D")
    middles = [bar.get_x() + bar.get_width() / 2 for bar in bars]
    assert min(abs(middle - diamond.get_xdata()[0]) for middle in middles) < 1e-9


def test_line_plot_from_query(results):
    """A query supplies the columns of a plot."""
    sql = 'SELECT "network.buffer" AS x, scheme AS series, rtt_mean_ms / rtt_base_ms AS y, seed FROM flows'
    panel = results.plot("line", sql=sql, ylabel="ratio").axes[0]
    assert panel.get_ylabel() == "ratio"
    np.testing.assert_allclose(panel.containers[0].lines[0].get_ydata(), 1.5)


GRID = """
SELECT "network.buffer" AS x, scheme AS series, rtt_base_ms || ' ms' AS panel, goodput_mbit_s AS y, seed FROM flows"""
ROWS = f"""
SELECT x, series, panel, 'goodput' AS row, y, seed FROM ({GRID}) AS a
UNION ALL SELECT x, series, panel, 'a tenth of it' AS row, y / 10 AS y, seed FROM ({GRID}) AS b"""


def test_panel_column_makes_panels(results):
    """A column `panel` makes panels side by side with common scales and one legend."""
    figure = results.plot("line", sql=GRID, ylabel="Mbit/s", xlabel="buffer")
    left, right = figure.axes
    assert [panel.get_title() for panel in figure.axes] == ["10.0 ms", "50.0 ms"]
    assert left.get_ylim() == right.get_ylim(), "the scales are common"
    assert (left.get_ylabel(), right.get_ylabel(), right.get_xlabel()) == ("Mbit/s", "", "buffer")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["bbr", "cubic"], "one legend for all"
    flows = results.flows.filter((pl.col("rtt_base_ms") == 50) & (pl.col("scheme") == "cubic"))
    expected = flows.group_by("network.buffer", maintain_order=True).agg(pl.col("goodput_mbit_s").mean())
    np.testing.assert_allclose(right.containers[0].lines[0].get_ydata(), expected["goodput_mbit_s"])


def test_row_column_stacks_panels(results):
    """A column `row` stacks panels, and a printed point goes to its panel."""
    figure = results.plot("line", sql=ROWS, points=[{"x": "1bdp", "y": 1.0, "panel": "50.0 ms", "row": "goodput"}])
    assert [panel.get_title() for panel in figure.axes] == ["10.0 ms", "50.0 ms", "", ""]
    assert [panel.get_ylabel() for panel in figure.axes] == ["a tenth of it", "", "goodput", ""]
    above, below = figure.axes[1], figure.axes[3]
    np.testing.assert_allclose(10 * above.containers[0].lines[0].get_ydata(), below.containers[0].lines[0].get_ydata())
    diamonds = [sum(line.get_marker() == "D" for line in panel.lines) for panel in figure.axes]
    assert diamonds == [0, 0, 0, 1]


def test_panels_wrap_and_may_own_axes(results):
    """Panels wrap after two columns, and may have their own scales."""
    sql = GRID.replace("rtt_base_ms || ' ms'", '"network.buffer"')
    wrapped = results.plot("line", sql=sql)
    assert len(wrapped.axes) == 4
    assert [panel.axison for panel in wrapped.axes] == [True, True, True, False]
    assert wrapped.axes[1].xaxis.get_tick_params()["labelbottom"], "no panel is below it"
    own = results.plot("line", sql=sql, columns=3, own_axes=True)
    assert len({panel.get_ylim() for panel in own.axes}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(plots.KINDS))
@pytest.mark.parametrize("form", ["png", "svg"])
def test_every_kind_draws_something(results, kind, form, tmp_path):
    """Every kind of plot draws something, as PNG and as SVG."""
    path = tmp_path / f"figure.{form}"
    plots.save(results.plot(kind), path)
    if form == "png":
        pixels = imread(path)[..., :3]
        assert pixels.std() > 0.01, "not a blank page"
    else:
        assert path.read_text().count("<path") > 10


@pytest.mark.slow
def test_equal_results_give_equal_files(results):
    """Equal results give equal bytes of files."""
    for form in ("png", "svg"):
        for kind in ("share", "delay"):
            assert plots.image(results.plot(kind), form) == plots.image(results.plot(kind), form)


def test_colours_follow_registry():
    """Colours follow the registry, and an alias has the colour of its scheme."""
    names = [scheme.name for scheme in engine.schemes()]
    first = names[: len(style.TONES)]
    assert [style.scheme_colour(name) for name in first] == list(style.TONES[: len(first)])
    assert style.scheme_colour("reno") == style.scheme_colour("newreno")


def test_long_registry_gets_tones_and_lines(monkeypatch):
    """Beyond seven schemes, tones, lines and markers distinguish schemes."""
    monkeypatch.setattr(engine, "scheme_order", lambda: {f"s{i}": i for i in range(24)})
    styles = [style.scheme_style(f"s{i}") for i in range(24)]
    assert len({found["color"] for found in styles[:21]}) == 21
    assert len({tuple(map(str, found.values())) for found in styles}) == 24


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kind": "pie"}, "accepted: time, share"),
        ({"kind": "line", "y": "speed"}, "no column 'speed'"),
        ({"kind": "line", "x": "network.rate"}, "no column 'network.rate'"),
        ({"kind": "line", "table": "rows"}, "there is no table"),
        ({"kind": "time", "run": 99}, "there is no run 99"),
        ({"kind": "time", "series": ["speed"]}, "accepted: cwnd_bytes"),
        ({"kind": "time", "series": ["rtt_ms", "nosuch"]}, "no series nosuch; accepted: cwnd_bytes"),
        ({"kind": "time", "series": ["nosuch+rtt_ms"]}, "no series nosuch; accepted: cwnd_bytes"),
        ({"kind": "delay", "by": "nosuch"}, "no column 'nosuch'"),
        ({"kind": "line", "colour": "red"}, "colour"),
        ({"kind": "line", "points": [{"x": "seven", "y": 1}]}, "not on the axis"),
        ({"kind": "line", "points": [{"x": "1bdp"}]}, "accepted: a list of points with x and y"),
        ({"kind": "line", "y": "scheme"}, "column 'scheme' holds no numbers; accepted: seed, index"),
        ({"kind": "line", "y": "completion_s"}, "column 'completion_s' holds no values"),
        ({"kind": "line", "sql": "SELECT nothing FROM flows"}, "sql: "),
        ({"kind": "line", "sql": "SELECT seed AS x, seed AS y FROM flows", "table": "flows"}, "accepted: one of them"),
        ({"kind": "line", "size": "poster"}, "there is no size 'poster'; accepted: column, page"),
        ({"kind": "line", "size": 3}, "accepted: column or page"),
        ({"kind": "line", "columns": 0}, "accepted: a whole number from 1"),
        ({"kind": "line", "series": 5}, "accepted: the name of a column, or several"),
        ({"kind": "line", "logx": "yes"}, "accepted: True or False"),
        ({"kind": "line", "where": "network.loss=0%"}, "accepted: values by key"),
        ({"kind": "line", "where": {"network.loss": "7%"}}, "no row has network.loss = 7%; accepted: 0%, 1%"),
        ({"kind": "line", "where": {"speed": 1}}, "no column 'speed'"),
        ({"kind": "bar", "logx": True}, "plots of kind 'bar' lack this option; accepted: table, sql, x, y, series"),
        ({"kind": "cdf", "table": "samples", "x": "speed"}, "the trace has no series 'speed'; accepted: cwnd_bytes"),
        ({"kind": "heatmap", "x": "network.loss", "y": "network.loss"}, "accepted: another key"),
        ({"kind": "time", "run": 1, "where": {"network.loss": "1%"}}, "accepted: one of them"),
        ({"kind": 3}, "there is no kind 3; accepted: time, share"),
    ],
)
def test_invalid_plot_names_reason(results, options, named):
    """A plot that cannot be drawn names the reason and the accepted values."""
    with pytest.raises(UsageError, match=named):
        results.plot(**options)


def test_time_plot_needs_trace():
    """A plot over time needs a trace."""
    with pytest.raises(UsageError, match="the runs have no trace"):
        narrows.compare("bbr").plot("time")


@pytest.mark.slow
def test_plot_and_report_write_files(results, tmp_path):
    """`narrows plot` and `narrows report` write files; a report holds every kind of plot and the notes."""
    for args in (["plot", results.out], ["plot", results.out, "--kind", "share", "--logx", "-o", tmp_path / "s.svg"]):
        ran(call(*args))
    assert (results.out / "time.png").stat().st_size > 5000
    assert "<svg" in (tmp_path / "s.svg").read_text()
    ran(call("report", results.out, "-o", tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/png;base64,") == len(plots.KINDS)
    assert "left out of the means" in page
    assert "queue delay mean ms" in page


@pytest.mark.parametrize("args", [["plot", "."], ["report", "."]])
def test_folder_without_results_rejected(args, tmp_path, monkeypatch):
    """A folder without results is invalid usage."""
    monkeypatch.chdir(tmp_path)
    refused(call(*args), "no results in")


def test_plot_unknown_ending_rejected(results):
    """An unknown ending of the output file is invalid usage."""
    refused(call("plot", results.out, "-o", "figure.txt"), ".png, .svg or .pdf")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("5mbit", (5, "Mbit/s")), ("1.5gbit", (1500, "Mbit/s")), ("10ms", (10, "ms")), ("2s", (2000, "ms")),
        ("0.1bdp", (0.1, "BDP")), ("5bdp@10ms", (5, "BDP")), ("100pkt", (100, "packets")), ("0.1%", (0.1, "%")),
        ("64kB", (64, "kB")), ("7", (7, "")), ("1e-3", (0.001, "")), ("codel", None), ("5 apples", None),
    ],
)  # fmt: skip
def test_quantity_reads_value_and_unit(text, meant):
    """Texts with units become numbers, and words do not."""
    found = quantity(text)
    assert found == (meant if meant is None else (pytest.approx(meant[0]), meant[1]))


def test_axis_needs_a_common_unit():
    """An axis is numeric only if all values have a common unit."""
    assert axis(["1bdp", "10bdp"]) == ([1, 10], "BDP")
    assert axis(["0", "1%"]) == ([0, 1], "%")
    assert axis(["1bdp", "100pkt"]) is None
    assert axis(["1bdp", "codel"]) is None


@pytest.mark.slow
def test_parameters_of_a_scheme_separate_series(tmp_path):
    """Schemes with different parameters have their own series, lines and hatches."""
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


def test_many_places_give_plain_curve(results):
    """More than 40 positions give a curve without markers on a linear axis, unless `logx` is set."""
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


def test_spec_omits_swept_parameters():
    """A swept parameter is a column, and no part of the scheme's name."""
    flow = {"scheme": "bbr", "params": "cwnd_gain=1.5,lt_bw=off"}
    assert spec(flow, {}) == "bbr:cwnd_gain=1.5,lt_bw=off"
    assert spec(flow, {"flows.params.cwnd_gain": "1.5"}) == "bbr:lt_bw=off"
    assert spec(flow, {"flows.1.params.cwnd_gain": "1.5", "flows.params.lt_bw": "off"}) == "bbr"
    assert spec({"scheme": "bbr"}, {"network.buffer": "1bdp"}) == "bbr"


@pytest.mark.parametrize("title", ["\udcff", "a\0b"])
def test_titles_that_no_font_can_draw_are_refused(title):
    """A text of a figure may not contain a lone surrogate or a null character."""
    with pytest.raises(OptionError, match="accepted: a text"):
        check_options({"title": title})
