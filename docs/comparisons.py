"""Pages that compare verdicts: between worlds, between printed and corrected forms, and with those of older rules.

| source | page |
|---|---|
| `docs/papers/ablation.jsonl`, written by `docs/results.py` | `worlds.md`: options that turn verdicts |
| `docs/papers/literal.jsonl`, written by `docs/results.py` | `corrections.md`: verdicts of printed forms |
| `docs/papers/before.jsonl`: verdicts of the previous rule, with its defaults and readings | `moved.md` |
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paper_pages import FOLDER, MEASURED, WORLDS, Outcomes, cell

ABLATION, LITERAL, BEFORE = (FOLDER / f"{name}.jsonl" for name in ("ablation", "literal", "before"))
NO_OPTION = "no option alone"
READ = {"bbr-gc": "algorithm 1 as printed", "dccp-bbr": "no pacing margin"}
"""What changed in the scheme of a paper."""


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; none if there is no such file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def pages(papers: Sequence[Any], outcomes: Outcomes) -> dict[Path, str]:
    """The three pages."""
    texts = {"worlds": worlds_page(), "corrections": corrections_page(), "moved": moved_page(papers, outcomes)}
    return {FOLDER / f"{name}.md": text for name, text in texts.items()}


def notice(*sources: Path) -> str:
    """The comment that names the sources of a page."""
    return (
        f"<!-- Written by docs/generate.py from {' and '.join(f'docs/papers/{path.name}' for path in sources)}. -->\n"
    )


WORLDS_HEAD = """# Options that turn a verdict between the worlds

Where the two verdicts of a counted claim differ, its runs repeat in the paper's world, each time with one option as
today. The table counts the claims whose verdict one option alone turns into today's. `narrows reproduce --ablate`
prints the options of every claim.
"""


def worlds_page() -> str:
    """The options of papers' worlds, each with the number of verdicts that it turns alone and their figures."""
    rows = read(ABLATION)
    turned: Counter[tuple[str, str]] = Counter()
    claims: dict[tuple[str, str], list[str]] = {}
    values: dict[tuple[str, str], tuple[str, str]] = {}
    for row in rows:
        for option in row["options"] or [{"option": NO_OPTION, "paper": "", "today": ""}]:
            key = (row["paper_id"], option["option"])
            turned[key] += 1
            claims.setdefault(key, []).append(row["figure"])
            values[key] = (option["paper"], option["today"] or "default")
    alone = sum(bool(row["options"]) for row in rows)
    lines = [
        f"The verdicts of {len(rows)} counted claims differ between the worlds. One option alone turns {alone}.",
        "",
        "| paper | option | there | today | verdicts that it turns alone | in figures |",
        "|---|---|---|---|---:|---|",
    ]
    for (paper, option), count in sorted(turned.items(), key=lambda item: (item[0][0], -item[1])):
        there, today = values[paper, option]
        name = option if option == NO_OPTION else f"`{option}`"
        figures = ", ".join(dict.fromkeys(claims[paper, option]))
        shown = ("–", "–") if option == NO_OPTION else (f"`{there}`", f"`{today}`")
        lines.append(f"| {paper} | {name} | {shown[0]} | {shown[1]} | {count} | {figures} |")
    return "\n".join([notice(ABLATION), WORLDS_HEAD, *lines, ""])


CORRECTIONS_HEAD = """# The worth of our corrections

We correct slips and missing cases of printed equations and algorithms. `literal = true` in a scenario takes the printed
form. `narrows reproduce --literal` judges the claims with both, in the paper's world.
"""


def corrections_page() -> str:
    """Per paper the claims that hold as printed and corrected, then every claim whose verdict the corrections turn."""
    rows = [row for row in read(LITERAL) if row["counted"]]
    lines = ["| paper | claims | hold as printed | hold corrected |", "|---|---:|---:|---:|"]
    for paper in dict.fromkeys(row["paper_id"] for row in rows):
        own = [row for row in rows if row["paper_id"] == paper]
        printed, corrected = (sum(row[form]["verdict"] == "holds" for row in own) for form in ("literal", "corrected"))
        lines.append(f"| {paper} | {len(own)} | {printed} | {corrected} |")
    lines += ["", "| claim | paper | as printed | | corrected | |", "|---|---|---|---|---|---|"]
    for row in rows:
        if row["literal"]["verdict"] != row["corrected"]["verdict"]:
            place = f"{row['paper_id']} {row['figure']}: {row['text']}"
            sides = [text for form in ("literal", "corrected") for text in (row[form]["ours"], row[form]["verdict"])]
            lines.append(f"| {' | '.join(map(cell, (place, row['printed'], *sides)))} |")
    return "\n".join([notice(LITERAL), CORRECTIONS_HEAD, *lines, ""])


RULE = {
    "holds": "the rule: within 10 %",
    "inconclusive": "the rule: too wide, or at the edge of the 10 %",
    "holds in direction": "the rule: beyond 10 %, and nearer to the print than the alternative",
    "does not hold": "the rule: beyond 10 %, and no nearer to the print than an alternative",
}
"""Why the new rule gives another verdict to an unchanged measurement of a printed figure."""
BOUND = "the rule: over the whole interval, or not"
"""The same for a bound or an ordering."""
WORLD, OTHER = "the paper's world instead of today's", "our value: defaults, durations and seeds"


