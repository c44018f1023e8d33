"""Reproduced figures: their outcomes as data, as tables and as counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from narrows.papers import ALL_WORLDS, Figure, Paper, WorldName
from narrows.verdicts import VERDICTS, Outcome, Verdict

if TYPE_CHECKING:
    from rich.console import Group

    from narrows.results import Results

Mode = Literal["default", "quick", "full"]
"""The length of the runs."""

SHORT = {
    "holds": ("✓ holds", "green"),
    "inconclusive": ("? open", "cyan"),
    "holds in direction": ("≈ direction", "yellow"),
    "does not hold": ("✗ no", "red"),
}
"""The text and colour of each verdict in a terminal."""
WORLD_NAMES: Mapping[WorldName, str] = {"paper": "as the paper ran it", "today": "today", "kernel": "on the kernel"}
"""The worlds in words."""


@dataclass
class Reproduced:
    """A figure with the results of its runs in one world, and the outcomes of its claims."""

    paper: Paper
    figure: Figure
    results: Results
    outcomes: list[Outcome]
    images: list[str] = field(default_factory=list)
    """Files of its plots, relative to the report."""
    world: WorldName = "today"

    def seeds(self) -> int:
        """Return the number of seeds."""
        return self.results.runs["seed"].n_unique()


def kernel(row: Reproduced) -> str:
    """Return the kernel on which a figure ran; empty for the simulator."""
    releases = [f"Linux {result['host']['kernel']}" for result in row.results.raw if result.get("host")]
    return ", ".join(dict.fromkeys(releases))


def rows(done: Sequence[Reproduced]) -> Iterator[tuple[Reproduced, Outcome]]:
    """Yield every outcome with its figure."""
    for row in done:
        for outcome in row.outcomes:
            yield row, outcome


def data(row: Reproduced, outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as an entry of `claims.json`."""
    return {"paper_id": row.paper.id, "figure": row.figure.id, "world": row.world, **outcome.data()}


def causes(outcomes: Sequence[Outcome]) -> tuple[list[str], list[int | None]]:
    """Return the distinct causes, and per outcome the number of its cause, counted from 1."""
    different = list(dict.fromkeys(outcome.cause for outcome in outcomes if outcome.cause))
    return different, [different.index(outcome.cause) + 1 if outcome.cause else None for outcome in outcomes]


def tally(done: Sequence[Reproduced], world: WorldName, counted: bool = True) -> Mapping[Verdict, int]:
    """Count the claims of a world per verdict: those that the headline counts, or the others."""
    counts = dict.fromkeys(VERDICTS, 0)
    for row, outcome in rows(done):
        if row.world == world and outcome.claim.counted is counted:
            counts[outcome.verdict] += 1
    return counts


def differing(done: Sequence[Reproduced]) -> list[tuple[Reproduced, Outcome, Outcome]]:
    """Return the claims whose verdicts differ between the worlds: the figure, the paper's outcome and today's."""
    paper = {(row.paper.id, row.figure.id): row for row in done if row.world == "paper"}
    return [
        (row, theirs, ours)
        for row in done
        if row.world == "today" and (first := paper.get((row.paper.id, row.figure.id))) is not None
        for theirs, ours in zip(first.outcomes, row.outcomes, strict=True)
        if theirs.verdict != ours.verdict
    ]


def sentence(done: Sequence[Reproduced], mode: Mode) -> str:
    """Summarise the verdicts, a line per world, with the numbers of runs and seeds."""
    seeds = sorted({row.seeds() for row in done})
    runs = len({key for row in done for key in row.results.runs["id"].to_list()})
    span = str(seeds[0]) if seeds[0] == seeds[-1] else f"{seeds[0]} to {seeds[-1]}"
    shorter = " --quick shortens them." if mode == "quick" else ""
    lone = " One seed gives no interval: each value stands alone." if seeds[0] == 1 else ""
    lines = []
    for world in ALL_WORLDS:
        here = [row for row in done if row.world == world]
        if not here:
            continue
        counts = tally(here, world)
        beside = sum(tally(here, world, counted=False).values())
        others = f", and {beside} beside them (second readings, reconstructions)" if beside else ""
        lines.append(
            f"{WORLD_NAMES[world].capitalize()}, {sum(counts.values())} claims: {counts['holds']} hold, "
            f"{counts['inconclusive']} are inconclusive, {counts['holds in direction']} hold in direction, "
            f"{counts['does not hold']} do not hold{others}."
        )
    if different := sum(ours.claim.counted for _, _, ours in differing(done)):
        of = (
            "verdict of 1 of these claims differs"
            if different == 1
            else f"verdicts of {different} of these claims differ"
        )
        lines.append(f"The {of} between the worlds.")
    lines.append(f"{runs} runs, {span} seed{'s' if span != '1' else ''} each.{shorter}{lone}")
    return "\n".join(lines)


def table(done: Sequence[Reproduced]) -> Group:
    """Return a table per figure with a row per claim, followed by the causes of failed claims."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from narrows.tables import whole_words

    parts: list[Any] = []
    seen: dict[tuple[str, str], str] = {}
    for row in done:
        shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), expand=True)
        shown.add_column("claim", ratio=1, overflow="fold")
        shown.add_column("paper", overflow="fold", max_width=14)
        shown.add_column("ours", overflow="fold", max_width=22)
        shown.add_column("verdict", no_wrap=True)
        listed, numbers = causes(row.outcomes)
        for outcome, number in zip(row.outcomes, numbers, strict=True):
            word, colour = SHORT[outcome.verdict]
            verdict = Text.assemble((word, colour), f" [{number}]" if number else "")
            ours = outcome.measured().replace(" against ", "\nagainst ")
            shown.add_row(Text(outcome.claim.words()), Text(outcome.claim.printed()), Text(ours), verdict)
        name = f"{row.paper.id} {row.figure.id}"
        place = row.paper.world.name if row.world == "paper" else kernel(row)
        world = f" ({place})" if place else ""
        head = f"{name}, {WORLD_NAMES[row.world]}{world}: {row.figure.title}"
        parts += [Text(head, style="bold"), whole_words(shown, "paper", "ours")]
        for number, cause in enumerate(listed, 1):
            mark = f"[{number}] "
            earlier = seen.setdefault((row.paper.id, cause), f"{name} {mark.strip()}")
            text = cause if earlier == f"{name} {mark.strip()}" else f"as {earlier}"
            parts.append(Text.assemble((mark, "bold"), text))
        parts.append(Text(""))
    return Group(*parts)
