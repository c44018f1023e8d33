"""Measures the effect of corrections to a paper's equations and algorithms.

If a paper's rule was corrected (a misprint, a missing case), its scheme or router keeps the printed form under the
parameter `literal`. The figures of such papers run once more with `literal`, in the paper's world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from narrows.papers import Paper
from narrows.plans import Executor, plan
from narrows.reproduced import Mode, Reproduced
from narrows.verdicts import Outcome

LITERAL = "literal"
"""The key of a scenario that selects the printed forms."""


@dataclass(frozen=True)
class Form:
    """A claim judged with the printed and with the corrected form."""

    row: Reproduced
    printed: Outcome
    corrected: Outcome

    @property
    def differs(self) -> bool:
        """Whether the verdicts differ."""
        return self.printed.verdict != self.corrected.verdict

    def data(self) -> dict[str, Any]:
        """Return the entry of `literal.json`."""
        return {
            "paper_id": self.row.paper.id, "figure": self.row.figure.id, "id": self.corrected.claim.id,
            "text": self.corrected.claim.words(), "printed": self.corrected.claim.printed(),
            "counted": self.corrected.claim.counted,
            "literal": {"verdict": self.printed.verdict, "ours": self.printed.measured()},
            "corrected": {"verdict": self.corrected.verdict, "ours": self.corrected.measured()},
        }  # fmt: skip


def compare(
    done: Sequence[Reproduced], executor: Executor, mode: Mode, print_status: Callable[[str], None] = lambda text: None
) -> list[Form]:
    """Run the figures of papers with corrections as printed, and judge their claims again.

    Args:
        done: The figures with the corrected forms, in the papers' worlds or today's.
        executor: Executes the runs.
        mode: The length of the runs.
        print_status: Receives a line before the runs.

    Raises:
        UsageError: A claim cannot be judged.
        Interrupted: The user pressed Ctrl-C.
    """
    first = {(row.paper.id, row.figure.id): row for row in reversed(done) if row.paper.literal}
    rows = [row for row in done if row is first.get((row.paper.id, row.figure.id))]
    plans = []
    for row in rows:
        world = replace(row.figure.world, set={**row.figure.world.set, LITERAL: True})
        figure = replace(row.figure, world=world)
        plans.append(plan(row.paper, figure, "paper", mode, row.seeds()))
    runs = len({run.id for item in plans for run in item.runs})
    print_status(f"{runs} runs of {len(rows)} figures with the printed forms")
    return [
        Form(row, printed, corrected)
        for row, literal in zip(rows, executor.run(plans), strict=True)
        for printed, corrected in zip(literal.outcomes, row.outcomes, strict=True)
    ]


def lines(forms: Sequence[Form]) -> Iterator[str]:
    """Yield a line per paper with the effect of its corrections, and one per claim whose verdict they turn."""
    papers: dict[str, Paper] = {form.row.paper.id: form.row.paper for form in forms}
    for name, paper in papers.items():
        counted = [form for form in forms if form.row.paper is paper and form.corrected.claim.counted]
        printed = sum(form.printed.verdict == "holds" for form in counted)
        corrected = sum(form.corrected.verdict == "holds" for form in counted)
        yield f"{name}: {printed} of {len(counted)} claims hold as printed ({paper.literal}), {corrected} corrected"
        for form in counted:
            if form.differs:
                yield (
                    f"  {form.row.figure.id} {form.corrected.claim.id}: {form.printed.measured()}, "
                    f"{form.printed.verdict} → {form.corrected.measured()}, {form.corrected.verdict}"
                )
