"""Every kind of claim at the edges of its verdict."""

from random import Random

import pytest

from narrows.verdicts import JAIN_WITHIN, Claim, judge

H, U, D, N = "holds", "inconclusive", "holds in direction", "does not hold"


def claim(kind, paper=None, **more):
    return Claim(id="c", text="t", source="s", kind=kind, sql="", paper=paper, **more)


def verdict(claim, values, than=None):
    rows = [{"seed": i, "value": v} for i, v in enumerate(values)]
    if than is not None:
        rows = [{**row, "than": t} for row, t in zip(rows, than, strict=True)]
    return judge(claim, rows).verdict


# Two values a and b have the half-width 12.7062 * |a - b| / 2: of 99 and 101 it is 12.706.
@pytest.mark.parametrize(
    ("paper", "values", "expected"),
    [
        (100, [110], H),  # one value stands alone: 10 % of the printed value, inclusive
        (100, [110.01], N),
        (100, [90], H),
        (100, [89.99], N),
        (120, [107], N),  # the band is ± 12 (10 % of the printed value), not ± 10.7
        (120, [108], H),
        (-10, [-11], H),
        (-10, [-11.1], N),
        (100, [99.5, 100.5], H),  # ± 6.35
        (100, [108, 109], H),  # ± 6.35: the mean is in the band, the interval need not be
        (100, [99, 101], U),  # ± 12.71: the mean is the printed value, but the interval is too wide
        (0.99, [0.49, 1.0], U),  # a wide interval never holds
        (100, [112, 113], U),  # 112.5 ± 6.35 reaches 110
        (100, [116, 117], N),  # 116.5 ± 6.35 ends at 110.1
        (100, [84, 85], U),  # 84.5 ± 6.35 reaches 90
        (100, [83, 84], N),  # 83.5 ± 6.35 ends at 89.9
    ],
)
def test_value_holds_by_mean_and_half_width(paper, values, expected):
    """A printed figure holds if the mean is within 10 % of it and the half-width is at most 10 % of it."""
    assert verdict(claim("value", paper), values) == expected


@pytest.mark.parametrize(
    ("paper", "within", "values", "expected"),
    [
        (0.99, JAIN_WITHIN, [0.965], H),
        (0.99, JAIN_WITHIN, [0.955], N),  # 10 % of 0.99 would accept 0.9, the index of two flows with 67 and 33 %
        (0.99, JAIN_WITHIN, [0.984, 0.988], H),  # ± 0.025
        (0.99, JAIN_WITHIN, [0.98, 0.99], U),  # ± 0.064
        (0, 0.1, [0.1], H),  # 'about 0' has an absolute bound
        (0, 0.1, [0.11], N),
        (0, 0.1, [0.0, 0.02], U),  # 0.01 ± 0.127
        (0, 0.1, [0.0, 0.0], H),
    ],
)
def test_within_is_an_absolute_margin(paper, within, values, expected):
    """A Jain index and a figure printed as 'about 0' have an absolute margin, also for the half-width."""
    assert verdict(claim("value", paper, within=within), values) == expected


def test_tolerance_narrows_the_band_and_never_widens_it():
    """`tolerance` narrows the 10 %; a wider tolerance is an error."""
    assert verdict(claim("value", 100, tolerance=0.02), [102]) == H
    assert verdict(claim("value", 100, tolerance=0.02), [102.1]) == N
    assert "accepted: 0 to 0.1" in claim("value", 100, tolerance=0.2).error()


@pytest.mark.parametrize(
    ("kind", "paper", "values", "expected"),
    [
        ("at_least", 0.9, [0.9], H),
        ("at_least", 0.9, [0.8999], N),  # a bound is not widened
        ("at_least", 0.9, [0.95, 0.96], U),  # 0.955 - 0.0635 = 0.8915
        ("at_least", 0.9, [0.97, 0.971], H),  # 0.9705 - 0.0064
        ("at_least", 0.9, [0.88, 0.881], N),
        ("at_least", 26, [25.5, 27.3], U),  # 26.4 with an interval below 26
        ("at_most", 5, [5], H),
        ("at_most", 5, [5.01], N),
        ("at_most", 5, [4.9, 4.95], U),
        ("at_most", 5, [4.9, 4.905], H),
        ("between", (1, 2), [1], H),
        ("between", (1, 2), [2], H),
        ("between", (1, 2), [2.01], N),
        ("between", (1, 2), [0.99], N),
        ("between", (1, 2), [1.05, 1.06], U),  # 1.055 - 0.0635 = 0.9915
        ("between", (1, 2), [1.1, 1.11], H),
        ("between", (1, 2), [0, 3], U),
    ],
)
def test_bound_holds_over_whole_interval(kind, paper, values, expected):
    """A bound holds if it is true over the whole interval; an interval that contains it is inconclusive."""
    assert verdict(claim(kind, paper), values) == expected


