"""Means over seeds with their 95 % confidence intervals."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

LEVEL = 0.95
"""Two-sided confidence of every interval."""

MAX_DECIMALS = 4
"""Digits after the decimal point in texts for people."""


@dataclass(frozen=True)
class Interval:
    """A mean and the half-width of its interval; `None` for a single value, whose interval is unknown."""

    mean: float
    half: float | None
    n: int

    @property
    def low(self) -> float:
        """The lower end; the mean if the half-width is unknown."""
        return self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        """The upper end; the mean if the half-width is unknown."""
        return self.mean + (self.half or 0.0)

    def text(self, digits: int = 3) -> str:
        """Format as `mean ± half`, with `digits` significant digits of the mean."""
        if self.half is None:
            return number(self.mean, digits)
        places = min(_places(self.mean if self.mean else self.half, digits), MAX_DECIMALS)
        return f"{self.mean:.{places}f} ± {self.half:.{places}f}"


def interval(values: Iterable[float]) -> Interval:
    """Return mean and Student-t half-width of independent values.

    Raises:
        ValueError: `values` is empty.
    """
    xs = [float(x) for x in values]
    n = len(xs)
    if n == 0:
        raise ValueError("the mean of no values is not defined")
    mean = math.fsum(xs) / n
    if n == 1:
        return Interval(mean, None, 1)
    variance = math.fsum((x - mean) ** 2 for x in xs) / (n - 1)
    return Interval(mean, t_quantile(0.5 + LEVEL / 2, n - 1) * math.sqrt(variance / n), n)


@functools.cache
def t_quantile(p: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution for a probability p ≥ 0.5 and `freedom` degrees of freedom."""
    if not 0.5 <= p < 1.0 or freedom < 1:
        raise ValueError(f"no t quantile for p = {p}, {freedom} degrees of freedom")
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < p:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if t_cdf(middle, freedom) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def t_cdf(t: float, freedom: int) -> float:
    """Return the distribution function of Student's t at t ≥ 0 (Abramowitz and Stegun 26.7.1 with 26.5.27)."""
    x = freedom / (freedom + t * t)
    return 1.0 - 0.5 * _incomplete_beta(freedom / 2, 0.5, x)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function by its continued fraction (DLMF 8.17.22)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges slowly here, so use the symmetry (DLMF 8.17.4)
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    # Evaluate the fraction from its far end. 200 terms suffice for any number of seeds.
    tail = 0.0
    for k in range(200, 0, -1):
        m = k // 2
        if k % 2:
            coefficient = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            coefficient = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        tail = coefficient / (1.0 + tail)
    return math.exp(log_front) / (a * (1.0 + tail))


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with `digits` significant digits, with an exponent only from 10^7 and below 10^-4."""
    if value is None or not math.isfinite(value):
        return "–"
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{_places(value, digits)}f}"


def _places(value: float, digits: int) -> int:
    if value == 0 or not math.isfinite(value):
        return 0
    return max(0, digits - 1 - math.floor(math.log10(abs(value))))
