"""Claims files: repeated values, folded texts, and tables that figures share."""

import pytest

from narrows.errors import UsageError
from test_claims import keys

DITTO = """
[defaults]
source = "'{said}'"
text = "{scheme} {how} {size}"
size = "5 BDP"
sql = "SELECT 1"
[[claim]]
header = ["id", "scheme", "how", "said", "cause"]
rows = [
  ["a", "bbr", "fills", "a large queue", "Too late."],
  ["b", "cubic", "~", "~", "~"],
  ["c", "bbr", "~", "none", { within = 1, cause = "Too early." }, { unit = "ms" }],
]
"""


def test_ditto_repeats_the_value_above_it(read_claims):
    """`~` stands for the value in the row above, which may itself be `~`; other values come from the defaults."""
    found = [(claim["id"], claim["text"], claim["source"], claim["cause"]) for claim in keys(read_claims(DITTO))]
    assert found == [
        ("a", "bbr fills 5 BDP", "'a large queue'", "Too late."),
        ("b", "cubic fills 5 BDP", "'a large queue'", "Too late."),
        ("c", "bbr fills 5 BDP", "'none'", "Too early."),
    ]


def test_ditto_below_no_value_is_refused(read_claims):
    """The first row has nothing to repeat."""
    with pytest.raises(UsageError, match=r"claims\.toml:12: claim a: how = '~'; accepted: below another value"):
        read_claims(DITTO.replace('"bbr", "fills"', '"bbr", "~"'))


def test_texts_for_people_join_their_lines(read_claims):
    """Lines of a long text are one line: in a figure's note, a claim and a cause."""
    text = '''note = """One
two."""
[[claim]]
id = "a"
text = """Three
  four"""
source = "text"
cause = "late"
sql = """SELECT 1
FROM runs"""
[causes]
late = """Five
six."""
'''
    sheet = read_claims(text)
    (claim,) = keys(sheet)
    assert (sheet.figure["note"], claim["text"], claim["cause"]) == ("One two.", "Three four", "Five six.")
    assert claim["sql"] == "SELECT 1\nFROM runs"


def test_plots_share_keys_and_name_both_axes(read_claims):
    """`[plot]` of the file or the paper fills in; `axes` is both labels; tables at a row's end join their points."""
    text = """
[plot]
logx = true
[[figure.plot]]
axes = ["time, s", "{what}, ms"]
header = ["what"]
rows = [["RTT", { points.bbr.1bdp = 7 }, { points.cubic.1bdp = 8 }], ["delay", { kind = "bar" }]]
"""
    plots = read_claims(text, plot={"kind": "line", "logx": False}).plots
    points = [{"series": "bbr", "x": "1bdp", "y": 7}, {"series": "cubic", "x": "1bdp", "y": 8}]
    shared = {"logx": True, "xlabel": "time, s"}
    assert plots == (
        {"kind": "line", **shared, "ylabel": "RTT, ms", "points": points},
        {"kind": "bar", **shared, "ylabel": "delay, ms"},
    )


@pytest.mark.parametrize("axes", ['"time"', '["time"]'])
def test_axes_that_are_no_pair_are_refused(read_claims, axes):
    """A single label is refused: it could belong to either axis."""
    with pytest.raises(UsageError, match=r"plot 1: axes = .*; accepted: axes = \['X AXIS', 'Y AXIS'\]"):
        read_claims(f"[[figure.plot]]\naxes = {axes}\n")


def test_figures_of_one_scenario_share_their_runs(read_claims, tmp_path):
    """Shorter and longer runs come from the figure, the figure of its scenario, or its paper, in this order."""
    (tmp_path / "tab1.claims.toml").write_text(
        '[figure]\ntitle = "Table"\nquick = { duration = "2s" }\ntrace = "2ms"\nnote = "N"\n'
    )
    paper = {"quick": {"duration": "1s"}, "full": {"duration": "1h"}}
    figure = read_claims('scenario = "tab1.toml"\ntrace = "1ms"\n', figure=paper).figure
    assert figure == {
        "title": "Shares",
        "scenario": "tab1.toml",
        "quick": {"duration": "2s"},
        "full": {"duration": "1h"},
        "trace": "1ms",
    }


def test_paper_states_only_runs_of_its_figures(read_claims):
    """Figures share no title."""
    with pytest.raises(UsageError, match=r"paper\.toml: figure\.unknown key 'title'; accepted: full, quick, trace"):
        read_claims("", figure={"title": "All"})


def test_cases_and_defaults_of_a_paper_serve_all_figures(read_claims):
    """A figure's own defaults come first, and its own cases replace the paper's."""
    text = """
[defaults]
unit = "s"
[[claim]]
id = "a"
text = "{size}"
sql = "SELECT 1"
"""
    shared = {
        "defaults": {"unit": "ms", "source": "text", "size": "{n} BDP"},
        "cases": {"one": {"n": 1}, "two": {"n": 2, "id": "{id}-two"}},
    }
    found = [(claim["id"], claim["text"], claim["unit"]) for claim in keys(read_claims(text, **shared))]
    assert found == [("a", "1 BDP", "s"), ("a-two", "2 BDP", "s")]
    own = keys(read_claims(text + "[cases]\nfive = { n = 5 }\n", **shared))
    assert [claim["text"] for claim in own] == ["5 BDP"]
