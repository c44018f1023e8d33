"""Figures average over flows and seeds only, and show possible values only."""

import numpy as np
import polars as pl
import pytest
from matplotlib.image import imread

import narrows
from narrows import plots
from narrows.errors import OptionError, UsageError
from narrows.frames import ResultFrames
from narrows.plots import names, rows, style
from narrows.stats import interval

from conftest import call, refused  # isort: skip

pytestmark = pytest.mark.usefixtures("executor")

BUFFERS = ["0.5bdp", "2bdp", "8bdp"]
KINDS = ["share", "line", "bar", "loss", "delay", "cdf", "box", "heatmap"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Results of two schemes against each other: three buffers, two losses, two RTTs, three seeds."""
    return narrows.compare(
        "bbr", "cubic", repeat=3, out=tmp_path_factory.mktemp("swept"),
        set={"network.buffer": BUFFERS, "network.loss": ["0%", "1%"], "flows.rtt": ["20ms", "40ms"]},
    )  # fmt: skip


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Results with a trace of two schemes, each alone."""
    return narrows.compare("bbr", "cubic", each=True, repeat=3, trace=True, out=tmp_path_factory.mktemp("traced"))


def with_values(results, table, **columns):
    """Return the results with other values in a table than those of the fake executor."""
    changed = ResultFrames(results.points, results.raw)
    setattr(changed, table, getattr(results, table).with_columns(**columns))
    return changed


def titles(figure):
    return [panel.get_title() for panel in figure.axes if panel.get_title()]


def curves(panel):
    return {box.get_label(): box.lines[0] for box in panel.containers}


def test_undrawn_keys_become_panels(swept):
    """Two keys that are not drawn make a grid of panels, whose titles have keys and units."""
    figure = swept.plot("line", x="network.buffer")
    assert titles(figure) == [f"loss = {loss} %, rtt = {rtt} ms" for rtt in (20, 40) for loss in (0, 1)]
    part = swept.flows.filter(
        (pl.col("network.loss") == "1%") & (pl.col("flows.rtt") == "20ms") & (pl.col("spec") == "bbr")
    )
    means = part.group_by("network.buffer", maintain_order=True).agg(pl.col("goodput_mbit_s").mean())
    np.testing.assert_allclose(curves(figure.axes[1])["bbr"].get_ydata(), means["goodput_mbit_s"])
    assert len({panel.get_ylim() for panel in figure.axes}) == 1, "panels of one quantity have common scales"


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_averages_over_a_swept_key(swept, kind):
    """Every kind shows each value of every swept key, or refuses and names the keys."""
    where = {"flows.rtt": "40ms"}
    figure = swept.plot(kind, where=where)
    drawn = {"share": "buffer", "line": "buffer", "bar": "buffer", "loss": "loss", "box": "buffer"}.get(kind)
    shown = " ".join(titles(figure))
    keys = {"heatmap": []}.get(kind, [key for key in ("buffer", "loss") if key != drawn])
    for key in keys:
        assert f"{key} = " in shown, shown
    if kind in ("delay", "cdf"):
        with pytest.raises(plots.UndrawnError, match=r"^network.buffer, network.loss, flows.rtt: these 3 keys vary"):
            swept.plot(kind)


def test_panel_and_where_leave_nothing_to_facet(swept):
    """A chosen panel is kept, the remaining key gets the rows, a selected key gets no panels; short names suffice."""
    figure = swept.plot("line", x="network.buffer", panel="rtt")
    assert titles(figure)[:2] == ["rtt = 20 ms, loss = 0 %", "rtt = 40 ms, loss = 0 %"]
    figure = swept.plot("line", x="buffer", where={"loss": "1%", "flows.rtt": "0.02s"})
    assert titles(figure) == []
    assert (
        swept.plot("line", x="buffer", series=["spec", "loss"], where={"rtt": "20ms"})
        .legends[0]
        .get_texts()[1]
        .get_text()
        == "bbr, loss = 1 %"
    )
    two = swept.plot("line", x="loss", where={"rtt": "20ms", "buffer": "0.5bdp,8bdp"})
    assert titles(two) == ["buffer = 0.5 BDP", "buffer = 8 BDP"]


def test_third_undrawn_key_refused():
    """More keys than panels can show are refused by name, and so are too many panels."""
    keys = {"network.buffer": BUFFERS, "network.loss": ["0%", "1%"], "flows.rtt": ["20ms", "40ms"]}
    results = narrows.compare("bbr", set={**keys, "network.rate": ["10mbit", "20mbit"]})
    with pytest.raises(plots.UndrawnError) as raised:
        results.plot("line", x="network.buffer")
    assert str(raised.value) == (
        "network.loss, flows.rtt, network.rate: these 3 keys vary between rows and would be averaged over, of which "
        "panels can show 2 more; accepted: panel='network.loss', row='network.loss' or where={'network.loss': '0%'}"
    )
    with pytest.raises(
        plots.UndrawnError, match=r"^flows.rtt: this key varies between rows and would be averaged over;"
    ):
        results.plot("line", x="buffer", panel="loss", row="rate")
    many = narrows.compare(
        "bbr", set={"network.loss": ["0%", "1%"], "network.rate": [f"{n}mbit" for n in range(1, 14)]}
    )
    with pytest.raises(
        plots.UndrawnError, match=r"^network\.rate: this key varies between rows, which makes 13 panels"
    ):
        many.plot("line", x="network.loss")
    assert len(titles(many.plot("line", x="network.loss", panel="network.rate"))) == 13


def test_schemes_are_not_averaged_over(swept):
    """Without series, schemes get panels: their mean would be meaningless."""
    figure = swept.plot("line", x="buffer", series=None, where={"loss": "0%", "rtt": "20ms"})
    assert titles(figure) == ["scheme = bbr", "scheme = cubic"]


def test_key_that_a_drawn_one_determines_needs_no_panel(swept):
    """A key with one value at each drawn position is not averaged over."""
    figure = swept.plot("line", x="network.buffer", panel="rtt_base_ms", where={"loss": "0%"})
    assert titles(figure) == ["base RTT = 20 ms", "base RTT = 40 ms"]


def test_flows_of_one_scheme_and_several_rtts_are_separate():
    """Flows of one scheme with different base RTTs have separate series."""
    results = narrows.compare("bbr", "bbr", rtt=["10ms", "50ms"], set={"network.buffer": BUFFERS})
    assert list(curves(results.plot("line").axes[0])) == ["bbr, base RTT = 10 ms", "bbr, base RTT = 50 ms"]


def test_values_of_equal_numbers_keep_their_places():
    """Buffers of 1 BDP of different RTTs have different positions on the axis."""
    results = narrows.compare("bbr", set={"network.buffer": ["1bdp@10ms", "1bdp@50ms"]})
    panel = results.plot("line").axes[0]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["1 BDP at 10 ms", "1 BDP at 50 ms"]


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("flows.rtt", "40ms", "rtt = 40 ms"), ("network.buffer", "2bdp", "buffer = 2 BDP"),
        ("network.rate", "100mbit/s", "rate = 100 Mbit/s"), ("network.loss", "0.1%", "loss = 0.1 %"),
        ("network.buffer", "100pkt", "buffer = 100 packets"), ("network.queue", "codel", "queue = codel"),
        ("flows.params.cwnd_gain", "1.5", "cwnd gain = 1.5"), ("rtt_base_ms", 40.0, "base RTT = 40 ms"),
        ("network.buffer", None, "buffer = unset"), ("spec", "bbq", "scheme = bbq †"), ("panel", "2bdp", "2bdp"),
    ],
)  # fmt: skip
def test_panel_titles_have_key_and_unit(column, value, text):
    """A title names the key and gives the value its unit; texts of a query stay unchanged."""
    assert names.pair(column, value, [column]) == text


