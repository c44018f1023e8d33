"""Explicit rates against marks, models and losses, on one grid.

    python studies/explicit/study.py [-o DIR] [--jobs N]        writes docs/studies/explicit.md and its figures

Finished runs found in DIR are not run again. What is asked and how it is scored stands at the head of the page, and in
`measure.py`; who takes part, and in which network, in `contestants.py`. A finding is a sentence with a condition: if
the condition is no longer true, the sentence is left out, named, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

import figures
import findings
from contestants import ALL, Contestant
from data import Data
from due import seconds
from parts import HERE, PARTS, Runs, named, run_all, run_predictions

import narrows

PAGE = HERE.parents[1] / "docs" / "studies" / "explicit.md"

Cells = Mapping[str, Mapping[str, str]]


def table(rows: Cells, first: str = "", align: str = "---:") -> str:
    """A table in Markdown: a row per key."""
    heads = list(next(iter(rows.values())))
    lines = [f"| {first} | " + " | ".join(heads) + " |", "|---|" + f"{align}|" * len(heads)]
    lines += [f"| {name} | " + " | ".join(row.values()) + " |" for name, row in rows.items()]
    return "\n".join(lines)


def rounded(rows: figures.Table, digits: int = 3) -> dict[str, dict[str, str]]:
    """The figures as texts."""
    return {name: {key: shown(value, digits) for key, value in row.items()} for name, row in rows.items()}


def shown(value: float | None, digits: int = 3) -> str:
    """A figure to so many digits; a dash for none."""
    if value is None or value != value:
        return "–"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 1e-3 else "0"


def write(page: str, regions: Mapping[str, str]) -> str:
    """The page with new contents between its marks."""
    for name, text in regions.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        page, found = pattern.subn(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
        assert found == 1, f"{PAGE}: no region {name}"
    return page


def network(who: Contestant) -> str:
    """The network of a contestant in words."""
    if who.explicit:
        return f"allocator `{who.allocator}` at the ports"
    queue = who.network.get("network.queue", "droptail")
    words = queue if isinstance(queue, str) else f"{queue['kind']} with ECN"
    return f"{words}, {who.network.get('network.buffer', '1 BDP')}"


def triples(rows: figures.Table) -> dict[str, dict[str, str]]:
    """Columns that are called alike before a colon as one, its figures one after the other."""
    cells: dict[str, dict[str, str]] = {}
    for name, row in rows.items():
        joined: dict[str, list[str]] = {}
        for key, value in row.items():
            joined.setdefault(key.partition(":")[0], []).append(shown(value, 2))
        cells[name] = {key: " / ".join(values) for key, values in joined.items()}
    return cells


def listed(found: Iterable[findings.Finding]) -> str:
    """What was found, as a list in Markdown."""
    items = [f"* {one.text}" for one in found if one.holds]
    return "\n".join(textwrap.fill(item, 130, subsequent_indent="  ", break_on_hyphens=False) for item in items)


def draw(data: Data) -> None:
    """All figures."""
    figures.drawn("shortfall", lambda: figures.heat(data.overview(data.shortfall), "shortfall, %", logarithmic=False))
    figures.drawn("queue", lambda: figures.heat(data.overview(data.queue), "queue delay, p95, ms", logarithmic=True))
    grid = {"round-trip time": data.shortfall["rtt"], "number of flows": data.shortfall["flows"]}
    figures.drawn("grid", lambda: figures.curves(ALL, grid, value="shortfall, %"))
    figures.drawn("join", lambda: figures.lives(data.lives("join"), ()))
    dead = {who.name: data.lives("dies")[who.name] for who in ALL if who.explicit}
    figures.drawn("dies", lambda: figures.lives(dead, (seconds(named("dies").dies),)))
    figures.drawn("files", lambda: figures.slowdowns(ALL, data.files["arrivals"], "60 %"))
    losses = {
        "loss before the queue": data.shortfall["loss-before"],
        "loss behind it": data.shortfall["loss"],
        "loss of acknowledgements": data.shortfall["feedback"],
    }
    figures.drawn("loss", lambda: figures.curves(ALL, losses, value="shortfall, %"))
    figures.drawn("neighbours", lambda: figures.shares(data.neighbours()))


def main() -> int:
    """Runs everything and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("-o", "--out", type=Path, help="folder that keeps the runs")
    parser.add_argument("--jobs", type=int, help="runs at a time; all cores by default")
    parser.add_argument("--plan", action="store_true", help="only say how many runs there are of each part")
    asked = parser.parse_args()
    if asked.plan:
        for part in PARTS:
            print(part.name, sum(part.planned(who) for who in ALL))
        return 0
    with tempfile.TemporaryDirectory(prefix="narrows-explicit-") as passing:
        out = asked.out or Path(passing)
        runs: Runs = run_all(ALL, out, asked.jobs)
        marks = narrows.run(HERE / "aqm.toml", out=out / "aqm", jobs=asked.jobs)
        predicting = next(who for who in ALL if who.predicts)
        data = Data(runs, marks, run_predictions(predicting, out, asked.jobs))
        draw(data)
        regions = {name: table(rounded(rows)) for name, rows in data.tables().items()}
        regions["moving"] = table(triples(data.moving))
        about = {who.name: {"scheme": f"`{who.scheme}`", "its network": network(who)} for who in ALL}
        regions["contestants"] = table(about, align="---")
        found = findings.of(data)
    regions |= {f"found-{name}": listed(rows) for name, rows in found.items()}
    PAGE.write_text(write(PAGE.read_text(encoding="utf-8"), regions), encoding="utf-8")
    wrong = [one.text for rows in found.values() for one in rows if not one.holds]
    for text in wrong:
        print(f"no longer true: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