@pytest.mark.parametrize(
    ("kind", "values", "than", "expected"),
    [
        ("greater", [2], [1], H),
        ("greater", [1], [1], N),
        ("greater", [1], [2], N),
        ("less", [1], [2], H),
        ("less", [2], [2], N),
        ("greater", [10, 20], [9, 19], H),  # both differences are 1, although the seeds differ widely
        ("greater", [10, 20], [9, 18], U),  # 1.5 ± 6.35
        ("greater", [9, 18], [10, 20], U),
        ("greater", [9, 19], [10, 20], N),
        ("greater", [3, 3], [3, 3], N),  # equal without spread: more seeds would not decide
        ("less", [9, 19], [10, 20], H),
    ],
)
def test_ordering_compares_seed_by_seed(kind, values, than, expected):
    """An ordering is judged by the differences seed by seed."""
    assert verdict(claim(kind), values, than) == expected


def test_ordering_accepts_baseline_number():
    """An ordering may compare with a number; without any comparison it is an error."""
    assert verdict(claim("greater", baseline=1.0), [1.1]) == H
    assert verdict(claim("less", baseline=1.0), [1.1]) == N
    with pytest.raises(ValueError, match="no reference"):
        verdict(claim("greater"), [1.1])


@pytest.mark.parametrize(
    ("given", "values", "than", "expected"),
    [
        # BBR-GC's ratio of 1.2, where BBR has 4 in the same runs: the middle is 2.6
        (claim("value", 1.2), [1.25], [4.0], H),
        (claim("value", 1.2), [2.0], [4.0], D),
        (claim("value", 1.2), [2.6], [4.0], N),  # as near to BBR as to the printed value
        (claim("value", 1.2), [3.5], [4.0], N),  # better than BBR, but nearer to BBR
        (claim("value", 1.2), [4.5], [4.0], N),
        (claim("value", 1.2), [0.5], [4.0], D),  # beyond the printed value, and far from BBR
        (claim("value", 1.2), [-1.7], [4.0], N),  # beyond the printed value, and farther from it than BBR
        (claim("value", 1.2), [2.0, 2.1], [4.0, 4.1], D),  # 2.05 ± 0.64, seed by seed 2 less than BBR
        (claim("value", 12), [17, 17.1], [28, 28], D),
        (claim("value", 12), [17, 17.1], [30, 26], N),  # -2.95 ± 13.3 from the middle
        (claim("value", 1.2), [1.4, 1.6], [4.0, 4.0], U),  # 1.5 ± 1.27 reaches the band
        (claim("value", 84.0), [70], [40], D),
        (claim("value", 84.0), [61], [40], N),  # the middle is 62
        (claim("value", 84.0), [60], None, N),  # no alternative, no direction
        # The alternative is on the wrong side: BBR at 1.1, below the 1.2 printed for the scheme that improves on BBR
        (claim("value", 1.2, direction="less"), [1.05], [1.1], N),
        (claim("value", 1.2, direction="less"), [2.0], [1.1], N),
        (claim("value", 1.2, direction="less"), [2.0], [4.0], D),
        (claim("value", 1.2), [2.0], [1.2], N),  # the alternative equals the printed value
    ],
)
def test_direction_is_judged_against_the_alternative(given, values, than, expected):
    """A figure holds in direction if it lies on the printed value's side of the alternative, nearer to that value."""
    assert given.error() is None
    assert verdict(given, values, than) == expected


@pytest.mark.parametrize("seed", range(200))
def test_verdicts_never_reward_noise_or_distance(seed):
    """No figure holds beyond 10 %, and none holds in direction farther from the printed value than the alternative."""
    random = Random(seed)
    paper, centre, spread = random.uniform(0.5, 5), random.uniform(0, 6), random.choice((0.01, 0.1, 1.0))
    alternative = random.uniform(0, 6)
    values = [centre + random.uniform(-spread, spread) for _ in range(random.randint(2, 8))]
    rows = [{"seed": i, "value": v, "than": alternative} for i, v in enumerate(values)]
    outcome = judge(claim("value", paper), rows)
    off = abs(outcome.ours.mean - paper)
    assert (outcome.verdict == H) == (off <= 0.1 * paper and outcome.ours.half <= 0.1 * paper)
    if outcome.verdict == D:
        assert max(abs(outcome.ours.low - paper), abs(outcome.ours.high - paper)) <= abs(alternative - paper)