def test_keys_that_end_alike_have_whole_names():
    """A title has the whole key where two keys end alike."""
    assert names.pair("flows.1.rtt", "40ms", ["flows.1.rtt", "flows.2.rtt"]) == "flows.1.rtt = 40 ms"


def test_loss_axis_shows_zero():
    """A logarithmic axis from 0 is linear below its smallest positive value, so that the axis contains 0."""
    results = narrows.compare("bbr", set={"network.loss": ["0%", "0.01%", "0.1%", "1%"]})
    panel = results.plot("loss").axes[0]
    assert panel.get_xscale() == "symlog"
    assert panel.xaxis.get_transform().linthresh == pytest.approx(0.01)
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["0", "0.01", "0.1", "1"]
    np.testing.assert_allclose(next(iter(curves(panel).values())).get_xdata(), [0, 0.01, 0.1, 1])
    assert panel.get_xlim()[0] < 0
    assert results.plot("loss", logx=False).axes[0].get_xscale() == "linear"
    assert results.plot("loss", where={"loss": ["0.01%", "0.1%", "1%"]}).axes[0].get_xscale() == "log"


def test_intervals_are_clipped_to_possible_values(swept):
    """Intervals of Jain's index and of utilization end at 1, of rates and delays at 0."""
    few = pl.when(pl.col("seed") == 1).then(0.1).otherwise(0.999)
    where = {"loss": "0%", "rtt": "20ms"}

    def ends(results, **options):
        found = plots.plot(results, "line", x="network.buffer", where=where, **options).axes[0].containers[0]
        return np.array([part.get_segments() for part in found.lines[2]])[0, :, :, 1]

    jain = ends(with_values(swept, "runs", jain=few), table="runs")
    assert (jain.min(), jain.max()) == (0, 1)
    assert interval([0.1, 0.999, 0.999]).high > 1
    assert ends(with_values(swept, "links", utilization=few), table="links").max() == 1
    changed = with_values(swept, "flows", goodput_mbit_s=few, rtt_mean_ms=few)
    assert ends(changed).min() == 0
    assert ends(changed).max() > 1, "rates have no upper bound"
    assert ends(changed, y="rtt_mean_ms").min() == 0
    query = 'SELECT "network.buffer" AS x, {} AS y, seed FROM runs WHERE "network.loss" = \'0%\''
    jains = with_values(swept, "runs", jain=few)
    clipped = bar_ends(jains, query.format("avg(jain)") + ' GROUP BY "network.buffer", seed')
    assert clipped.max() == 1
    assert bar_ends(jains, query.format("jain * 2")).max() > 2, "a query's own quantity has no known bound"


