"""Finds which option of a paper's world turns a verdict.

If a claim's verdicts differ between the worlds, its figure runs again in the paper's world, each time with one option
at Linux's value: an option of the world's profile, or a key that the world sets itself. The option turns the claim if
the verdict is then today's. A sweep runs only the points that these claims need: those without which a claim's query
returns different rows in the paper's world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from narrows import engine
from narrows.errors import UsageError
from narrows.frames import ResultFrames, query
from narrows.papers import Figure, World
from narrows.plans import Executor, Plan, plan
from narrows.reproduced import Mode, Reproduced, differing
from narrows.scenario import override_text
from narrows.verdicts import Claim, Outcome

PROFILE, EXCEPT = "tcp.profile", "tcp.profile_except"


@dataclass(frozen=True)
class Option:
    """An option that differs between a paper's world and today's."""

    key: str
    paper: str
    """Its value in the paper's world."""
    today: str
    """Its value today; empty for a default that no profile lists."""
    world: World
    """The paper's world with today's value."""


@dataclass(frozen=True)
class Turn:
    """A claim whose verdict differs between the worlds, with the options each of which alone turns it."""

    row: Reproduced
    paper: Outcome
    today: Outcome
    options: tuple[tuple[Option, Outcome], ...]

    def data(self) -> dict[str, Any]:
        """Return the entry of `ablation.json`."""
        return {
            "paper_id": self.row.paper.id, "figure": self.row.figure.id, "id": self.today.claim.id,
            "text": self.today.claim.words(), "printed": self.today.claim.printed(),
            "paper": {"verdict": self.paper.verdict, "ours": self.paper.measured()},
            "today": {"verdict": self.today.verdict, "ours": self.today.measured()},
            "options": [
                {"option": option.key, "paper": option.paper, "today": option.today, "ours": outcome.measured()}
                for option, outcome in self.options
            ],
        }  # fmt: skip


def options(figure: Figure) -> list[Option]:
    """Return the options that differ between the paper's world and today's."""
    profiles = {profile["name"]: _settings(profile) for profile in engine.profiles()}
    today = next(iter(profiles.values()))
    found = []
    for key, value in figure.world.set.items():
        if key != PROFILE:
            others = {other: kept for other, kept in figure.world.set.items() if other != key}
            found.append(Option(key, override_text(value), "", replace(figure.world, set=others)))
            continue
        theirs = profiles[str(value)]
        bare = {name.partition(".")[2] or name: setting for name, setting in today.items()}
        found += [
            Option(name, setting, today.get(name, bare.get(name, "")), _without(figure.world, name))
            for name, setting in theirs.items()
            if today.get(name, bare.get(name)) != setting
        ]
    return found


def ablate(
    done: Sequence[Reproduced], executor: Executor, mode: Mode, print_status: Callable[[str], None] = lambda text: None
) -> list[Turn]:
    """Run every figure whose verdicts differ, once per option, and return the options that turn them.

    Args:
        done: The figures in both worlds.
        executor: Executes the runs.
        mode: The length of the runs.
        print_status: Receives a line before the runs.

    Raises:
        UsageError: A claim cannot be judged.
        Interrupted: The user pressed Ctrl-C.
    """
    apart = [(row, theirs, ours) for row, theirs, ours in differing(done) if ours.claim.counted]
    rows = {id(row): row for row, _, _ in apart}
    there = {(row.paper.id, row.figure.id): row for row in done if row.world == "paper"}
    plans: list[tuple[Reproduced, Option, Plan]] = []
    for row in rows.values():
        claims = tuple(ours.claim for other, _, ours in apart if other is row)
        base = there[row.paper.id, row.figure.id]
        first = plan(row.paper, row.figure, "paper", mode, base.seeds())
        kept = needed(claims, first.runs, base.results)
        for option in options(row.figure):
            figure = replace(row.figure, world=option.world, claims=claims)
            whole = plan(row.paper, figure, "paper", mode, base.seeds())
            plans.append((row, option, replace(whole, runs=tuple(whole.runs[place] for place in kept))))
    runs = len({run.id for _, _, item in plans for run in item.runs})
    differ = "claim differs" if len(apart) == 1 else "claims differ"
    print_status(f"{len(apart)} {differ} between the worlds: {runs} runs with one option as today")
    switched = executor.run([item for _, _, item in plans])
    verdicts: dict[int, list[tuple[Option, dict[str, Outcome]]]] = {}
    for (row, option, _), result in zip(plans, switched, strict=True):
        by_claim = {outcome.claim.id: outcome for outcome in result.outcomes}
        verdicts.setdefault(id(row), []).append((option, by_claim))
    return [Turn(row, theirs, ours, tuple(_turning(ours, verdicts.get(id(row), ())))) for row, theirs, ours in apart]


def needed(claims: Sequence[Claim], runs: Sequence[engine.Planned], results: ResultFrames) -> list[int]:
    """Return the indices of the runs that claims need.

    A query that names values of a swept key usually reads only the points with these values. If the query returns
    different rows from their runs alone, the claim needs all runs.

    Args:
        claims: The claims.
        runs: The runs of their figure.
        results: The results of these runs, in the same order.
    """
    keys = {key: {run.point[key] for run in runs if key in run.point} for run in runs for key in run.point}
    kept: set[int] = set()
    for claim in claims:
        named = {key: {value for value in values if f"'{value}'" in claim.sql} for key, values in keys.items()}
        own = [
            place
            for place, run in enumerate(runs)
            if all(run.point.get(key) in values for key, values in named.items() if values)
        ]
        kept |= set(own if _suffice(claim, own, results) else range(len(runs)))
    return sorted(kept)


def _suffice(claim: Claim, places: Sequence[int], results: ResultFrames) -> bool:
    """Whether a claim's query returns the same rows for these runs alone."""
    fewer = ResultFrames([results.points[i] for i in places], [results.raw[i] for i in places], results.out)
    try:
        return query(fewer, claim.sql).equals(query(results, claim.sql))
    except (UsageError, ValueError):
        return False


def _turning(today: Outcome, switched: Sequence[tuple[Option, dict[str, Outcome]]]) -> Iterator[tuple[Option, Outcome]]:
    for option, outcomes in switched:
        outcome = outcomes[today.claim.id]
        if outcome.verdict == today.verdict:
            yield option, outcome


def _without(world: World, name: str) -> World:
    """Return the world with today's value of one option of its profile."""
    return replace(world, set={**world.set, EXCEPT: f"['{name}']"})


def _settings(profile: Any) -> dict[str, str]:
    return {row["key"]: row["value"] for row in [*profile["tcp"], *profile["params"]]}


def lines(turns: Sequence[Turn]) -> Iterator[str]:
    """Yield a line per claim: its verdicts, and the options that turn it."""
    for turn in turns:
        place = f"{turn.row.paper.id} {turn.row.figure.id} {turn.today.claim.id}"
        by = ", ".join(f"{option.key} = {option.today or 'default'}" for option, _ in turn.options)
        yield f"{place}: {turn.paper.verdict} → {turn.today.verdict}; turned by {by or 'no single option'}"
