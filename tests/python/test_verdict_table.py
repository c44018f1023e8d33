"""The rule of verdicts over every measured claim, computed anew from the stored means and half-widths.

Nothing here uses `narrows.verdicts`: a mistake there shows as a row that contradicts the rule's words.
"""

import sys
from collections import Counter

import pytest

from narrows import papers

from conftest import ROOT  # isort: skip

sys.path.insert(0, str(ROOT / "docs"))

import paper_pages

JAIN, SHARE = 0.03, 0.1
ROUNDING = 1 + 1e-9
CLAIMS = {
    (paper.id, figure.id, claim.id): claim
    for paper in papers.load_all(ROOT / "papers")
    for figure in paper.figures
    for claim in figure.claims
}
ROWS = sorted(paper_pages.measured().items())


def printed_figures():
    """The rows of printed figures: claim, verdict, mean and half-width of ours and of the alternative."""
    for key, row in ROWS:
        claim = CLAIMS.get(key[:3])
        if claim is not None and claim.kind == "value" and row["ours"]:
            yield " ".join(key), claim, row["verdict"], row["ours"], row["than"]


def band(claim):
    """The margin around a printed value: 10 % of it, 0.03 for a Jain index, or a stated bound of ours around zero."""
    return SHARE * abs(claim.paper) if claim.within is None else claim.within


@pytest.mark.parametrize("key", CLAIMS)
def test_absolute_bands_are_of_jain_indices_or_stated(key):
    """A band is 10 % of the printed value at most, 0.03 for a Jain index, or stated for a printed 0."""
    claim = CLAIMS[key]
    assert claim.tolerance <= SHARE
    if claim.within is not None:
        about_zero = claim.paper == 0 and claim.bound.startswith("about 0")
        assert (claim.within == JAIN and not claim.unit) or about_zero, claim


def test_no_figure_holds_with_mean_or_half_width_beyond_the_band():
    """A figure that holds has its mean and its half-width within the band."""
    checked = 0
    for name, claim, verdict, (mean, half), _ in printed_figures():
        if verdict == "holds":
            assert abs(mean - claim.paper) <= band(claim) * ROUNDING, name
            assert (half or 0.0) <= band(claim) * ROUNDING, name
            checked += 1
    assert checked > 100


def test_no_figure_in_direction_is_farther_than_the_alternative():
    """Both ends of our interval lie nearer to the printed value than the alternative does, and on its side."""
    checked = 0
    for name, claim, verdict, (mean, half), than in printed_figures():
        if verdict == "holds in direction":
            assert than, name
            for end in (mean - (half or 0.0), mean + (half or 0.0)):
                assert abs(end - claim.paper) <= abs(than[0] - claim.paper) * ROUNDING, name
                assert (end - than[0]) * (claim.paper - than[0]) > 0, name
            checked += 1
    assert checked > 0


def test_figures_that_fail_miss_the_band_over_the_whole_interval():
    """The interval of a figure that fails misses the band; otherwise the verdict is 'inconclusive'."""
    for name, claim, verdict, (mean, half), _ in printed_figures():
        if verdict in ("does not hold", "holds in direction"):
            assert abs(mean - claim.paper) + 1e-12 > band(claim) + (half or 0.0) - band(claim) * 1e-9, name
        if verdict == "inconclusive":
            assert abs(mean - claim.paper) <= (band(claim) + (half or 0.0)) * ROUNDING, name
            assert max(abs(mean - claim.paper), half or 0.0) > band(claim), name


def test_only_printed_figures_hold_in_direction():
    """Bounds and orderings hold, do not hold, or are inconclusive."""
    kinds = Counter(
        CLAIMS[key[:3]].kind for key, row in ROWS if key[:3] in CLAIMS and row["verdict"] == "holds in direction"
    )
    assert set(kinds) == {"value"}


def test_bounds_hold_over_the_whole_interval_only():
    """A bound within the interval is inconclusive."""
    checked = 0
    for key, row in ROWS:
        claim = CLAIMS.get(key[:3])
        if claim is None or claim.kind not in ("at_least", "at_most") or not row["ours"]:
            continue
        mean, half = row["ours"][0], row["ours"][1] or 0.0
        sign = 1 if claim.kind == "at_least" else -1
        near, far = sign * mean - half - sign * claim.paper, sign * mean + half - sign * claim.paper
        slack = 1e-9 * abs(claim.paper)
        wanted = "holds" if near >= -slack else "does not hold" if far < 0 else "inconclusive"
        assert row["verdict"] == wanted or abs(near) <= slack or abs(far) <= slack, " ".join(key)
        checked += 1
    assert checked > 10