@pytest.mark.parametrize(
    ("expression", "bounds"),
    [
        ("100 * utilization", (0, 100)),
        ("avg(jain)", (0, 1)),
        ("a.retransmit_percent", (0, 100)),
        ("sum(throughput_mbit_s)", (0, np.inf)),
        ("100 * a.goodput_mbit_s / b.goodput_mbit_s", (0, np.inf)),
        ("100 * (a.jain / b.jain - 1)", (-np.inf, np.inf)),
        ("something", (-np.inf, np.inf)),
    ],
)
def test_bounds_of_computed_columns_follow_their_parts(expression, bounds):
    """A factor scales bounds; sums and ratios of columns without negative values are never negative."""
    assert rows.bounds_in(f"SELECT max(x) AS x, {expression} AS y, seed FROM flows") == bounds


def bar_ends(results, sql):
    found = plots.plot(results, "bar", sql=sql).axes[0].containers[0]
    return np.array(found.get_children()[0].get_segments())[:, :, 1]


@pytest.mark.parametrize(
    ("column", "values", "found"),
    [
        ("jain", [0.5], (0, 1)), ("utilization", [0.5], (0, 1)), ("loss_percent", [1], (0, 100)),
        ("goodput_mbit_s", [1], (0, np.inf)), ("rtt_p95_ms", [1], (0, np.inf)), ("completion_s", [None], (0, np.inf)),
        ("skew_ms", [-1.0], (-np.inf, np.inf)), ("ratio", [1], (-np.inf, np.inf)),
    ],
)  # fmt: skip
def test_bounds_follow_from_columns(column, values, found):
    """The name of a column gives its possible values, unless the data contradict it."""
    assert rows.bounds(column, values) == found


