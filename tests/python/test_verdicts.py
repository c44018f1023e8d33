"""Every kind of claim at the edges of its verdict."""

import pytest

from narrows.verdicts import Claim, judge

H, D, N = "holds", "holds in direction", "does not hold"


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
        (100, [110], H),  # one value: 10 % of the printed value, inclusive
        (100, [110.01], N),
        (100, [90], H),
        (100, [89.99], N),
        (100, [100], H),
        (120, [107], N),  # 12 wide, not 10.7: 10 % of the printed value
        (120, [108], H),
        (-10, [-11], H),
        (-10, [-11.1], N),
        (0, [0], H),
        (0, [0.001], N),
        (125, [99, 101], H),  # 112.706 + 12.5 = 125.206
        (125.4, [99, 101], N),  # 112.706 + 12.54 = 125.246
    ],
)
def test_value_holds_within_widened_interval(paper, values, expected):
    """A printed value holds if it lies in the interval widened by 10 % of the value."""
    assert verdict(claim("value", paper), values) == expected


def test_value_tolerance_and_within_replace_default():
    """`tolerance` and `within` replace the 10 %."""
    assert verdict(claim("value", 100, tolerance=0.02), [102]) == H
    assert verdict(claim("value", 100, tolerance=0.02), [102.1]) == N
    assert verdict(claim("value", 0.0, within=0.1), [0.1]) == H
    assert verdict(claim("value", 0.0, within=0.1), [0.11]) == N


@pytest.mark.parametrize(
    ("kind", "paper", "values", "expected"),
    [
        ("at_least", 0.9, [0.9], H),
        ("at_least", 0.9, [0.8999], N),  # a bound is not widened
        ("at_least", 0.9, [0.95, 0.96], N),  # 0.955 - 0.0635 = 0.8915
        ("at_least", 0.9, [0.97, 0.971], H),  # 0.9705 - 0.0064
        ("at_most", 5, [5], H),
        ("at_most", 5, [5.01], N),
        ("at_most", 5, [4.9, 4.95], N),
        ("at_most", 5, [4.9, 4.905], H),
        ("between", (1, 2), [1], H),
        ("between", (1, 2), [2], H),
        ("between", (1, 2), [2.01], N),
        ("between", (1, 2), [0.99], N),
        ("between", (1, 2), [1.05, 1.06], N),  # 1.055 - 0.0635 = 0.9915
        ("between", (1, 2), [1.1, 1.11], H),
    ],
)
def test_bound_holds_over_whole_interval(kind, paper, values, expected):
    """A bound holds if it is true over the whole interval, without widening."""
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
        ("greater", [10, 20], [9, 18], N),  # 1.5 ± 6.35
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
        (claim("value", 4.0, baseline=1.0), [1.2], None, D),  # the printed ratio is 4, and ours is above 1 too
        (claim("value", 4.0, baseline=1.0), [3.9], None, H),
        (claim("value", 4.0, baseline=1.0), [1.0], None, N),
        (claim("value", 4.0, baseline=1.0), [0.9], None, N),
        (claim("value", 0.5, baseline=1.0), [0.8], None, D),
        (claim("value", -26.0, baseline=0.0), [-3.0], None, D),
        (claim("value", -26.0, baseline=0.0), [3.0], None, N),
        (claim("value", 4.0, baseline=1.0), [1.1, 1.2], None, N),  # 1.15 ± 0.635 does not lie above 1
        (claim("value", 4.0), [1.2], None, N),  # no baseline, no direction
        (claim("value", 84.0, direction="greater"), [60], [40], D),
        (claim("value", 84.0, direction="greater"), [40], [60], N),
        (claim("value", 84.0, direction="less"), [40], [60], D),
        (claim("value", 84.0), [60], [40], N),  # a second column, but no direction
        (claim("at_least", 0.9, baseline=0.6), [0.8], None, D),
        (claim("at_least", 0.9, baseline=0.6), [0.5], None, N),
        (claim("at_most", 1.0, baseline=5.0), [2.0], None, D),
        (claim("at_least", 0.9), [0.8], [0.7], D),
    ],
)
def test_direction_needs_a_comparison(given, values, than, expected):
    """A claim holds in direction only if it names a baseline or a second column."""
    assert given.error() is None
    assert verdict(given, values, than) == expected


@pytest.mark.parametrize("hole", [None, float("nan"), float("inf")])
def test_missing_value_never_holds(hole):
    """A claim with a missing value for a seed never holds, and names the seed."""
    outcome = judge(claim("at_least", 1.0, cause="It stalls."), [{"seed": 1, "value": 5.0}, {"seed": 2, "value": hole}])
    assert (outcome.verdict, outcome.missing) == (N, (2,))
    assert outcome.cause == "No value for seed 2. It stalls."
    assert judge(claim("value", 1.0), [{"seed": 1, "value": hole}]).ours is None


def test_cause_appears_unless_claim_holds():
    """The cause appears only if the claim does not hold as printed."""
    given = claim("value", 4.0, baseline=1.0, cause="The queue is shorter.")
    assert judge(given, [{"seed": 1, "value": 4.0}]).cause == ""
    assert judge(given, [{"seed": 1, "value": 2.0}]).cause == "The queue is shorter."
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
        claim("value", 1.0, baseline=1.0),
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