def moved(paper: Any, outcomes: Outcomes) -> list[tuple[str, str, str, str]]:
    """The claims of a paper whose verdict in its world changed: claim, both verdicts, cause."""
    before = {(row["figure"], row["claim"]): row for row in read(BEFORE) if row["paper"] == paper.id}
    found = []
    for figure in paper.figures:
        for claim in figure.claims:
            old = before.get((figure.id, claim.id))
            new, today = (outcomes.get((paper.id, figure.id, claim.id, world)) for world in WORLDS)
            if old and new and today and old["verdict"] != new["verdict"]:
                mended = READ.get(paper.id) if paper.id in claim.schemes or paper.id in claim.sql else None
                because = cause(claim, old, new, today) or mended or OTHER
                found.append((f"{figure.id} {claim.id}", old["verdict"], new["verdict"], because))
    return found


def moved_counts(papers: Sequence[Any], outcomes: Outcomes) -> str:
    """The number of verdicts that moved, by paper and cause, and their present verdicts."""
    verdicts = list(RULE)
    lines = [
        f"| paper | because | {' | '.join(f'now {name}' for name in verdicts)} |",
        "|---|---|" + "---:|" * len(RULE),
    ]
    total: Counter[str] = Counter()
    for paper in papers:
        rows = moved(paper, outcomes)
        total.update(row[2] for row in rows)
        for because in sorted({row[3] for row in rows}):
            now = Counter(row[2] for row in rows if row[3] == because)
            lines.append(f"| {paper.id} | {because} | {' | '.join(str(now[name]) for name in verdicts)} |")
    return "\n".join([*lines, f"| all | | {' | '.join(str(total[name]) for name in verdicts)} |", ""])


MOVED_HEAD = """# Verdicts that moved

The rule, the worlds, BBR-GC's reading of algorithm 1, DCCP-BBR's pacing margin and durations changed together. This
page lists every claim whose verdict in the paper's world differs from the verdict before. The cause is the first one
that applies:

1. the rule, if it gives the old measurement the new verdict;
2. the world, if today's world gives the old verdict;
3. the change to the paper's scheme;
4. else our value.
"""


def moved_page(papers: Sequence[Any], outcomes: Outcomes) -> str:
    """Every claim with a changed verdict, by paper, with the cause."""
    lines = [notice(BEFORE, MEASURED), MOVED_HEAD, moved_counts(papers, outcomes)]
    for paper in papers:
        rows = moved(paper, outcomes)
        lines += [f"## {paper.title}", "", "| claim | before | now | because |", "|---|---|---|---|"]
        lines += [f"| [{row[0]}]({paper.id}.md#{row[0].split()[0]}) | {' | '.join(row[1:])} |" for row in rows]
        lines += [""]
    return "\n".join(lines)


def cause(claim: Any, old: Mapping[str, Any], new: Mapping[str, Any], today: Mapping[str, Any]) -> str | None:
    """Why a verdict moved: the rule judges the old measurement differently, or the paper's world gives another value.

    None if our value moved for another reason.
    """
    again = judged_again(claim, old, new)
    if again == new["verdict"]:
        return RULE[again] if claim.kind == "value" else BOUND
    return WORLD if today["verdict"] == (again or old["verdict"]) else None


def judged_again(claim: Any, old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """The verdict of the new rule on an old measurement; None where mean and half-width do not decide it."""
    if not old["ours"]:
        return "does not hold"
    mean, half = old["ours"][0], old["ours"][1] or 0.0
    if claim.kind in ("greater", "less"):  # by the old rule, an ordering within the noise did not hold
        unmoved = not apart(old, new, "ours") and not apart(old, new, "than")
        return "inconclusive" if unmoved and old["verdict"] == "does not hold" else None
    if claim.kind == "between":
        return None
    if claim.kind in ("at_least", "at_most"):
        sign = 1 if claim.kind == "at_least" else -1
        margin = sign * (mean - claim.paper)
        return "holds" if margin >= half else "does not hold" if margin < -half else "inconclusive"
    miss, band = abs(mean - claim.paper), claim.margin()
    if miss <= band and half <= band:
        return "holds"
    if miss <= band + half:
        return "inconclusive"
    than = (old["than"] or new["than"] or [None])[0]
    if than is None:
        return "does not hold"
    nearer = all(
        abs(end - claim.paper) <= abs(than - claim.paper) and (end - than) * (claim.paper - than) > 0
        for end in (mean - half, mean + half)
    )
    return "holds in direction" if nearer else "does not hold"


def apart(one: Mapping[str, Any], other: Mapping[str, Any], side: str) -> bool:
    """Whether the intervals of two measurements are disjoint."""
    if not one[side] or not other[side]:
        return bool(one[side]) != bool(other[side])
    (a, half), (b, wide) = one[side], other[side]
    return abs(a - b) > (half or 0.0) + (wide or 0.0) + 1e-9 * abs(a)