@pytest.mark.slow
def test_time_plot_shows_throughput(traced, monkeypatch):
    """The plot over time shows throughput by default, and goodput on request."""
    assert "throughput_mbit_s" in plots.time.DEFAULT_PANELS
    assert "goodput_mbit_s" not in plots.time.DEFAULT_PANELS
    scan = traced.scan_samples()
    both = pl.concat(
        [scan, scan.filter(pl.col("series") == "goodput_mbit_s").with_columns(series=pl.lit("throughput_mbit_s"))]
    )
    monkeypatch.setattr(traced, "scan_samples", lambda: both)
    assert [panel.get_ylabel() for panel in traced.plot("time").axes][-1] == "throughput\nMbit/s"
    assert not any("goodput" in panel.get_ylabel() for panel in traced.plot("time").axes)
    assert len(traced.plot("time", series=None).axes) == len(traced.plot("time").axes)
    assert traced.plot("time", series=["goodput_mbit_s"]).axes[0].get_ylabel() == "goodput\nMbit/s"


def test_time_plot_selects_run_by_values(traced):
    """`where` selects the run of a plot over time, and the title states the run."""
    panel = traced.plot("time", where={"flows.scheme": "cubic", "seed": 2}).axes[0]
    assert panel.get_title(loc="left").endswith("· scheme = cubic · seed 2")
    assert panel.lines[0].get_color() == style.scheme_colour("cubic")


def test_cdf_rises_to_one_and_has_band(traced):
    """A distribution of samples after the warm-up rises to 1, with a band over seeds inside 0 to 1."""
    panel = traced.plot("cdf", table="samples", x="cwnd_bytes").axes[0]
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("cwnd, bytes", "share of samples")
    assert [line.get_label() for line in panel.lines] == ["bbr", "cubic"]
    values = traced.samples.filter((pl.col("series") == "cwnd_bytes") & (pl.col("time_s") >= 6)).join(
        traced.flows.filter(pl.col("spec") == "bbr").select("id"), on="id"
    )["value"]
    x, y = panel.lines[0].get_data()
    np.testing.assert_allclose(y, [0, *((values <= at).mean() for at in x[1:])])
    assert y[-1] == 1
    edges = panel.collections[0].get_paths()[0].vertices[:, 1]
    assert edges.min() >= 0
    assert edges.max() <= 1


def test_cdf_of_flows_has_curve_per_scheme(swept):
    """A distribution over flows has a step per value, and a panel per undrawn key."""
    figure = swept.plot("cdf", x="rtt_p95_ms", where={"rtt": "20ms", "loss": "1%"})
    assert titles(figure) == [f"buffer = {n} BDP" for n in ("0.5", "2", "8")]
    assert figure.axes[0].get_ylabel() == "share of flows"
    assert {line.get_ydata()[-1] for panel in figure.axes for line in panel.lines} == {1.0}


