"""Judges claims.

The printed value is compared with our mean over seeds and its 95 % interval; one seed gives a value without interval.

| kind | the claim holds if |
|---|---|
| `value` | the printed value lies in our interval, widened by 10 % of that value (`tolerance`) or by `within` |
| `at_least`, `at_most`, `between` | the bound is true over the whole interval, which is not widened |
| `greater`, `less` | the difference of the two sides, seed by seed, has that sign over its whole interval |

A claim `holds in direction` if only the sign agrees: our whole interval lies on the same side of a reference as the
printed value. The reference is a number (`baseline = 1.0` for a ratio, `0.0` for a difference) or a second column of
the query (`than`). A claim without a reference never holds in direction. All other claims do not hold, including those
for which a run gives no value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from narrows.stats import Interval, interval, number

Verdict = Literal["holds", "holds in direction", "does not hold"]
Direction = Literal["greater", "less"]
KINDS = ("value", "at_least", "at_most", "between", "greater", "less")
TOLERANCE = 0.10
"""The share of the printed value that widens the interval."""


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, and how to check it."""

    id: str
    text: str
    source: str
    kind: str
    sql: str
    paper: float | tuple[float, float] | None = None
    unit: str = ""
    cause: str = ""
    tolerance: float = TOLERANCE
    within: float | None = None
    baseline: float | None = None
    direction: Direction | None = None
    schemes: tuple[str, ...] = ()
    """The schemes that the claim is about, if stated."""
    remark: str = ""
    """The statement that some of these schemes are reconstructions."""

    def error(self) -> str | None:
        """Return the reason why the claim cannot be judged, if any. Such a claim is an error and has no verdict."""
        if self.kind not in KINDS:
            return f"kind = {self.kind!r}; accepted: {', '.join(KINDS)}"
        if self.kind == "between":
            if not isinstance(self.paper, tuple) or self.paper[0] > self.paper[1]:
                return "between needs paper = [low, high], with low up to high"
        elif self.kind in ("greater", "less"):
            if self.paper is not None:
                return f"{self.kind} takes no printed value; accepted: no paper key, or kind = 'value' with a baseline"
        elif not isinstance(self.paper, int | float) or isinstance(self.paper, bool):
            return f"{self.kind} needs paper = a number"
        if self.direction not in (None, "greater", "less"):
            return f"direction = {self.direction!r}; accepted: greater, less"
        if self.tolerance < 0 or (self.within is not None and self.within < 0):
            return "tolerance and within cannot be negative"
        if self.kind == "value" and self.baseline is not None and self.paper == self.baseline and not self.direction:
            return "the printed value is the baseline; accepted: a direction, 'greater' or 'less'"
        return None

    def words(self) -> str:
        """Return the statement with the remark on its schemes."""
        return f"{self.text} ({self.remark})" if self.remark else self.text

    def printed(self) -> str:
        """Format the printed side."""
        unit = f" {self.unit}" if self.unit else ""
        if isinstance(self.paper, tuple):
            return f"{self.paper[0]:g} … {self.paper[1]:g}{unit}"
        if self.paper is None:
            return {"greater": "more", "less": "less"}[self.kind]
        sign = {"at_least": "≥ ", "at_most": "≤ "}.get(self.kind, "")
        return f"{sign}{self.paper:g}{unit}"


