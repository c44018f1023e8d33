"""Judges claims.

The printed figure is compared with our mean over seeds and its 95 % interval; one seed gives a value without interval.
The band of a printed figure is 10 % of it (`tolerance`), or an absolute margin (`within`): 0.03 for a Jain index, and a
stated bound for a figure printed as 'about 0'.

| verdict | `value` | `at_least`, `at_most`, `between`, `greater`, `less` |
|---|---|---|
| holds | the mean lies in the band, and the half-width is at most as wide | true over the whole interval |
| inconclusive | the interval reaches the band, but is too wide for 'holds' | the interval contains the bound |
| holds in direction | see below | – |
| does not hold | all else | all else |

`greater` and `less` compare seed by seed: with the column `than` of the query, or with the number `baseline`. A `value`
holds in direction if it misses the band, but improves on the alternative as the printed value does. The alternative is
the column `than`: the same quantity of the scheme that the paper improves on, in the same runs. Our whole interval must
lie on the same side of the alternative as the printed value, nearer to the printed value than to the alternative, and
no farther from the printed value than the alternative is. A claim never holds in direction without an alternative, or
if its alternative lies on the wrong side of the printed value (`direction`). A claim with a missing value does not
hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from narrows.stats import Interval, interval, number

Verdict = Literal["holds", "inconclusive", "holds in direction", "does not hold"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""All verdicts, the best first."""
Reading = Literal["main", "second"]
Direction = Literal["greater", "less"]
KINDS = ("value", "at_least", "at_most", "between", "greater", "less")
TOLERANCE = 0.10
"""Half the width of the band around a printed figure, relative to the figure. No claim may exceed it."""
JAIN_WITHIN = 0.03
"""Half the width of the band around a Jain index."""


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
    reading: Reading = "main"
    """`second` is another reading of the paper's set-up, counted apart from the main reading."""
    bound: str = ""
    """A bound that we chose instead of the paper, in words."""
    remark: str = ""
    """The statement that some of these schemes are reconstructions."""

    def error(self) -> str | None:
        """Return the reason if the claim cannot be judged. Such a claim is an error without a verdict."""
        if self.kind not in KINDS:
            return f"kind = {self.kind!r}; accepted: {', '.join(KINDS)}"
        printed = self.paper if isinstance(self.paper, tuple) else (self.paper,)
        if any(isinstance(part, float) and not math.isfinite(part) for part in printed):
            return f"paper = {self.paper}; accepted: a finite number"
        if self.kind == "between":
            if not isinstance(self.paper, tuple) or self.paper[0] > self.paper[1]:
                return "between needs paper = [low, high], with low up to high"
        elif self.kind in ("greater", "less"):
            if self.paper is not None:
                return f"{self.kind} takes no printed value; accepted: no paper key, or kind = 'value' with a baseline"
        elif not isinstance(self.paper, int | float) or isinstance(self.paper, bool):
            return f"paper = {self.paper!r}; accepted: a number, which {self.kind} needs"
        if self.direction not in (None, "greater", "less"):
            return f"direction = {self.direction!r}; accepted: greater, less"
        if not 0 <= self.tolerance <= TOLERANCE:
            return f"tolerance = {self.tolerance}; accepted: 0 to {TOLERANCE:g}"
        if (problem := self._margin_error()) is not None:
            return problem
        if self.baseline is not None and self.kind not in ("greater", "less"):
            return f"{self.kind} takes no baseline; accepted: a column than, with the figure of the alternative"
        if self.direction is not None and self.kind != "value":
            return f"{self.kind} takes no direction; accepted: kind = 'value'"
        if self.reading not in get_args(Reading):
            return f"reading = {self.reading!r}; accepted: {', '.join(get_args(Reading))}"
        return None

    def _margin_error(self) -> str | None:
        """Return the reason if the absolute margin is missing or not acceptable."""
        widest = max(TOLERANCE * abs(self.paper), JAIN_WITHIN) if isinstance(self.paper, int | float) else JAIN_WITHIN
        if self.kind == "value" and self.paper == 0:
            stated = self.within is not None and 0 < self.within < math.inf
            return None if stated else "10 % of a printed 0 is 0; accepted: within, an absolute margin above 0"
        if self.within is None or 0 <= self.within <= widest * (1 + 1e-9):
            return None
        return (
            f"within = {self.within:g}; accepted: 0 to {widest:g}, 10 % of the print or {JAIN_WITHIN:g} of a Jain index"
        )

    @property
    def counted(self) -> bool:
        """Whether the headline counts the claim: a main reading, about schemes with published rules."""
        return self.reading == "main" and not self.remark

    def margin(self) -> float:
        """Half the width of the band around the printed figure of a `value`."""
        assert isinstance(self.paper, int | float)
        return self.within if self.within is not None else self.tolerance * abs(self.paper)

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
            "reading": claim.reading, "counted": claim.counted, "bound": claim.bound,
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
    columns = ("value", "than") if paired else ("value",)
    for row in rows:
        if not isinstance(row["seed"], int):
            raise ValueError(f"the query returns seed = {row['seed']!r}; accepted: the whole number of a run")
        for column in columns:
            if isinstance(row[column], str | list | dict):
                raise ValueError(f"the query returns {column} = {row[column]!r}; accepted: a number, or null")
    seeds = [row["seed"] for row in rows]
    if len(set(seeds)) < len(seeds):
        raise ValueError("the query returns a seed more than once; accepted: one row per seed")
    missing = tuple(seed for seed, row in zip(seeds, rows, strict=True) if not all(_real(row[c]) for c in columns))
    kept = [row for row in rows if all(_real(row[c]) for c in columns)]
    if not kept:
        return Outcome(claim, "does not hold", None, missing=missing)
    ours = interval(row["value"] for row in kept)
    than = interval(row["than"] for row in kept) if paired else None
    if missing:
        return Outcome(claim, "does not hold", ours, than, missing)
    gap = None
    if claim.kind in ("greater", "less"):
        gap = interval(row["value"] - (row["than"] if paired else claim.baseline) for row in kept)
    if claim.kind == "value":
        lead = interval(row["value"] - row["than"] for row in kept) if paired else None
        half_way = interval(row["value"] - (claim.paper + row["than"]) / 2 for row in kept) if paired else None
        verdict = _judge_value(claim, ours, than, lead, half_way)
    else:
        verdict = _judge_bound(claim, ours if gap is None else gap)
    return Outcome(claim, verdict, ours, than)


