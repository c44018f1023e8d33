"""Intervals against printed tables and against a direct simulation of their coverage."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.stats import Interval, interval, number, t_cdf, t_quantile


@pytest.mark.parametrize(
    ("freedom", "printed"),
    # the 97.5 % column of any printed table of Student's t
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (19, 2.093), (30, 2.042), (120, 1.980)],
)
def test_t_quantile_matches_printed_table(freedom, printed):
    """Quantiles equal those of the printed tables."""
    assert t_quantile(0.975, freedom) == pytest.approx(printed, abs=5e-4)


def test_t_quantile_matches_closed_forms():
    """Quantiles of one and two degrees of freedom equal their closed forms."""
    for p in (0.6, 0.75, 0.9, 0.995):
        assert t_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-9)
        assert t_quantile(p, 2) == pytest.approx((2 * p - 1) / math.sqrt(2 * p * (1 - p)), rel=1e-9)


def test_interval_half_width_by_hand():
    """The half-width of 1 to 5 equals the one computed by hand."""
    # 1..5: s = sqrt(2.5), half = 2.7764 * sqrt(2.5 / 5) = 1.9632
    found = interval([1, 2, 3, 4, 5])
    assert (found.mean, found.n) == (3, 5)
    assert found.half == pytest.approx(1.9632, abs=1e-4)
    assert (found.low, found.high) == (found.mean - found.half, found.mean + found.half)


def test_interval_of_one_value_has_no_half_width():
    """One value has no half-width, and no values are an error."""
    assert interval([7.0]) == Interval(7.0, None, 1)
    assert interval([7.0]).low == interval([7.0]).high == 7.0
    with pytest.raises(ValueError, match="no values"):
        interval([])


def test_interval_covers_mean_as_often_as_stated():
    """95 % intervals contain the true mean in 95 % of many samples."""
    rng = random.Random(1)
    found = (interval([rng.gauss(10, 3) for _ in range(5)]) for _ in range(4000))
    held = sum(i.low <= 10 <= i.high for i in found) / 4000
    assert held == pytest.approx(0.95, abs=0.012)  # three and a half standard errors of the share


@given(st.integers(1, 400), st.floats(0.501, 0.9999))
def test_t_quantile_inverts_t_cdf(freedom, p):
    """The quantile function inverts the distribution function."""
    assert t_cdf(t_quantile(p, freedom), freedom) == pytest.approx(p, abs=1e-9)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (None, "–"),
        (float("nan"), "–"),
        (1234567, "1234567"),
        (0.5, "0.500"),
        (12.345, "12.3"),
        (2e-5, "2.00e-05"),
    ],
)
def test_number_formats_for_people(value, shown):
    """Numbers have three significant digits, and no needless exponent."""
    assert number(value) == shown
