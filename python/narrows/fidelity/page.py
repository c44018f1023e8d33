"""The comparison as Markdown, from `cells.jsonl`, a file with the cause of each miss, and optionally ns-3's values.

The causes are TOML: the quoted name of a cell, and a sentence that a trace supports. `studies/fidelity/ns3_cells.py`
writes the values of ns-3.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from narrows.fidelity import tables
from narrows.fidelity.comparison import CRITERION, FAIRNESS, RELATIVE, SHARE, WORDS, Row, disturbed, judged
from narrows.fidelity.grid import ALONE, CROWD, KINDS, PAIR
from narrows.stats import MAX_DECIMALS, number

Causes = Mapping[str, str]
Ns3 = Mapping[str, Row]
"""ns-3's values by cell, in the form that `comparison.world` returns."""
UNKNOWN = "not yet explained"
HEADS = {
    "goodput_mbit_s": "goodput, Mbit/s",
    SHARE: "share, %",
    FAIRNESS: "Jain's index",
    "rtt_mean_ms": "mean RTT, ms",
    "rtt_p95_ms": "RTT p95, ms",
    "retransmit_percent": "retransmitted, %",
    "fill_time_ms": "BDP filled, ms",
}
WORLDS = {"kernel": "Linux", "sim": "ours", "ns3": "ns-3"}
TITLES = {ALONE: "Single flows", PAIR: "Pairs", CROWD: "Crowds"}


def read(path: Path) -> tuple[list[Row], Row]:
    """Return the rows of a `cells.jsonl`, and its totals.

    Raises:
        ValueError: The file is not of a finished comparison.
    """
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    rows, others = [row for row in found if "cell" in row], [row for row in found if "cell" not in row]
    if not rows or len(others) != 1 or others[0].get("cells") != len(rows):
        raise ValueError(f"{path}: no finished comparison; accepted: the cells.jsonl that `narrows fidelity` wrote")
    return rows, others[0]


def read_causes(path: Path, rows: Iterable[Row]) -> Causes:
    """Return the cause of each missed cell that has one.

    Raises:
        ValueError: A cause belongs to no missed cell, or is no sentence.
    """
    causes = tomllib.loads(path.read_text(encoding="utf-8"))
    missed = {row["cell"] for row in rows if not row["agrees"]}
    for name, cause in causes.items():
        if name not in missed:
            raise ValueError(f"{path}: {name!r} is no missed cell; accepted: {', '.join(sorted(missed)) or 'none'}")
        if not isinstance(cause, str) or not cause.strip():
            raise ValueError(f"{path}: the cause of {name!r} is no sentence; accepted: text")
    return causes


