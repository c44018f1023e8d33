"""What is our own reconstruction says so wherever it is shown. The stand-in's `guess` is one."""

import importlib.util
import json

import pytest
from typer.testing import CliRunner

import narrows
from narrows import evidence, papers
from narrows.cli import app
from narrows.scenario import Misuse

from conftest import ROOT  # isort: skip

SCENARIO = """
# Jain's index
duration = "10s"
repeat = 2
[network]
rate = "10mbit"
[[flows]]
scheme = "bbr"
[sweep]
"flows.scheme" = ["bbr", "guess:gain=2"]
"""
CLAIM = """
[figure]
title = "Shares"
plot = { kind = "bar", x = "flows.scheme" }

[[claim]]
id = "goodput"
text = "It gets 40 Mbit/s"
source = "page 3"
kind = "value"
paper = 40.5
EXTRA
sql = '''SELECT seed, avg(goodput_mbit_s) AS value FROM flows
         WHERE WHICH GROUP BY seed'''
"""


def folder(tmp_path, which, extra=""):
    home = tmp_path / "papers" / "queues"
    home.mkdir(parents=True)
    (home / "paper.toml").write_text('title = "T"\nauthors = []\ncitation = "C"\n')
    (home / "fig1.toml").write_text(SCENARIO)
    (home / "fig1.claims.toml").write_text(CLAIM.replace("WHICH", which).replace("EXTRA", extra))
    return tmp_path / "papers"


def results_module():
    spec = importlib.util.spec_from_file_location("docs_results", ROOT / "docs" / "results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("guess", "guess †"),
        ("guess:gain=2,paced=true", "guess:gain=2,paced=true †"),
        ("guess, 50 ms", "guess †, 50 ms"),
        ("50, guess", "50, guess †"),
        ("bbr, guess", "bbr, guess †"),
        ("bbr", "bbr"),
        ("guesswork", "guesswork"),
        ("my guess", "my guess"),
        ("", ""),
    ],
)
def test_a_mark_stands_behind_the_scheme_and_nothing_else(text, shown):
    assert evidence.marked(text) == shown


def test_a_remark_names_the_schemes_where_there_are_several():
    assert evidence.remark([]) == evidence.remark(["bbr"]) == evidence.remark(["bbr", "cubic"]) == ""
    assert evidence.remark(["guess"]) == "our reconstruction"
    assert evidence.remark(["bbr", "guess"]) == "guess: our reconstruction"


@pytest.mark.parametrize(
    ("schemes", "words"),
    [('["guess"]', "(our reconstruction)"), ('["guess", "reno"]', "(guess: our reconstruction)")],
)
def test_a_claim_about_a_reconstruction_says_so_wherever_it_is_shown(tmp_path, schemes, words):
    out = tmp_path / "report"
    home = folder(tmp_path, "scheme = 'guess'", f"schemes = {schemes}")
    args = ["reproduce", "--papers", str(home), "-o", str(out)]
    shown = CliRunner().invoke(app, args)
    assert shown.exit_code == 0, shown.output
    assert f"It gets 40 Mbit/s {words}" in " ".join(shown.stdout.split())
    assert f"It gets 40 Mbit/s {words}" in (out / "index.html").read_text()
    printed = json.loads(CliRunner().invoke(app, [*args, "--json"]).stdout)
    assert printed["reconstruction"] is True
    assert printed["schemes"] == [name.replace("reno", "newreno") for name in json.loads(schemes)]
    assert printed["text"] == "It gets 40 Mbit/s"
    assert f"| It gets 40 Mbit/s {words} |" in results_module().claims_tables([printed])


def test_a_claim_about_what_was_published_says_nothing(tmp_path):
    home = folder(tmp_path, "scheme = 'bbr'", 'schemes = ["bbr"]')
    printed = json.loads(
        CliRunner().invoke(app, ["reproduce", "--papers", str(home), "-o", str(tmp_path / "r"), "--json"]).stdout
    )
    assert (printed["schemes"], printed["reconstruction"], printed["remark"]) == (["bbr"], False, "")