def _judge_value(
    claim: Claim, ours: Interval, than: Interval | None, lead: Interval | None, half_way: Interval | None
) -> Verdict:
    """Judge a printed figure.

    Args:
        claim: The claim.
        ours: Our figure.
        than: The figure of the alternative.
        lead: Our figure minus that of the alternative, per seed.
        half_way: Our figure minus the midpoint between the printed figure and the alternative, per seed.
    """
    assert isinstance(claim.paper, int | float)
    paper, margin = claim.paper, claim.margin()
    slack = 1e-9 * abs(paper)  # 90 lies within 10 % of 100, whatever the rounding
    if abs(ours.mean - paper) <= margin + slack and (ours.half or 0.0) <= margin + slack:
        return "holds"
    if ours.low <= paper + margin + slack and ours.high >= paper - margin - slack:
        return "inconclusive"
    if than is None or lead is None or half_way is None or than.mean == paper:
        return "does not hold"
    side = 1 if paper > than.mean else -1
    if claim.direction is not None and side != (1 if claim.direction == "greater" else -1):
        return "does not hold"  # the alternative lies on the wrong side of the printed figure
    farthest = max(abs(ours.low - paper), abs(ours.high - paper))
    beyond = all(min(side * gap.low, side * gap.high) > 0 for gap in (lead, half_way))
    return "holds in direction" if beyond and farthest <= abs(than.mean - paper) else "does not hold"


def _judge_bound(claim: Claim, ours: Interval) -> Verdict:
    """Judge a bound, or the difference of the two sides of an ordering."""
    low, high = ours.low, ours.high
    paper = claim.paper
    if isinstance(paper, tuple):
        true = paper[0] <= low and high <= paper[1]
        contains = any(low <= end <= high for end in paper)
    elif claim.kind in ("at_least", "at_most"):
        assert paper is not None
        true = low >= paper if claim.kind == "at_least" else high <= paper
        contains = low <= paper <= high
    else:
        true = low > 0 if claim.kind == "greater" else high < 0
        contains = low <= 0 <= high and low < high
    return "holds" if true else "inconclusive" if contains else "does not hold"


def _real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