def read_ns3(path: Path) -> Ns3:
    """Return the values of ns-3; none if there is no such file.

    Raises:
        ValueError: A line is no cell.
    """
    if not path.is_file():
        return {}
    try:
        return {row["cell"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: a line is no cell; accepted: the file that ns3_cells.py wrote") from None


def markdown(rows: Sequence[Row], totals: Row, causes: Causes, ns3: Ns3 | None = None) -> str:
    """Return the whole comparison: counts, conditions, misses with their causes, and a table per kind of cells."""
    ns3 = {row["cell"]: ns3[row["cell"]] for row in rows if row["cell"] in ns3} if ns3 else {}
    parts = [_counts(rows, totals, causes, ns3), f"{CRITERION}\n\n{tables.conditions(totals)}"]
    if missed := [row for row in rows if not row["agrees"]]:
        parts += ["### Misses", _misses(missed, causes)]
    for kind in KINDS:
        if of_kind := [row for row in rows if row["kind"] == kind]:
            parts += [f"### {TITLES[kind]}", _cells(kind, of_kind, ns3)]
    return "\n\n".join(parts) + "\n"


def _counts(rows: Sequence[Row], totals: Row, causes: Causes, ns3: Ns3) -> str:
    lines = [f"* {line}" for line in tables.summary(totals)]
    missed = [row["cell"] for row in rows if not row["agrees"]]
    if missed:
        lines.append(f"* {sum(name in causes for name in missed)} of {len(missed)} misses have a cause.")
    if ns3:
        lines.append(f"* {_agreement(rows, ns3)}")
    return "\n".join(lines)


def _agreement(rows: Iterable[Row], ns3: Ns3) -> str:
    """Return a sentence with the number of cells in which ns-3 agrees with Linux."""
    known = [row for row in rows if row["cell"] in ns3]
    counts = []
    for kind in KINDS:
        if of_kind := [row for row in known if row["kind"] == kind]:
            agree = sum(all(one["agrees"] for one in judged(kind, row["kernel"], ns3[row["cell"]])) for row in of_kind)
            counts.append(f"{agree} of {len(of_kind)} {tables.TITLES[kind]}")
    versions = ", ".join(sorted({found["ns3"] for found in ns3.values()}))
    return f"ns-3 {versions} agrees with Linux by the same criterion in {', '.join(counts)}."


def _misses(rows: Iterable[Row], causes: Causes) -> str:
    body = [
        [
            row["cell"],
            "; ".join(_missed(one) for one in row["criteria"] if not one["agrees"]),
            " ".join(causes.get(row["cell"], UNKNOWN).split()).replace("|", "\\|"),
        ]
        for row in rows
    ]
    return _table(["cell", "deviation", "cause"], body, "|---|---|---|")


def _missed(criterion: Mapping[str, Any]) -> str:
    """Format a missed criterion: its value, the deviation and the bound."""
    name, found = criterion["value"], criterion["deviation"]
    if found is None:
        return f"{WORDS[name]} absent"
    unit = " %" if name in RELATIVE else " points" if name == SHARE else ""
    return f"{WORDS[name]} {_signed(found)}{unit} (bound {number(criterion['bound'], 2)})"


def _cells(kind: str, rows: Iterable[Row], ns3: Ns3) -> str:
    """Return the table of a kind of cells: each value of kernel and simulator, and ns-3's if compared."""
    names = [name for _, name in tables.COLUMNS[kind]]
    apart = [name for name in WORDS if name in names]
    worlds = {name: [*tables.WORLDS, *(["ns3"] if ns3 and name in apart else [])] for name in names}
    heads = ["cell", *(f"{HEADS[name]}, {WORLDS[world]}" for name in names for world in worlds[name])]
    heads += [*(f"{WORDS[name]}, {'%' if name in RELATIVE else 'difference'}" for name in apart), "agrees"]
    body = []
    for row in rows:
        missed = {one["value"] for one in row["criteria"] if not one["agrees"]}
        found = {**row, "ns3": ns3.get(row["cell"], dict.fromkeys(apart))}
        values = [_mean(found[world][name]) for name in names for world in worlds[name]]
        deviations = [_deviation(row["deviations"][name], name in missed) for name in apart]
        verdict = "yes" if row["agrees"] else "**no**"
        body.append([row["cell"] + " ~" * bool(disturbed(row)), *values, *deviations, verdict])
    return _table(heads, body, "|---|" + "---:|" * (len(heads) - 2) + "---|")


def _deviation(value: float | None, missed: bool) -> str:
    text = "–" if value is None else _signed(value)
    return f"**{text}**" if missed else text


def _signed(value: float) -> str:
    return f"{value:+.2f}" if abs(value) < 1 else f"{value:+.1f}"


def _mean(found: Mapping[str, Any] | None) -> str:
    """Format a mean with the half-width of its 95 % interval, to the same decimals."""
    if found is None:
        return "–"
    if found["half"] is None:
        return number(found["mean"])
    decimals = min(len(number(found["mean"]).partition(".")[2]), MAX_DECIMALS)
    return f"{found['mean']:.{decimals}f} ± {found['half']:.{decimals}f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], rule: str) -> str:
    return "\n".join([f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)])