@dataclass(frozen=True)
class Outcome:
    """A claim with our values and the verdict."""

    claim: Claim
    verdict: Verdict
    ours: Interval | None
    than: Interval | None = None
    missing: tuple[int, ...] = ()

    @property
    def cause(self) -> str:
        """The reason why the claim does not hold as printed; empty if it holds."""
        if self.verdict == "holds":
            return ""
        if not self.missing:
            return self.claim.cause
        seeds = f" for seed{'s' if len(self.missing) > 1 else ''} {', '.join(map(str, self.missing))}"
        gap = "No value." if self.ours is None else f"No value{seeds}."
        return " ".join(part for part in (gap, self.claim.cause) if part)

    def measured(self) -> str:
        """Format our side."""
        if self.ours is None:
            return "no value"
        unit = f" {self.claim.unit}" if self.claim.unit else ""
        text = f"{self.ours.text()}{unit}"
        if self.than is not None and self.claim.kind in ("greater", "less"):
            text += f" against {self.than.text()}{unit}"
        elif self.claim.kind in ("greater", "less") and self.claim.baseline is not None:
            text += f" against {number(self.claim.baseline)}{unit}"
        return text

    def data(self) -> dict[str, Any]:
        """Return the outcome as an entry of `claims.json`."""

        def spread(value: Interval | None) -> Any:
            return None if value is None else {"mean": value.mean, "half_width": value.half, "seeds": value.n}

        claim = self.claim
        return {
            "id": claim.id, "text": claim.text, "source": claim.source, "kind": claim.kind,
            "paper": list(claim.paper) if isinstance(claim.paper, tuple) else claim.paper, "unit": claim.unit,
            "ours": spread(self.ours), "than": spread(self.than), "verdict": self.verdict, "cause": self.cause,
            "schemes": list(claim.schemes), "reconstruction": bool(claim.remark), "remark": claim.remark,
        }  # fmt: skip


def judge(claim: Claim, rows: Sequence[Mapping[str, Any]]) -> Outcome:
    """Judge a claim by the rows of its query.

    Args:
        claim: The claim.
        rows: One row per seed, with the columns `seed`, `value` and optionally `than`.

    Raises:
        ValueError: There are no rows, a column is missing, or a seed occurs twice.
    """
    if not rows:
        raise ValueError("the query returns no rows; accepted: one row per seed")
    paired = "than" in rows[0]
    if "seed" not in rows[0] or "value" not in rows[0]:
        raise ValueError(
            f"the query returns {', '.join(rows[0])}; accepted: the columns seed, value and optionally than"
        )
    if claim.kind in ("greater", "less") and not paired and claim.baseline is None:
        raise ValueError(f"{claim.kind} has no reference; accepted: a second column than, or a baseline")
    seeds = [int(row["seed"]) for row in rows]
    if len(set(seeds)) < len(seeds):
        raise ValueError("the query returns a seed more than once; accepted: one row per seed")
    columns = ("value", "than") if paired else ("value",)
    missing = tuple(seed for seed, row in zip(seeds, rows, strict=True) if not all(_real(row[c]) for c in columns))
    kept = [row for row in rows if all(_real(row[c]) for c in columns)]
    if not kept:
        return Outcome(claim, "does not hold", None, missing=missing)
    ours = interval(row["value"] for row in kept)
    than = interval(row["than"] for row in kept) if paired else None
    if missing:
        return Outcome(claim, "does not hold", ours, than, missing)
    if paired:
        gap = interval(row["value"] - row["than"] for row in kept)
    elif claim.baseline is not None:
        gap = interval(row["value"] - claim.baseline for row in kept)
    else:
        gap = None
    verdict: Verdict = "does not hold"
    if _holds(claim, ours, gap):
        verdict = "holds"
    elif gap is not None and claim.kind not in ("greater", "less") and _same_side(claim, gap, than):
        verdict = "holds in direction"
    return Outcome(claim, verdict, ours, than)


def _holds(claim: Claim, ours: Interval, gap: Interval | None) -> bool:
    paper = claim.paper
    if isinstance(paper, tuple):
        return paper[0] <= ours.low and ours.high <= paper[1]
    if paper is None:
        return gap is not None and (gap.low > 0 if claim.kind == "greater" else gap.high < 0)
    if claim.kind == "at_least":
        return ours.low >= paper
    if claim.kind == "at_most":
        return ours.high <= paper
    margin = claim.within if claim.within is not None else claim.tolerance * abs(paper)
    return ours.low - margin <= paper <= ours.high + margin


def _same_side(claim: Claim, gap: Interval, than: Interval | None) -> bool:
    direction = claim.direction
    if direction is None:
        if claim.kind in ("at_least", "at_most"):
            direction = "greater" if claim.kind == "at_least" else "less"
        elif isinstance(claim.paper, int | float) and claim.baseline is not None and than is None:
            direction = "greater" if claim.paper > claim.baseline else "less"
        else:
            return False
    return gap.low > 0 if direction == "greater" else gap.high < 0


def _real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
