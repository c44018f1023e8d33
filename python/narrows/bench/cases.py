"""Measures data packets per wall-second, case by case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from narrows import engine
from narrows.errors import UsageError

REPEATS = 3
"""Default number of runs per case."""


def run(names: Sequence[str], repeats: int, report: Callable[[str], None]) -> list[dict[str, Any]]:
    """Measure some cases, or all. A row fails if its events differ from those of a normal run of its scenario.

    Args:
        names: The cases; none selects all.
        repeats: Runs of each case.
        report: Prints a line of progress.

    Raises:
        UsageError: There is no such case.
    """
    cases = {case["name"]: case for case in engine.bench_cases()}
    unknown = [name for name in names if name not in cases]
    if unknown:
        raise UsageError(f"CASE: there is no case {unknown[0]!r}; accepted: {', '.join(cases)}")
    rows = []
    for name in names or cases:
        report(f"{name}: {cases[name]['description']}")
        row = engine.bench(name, repeats)
        (planned,) = engine.plan(cases[name]["scenario"], name, None)
        row["run_hash"] = engine.run(planned, None, None)["event_hash"]
        if row["event_hash"] != row["run_hash"]:
            reason = f"its events ({row['event_hash']}) differ from those of a run of its scenario ({row['run_hash']})"
            row["failed"] = [*row["failed"], reason]
        rows.append(row)
    return rows