def test_box_shows_median_and_quartiles(swept):
    """A box stands at its key's value; its parts are median, quartiles and the values of the seeds."""
    figure = swept.plot("box", where={"rtt": "20ms", "loss": "1%"})
    (panel,) = figure.axes
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("buffer", "goodput, Mbit/s")
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["0.5 BDP", "2 BDP", "8 BDP"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["bbr", "cubic"]
    values = swept.flows.filter(
        (pl.col("flows.rtt") == "20ms") & (pl.col("network.loss") == "1%") & (pl.col("network.buffer") == "0.5bdp")
    ).filter(pl.col("spec") == "bbr")["goodput_mbit_s"]
    box = panel.patches[0].get_path().vertices[:, 1]
    np.testing.assert_allclose([box.min(), box.max()], np.quantile(values, [0.25, 0.75]))
    seeds = next(line for line in panel.lines if line.get_marker() == "o" and len(line.get_ydata()) == 3)
    np.testing.assert_allclose(sorted(seeds.get_ydata()), sorted(values))


def test_heatmap_has_panel_per_scheme(swept):
    """A heatmap has two keys as axes, the column as colour, and a panel per scheme."""
    figure = swept.plot("heatmap", z="rtt_mean_ms", where={"rtt": "40ms"})
    *panels, bar = figure.axes
    assert titles(figure) == ["scheme = bbr", "scheme = cubic"]
    assert (panels[0].get_xlabel(), panels[0].get_ylabel(), bar.get_ylabel()) == (
        "buffer, BDP",
        "loss, %",
        "mean RTT, ms",
    )
    assert [tick.get_text() for tick in panels[0].get_xticklabels()] == ["0.5", "2", "8"]
    values = panels[0].images[0].get_array()
    assert values.shape == (2, 3)
    np.testing.assert_allclose(values, 60)
    assert [text.get_text() for text in panels[0].texts] == ["60.0"] * 6
    assert panels[0].images[0].get_clim() == panels[1].images[0].get_clim(), "colours mean the same in all panels"


def test_heatmap_needs_two_keys():
    """A heatmap of a sweep of one key is refused, with the axis that is missing."""
    results = narrows.compare("bbr", set={"network.buffer": BUFFERS})
    with pytest.raises(OptionError, match=r"^y: a heatmap needs two swept keys; accepted: network.buffer"):
        results.plot("heatmap")


def test_delay_plot_labels_points_and_crosses(swept):
    """A point per scheme has its label beside it and a cross of intervals; delay decreases to the right."""
    changed = with_values(swept, "flows", rtt_mean_ms=pl.col("rtt_base_ms") + pl.col("seed") * pl.col("index") * 3)
    figure = plots.plot(changed, "delay", where={"rtt": "20ms", "loss": "1%"})
    panel = figure.axes[0]
    assert figure.axes[1].get_xlabel() == "queueing delay, ms (mean)"
    left, right = panel.get_xlim()
    assert left > 0 > right > -0.1 * left, "a queue that is always empty is inside the frame"
    assert {"bbr", "cubic"} < {text.get_text() for text in panel.texts}
    crosses = {box.get_label(): box for box in panel.containers}
    low, high = sorted(crosses["cubic"].lines[2][0].get_segments()[0][:, 0])
    expected = interval([3.0, 6.0, 9.0])
    assert crosses["cubic"].lines[0].get_xdata()[0] == pytest.approx(expected.mean)
    assert expected.low < 0
    assert (low, high) == (0, pytest.approx(expected.high)), "no queue is shorter than empty"


def test_delay_plot_joins_points_of_a_key(swept):
    """Points that differ in one key besides the scheme are labelled by it and joined in scenario order."""
    panel = swept.plot("delay", by=["spec", "network.buffer"], where={"rtt": "20ms", "loss": "1%"}).axes[0]
    shown = {text.get_text() for text in panel.texts}
    assert {f"bbr, buffer = {n} BDP" for n in ("0.5", "2", "8")} < shown
    joined = [line for line in panel.lines if line.get_label().startswith("_") and line.get_linestyle() == "-"]
    assert sorted(len(line.get_xdata()) for line in joined if len(line.get_xdata()) == 3) == [3, 3]


def test_labels_of_delay_plot_do_not_cover_each_other(traced):
    """Labels of close points are placed apart."""
    panel = traced.plot("delay").axes[0]
    first, second = (text.get_window_extent() for text in panel.texts if text.get_text() in ("bbr", "cubic"))
    assert not first.overlaps(second)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "width"), [("column", 3.5), ("page", 7.16)])
@pytest.mark.parametrize("kind", [*KINDS, "time"])
def test_sizes_fit_papers(swept, traced, kind, size, width, tmp_path):
    """Figures for papers have the width of a column or page, and fonts of 5.5 to 10 points."""
    options = {} if kind == "time" else {"where": {"rtt": "20ms"}}
    figure = (traced if kind == "time" else swept).plot(kind, size=size, **options)
    assert figure.get_figwidth() == width
    if kind == "share":
        plots.save(figure, tmp_path / "figure.png")
        assert imread(tmp_path / "figure.png").shape[1] == pytest.approx(300 * width, abs=1)
    texts = [
        text
        for panel in figure.axes
        for text in (*panel.texts, *panel.get_xticklabels(), panel.title, panel.xaxis.label)
    ]
    texts += [text for legend in figure.legends for text in legend.get_texts()]
    sizes = {text.get_fontsize() for text in texts if text.get_text() and text.get_visible()}
    assert min(sizes) >= 5.5
    assert max(sizes) <= 10


