"""The comparison for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from narrows.fidelity.comparison import CRITERION, FAIRNESS, GOODPUT, RTT, SHARE, Row, disturbed
from narrows.fidelity.grid import ALONE, CROWD, KINDS, PAIR
from narrows.stats import number
from narrows.tables import plain_table

TITLES = {ALONE: "single flows", PAIR: "pairs of flows", CROWD: "crowds"}
COLUMNS: Mapping[str, tuple[tuple[str, str], ...]] = {
    kind: (
        ("goodput\nMbit/s", GOODPUT),
        *own,
        ("RTT mean\nms", RTT),
        ("RTT p95\nms", "rtt_p95_ms"),
        ("retrans.\n%", "retransmit_percent"),
        *((("BDP filled\nms", "fill_time_ms"),) if kind == ALONE else ()),
    )
    for kind, own in ((ALONE, ()), (PAIR, (("share\n%", SHARE),)), (CROWD, (("Jain's\nindex", FAIRNESS),)))
}
"""Columns by kind of cell, without values that no cell of the kind has."""
WORLDS = ("kernel", "sim")
AGREES, MISSES, DISTURBED = "✓", "✗", "~"


def outcome(rows: Sequence[Row], totals: Row) -> Group:
    """Return a table per kind of cells, the criterion and the summary."""
    parts: list[Any] = []
    for kind in KINDS:
        if of_kind := [row for row in rows if row["kind"] == kind]:
            parts.append(_table(kind, of_kind))
    return Group(*parts, Text(CRITERION + "\n"), *map(Text, summary(totals)), Text(conditions(totals)))


def _table(kind: str, rows: Sequence[Row]) -> Table:
    """Return the table of one kind: two lines per cell, the kernel's above the simulator's."""
    table = plain_table()
    table.padding = 0  # eight columns must fit 80 characters
    table.add_column("")
    table.add_column(TITLES[kind].replace(" ", "\n", 1), no_wrap=True)
    table.add_column("")
    for title, _ in COLUMNS[kind]:
        table.add_column(title, justify="right", overflow="fold")
    for row in rows:
        missed = {one["value"] for one in row["criteria"] if not one["agrees"]}
        verdict = Text(AGREES, "green") if row["agrees"] else Text(MISSES, "red")
        marks = (verdict, Text(DISTURBED if disturbed(row) else ""))
        path, _, loss = row["path"].partition("ms")
        heads = (row["who"], f"{path}ms {row['room']}{loss}")
        for name, mark, head in zip(WORLDS, marks, heads, strict=True):
            values = [Text(spread(row[name][value]), "red" if value in missed else "") for _, value in COLUMNS[kind]]
            table.add_row(mark, head, name, *values)
    return table


def spread(found: Mapping[str, Any] | None) -> str:
    """Format a mean with the half-width of its interval, if there is one."""
    if found is None:
        return "–"
    text = _short(found["mean"])
    return text if found["half"] is None else f"{text}±{_short(found['half'], 2).removeprefix('0') or '0'}"


def _short(value: float, digits: int = 3) -> str:
    """Format with `digits` significant digits, but at most two decimals."""
    return number(value, digits) if value == 0 or abs(value) >= 1 else f"{value:.2f}"


def summary(totals: Row) -> list[str]:
    """Return a sentence per kind of cells: how many agree."""
    lines = []
    for kind in KINDS:
        found = totals[kind]
        if found["cells"]:
            aim = f"; the aim is {found['target_percent']} %" if found["target_percent"] else ""
            line = f"{found['agree']} of {found['cells']} agree ({number(found['percent'])} %){aim}."
            lines.append(f"{TITLES[kind].capitalize()}: {line}")
    return lines


def conditions(totals: Row) -> str:
    """Return sentences about the runs of the kernel: versions, the machine's load, and lateness."""
    text = (
        f"Linux {', '.join(totals['kernels'])}, {totals['kernel_runs']} runs at a load of {number(totals['load_min'])}"
        f" to {number(totals['load_max'])}. In the worst run deliveries were {number(totals['lateness_mean_us'])} µs"
        f" late on average, 99 % at most {number(totals['lateness_p99_us'])} µs, the longest"
        f" {number(totals['lateness_longest_ms'])} ms."
    )
    if not totals["real_time"]:
        text += " The emulator had no real-time priority."
    if totals["disturbed_runs"]:
        text += (
            f" Runs that other work disturbed: {totals['disturbed_runs']} of {totals['kernel_runs']}, in the cells"
            f" marked {DISTURBED}; --again repeats them."
        )
    return text
