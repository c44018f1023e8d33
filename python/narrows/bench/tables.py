"""Tables of the benchmark for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from narrows import engine, provenance
from narrows.stats import number
from narrows.tables import plain_table

ACTIVITY = (("SACK", "sack_blocks"), ("recov.", "recoveries"), ("paced", "paced_waits"), ("samples", "rate_samples"))
"""Counters that show which parts of the transport worked."""


def case_table(rows: Sequence[dict[str, Any]]) -> Group:
    """Format the cases: speed, memory, and how often the parts of the transport worked."""
    activity = [title for title, _ in ACTIVITY]
    table = _table(("case",), ("packets", "wall\ns", "million\nper s", "kB per\nflow", *activity))
    for row in rows:
        memory = row.get("peak_flow_bytes")
        table.add_row(
            row["case"],
            f"{row['data_packets']:,}",
            number(row["wall_s"]),
            f"{row['packets_per_s'] / 1e6:.2f}",
            "–" if memory is None else f"{memory / 1e3:.1f}",
            *(_brief(row["counters"].get(name, 0)) for _, name in ACTIVITY),
        )
    failed = [Text(f"{row['case']} FAILED: {reason}", style="red") for row in rows for reason in row["failed"]]
    return Group(table, *failed)


def scheme_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Format the cost of an acknowledgement, by scheme."""
    table = _table(("scheme",), ("ns per\nacknowledgement", f"ratio to\n{rows[0]['reference']}"))
    for row in rows:
        table.add_row(provenance.marked(row["scheme"]), number(row["ns_per_ack"]), f"{row['ratio']:.2f}")
    return table


def router_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Format the cost of router algorithms, by number of flows."""
    figures = ("flows", "ns per\npacket", "ratio\nto none", "ns per\nwake", "and\nflow", "bytes", "and\nflow")
    table = _table(("router",), figures)
    for row in rows:
        wake, each = row["ns_per_wake"], row["ns_per_wake_and_flow"]
        table.add_row(
            row[engine.ROUTER],
            f"{row['flows']:,}",
            number(row["ns_per_packet"]),
            f"{row['ratio']:.1f}",
            "–" if wake is None else f"{wake:,.0f}",
            "–" if each is None else number(each),
            f"{row['memory_bytes']:,}",
            number(row["bytes_per_flow"]),
        )
    return table


def datagram_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Format the cost of datagrams on one core, by transport and path."""
    ratio = f"ratio to\n{rows[0]['reference']}"
    table = _table(("carried by", "path"), ("ns per\ndatagram", "Mbit/s", ratio, "core\nbusy %"))
    for row in rows:
        table.add_row(
            provenance.marked(row["scheme"]) if row["scheme"] else "UDP",
            row["path"],
            f"{row['ns_per_datagram']:,.0f}",
            f"{row['mbit_s']:,.0f}",
            f"{row['ratio']:.2f}",
            f"{row['cpu_percent']:.0f}",
        )
    return table


def _table(names: Sequence[str], figures: Sequence[str]) -> Table:
    """Return an empty table with columns of names on the left and of figures on the right."""
    table = plain_table()
    for title in names:
        table.add_column(title, no_wrap=True)
    for title in figures:
        table.add_column(title, justify="right", overflow="fold")
    return table


def _brief(count: int) -> str:
    """Format a count in at most five characters."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= 10 * size:
            return f"{count / size:.0f}{letter}"
    return str(count)