@pytest.mark.parametrize(
    ("which", "extra", "said"),
    [
        ("scheme = 'guess'", "", "guess: our reconstruction; name it in schemes"),
        ("scheme = 'guess' AND scheme <> 'bbr'", 'schemes = ["bbr"]', "name it in schemes"),
        ("\"flows.scheme\" = 'guess:gain=2'", "", "name it in schemes"),
        ("scheme LIKE 'guess%'", "", "name it in schemes"),
        ("seed > 0", "", "name it in schemes"),  # names none, and the scenario runs one
        ("scheme = 'bbr'", 'schemes = ["bbx"]', "there is no scheme 'bbx'; accepted: fixed, newreno"),
        ("scheme = 'bbr'", 'schemes = "bbr"', "schemes is not a list of names"),
        ("scheme = 'bbr'", "schemes = []", "schemes is not a list of names"),
    ],
)
def test_a_row_that_forgets_or_misspells_a_scheme_is_refused(tmp_path, which, extra, said):
    with pytest.raises(Misuse, match=r"fig1\.claims\.toml:6: claim goodput: ") as raised:
        papers.load_all(folder(tmp_path, which, extra))
    assert said in str(raised.value)


@pytest.mark.parametrize(("which", "extra"), [("scheme = 'bbr'", ""), ("seed > 0", 'schemes = ["bbr"]')])
def test_a_row_about_other_schemes_needs_nothing(tmp_path, which, extra):
    papers.load_all(folder(tmp_path, which, extra))


def texts(figure):
    ticks = [label.get_text() for panel in figure.axes for label in panel.get_xticklabels()]
    return ticks, [label.get_text() for legend in figure.legends for label in legend.get_texts()]


def test_every_plot_marks_it_and_explains_the_mark_once(tmp_path):
    results = narrows.compare("guess", "bbr", trace=True, out=tmp_path, set={"network.buffer": ["1bdp", "2bdp"]})
    for kind in ("time", "share", "loss", "delay", "line"):
        ticks, legend = texts(results.plot(kind, **({"x": "network.buffer"} if kind == "loss" else {})))
        assert legend.count("† our reconstruction") == 1, kind
        assert sum("guess †" in text for text in legend) == 1, kind
        assert not any("bbr †" in text for text in legend), kind
    ticks, legend = texts(results.plot("bar", x="scheme", series=None))
    assert (ticks, legend) == (["guess †", "bbr"], ["† our reconstruction"])


def test_a_plot_whose_query_is_of_one_says_so():
    results = narrows.compare("guess", "bbr", rtt=["10ms", "50ms"], each=True)
    sql = "SELECT rtt_base_ms || ' ms' AS x, goodput_mbit_s AS y, seed FROM flows WHERE scheme = '{}'"
    assert texts(results.plot("bar", sql=sql.format("guess")))[1] == ["guess: our reconstruction"]
    assert texts(results.plot("bar", sql=sql.format("bbr")))[1] == []
    both = "SELECT scheme AS x, goodput_mbit_s AS y, seed FROM flows WHERE scheme IN ('guess', 'bbr')"
    assert texts(results.plot("bar", sql=both))[1] == ["† our reconstruction"]


def test_a_printed_point_still_finds_the_series_it_belongs_to():
    results = narrows.compare("guess", "bbr", set={"network.buffer": ["1bdp", "2bdp"]})
    points = [{"x": "1bdp", "series": "guess", "y": 44.0}]
    panel = results.plot("line", x="network.buffer", points=points).axes[0]
    drawn = {container.get_label(): container.lines[0].get_color() for container in panel.containers}
    diamond = next(line for line in panel.lines if line.get_marker() == "D" and line.get_markerfacecolor() == "none")
    assert diamond.get_markeredgecolor() == drawn["guess †"]


def test_plots_and_tables_of_other_schemes_are_as_they_were():
    results = narrows.compare("cubic", "bbr")
    assert "†" not in "".join(texts(results.plot("delay"))[1])
    assert "†" not in repr(results)


def test_the_table_marks_it_and_says_what_the_mark_means():
    text = repr(narrows.compare("guess", "bbr"))
    assert text.count("guess †") == 1
    assert text.count("† our reconstruction.") == 1


def test_a_schemes_page_in_the_terminal_says_so():
    shown = CliRunner().invoke(app, ["schemes", "guess"]).stdout
    assert "Evidence: our reconstruction; the published rule, or a part of it, could not be" in shown
    assert "our reconstruction" not in CliRunner().invoke(app, ["schemes", "bbr"]).stdout
