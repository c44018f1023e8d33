"""The pages of papers: scenarios and claims as data, measured outcomes, and hand-written findings.

| source | gives |
|---|---|
| `papers/<paper>` through `narrows.papers` | title, notes, figures, claims with their printed values, causes |
| `docs/papers/measured.jsonl`, written by `docs/results.py` | our value and the verdict of every claim |
| `docs/papers/kernel.jsonl`, written by `docs/results.py --kernel` | the same on the kernel's TCP |
| `docs/papers/kernel-quick.jsonl`, written by `docs/results.py --kernel-quick` | the same, shortened and in real time |
| `papers/<paper>/findings.md` | the readings and findings that no claim states |
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from blocks import ROOT

PAPERS = ROOT / "papers"
FOLDER = ROOT / "docs" / "papers"
MEASURED = FOLDER / "measured.jsonl"
NOTICE = "<!-- Written by docs/generate.py from papers/{0}, its findings.md and docs/papers/measured.jsonl. -->"
VERDICTS = ("holds", "inconclusive", "holds in direction", "does not hold")
WORLDS = {"paper": "as the paper ran it", "today": "today"}
ON_KERNEL, QUICKLY = "kernel", "kernel-quick"
"""Further worlds, for figures that were run on the kernel: in virtual time, and shortened in real time."""
KERNELS = {ON_KERNEL: "on the kernel", QUICKLY: "on the kernel, shortened"}
KERNEL_FILES = {world: FOLDER / f"{world}.jsonl" for world in KERNELS}
KERNEL_RUNS = {
    ON_KERNEL: "On the kernel: `narrows reproduce {0} {1} --on kernel` with Linux 6.18.35"
    " [in virtual time](../topics/kernel.md#linux-in-virtual-time) and receive buffers of 64 MiB."
    " It judges the claims about schemes that Linux has.",
    QUICKLY: "On the kernel, shortened: `narrows reproduce {0} {1} --quick --on kernel` in real time, with one seed,"
    " shorter runs, and programs of the kernel for schemes that Linux lacks. Without an interval, small differences"
    " decide.",
}
COLUMNS = "| {} | world | claims | " + " | ".join(VERDICTS) + " | beside |"
RULE = "|---|---|" + "---:|" * (len(VERDICTS) + 2)
WIDTH = 120
NOISE = 1e-12
"""Half-widths below this share of the mean are rounding noise."""

Key = tuple[str, str, str, str]
"""Paper, figure, claim and world."""
Outcomes = Mapping[Key, Mapping[str, Any]]


def measured() -> dict[Key, Mapping[str, Any]]:
    """The stored outcomes, by claim."""
    rows = [json.loads(line) for line in MEASURED.read_text(encoding="utf-8").splitlines()]
    for world, file in KERNEL_FILES.items():
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        rows += [row | {"world": world} for row in map(json.loads, lines) if row["world"] == ON_KERNEL]
    return {(row["paper"], row["figure"], row["claim"], row["world"]): row for row in rows}


def pages() -> dict[Path, str]:
    """The page of every paper.

    Raises:
        SystemExit: An outcome belongs to no claim.
    """
    papers, outcomes = load(), measured()
    known = {(paper.id, figure.id, claim.id) for paper in papers for figure in paper.figures for claim in figure.claims}
    if stale := sorted(key for key in outcomes if key[:3] not in known):
        raise SystemExit(f"{MEASURED}: no such claim: {', '.join(map(' '.join, stale[:5]))}; run docs/results.py again")
    return {FOLDER / f"{paper.id}.md": page(paper, outcomes) for paper in papers}


def load() -> Sequence[Any]:
    """All papers of this tree."""
    from narrows import papers

    return papers.load_all(PAPERS)


def headline_region() -> str:
    """The verdicts over all papers, in one sentence."""
    papers, outcomes = load(), measured()
    parts = []
    for world, words in WORLDS.items():
        rows = [row for paper in papers for row in counted(paper.id, paper.figures, outcomes, world)[0]]
        counts = Counter(row.get("verdict") for row in rows)
        holds, unclear, direction, fails = (counts[verdict] for verdict in VERDICTS)
        parts.append(
            f"{words.capitalize()}, {holds} of {len(rows)} claims hold, {unclear} are inconclusive, {direction} hold "
            f"in direction only, and {fails} do not hold."
        )
    return f"**{' '.join(parts)}** {len(papers)} papers; command: `narrows reproduce`\n"


def findings_region() -> str:
    """The ten findings of `papers/findings.md`, which the report shows too."""
    text = (PAPERS / "findings.md").read_text(encoding="utf-8").partition("\n\n")[2]
    return moved(text, PAPERS, ROOT / "docs")


def verdicts_region() -> str:
    """The matrix of papers by verdict."""
    papers, outcomes = load(), measured()
    rows = [
        f"| {f'[{paper.title}](papers/{paper.id}.md)' if world == 'paper' else ''} | {world_name(paper, world)} "
        f"{tally(paper.id, paper.figures, outcomes, world)}"
        for paper in papers
        for world in WORLDS
    ]
    for world, words in WORLDS.items():
        parts = [counted(paper.id, paper.figures, outcomes, world) for paper in papers]
        rows.append(f"| all | {words} {tally_of([r for a, _ in parts for r in a], sum(len(b) for _, b in parts))}")
    return "\n".join([COLUMNS.format("paper"), RULE, *rows, ""])


def world_name(paper: Any, world: str) -> str:
    """A world in words; for the paper's world with the name that the paper states."""
    return f"{paper.world.name}, {WORLDS[world]}" if world == "paper" else WORLDS[world]


