"""Papers as data, from a folder to a report."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import narrows
from narrows import engine, frames, papers, plans
from narrows.errors import UsageError

from conftest import ROOT, call, json_rows, python, ran, refused, write_paper  # isort: skip

pytestmark = pytest.mark.usefixtures("executor")

PAPER = """
title = "On <queues>"
authors = ["A. Author"]
citation = "A. Author: On queues. 2020."
doi = "10.1/x"
"""
SCENARIO = """
name = "queues"
duration = "10s"
repeat = 3
[network]
rate = "10mbit"
[[flows]]
scheme = "bbr"
rtt = "20ms"
[[flows]]
scheme = "cubic"
rtt = "50ms"
[sweep]
"network.buffer" = ["1bdp", "5bdp"]
"""
CLAIMS = """
[figure]
title = "Shares"
quick = { duration = "2s" }
full = { duration = "100s", repeat = 4 }
trace = "100ms"
[[figure.plot]]
kind = "share"
[[figure.plot]]
kind = "time"

[[claim]]
id = "goodput"
text = "BBR gets 40 Mbit/s"
source = "page 3"
kind = "value"
paper = 40.5
unit = "Mbit/s"
sql = '''SELECT seed, avg(goodput_mbit_s) AS value FROM flows
         WHERE scheme = 'bbr' AND "network.buffer" = '5bdp' GROUP BY seed'''

[[claim]]
id = "ratio"
text = "BBR has 40 times the RTT of CUBIC"
source = "page 4"
kind = "value"
paper = 40
cause = "It has not."
sql = '''SELECT a.seed, a.rtt_mean_ms / b.rtt_mean_ms AS value, 0.3 AS than
         FROM (SELECT * FROM flows WHERE scheme = 'bbr' AND "network.buffer" = '1bdp') AS a
         JOIN (SELECT * FROM flows WHERE scheme = 'cubic' AND "network.buffer" = '1bdp') AS b ON a.seed = b.seed'''

[[claim]]
id = "order"
text = "CUBIC's RTT is longer"
source = "page 4"
kind = "greater"
sql = '''SELECT a.seed, a.rtt_mean_ms AS value, b.rtt_mean_ms AS than
         FROM (SELECT seed, avg(rtt_mean_ms) AS rtt_mean_ms FROM flows WHERE scheme = 'cubic' GROUP BY seed) AS a
         JOIN (SELECT seed, avg(rtt_mean_ms) AS rtt_mean_ms FROM flows WHERE scheme = 'bbr' GROUP BY seed) AS b
         ON a.seed = b.seed'''