@pytest.mark.parametrize("kind", list(plots.KINDS))
def test_wrong_option_names_accepted_ones(swept, kind):
    """Every kind rejects an option of another kind in one line, here and as a command with status 2."""
    option = "x" if kind in ("time", "delay") else "run"
    with pytest.raises(UsageError, match=f"^{option}: plots of kind '{kind}' lack this option; accepted: "):
        swept.plot(kind, **{option: 1 if option == "run" else "seed"})
    done = call("plot", swept.out, "--kind", kind, f"--{option}", 1)
    message = f"narrows: --{option}: plots of kind '{kind}' lack this option; accepted: --"
    refused(done, message, "--title", "--size")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--kind", "delay"], "network.buffer, network.loss, flows.rtt: these 3 keys vary between rows and would be averaged over, of which panels can show 2 more; accepted: --panel network.buffer, --row network.buffer or --where network.buffer=0.5bdp"),
        (["--panel", "loss", "--row", "seven"], "--row: there is no column 'seven'; accepted: id, seed"),
        (["--where", "loss"], "--where: `loss` selects nothing; accepted: KEY=VALUE"),
        (["--where", "loss=3%"], "--where: no row has loss = 3%; accepted: 0%, 1%"),
        (["--where", "loss=0%", "--where", "loss=1%"], "--where: loss is given twice; accepted: once"),
        (["--size", "poster"], "--size: there is no size 'poster'; accepted: column, page"),
        (["--kind", "line", "--table", "rows"], "--table: there is no table 'rows'; accepted: flows, links, runs"),
        (["--kind", "cdf", "--table", "samples"], "samples: the runs have no trace"),
        (["--kind", "pie"], "--kind: there is no kind 'pie'; accepted: time, share, loss, delay, line, bar, cdf, box, heatmap"),
    ],
)  # fmt: skip
def test_invalid_plot_command_says_reason_in_one_line(swept, args, said):
    """Invalid options of `narrows plot` end with status 2 and one line."""
    done = call("plot", swept.out, *args)
    refused(done, f"narrows: {said}")
    assert done.stderr.count("\n") == 1


def test_plot_command_takes_panels_selection_and_size(swept, tmp_path):
    """`narrows plot` passes its options on."""
    target = tmp_path / "f.png"
    done = call(
        "plot", swept.out, "--kind", "heatmap", "--x", "buffer", "--y", "loss", "--z", "rtt_mean_ms", "--panel", "spec",
        "--row", "rtt", "--where", "scheme=bbr", "--title", "RTT", "--size", "column", "-o", target,
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert imread(target).shape[1] == 1050


def test_lone_schemes_are_not_drawn_as_shares():
    """Schemes that run alone have their whole link, so shares are refused."""
    keys = {"network.buffer": BUFFERS}
    assert plots.default_kind(narrows.compare("bbr", "cubic", each=True, set=keys)) == "line"
    assert plots.default_kind(narrows.compare("bbr", "cubic", set=keys)) == "share"


def test_query_with_swept_key_gets_panels(swept):
    """A swept key among the columns of a query is not averaged over either."""
    sql = 'SELECT "network.buffer" AS x, scheme AS series, goodput_mbit_s AS y, seed, "network.loss" FROM flows'
    assert titles(swept.plot("line", sql=sql)) == ["loss = 0 %", "loss = 1 %"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"x": "rtt_mean_ms", "y": "goodput_mbit_s"}, "x: rtt_mean_ms is measured"),
        ({"x": "network.buffer", "y": "seed"}, "y: seed tells runs apart"),
        ({"x": "rtt_base_ms", "y": "rtt_base_ms"}, "y: rtt_base_ms is on the other axis"),
    ],
)
def test_axes_of_lines_are_places_and_measurements(swept, options, named):
    """A line joins measurements at positions common to all runs; anything else would mix runs."""
    with pytest.raises(UsageError, match=named):
        plots.plot(swept, "line", **options)
