"""The programs that store measurements in the documents, on output files of the commands."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import ROOT, python  # isort: skip

sys.path.insert(0, str(ROOT / "docs"))

import paper_pages
import results

from narrows import claims
from narrows.verdicts import Claim

PAGE = """By hand.
<!-- bench -->
<!-- /bench -->
<!-- scheme-cost -->
old
<!-- /scheme-cost -->
<!-- datagram-cost -->
<!-- /datagram-cost -->
"""
DATAGRAMS = [
    {
        "transport": "udp", "scheme": None, "path": "batches", "datagram_bytes": 1400, "datagrams": 9, "mbit_s": 8000.0,
        "ns_per_datagram": 1400.0, "ratio": 1.0, "reference": "UDP, batches", "cpu_percent": 99.4,
    },
    {
        "transport": "dccp", "scheme": "guess", "path": "memory", "datagram_bytes": 1400, "datagrams": 9, "mbit_s": 4000.0,
        "ns_per_datagram": 2800.0, "ratio": 0.5, "reference": "UDP, batches", "cpu_percent": 100.0,
    },
]  # fmt: skip
CLAIM = {
    "paper_id": "p", "figure": "fig1", "id": "a", "text": "More | less", "paper": 2.0, "unit": "ms", "remark": "",
    "ours": {"mean": 2.5, "half_width": 0.25, "seeds": 5}, "than": None, "verdict": "does not hold", "cause": "Why.", "world": "today",
}  # fmt: skip


def test_benchmark_rows_go_to_the_region_of_their_kind(capsys):
    """Each row goes to the region of the quantity it measures, and a region without any rows keeps its content."""
    page = results.measured(PAGE, DATAGRAMS)
    assert "| UDP | batches | 1,400 | 1,400 | 8,000 | 1.00 | 99 % |" in page
    assert "| `guess` | memory | 1,400 | 2,800 | 4,000 | 0.50 | 100 % |" in page
    assert "old" in page, "rows of datagrams name schemes, and are no costs of acknowledgements"
    printed = capsys.readouterr().err
    assert "no row of `narrows bench --schemes --json`: the region `scheme-cost` keeps its content" in printed
    assert "datagram-cost" not in printed


def outcome_of(*claims):
    rows = map(json.loads, results.outcomes(claims).splitlines())
    return {(row["paper"], row["figure"], row["claim"], row["world"]): row for row in rows}


def figure_of(*names):
    claims = [
        Claim(name, "More | less", "section 1", "value", "", paper=2.0, unit="ms", cause="Why.\n") for name in names
    ]
    return SimpleNamespace(
        id="fig1", title="One", about="", note="", scenario=SimpleNamespace(source="papers/p/fig1.toml"), claims=claims
    )


def test_every_claim_has_its_row_and_a_cause_stands_once():
    """A page has a row per claim, shares causes, omits those of claims that hold, and marks unmeasured claims."""
    found = outcome_of(CLAIM, {**CLAIM, "id": "b"}, {**CLAIM, "id": "c", "verdict": "holds"})
    figure = figure_of("a", "b", "c", "new")
    assert paper_pages.tally("p", [figure], found, "today") == "| 4 | 1 | 0 | 0 | 2 | 0 |"
    assert paper_pages.tally("p", [figure], found, "paper") == "| 4 | 0 | 0 | 0 | 0 | 0 |"
    table = "\n".join(paper_pages.figure_section("p", figure, found))
    assert table.count("| 2 ms | – | not measured | 2.5 ± 0.25 ms | does not hold | 1 |  |") == 2
    assert table.count("1. Why.") == 1
    assert "| holds |  |  |" in table
    assert "| – | not measured | – | not measured |  |  |" in table
    assert "Command: `narrows reproduce p fig1`." in table


def test_both_sides_of_a_comparison_are_shown():
    """A comparison shows both means with their intervals; a missing value is named."""
    sides = {**CLAIM, "than": {"mean": 1500.0, "half_width": None, "seeds": 1}}
    (row,) = outcome_of(sides).values()
    assert paper_pages.ours("ms", row) == "2.5 ± 0.25 against 1500 ms"
    (row,) = outcome_of({**CLAIM, "ours": None}).values()
    assert paper_pages.ours("ms", row) == "no value ms"


def test_outcome_without_a_claim_is_refused(monkeypatch):
    """A stored outcome whose claim is gone stops the generation of pages."""
    monkeypatch.setattr(paper_pages, "measured", lambda: outcome_of(CLAIM))
    with pytest.raises(SystemExit, match="no such claim: p fig1 a"):
        paper_pages.pages()


def test_links_of_findings_survive_the_move_to_the_page():
    """Relative links of a findings file lead to the same file from the page of the paper."""
    home = ROOT / "papers" / "brf"
    text = "[a](fig8.toml) [b](../../docs/results.md#speed) [c](https://example.org/x) [d](#here)"
    assert paper_pages.moved(text, home) == (
        "[a](../../papers/brf/fig8.toml) [b](../results.md#speed) [c](https://example.org/x) [d](#here)"
    )


def test_wrapped_lines_never_begin_like_a_list_item():
    """A paragraph is wrapped so that no line begins with a dash, a plus sign or a number and a dot."""
    text = "x" * 117 + " - y + z " + "w" * 108 + " 12. end"
    lines = paper_pages.wrapped(text)
    assert " ".join(lines) == text
    assert not any(line.startswith(("- ", "+ ", "12. ")) for line in lines)


@pytest.mark.slow
def test_report_that_lacks_claims_is_refused(tmp_path):
    """A report that lacks claims changes nothing; the error names them."""
    stated = len(claims.stated(results.PAPERS))
    assert len(results.missing([], results.PAPERS)) == stated > 400
    (tmp_path / "claims.json").write_text(json.dumps([CLAIM]))
    (tmp_path / "bench.jsonl").write_text("")
    program = ROOT / "docs" / "results.py"
    before = results.BENCHMARKS.read_bytes(), results.CLAIMS.read_bytes()
    done = python(program, tmp_path, tmp_path / "bench.jsonl")
    assert done.returncode == 1
    assert (
        f"lacks {stated} claims: " in done.stderr and "accepted: a full report of `narrows reproduce -o`" in done.stderr
    )
    assert (results.BENCHMARKS.read_bytes(), results.CLAIMS.read_bytes()) == before


def test_page_has_a_region_for_every_measurement():
    """The pages have a region, with content, for everything that the programs write."""
    regions = {
        results.BENCHMARKS: [name for name, *_ in results.MEASURED],
        results.LAWS: ["convergence", "gaps"],
        ROOT / "docs" / "results.md": ["headline", "verdicts"],
    }
    for path, names in regions.items():
        page = path.read_text()
        for name in names:
            assert page.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0].strip(), name
    with pytest.raises(SystemExit, match="has no region"):
        results.replace(page, "nothing", "")


@pytest.mark.slow
def test_every_claim_of_the_papers_is_measured():
    """The stored outcomes cover every claim of every paper."""
    stated = set(claims.stated(results.PAPERS))
    for world in paper_pages.WORLDS:
        assert stated == {key[:3] for key in paper_pages.measured() if key[3] == world}, world


def test_findings_files_belong_to_papers():
    """Every findings file stands beside a paper.toml."""
    assert all((path.parent / "paper.toml").is_file() for path in Path(results.PAPERS).glob("*/findings.md"))