[[claim]]
id = "queue"
text = "The queue stays below 9 packets"
source = "page 5"
kind = "at_most"
paper = 8
sql = '''SELECT seed, max(value) AS value FROM samples WHERE series = 'queue_pkt' GROUP BY seed'''
"""


@pytest.fixture
def folder(tmp_path):
    return write_paper(tmp_path / "papers" / "queues", PAPER, fig9=(SCENARIO, CLAIMS), fig10=(SCENARIO, CLAIMS))


def test_paper_folder_lists_figures_in_order(folder):
    """A folder gives a paper with its figures in order."""
    (paper,) = papers.load_all(folder)
    assert [figure.id for figure in paper.figures] == ["fig9", "fig10"]
    assert paper.title == "On <queues>"


@pytest.mark.slow
def test_verdicts_from_scenario_to_report(folder, tmp_path):
    """`reproduce` runs scenarios, judges claims, and writes verdicts to terminal, JSON and report."""
    out = tmp_path / "report"
    result = ran(call("reproduce", "queues", "fig9", "--papers", folder, "-o", out, "--json"))
    printed = json_rows(result)
    assert [(row["id"], row["verdict"]) for row in printed] == [
        ("goodput", "holds"),
        ("ratio", "does not hold"),  # 30 ms / 75 ms = 0.4 is nearer to the alternative 0.3 than to 40
        ("order", "holds"),
        ("queue", "does not hold"),  # the fake executor's queue reaches 9
    ]
    assert printed[0]["ours"]["seeds"] == 3
    assert printed[1]["cause"] == "It has not."
    assert json.loads((out / "claims.json").read_text()) == printed
    page = (out / "index.html").read_text()
    assert "On &lt;queues&gt;" in page, "text of a paper is escaped"
    assert page.count("data:image/png;base64,") == 2
    links = re.findall(r'(?:src|href)="(?!data:|#|https://doi.org/)([^"]*)', page)
    assert links == [f"queues/fig9{plot}.{form}" for plot in ("", "-2") for form in ("svg", "pdf")], "no other file"
    for name in ("fig9.png", "fig9-2.png", "fig9.flows.parquet", "fig9.links.parquet", "fig9.runs.parquet"):
        assert (out / "queues" / name).stat().st_size > 0


@pytest.mark.slow
def test_the_table_has_a_row_per_claim(folder, tmp_path):
    """The table has a row per claim."""
    result = ran(call("reproduce", "--papers", folder, "-o", tmp_path / "report", "--quick"))
    text = " ".join(result.stdout.split())
    assert "Today, 8 claims: 4 hold, 0 are inconclusive, 0 hold in direction, 4 do not hold" in text
    assert result.stdout.count("BBR gets 40 Mbit/s") == 2
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


@pytest.mark.slow
def test_cause_is_printed_once_below_its_claims(folder, tmp_path):
    """A cause is printed once, below the claims it explains."""
    path = folder / "queues" / "fig9.claims.toml"
    path.write_text(CLAIMS.replace('id = "queue"', 'id = "queue"\ncause = "It has not."'))
    result = call("reproduce", "queues", "fig9", "--papers", folder, "-o", tmp_path / "report")
    assert result.stdout.count("It has not.") == 1
    assert result.stdout.count("✗ no [1]") == 2
    assert result.stdout.index("The queue stays below") < result.stdout.index("[1] It has not.")
    page = (tmp_path / "report" / "index.html").read_text()
    assert page.count("It has not.") == 1
    assert page.count('data-cause="1"') == 2


def test_plots_of_joined_rows_keep_scenario_order(folder, tmp_path):
    """Plots of joined rows keep the order of the scenario."""
    results = narrows.run(SCENARIO)
    sql = "SELECT a.scheme AS x, a.scheme AS series, a.goodput_mbit_s AS y, a.seed FROM flows AS a"
    for order in ("ASC", "DESC"):
        axes = results.plot("bar", sql=f"{sql} ORDER BY a.scheme {order}").axes[0]
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["bbr", "cubic"]
        centres = [bar.get_x() + bar.get_width() / 2 for bar in axes.patches]
        assert centres == pytest.approx([0, 1]), "a lone bar stands at its value of x"


@pytest.mark.long
def test_second_reproduction_reuses_runs_across_figures(folder, tmp_path, executed):
    """A second reproduction reuses the runs, and figures share them."""
    before = len(executed)
    call("reproduce", "--papers", folder, "-o", tmp_path / "report")
    assert len(executed) - before == 6, "both figures have the same two points with three seeds"
    again = call("reproduce", "--papers", folder, "-o", tmp_path / "report")
    assert len(executed) - before == 6
    assert "reused 6 of 6 runs" in again.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "seeds", "duration"),
    [
        ([], 3, 10),
        (["--quick"], 1, 2),
        (["--full"], 4, 100),
        (["--seeds", 2], 2, 10),
        (["--quick", "--seeds", 2], 2, 2),
    ],
)
def test_quick_full_and_seeds_replace_figure_settings(folder, tmp_path, flags, seeds, duration):
    """`--quick`, `--full` and `--seeds` replace the settings of the figure."""
    out = tmp_path / "report"
    assert call("reproduce", "queues", "fig9", "--papers", folder, "-o", out, *flags).exit_code == 0
    saved = [json.loads(path.read_text()) for path in (out / "runs").glob("*.json")]
    assert {row["seed"] for row in saved} == set(range(1, seeds + 1))
    assert {row["duration_s"] for row in saved} == {duration}


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('kind = "at_most"', 'kind = "most"', ["claim queue", "most", "accepted"]),
        ('id = "order"', 'id = "goodput"', ["two claims", "goodput"]),
        ("paper = 8", "papers = 8", ["claim queue", "papers", "accepted"]),
        ('source = "page 3"\n', "", ["claim goodput", "source is missing"]),
        ("FROM samples", "FROM simples", ["claim queue", "simples"]),
        ("max(value) AS value FROM samples", "1 AS one FROM samples", ["claim queue", "columns seed, value"]),
        ("= '5bdp' GROUP", "= '6bdp' GROUP", ["claim goodput", "no rows"]),
        ('kind = "share"', 'kind = "shares"', ["plot 1", "shares", "accepted"]),
        ('kind = "share"', 'kind = "line"\ny = "nosuch"', ["plot 1", "nosuch", "accepted"]),
        ('kind = "share"', 'kind = "line"\nwidth = 3', ["plot 1", "width"]),
        ('title = "Shares"', "title = ", ["fig9.claims.toml"]),
        ('title = "Shares"', 'titel = "Shares"', ["figure.", "titel"]),
    ],
)
def test_slip_in_a_paper_is_named_without_verdict(folder, tmp_path, old, new, named):
    """A mistake in a paper is an error that names it, and gives no verdict."""
    path = folder / "queues" / "fig9.claims.toml"
    assert old in CLAIMS
    path.write_text(CLAIMS.replace(old, new))
    result = call("reproduce", "queues", "fig9", "--papers", folder, "-o", tmp_path / "report")
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    for text in [*named, "fig9.claims.toml"]:
        assert text in result.stderr.replace("\n", "")
    assert not (tmp_path / "report" / "claims.json").exists()


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["nosuch"], ["PAPER: there is no paper 'nosuch'; accepted: ", "queues"]),
        (["queues", "fig1"], ["FIGURE: the paper 'queues' has no figure 'fig1'; accepted: fig9, fig10"]),
        (["--quick", "--full"], ["--quick, --full"]),
    ],
)
def test_misuse_of_reproduce_names_accepted_values(folder, tmp_path, args, named):
    """A usage error of reproduce names the accepted papers and figures."""
    result = call("reproduce", *args, "--papers", folder, "-o", tmp_path / "report")
    refused(result, *named)
    assert not (tmp_path / "report").exists()


def test_a_folder_without_papers_is_an_error(tmp_path):
    """A folder without papers is an error."""
    with pytest.raises(UsageError, match="--papers DIR"):
        papers.find(tmp_path)


def test_swept_keys_are_text_columns_of_all_three_frames():
    """Swept keys are text columns of all three frames."""
    results = narrows.run(SCENARIO, repeat=2)
    for frame in (results.flows, results.links, results.runs):
        assert frame["network.buffer"].unique().sort().to_list() == ["1bdp", "5bdp"]
        assert frame["seed"].unique().sort().to_list() == [1, 2]
    assert results.keys == ["network.buffer"]


def test_a_key_that_clashes_with_a_column_gets_a_prefix():
    """A key that clashes with a column gets a prefix."""
    results = narrows.Results([{"flow": "a"}], [engine.run(engine.plan(SCENARIO, "t", None)[0], None, None)])
    assert results.keys == ["point.flow"]


@pytest.mark.slow
@pytest.mark.parametrize("only", ["bbr-cws", pytest.param(None, marks=pytest.mark.long)])
def test_papers_of_the_project_run_and_are_checked(tmp_path, only):
    """On the built engine all queries and plots of the papers match the results of their scenarios."""
    read = "import json; from narrows.papers import *; print(json.dumps([(p.id, f.id, [c.id for c in f.claims])" \
        " for p in load_all(find(None)) for f in p.figures]))"  # fmt: skip
    listed = ran(python("-c", read, cwd=ROOT))
    figures = [figure for figure in json.loads(listed.stdout) if figure[0] == (only or figure[0])]
    assert figures and all(claims for _, _, claims in figures)
    papers_of = [] if only is None else [only]
    command = [Path(sys.executable).with_name("narrows"), "reproduce", *papers_of, "--quick", "--json", "-o", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    rows = json_rows(done)
    claims = [(paper, figure, claim) for paper, figure, claims in figures for _ in papers.WORLDS for claim in claims]
    assert [(row["paper_id"], row["figure"], row["id"]) for row in rows] == claims
    assert [row["id"] for row in rows if row["ours"] is None] == []


def test_overrides_do_not_touch_a_figure_in_default_mode(folder):
    """Overrides do not touch a figure in default mode."""
    (paper,) = papers.load_all(folder)
    assert plans.overrides(paper.figures[0], "today", "default", None) == [("trace.samples", "100ms")]


@pytest.mark.slow
def test_query_over_samples_gives_the_same_bits(tmp_path):
    """A query over samples gives bit-identical values each time."""
    import random

    import polars as pl

    from narrows.results import Results

    draw = random.Random(7)
    rows = 200_000  # enough for several threads to share them
    results = Results([{}, {}], [{"id": name, "seed": 1, "flows": [], "links": []} for name in "ab"], tmp_path)
    for name in "ab":
        (tmp_path / "traces" / name).mkdir(parents=True)
        series = pl.Series(["rtt_ms", "state"] * (rows // 2))
        times = [float(row // 2) for row in range(rows)]
        values = [draw.uniform(0, 1e3) for _ in range(rows)]
        frame = pl.DataFrame({"time_s": times, "series": series, "value": values})
        file = tmp_path / "traces" / name / "samples.parquet"
        frame.write_parquet(file, row_group_size=10_000)
        results.checked_traces[name] = {file.name: file}  # as if its checksum had been found right
    one = "SELECT id, seed, time_s, value FROM samples WHERE series"
    joined = f"""SELECT a.seed, avg(a.value) AS value FROM ({one} = 'rtt_ms') AS a
        JOIN ({one} = 'state') AS b ON a.id = b.id AND a.time_s = b.time_s WHERE b.value > 500 GROUP BY a.seed"""
    for sql in (joined, "SELECT seed, avg(value) AS value FROM samples GROUP BY seed"):
        answers = [frames.query(results, sql)["value"].to_list() for _ in range(10)]
        assert answers == answers[:1] * 10
        assert answers[0] == [pytest.approx(500, abs=3)]
        assert [float(f"{value:.{frames.DIGITS}g}") for value in answers[0]] == answers[0], (
            "the digits that move are cut"
        )