def papers_region() -> str:
    """The list of papers for the index of the documents."""
    rows = [f"| [{paper.title}](papers/{paper.id}.md) | {paper.venue}, {paper.year} |" for paper in load()]
    return "\n".join(["| paper | published in |", "|---|---|", *rows, ""])


def counted(
    paper: str, figures: Sequence[Any], outcomes: Outcomes, world: str
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The outcomes that the headline counts in a world, and the others."""
    found: tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]] = ([], [])
    for figure in figures:
        for claim in figure.claims:
            found[not claim.counted].append(outcomes.get((paper, figure.id, claim.id, world), {}))
    return found


def tally(paper: str, figures: Sequence[Any], outcomes: Outcomes, world: str) -> str:
    """The cells of the verdict columns, over some figures of a paper."""
    rows, beside = counted(paper, figures, outcomes, world)
    return tally_of(rows, len(beside))


def tally_of(rows: Sequence[Mapping[str, Any]], beside: int) -> str:
    """The cells of the verdict columns, and the number of claims that they do not count."""
    counts = Counter(row.get("verdict") for row in rows)
    return f"| {len(rows)} | " + " | ".join(str(counts[verdict]) for verdict in VERDICTS) + f" | {beside} |"


def page(paper: Any, outcomes: Outcomes) -> str:
    """The page of a paper."""
    where = ". ".join(part for part in (paper.venue, str(paper.year or "")) if part)
    cite = f"{paper.citation}" + (f" [doi:{paper.doi}](https://doi.org/{paper.doi})" if paper.doi else "")
    out = [NOTICE.format(paper.id), "", f"# {paper.title}", "", *wrapped(cite or where), ""]
    out += [f"[Scenarios and claims](../../papers/{paper.id}) as data. [How a verdict is reached](../papers.md).", ""]
    out += ["```sh", f"narrows reproduce {paper.id}", "```", ""]
    out += [COLUMNS.format("figure"), RULE]
    out += [
        f"| [{figure.id}](#{figure.id}): {cell(figure.title)} | {words} {tally(paper.id, [figure], outcomes, world)}"
        for figure in paper.figures
        for world, words in WORLDS.items()
    ]
    out += [f"| all | {words} {tally(paper.id, paper.figures, outcomes, world)}" for world, words in WORLDS.items()]
    out += ["", *wrapped(f"The paper's world is {paper.world.name}. {paper.world.why}"), ""]
    if paper.note:
        out += ["## Set-up", "", *wrapped(paper.note), ""]
    findings = PAPERS / paper.id / "findings.md"
    if findings.is_file():
        out += ["## Findings", "", moved(findings.read_text(encoding="utf-8").strip(), findings.parent), ""]
    for figure in paper.figures:
        out += figure_section(paper.id, figure, outcomes)
    return "\n".join(out).rstrip() + "\n"


def figure_section(paper: str, figure: Any, outcomes: Outcomes) -> Iterator[str]:
    """A figure: its set-up, its command, its claims, and the causes of claims that do not hold."""
    yield from (f'<a id="{figure.id}"></a>', f"## {figure.id}: {figure.title}", "")
    if figure.about:
        yield from (*wrapped(figure.about), "")
    if figure.note:
        yield from (*wrapped(figure.note), "")
    scenario = Path(figure.scenario.source)
    target = os.path.relpath(scenario.resolve(), FOLDER)
    yield from (f"Scenario: [{scenario.name}]({target}). Command: `narrows reproduce {paper} {figure.id}`.", "")
    worlds = dict(WORLDS)
    for world, head in KERNELS.items():
        if any((paper, figure.id, claim.id, world) in outcomes for claim in figure.claims):
            worlds[world] = head
            yield from (*wrapped(KERNEL_RUNS[world].format(paper, figure.id)), "")
    verdicts = [head for words in worlds.values() for head in (words, "verdict")]
    heads = ("claim", "source", "paper", *verdicts, "cause", "our bound")
    yield from (f"| {' | '.join(heads)} |", "|---" * len(heads) + "|")
    causes: list[str] = []
    for claim in figure.claims:
        found = [outcomes.get((paper, figure.id, claim.id, world)) for world in worlds]
        note = ""
        simulated = found[: len(WORLDS)]
        if claim.cause and any(outcome is not None and outcome["verdict"] != "holds" for outcome in simulated):
            cause = " ".join(claim.cause.split())
            if cause not in causes:
                causes.append(cause)
            note = str(causes.index(cause) + 1)
        sides = [
            text
            for outcome in found
            for text in (ours(claim.unit, outcome), "not measured" if outcome is None else outcome["verdict"])
        ]
        cells = (claim.words(), claim.source, claim.printed(), *sides, note, claim.bound)
        yield f"| {' | '.join(map(cell, cells))} |"
    yield ""
    if causes:
        yield from ("Causes:", "")
        for i, cause in enumerate(causes, start=1):
            yield from wrapped(f"{i}. {cause}", indent=" " * len(f"{i}. "))
        yield ""


def ours(unit: str, outcome: Mapping[str, Any] | None) -> str:
    """Our value, or both sides of a comparison."""
    if outcome is None:
        return "–"
    text = interval(outcome["ours"]) + (f" against {interval(outcome['than'])}" if outcome.get("than") else "")
    return f"{text} {unit}".rstrip()


def interval(spread: Sequence[float] | None) -> str:
    """A mean with the half-width of its 95 % interval, unless that is rounding noise."""
    if spread is None:
        return "no value"
    mean, half = spread
    return rounded(mean) + (f" ± {rounded(half)}" if half and half > NOISE * abs(mean) else "")


def rounded(value: float) -> str:
    """Three significant digits, without an exponent for large values."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def moved(text: str, home: Path, page: Path = FOLDER) -> str:
    """A text from `home` with its relative links made relative to the folder of its page."""

    def link(match: re.Match[str]) -> str:
        target, hash_, anchor = match[1].partition("#")
        if "://" in target or not target:
            return match[0]
        return f"]({os.path.relpath((home / target).resolve(), page)}{hash_}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", link, text)


def wrapped(text: str, indent: str = "") -> list[str]:
    """A paragraph in lines that do not begin like items of a list."""
    plain = " ".join(text.split())
    for width in range(WIDTH, WIDTH - 40, -1):
        lines = textwrap.wrap(plain, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        if not any(re.match(r"\s*(?:[-+*>|#]|\d+[.)])(?:\s|$)", line) for line in lines[1:]):
            return lines
    return [plain]


def cell(text: str) -> str:
    """A text within a table."""
    return " ".join(text.split()).replace("|", "\\|")
