"""Explicit rates against marks, models and losses, on one grid.

    python studies/explicit/study.py [-o DIR] [--jobs N]        writes docs/studies/explicit.md and its figures

Finished runs in DIR are reused. The head of the page and `measure.py` state questions and measures; `contestants.py`
lists the schemes and their networks. A finding is a sentence with a condition: if the condition is false, the program
omits and reports the sentence, and exits with status 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

import figures
import findings
from contestants import ALL, Contestant
from data import Data
from fairness import seconds
from parts import HERE, PARTS, Runs, named, run_all, run_predictions

import narrows

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))

from regions import fill

PAGE = HERE.parents[1] / "docs" / "studies" / "explicit.md"

Cells = Mapping[str, Mapping[str, str]]


def table(rows: Cells, first: str = "", align: str = "---:") -> str:
    """Format a Markdown table with a row per key."""
    heads = list(next(iter(rows.values())))
    lines = [f"| {first} | " + " | ".join(heads) + " |", "|---|" + f"{align}|" * len(heads)]
    lines += [f"| {name} | " + " | ".join(row.values()) + " |" for name, row in rows.items()]
    return "\n".join(lines)


def rounded(rows: figures.Table, digits: int = 3) -> dict[str, dict[str, str]]:
    """Format all values."""
    return {name: {key: shown(value, digits) for key, value in row.items()} for name, row in rows.items()}


def shown(value: float | None, digits: int = 3) -> str:
    """Format a value to `digits` significant digits; a dash for none."""
    if value is None or value != value:
        return "–"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 1e-3 else "0"


def network(who: Contestant) -> str:
    """Describe the network of a contestant."""
    if who.explicit:
        return f"router algorithm `{who.router}`"
    queue = who.network.get("network.queue", "droptail")
    words = queue if isinstance(queue, str) else f"{queue['kind']} with ECN"
    return f"{words}, {who.network.get('network.buffer', '1 BDP')}"


def triples(rows: figures.Table) -> dict[str, dict[str, str]]:
    """Join columns with the same name before the colon."""
    cells: dict[str, dict[str, str]] = {}
    for name, row in rows.items():
        joined: dict[str, list[str]] = {}
        for key, value in row.items():
            joined.setdefault(key.partition(":")[0], []).append(shown(value, 2))
        cells[name] = {key: " / ".join(values) for key, values in joined.items()}
    return cells


def listed(found: Iterable[findings.Finding]) -> str:
    """Format the true findings as a Markdown list."""
    items = [f"* {one.text}" for one in found if one.holds]
    return "\n".join(textwrap.fill(item, 130, subsequent_indent="  ", break_on_hyphens=False) for item in items)


def draw(data: Data) -> None:
    """Draw all figures."""
    figures.drawn("deficit", lambda: figures.heat(data.overview(data.deficit), "deficit, %", logarithmic=False))
    figures.drawn("queue", lambda: figures.heat(data.overview(data.queue), "queue delay, p95, ms", logarithmic=True))
    grid = {"round-trip time": data.deficit["rtt"], "number of flows": data.deficit["flows"]}
    figures.drawn("grid", lambda: figures.curves(ALL, grid, value="deficit, %"))
    figures.drawn("join", lambda: figures.lives(data.lives("join"), ()))
    dead = {who.name: data.lives("dies")[who.name] for who in ALL if who.explicit}
    figures.drawn("dies", lambda: figures.lives(dead, (seconds(named("dies").dies),)))
    figures.drawn("files", lambda: figures.slowdowns(ALL, data.files["arrivals"], "60 %"))
    losses = {
        "loss before the queue": data.deficit["loss-before"],
        "loss behind it": data.deficit["loss"],
        "loss of acknowledgements": data.deficit["feedback"],
    }
    figures.drawn("loss", lambda: figures.curves(ALL, losses, value="deficit, %"))
    figures.drawn("neighbours", lambda: figures.shares(data.neighbours()))


def main() -> int:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("-o", "--out", type=Path, help="keep the runs in a folder")
    parser.add_argument("--jobs", type=int, help="limit simultaneous runs; all cores by default")
    parser.add_argument("--plan", action="store_true", help="print the number of runs per part, and exit")
    arguments = parser.parse_args()
    if arguments.plan:
        for part in PARTS:
            print(part.name, sum(part.planned(who) for who in ALL))
        return 0
    with tempfile.TemporaryDirectory(prefix="narrows-explicit-") as passing:
        out = arguments.out or Path(passing)
        runs: Runs = run_all(ALL, out, arguments.jobs)
        marks = narrows.run(HERE / "aqm.toml", out=out / "aqm", jobs=arguments.jobs)
        predicting = next(who for who in ALL if who.predicts)
        data = Data(runs, marks, run_predictions(predicting, out, arguments.jobs))
        draw(data)
        regions = {name: table(rounded(rows)) for name, rows in data.tables().items()}
        regions["moving"] = table(triples(data.moving))
        about = {who.name: {"scheme": f"`{who.scheme}`", "its network": network(who)} for who in ALL}
        regions["contestants"] = table(about, align="---")
        found = findings.of(data)
    regions |= {f"found-{name}": listed(rows) for name, rows in found.items()}
    fill(PAGE, regions)
    wrong = [one.text for rows in found.values() for one in rows if not one.holds]
    for text in wrong:
        print(f"false: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
