"""papers/<paper>/coverage.toml: every printed result has claims, or a reason why none judges it."""

import tomllib
from collections import Counter

import pytest

from narrows import papers

from conftest import ROOT  # isort: skip

PAPERS = {paper.id: paper for paper in papers.load_all(ROOT / "papers")}
KEYS = {"at", "says", "claims", "reason"}


def entries(paper):
    """The entries of a paper, in the order of its text."""
    return tomllib.loads((ROOT / "papers" / paper / "coverage.toml").read_text(encoding="utf-8"))["printed"]


def test_coverage_of_every_paper_is_stated():
    """Every paper lists its printed results."""
    stated = {path.parent.name for path in (ROOT / "papers").glob("*/coverage.toml")}
    assert stated == set(PAPERS)


@pytest.mark.parametrize("paper", PAPERS)
def test_entries_have_place_statement_and_claims_or_reason(paper):
    """Each entry is stated once, with a place and either claims or a reason."""
    for entry in entries(paper):
        assert entry.keys() <= KEYS, entry
        assert entry["at"].strip() and entry["says"].strip(), entry
        assert bool(entry.get("claims")) != bool(entry.get("reason", "").strip()), entry
    stated = Counter((entry["at"], entry["says"]) for entry in entries(paper))
    assert max(stated.values()) == 1, stated.most_common(1)


@pytest.mark.parametrize("paper", PAPERS)
def test_entries_name_claims_that_exist(paper):
    """Each claim that an entry names is one of the paper's."""
    known = {f"{figure.id}/{claim.id}" for figure in PAPERS[paper].figures for claim in figure.claims}
    named = {name for entry in entries(paper) for name in entry.get("claims", [])}
    assert named <= known, sorted(named - known)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_main_claim_judges_something_printed(paper):
    """Every claim of a main reading is named by an entry; second readings judge the same entries."""
    main = {
        f"{figure.id}/{claim.id}"
        for figure in PAPERS[paper].figures
        for claim in figure.claims
        if claim.reading != "second"
    }
    named = {name for entry in entries(paper) for name in entry.get("claims", [])}
    assert main <= named, sorted(main - named)
