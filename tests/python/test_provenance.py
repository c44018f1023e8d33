"""Reconstructions are marked wherever they appear. `bbq` is one."""

import json
import sys

import pytest

import narrows
from narrows import papers, provenance
from narrows.errors import UsageError

from conftest import ROOT, SHORT, call, ran, write_paper  # isort: skip


sys.path.insert(0, str(ROOT / "docs"))

import paper_pages
import results

pytestmark = pytest.mark.usefixtures("executor")

SCENARIO = """
# Jain's index
duration = "10s"
repeat = 2
[network]
rate = "10mbit"
[[flows]]
scheme = "bbr"
rtt = "40ms"
[sweep]
"flows.scheme" = ["bbr", "bbq:cwnd_gain=2"]
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
    claims = CLAIM.replace("WHICH", which).replace("EXTRA", extra)
    paper = 'title = "T"\nauthors = []\ncitation = "C"\n'
    return write_paper(tmp_path / "papers" / "queues", paper, fig1=(SCENARIO, claims))


def section(home, printed):
    """Return the section of the documents about the figure, given its claim as `reproduce --json` prints it."""
    (figure,) = papers.load_all(home)[0].figures
    row = json.loads(results.outcomes([printed]))
    return "\n".join(paper_pages.figure_section("queues", figure, {("queues", "fig1", "goodput"): row}))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bbq", "bbq †"),
        ("bbq:gain=2,paced=true", "bbq:gain=2,paced=true †"),
        ("bbq, 50 ms", "bbq †, 50 ms"),
        ("50, bbq", "50, bbq †"),
        ("bbr, bbq", "bbr, bbq †"),
        ("bbr", "bbr"),
        ("bbqueue", "bbqueue"),
        ("my bbq", "my bbq"),
        ("", ""),
    ],
)
def test_marked_appends_mark_to_reconstructions(text, shown):
    """The mark follows a reconstruction, also with parameters or in a list, and nothing else."""
    assert provenance.marked(text) == shown


def test_remark_names_schemes_among_several():
    """A remark names the reconstructions if a claim is about several schemes."""
    assert provenance.remark([]) == provenance.remark(["bbr"]) == provenance.remark(["bbr", "cubic"]) == ""
    assert provenance.remark(["bbq"]) == "our reconstruction"
    assert provenance.remark(["bbr", "bbq"]) == "bbq: our reconstruction"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schemes", "words"), [('["bbq"]', "(our reconstruction)"), ('["bbq", "reno"]', "(bbq: our reconstruction)")]
)
def test_claim_about_reconstruction_says_so(tmp_path, schemes, words):
    """A claim about a reconstruction has a remark in the terminal, in both reports, and in JSON."""
    out = tmp_path / "report"
    home = folder(tmp_path, "scheme = 'bbq'", f"schemes = {schemes}")
    args = ["reproduce", "--papers", home, "-o", out]
    shown = ran(call(*args))
    assert f"It gets 40 Mbit/s {words}" in " ".join(shown.stdout.split())
    assert f"It gets 40 Mbit/s {words}" in (out / "index.html").read_text()
    printed = json.loads(call(*args, "--json").stdout)
    assert printed["reconstruction"] is True
    assert printed["schemes"] == [name.replace("reno", "newreno") for name in json.loads(schemes)]
    assert printed["text"] == "It gets 40 Mbit/s"
    assert f"| It gets 40 Mbit/s {words} |" in section(home, printed)


@pytest.mark.slow
def test_claim_about_published_scheme_has_no_remark(tmp_path):
    """A claim about a published scheme has no remark."""
    home = folder(tmp_path, "scheme = 'bbr'", 'schemes = ["bbr"]')
    printed = json.loads(call("reproduce", "--papers", home, "-o", tmp_path / "r", "--json").stdout)
    assert (printed["schemes"], printed["reconstruction"], printed["remark"]) == (["bbr"], False, "")


@pytest.mark.parametrize(
    ("which", "extra", "said"),
    [
        ("scheme = 'bbq'", "", "bbq: our reconstruction; accepted: a list of schemes"),
        ("scheme = 'bbq' AND scheme <> 'bbr'", 'schemes = ["bbr"]', "accepted: a list of schemes"),
        ("\"flows.scheme\" = 'bbq:cwnd_gain=2'", "", "accepted: a list of schemes"),
        ("scheme LIKE 'bbq%'", "", "accepted: a list of schemes"),
        ("seed > 0", "", "accepted: a list of schemes"),  # names no scheme, and the scenario runs a reconstruction
        ("scheme = 'bbr'", 'schemes = ["bbx"]', "there is no scheme 'bbx'; accepted: bbr, cubic"),
        ("scheme = 'bbr'", 'schemes = "bbr"', "schemes is not a list of names"),
        ("scheme = 'bbr'", "schemes = []", "schemes is not a list of names"),
    ],
)
def test_claim_must_name_its_reconstructions(tmp_path, which, extra, said):
    """A claim that omits or misspells a reconstruction in `schemes` is rejected with its line."""
    with pytest.raises(UsageError, match=r"fig1\.claims\.toml:6: claim goodput: ") as raised:
        papers.load_all(folder(tmp_path, which, extra))
    assert said in str(raised.value)


@pytest.mark.parametrize(("which", "extra"), [("scheme = 'bbr'", ""), ("seed > 0", 'schemes = ["bbr"]')])
def test_claim_about_other_schemes_needs_nothing(tmp_path, which, extra):
    """A claim without reconstructions needs no `schemes`."""
    papers.load_all(folder(tmp_path, which, extra))


def texts(figure):
    ticks = [label.get_text() for panel in figure.axes for label in panel.get_xticklabels()]
    return ticks, [label.get_text() for legend in figure.legends for label in legend.get_texts()]


@pytest.mark.slow
def test_plots_mark_and_explain_reconstructions(tmp_path):
    """Every kind of plot marks a reconstruction and explains the mark once."""
    results = narrows.compare("bbq", "bbr", trace=True, out=tmp_path, set={"network.buffer": ["1bdp", "2bdp"]}, **SHORT)
    for kind in ("time", "share", "loss", "delay", "line"):
        ticks, legend = texts(results.plot(kind, **({"x": "network.buffer"} if kind == "loss" else {})))
        assert legend.count("† our reconstruction") == 1, kind
        assert sum("bbq †" in text for text in legend) == 1, kind
        assert not any("bbr †" in text for text in legend), kind
    ticks, legend = texts(results.plot("bar", x="scheme", series=None, where={"network.buffer": "1bdp"}))
    assert (ticks, legend) == (["bbq †", "bbr"], ["† our reconstruction"])


def test_plot_query_of_reconstruction_is_explained():
    """A plot without labels of schemes has a note if its query selects a reconstruction."""
    results = narrows.compare("bbq", "bbr", rtt=["10ms", "50ms"], each=True, **SHORT)
    sql = "SELECT rtt_base_ms || ' ms' AS x, goodput_mbit_s AS y, seed FROM flows WHERE scheme = '{}'"
    assert texts(results.plot("bar", sql=sql.format("bbq")))[1] == ["bbq: our reconstruction"]
    assert texts(results.plot("bar", sql=sql.format("bbr")))[1] == []
    both = "SELECT scheme AS x, goodput_mbit_s AS y, seed FROM flows WHERE scheme IN ('bbq', 'bbr')"
    assert texts(results.plot("bar", sql=both))[1] == ["† our reconstruction"]


def test_printed_point_finds_marked_series():
    """A printed point has the colour of its series although the series has a mark."""
    results = narrows.compare("bbq", "bbr", set={"network.buffer": ["1bdp", "2bdp"]}, **SHORT)
    points = [{"x": "1bdp", "series": "bbq", "y": 44.0}]
    panel = results.plot("line", x="network.buffer", points=points).axes[0]
    drawn = {container.get_label(): container.lines[0].get_color() for container in panel.containers}
    diamond = next(line for line in panel.lines if line.get_marker() == "D" and line.get_markerfacecolor() == "none")
    assert diamond.get_markeredgecolor() == drawn["bbq †"]


def test_published_schemes_carry_no_mark():
    """Plots and tables of published schemes have no mark."""
    results = narrows.compare("cubic", "bbr", **SHORT)
    assert "†" not in "".join(texts(results.plot("delay"))[1])
    assert "†" not in repr(results)


def test_table_marks_and_explains_reconstructions():
    """The table marks a reconstruction and explains the mark once."""
    text = repr(narrows.compare("bbq", "bbr", **SHORT))
    assert text.count("bbq †") == 1
    assert text.count("† our reconstruction.") == 1


def test_schemes_page_states_provenance():
    """`schemes NAME` states the provenance of a reconstruction."""
    shown = call("schemes", "bbq").stdout
    assert "Provenance: our reconstruction; the published rule, or a part of it, could not be" in shown
    assert "our reconstruction" not in call("schemes", "bbr").stdout