@pytest.mark.parametrize("hole", [None, float("nan"), float("inf")])
def test_missing_value_never_holds(hole):
    """A claim with a missing value for a seed never holds, and names the seed."""
    outcome = judge(claim("at_least", 1.0, cause="It stalls."), [{"seed": 1, "value": 5.0}, {"seed": 2, "value": hole}])
    assert (outcome.verdict, outcome.missing) == (N, (2,))
    assert outcome.cause == "No value for seed 2. It stalls."
    assert judge(claim("value", 1.0), [{"seed": 1, "value": hole}]).ours is None


def test_cause_appears_unless_claim_holds():
    """The cause appears only if the claim does not hold as printed."""
    given = claim("value", 4.0, cause="The queue is shorter.")
    assert judge(given, [{"seed": 1, "value": 4.0}]).cause == ""
    assert judge(given, [{"seed": 1, "value": 3.0, "than": 1.0}]).cause == "The queue is shorter."
    assert judge(given, [{"seed": 1, "value": 0.5}]).cause == "The queue is shorter."


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no rows"),
        ([{"seed": 1}], "accepted: the columns seed, value"),
        ([{"value": 1}], "accepted: the columns seed, value"),
        ([{"seed": 1, "value": 1}, {"seed": 1, "value": 2}], "more than once"),
    ],
)
def test_invalid_rows_raise_value_error(rows, message):
    """Rows without the needed columns, or with a repeated seed, raise an error."""
    with pytest.raises(ValueError, match=message):
        judge(claim("value", 1.0), rows)


@pytest.mark.parametrize(
    "given",
    [
        claim("equal", 1.0),
        claim("value"),
        claim("value", (1, 2)),
        claim("between", 1.0),
        claim("between", (2, 1)),
        claim("greater", 1.0),
        claim("value", 1.0, direction="up"),
        claim("value", 1.0, tolerance=-0.1),
        claim("value", 1.0, tolerance=0.11),
        claim("value", 1.0, within=-0.1),
        claim("value", 0.0),
        claim("value", 4.0, baseline=1.0),
        claim("at_least", 4.0, baseline=1.0),
        claim("at_least", 4.0, direction="greater"),
        claim("value", 1.0, reading="third"),
    ],
)
def test_invalid_claim_has_fault(given):
    """A claim that cannot be judged has an error."""
    assert given.error()


def test_claim_texts_read_naturally():
    """The printed and the measured side read naturally, with units and signs."""
    assert claim("value", 121, unit="ms").printed() == "121 ms"
    assert claim("at_least", 0.916).printed() == "≥ 0.916"
    assert claim("between", (1, 2.5), unit="%").printed() == "1 … 2.5 %"
    assert claim("greater").printed() == "more"
    rows = [{"seed": 1, "value": 10.0, "than": 5.0}, {"seed": 2, "value": 11.0, "than": 6.0}]
    assert judge(claim("greater", unit="ms"), rows).measured() == "10.5 ± 6.4 ms against 5.50 ± 6.35 ms"


def test_headline_counts_main_readings_of_published_rules():
    """A second reading of a set-up, or a claim about a reconstruction, is not counted."""
    assert claim("value", 1.0).counted
    assert not claim("value", 1.0, reading="second").counted
    assert not claim("value", 1.0, remark="X is our reconstruction").counted


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"seed": None, "value": 1.0}, "seed = None"),
        ({"seed": "x", "value": 1.0}, "seed = 'x'"),
        ({"seed": 1, "value": "bbr"}, "value = 'bbr'"),
    ],
)
def test_rows_that_are_no_measurements_are_refused(row, named):
    """A query that returns strings, or no seed, is an error, not a verdict."""
    with pytest.raises(ValueError, match=named):
        judge(claim("value", 1.0), [row])


@pytest.mark.parametrize(
    ("kind", "paper", "more"),
    [
        ("value", float("nan"), {}),
        ("at_least", float("-inf"), {}),
        ("value", 0, {"within": -1.0}),
        ("value", 100, {"within": 90.0}),
    ],
)
def test_printed_values_are_finite_and_bands_narrow(kind, paper, more):
    """No claim has a printed value of nan or infinity, and no absolute band exceeds 10 % of a printed value."""
    assert "accepted: " in (claim(kind, paper, **more).error() or "")
