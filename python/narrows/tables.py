"""Tables for a terminal of 80 columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from narrows import evidence
from narrows.stats import interval, number

if TYPE_CHECKING:
    from narrows.results import Results

MANY = 12
"""More flows than this in a run are shown as one row per scheme and round-trip time."""

FLOW_COLUMNS = (
    ("goodput\nMbit/s", "goodput_mbit_s"),
    ("retrans.\n%", "retransmit_percent"),
    ("RTT mean\nms", "rtt_mean_ms"),
    ("RTT p95\nms", "rtt_p95_ms"),
)
LINK_COLUMNS = (
    ("used\n%", "utilization_percent"),
    ("queue delay\nmean ms", "queue_delay_mean_ms"),
    ("queue delay\np95 ms", "queue_delay_p95_ms"),
    ("dropped\n%", "drop_percent"),
)


def summary(results: Results) -> Group:
    """Everything a person wants to see first of some results."""
    if len(results) == 0:
        return Group(Text("no runs"))
    many_points = len({tuple(point.items()) for point in results.points}) > 1
    parts: list[Any] = [_flows(results, many_points)]
    if len(results.connections):
        parts.append(_connections(results, many_points))
    parts.append(_links(results, many_points))
    parts.append(Text(notes(results)))
    return Group(*parts)


def notes(results: Results) -> str:
    """What must be known to read the table: what was averaged over what, and what was left out."""
    runs = results.runs
    parts = []
    if runs.select(*results.keys).n_unique() == 1 if results.keys else True:
        parts.append(f"Jain's index {spread(runs['jain'].to_list())}.")
        times = [value for value in runs["convergence_s"].to_list() if value is not None]
        if len(times) == runs.height:
            parts.append(f"Fair shares after {spread(times)} s.")
        elif runs["jain"].len() and _parties(results) > 1:
            never = "not reached" if runs.height == 1 else f"reached in {len(times)} of {runs.height} runs"
            parts.append(f"Fair shares were {never}.")
    durations = sorted(set(runs["duration_s"].to_list()))
    length = _range(durations)
    left_out = "nothing is left out of the means"
    if "warmup_s" in runs.columns:
        warmups = sorted({value for value in runs["warmup_s"].to_list() if value is not None})
        if warmups and warmups[-1] > 0:
            left_out = f"the first {_range(warmups)} s are left out of the means"
    parts.append(f"Each run lasts {length} s; {left_out}.")
    seeds = runs["seed"].n_unique()
    if seeds > 1:
        parts.append(f"{seeds} seeds: mean ± 95 % half-width (Student t).")
    if not evidence.reconstructions().isdisjoint(results.flows["scheme"].to_list()):
        parts.append(f"{evidence.NOTE}.")
    return " ".join(parts)


def _many(frame: pl.DataFrame) -> bool:
    per_run = frame.group_by("id").len()["len"].max()
    return isinstance(per_run, int) and per_run > MANY


def _parties(results: Results) -> int:
    """Who shares in a run, at most: all subflows of a connection are one."""
    flows = results.flows
    if "connection" in flows.columns:
        flows = flows.with_columns(pl.col("connection").fill_null(pl.col("index").cast(pl.String)))
        flows = flows.unique(["id", "seed", "connection"])
    most = flows.group_by("id", "seed").len()["len"].max()
    return most if isinstance(most, int) else 0


def _flows(results: Results, many_points: bool) -> Table:
    flows = results.flows
    grouped = _many(flows)
    joined = len(results.connections) > 0
    keys = [key for key in results.keys if many_points and key not in ("flows.scheme", "flows.rtt")]
    by = [*keys, "spec", "rtt_base_ms"] if grouped else [*keys, "index", "spec", "rtt_base_ms"]
    if grouped and joined:  # subflows are no flows of their own
        flows = flows.with_columns(pl.col("connection").is_not_null().alias("subflow"))
        by.append("subflow")
    columns = list(FLOW_COLUMNS)
    if grouped:
        columns[0] = ("Mbit/s\neach" if joined else "Mbit/s\nper flow", "goodput_mbit_s")
    if flows["completion_s"].null_count() < flows.height:
        columns[-1] = ("completed\ns", "completion_s")
    if (
        flows["fill_time_ms"].null_count() == 0
        and "network.buffer" not in results.keys
        and flows["index"].n_unique() == 1
    ):
        columns[2] = ("BDP filled\nms", "fill_time_ms")
    table = _table()
    for key in keys:
        table.add_column(short(key, keys), overflow="fold")
    if not grouped and flows["index"].n_unique() > 1:
        table.add_column("flow", justify="left" if joined else "right", overflow="fold")
    table.add_column("scheme", overflow="fold")
    table.add_column("base RTT\nms", justify="right")
    if grouped:
        table.add_column("subflows\nor flows" if joined else "flows", justify="right")
    for title, _ in columns:
        table.add_column(title, justify="right", overflow="fold")
    names = [name for _, name in columns]
    per_seed = flows.group_by([*by, "seed"], maintain_order=True).agg(
        *(pl.col(name).mean() for name in names), pl.len().alias("flows"), pl.col("label").first()
    )
    previous: Sequence[Any] = ()
    for point_key, rows in per_seed.group_by(by, maintain_order=True):
        point = list(point_key[: len(keys)])
        cells = [evidence.marked(str(v)) if list(previous) != point else "" for v in point]
        previous = point
        if not grouped and flows["index"].n_unique() > 1:
            cells.append(str(rows["label"][0]) if joined else str(int(str(point_key[len(keys)])) + 1))
        scheme = evidence.marked(str(rows["spec"][0]))
        if keys:  # many columns: break where a person would
            scheme = re.sub(r"[:,](?=\w)", "\\g<0>\n", scheme)
        cells += [scheme, f"{rows['rtt_base_ms'][0]:.4g}"]
        if grouped:
            cells.append(str(rows["flows"][0]))
        cells += [spread(rows[name].to_list()) for name in names]
        table.add_row(*cells)
    return table


def _connections(results: Results, many_points: bool) -> Table:
    """Connections of several subflows: what an application got, whose data is in order."""
    frame = results.connections
    grouped = _many(frame)
    keys = [key for key in results.keys if many_points]
    by = [*keys, "scheme", "subflows"] if grouped else [*keys, "index", "connection", "scheme", "subflows"]
    columns = [("Mbit/s\neach" if grouped else "goodput\nMbit/s", "goodput_mbit_s")]
    if frame["completion_s"].null_count() < frame.height:
        columns.append(("completed\ns", "completion_s"))
    table = _table()
    for key in keys:
        table.add_column(short(key, keys), overflow="fold")
    if not grouped:
        table.add_column("connection", overflow="fold")
    table.add_column("scheme", overflow="fold")
    table.add_column("subflows", justify="right")
    if grouped:
        table.add_column("connections", justify="right")
    for title, _ in columns:
        table.add_column(title, justify="right", overflow="fold")
    per_seed = frame.group_by([*by, "seed"], maintain_order=True).agg(
        *(pl.col(name).mean() for _, name in columns), pl.len().alias("connections")
    )
    for place, rows in per_seed.group_by(by, maintain_order=True):
        row = dict(zip(by, place, strict=True))
        cells = [evidence.marked(str(row[key])) for key in keys]
        if not grouped:
            cells.append(str(row["connection"]))
        cells += [evidence.marked(str(row["scheme"])), str(row["subflows"])]
        if grouped:
            cells.append(str(rows["connections"][0]))
        table.add_row(*cells, *(spread(rows[name].to_list()) for _, name in columns))
    return table


def _links(results: Results, many_points: bool) -> Table:
    links = results.links.with_columns((pl.col("utilization") * 100).alias("utilization_percent"))
    keys = [key for key in results.keys if many_points]
    by = [*keys, "link"] if links["link"].n_unique() > 1 or not keys else keys
    table = _table()
    for key in by:
        table.add_column(key if key == "link" else short(key, keys), overflow="fold")
    for title, _ in LINK_COLUMNS:
        table.add_column(title, justify="right", overflow="fold")
    for place, rows in links.group_by(by, maintain_order=True):
        table.add_row(
            *(evidence.marked(str(part)) for part in place), *(spread(rows[name].to_list()) for _, name in LINK_COLUMNS)
        )
    return table


def spread(values: Sequence[float | None]) -> str:
    """`mean ± half-width` of the values that are there; how many are missing, if some are."""
    present = [value for value in values if value is not None]
    if not present:
        return "–"
    found = interval(present)
    text = number(found.mean) if found.mean == 0 or abs(found.mean) >= 0.1 else f"{found.mean:.3f}"
    if found.half is not None:
        text += "±0" if found.half == 0 else f"±{_half(found.half)}"
    return text if len(present) == len(values) else f"{text} ({len(present)}/{len(values)})"


def _half(half: float) -> str:
    return "<0.01" if half < 0.01 else f"{half:.2f}" if half < 1 else number(half, 2)


def _range(ordered: Sequence[float]) -> str:
    low, high = f"{ordered[0]:.4g}", f"{ordered[-1]:.4g}"
    return low if low == high else f"{low} to {high}"


def short(key: str, keys: Sequence[str]) -> str:
    """The last part of a key, or all of it where that is not enough to tell."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in keys) == 1 else key


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))


EVIDENCE = {"reconstruction": f"{evidence.WORDS}; the published rule, or a part of it, could not be obtained"}
"""What is said of evidence in a scheme's head."""


def registry_table(kind: str, rows: Sequence[Any]) -> Table:
    """A registry as a list: of schemes, or of allocators."""
    table = _table()
    table.add_column(kind, no_wrap=True)
    table.add_column("what it does")
    table.add_column("evidence", no_wrap=True)
    for row in rows:
        also = getattr(row, "aliases", ())
        aliases = f"\n({', '.join(also)})" if also else ""
        table.add_row(row.name + aliases, row.summary, row.evidence)
    return table


def params_table(params: Sequence[Any]) -> Table:
    """The parameters of a scheme."""
    table = _table()
    for title in ("parameter", "default", "accepted", "meaning"):
        table.add_column(title, no_wrap=title in ("parameter", "default"))
    for row in params:
        unit = f" {row['unit']}" if row.get("unit") else ""
        if row["kind"] == "flag":
            default, accepted = str(bool(row["default"])).lower(), "true, false"
        else:
            low, high = (f"{row[end]:.10g}" if row.get(end) is not None else "" for end in ("min", "max"))
            default, accepted = f"{row['default']:g}{unit}", f"{low} … {high}{unit}"
        table.add_row(row["name"], default, accepted, row["help"])
    return table


ACTED = (("SACK", "sack_blocks"), ("recov.", "recoveries"), ("paced", "paced_waits"), ("samples", "rate_samples"))


def bench_table(rows: Sequence[dict[str, Any]]) -> Group:
    """The rows of the benchmark: speed, memory, and how often the parts of the transport acted."""
    table = _table()
    table.add_column("case", no_wrap=True)
    for title in ("packets", "wall\ns", "million\nper s", "kB per\nflow", *(title for title, _ in ACTED)):
        table.add_column(title, justify="right", overflow="fold")
    for row in rows:
        memory = row.get("peak_flow_bytes")
        table.add_row(
            row["case"],
            f"{row['data_packets']:,}",
            number(row["wall_s"]),
            f"{row['packets_per_s'] / 1e6:.2f}",
            "–" if memory is None else f"{memory / 1e3:.1f}",
            *(_brief(row["counters"].get(name, 0)) for _, name in ACTED),
        )
    failed = [Text(f"{row['case']} FAILED: {reason}", style="red") for row in rows for reason in row["failed"]]
    return Group(table, *failed)


def costs_table(rows: Sequence[dict[str, Any]]) -> Table:
    """What an acknowledgement costs each scheme."""
    table = _table()
    table.add_column("scheme", no_wrap=True)
    table.add_column("ns per\nacknowledgement", justify="right")
    table.add_column(f"ratio to\n{rows[0]['reference']}", justify="right")
    for row in rows:
        table.add_row(evidence.marked(row["scheme"]), number(row["ns_per_ack"]), f"{row['ratio']:.2f}")
    return table


def ports_table(rows: Sequence[dict[str, Any]]) -> Table:
    """What allocators cost a link, by the number of flows."""
    table = _table()
    table.add_column("allocator", no_wrap=True)
    for title in ("flows", "ns per\npacket", "ratio\nto none", "ns per\nwake", "and\nflow", "bytes", "and\nflow"):
        table.add_column(title, justify="right")
    for row in rows:
        wake, each = row["ns_per_wake"], row["ns_per_wake_and_flow"]
        table.add_row(
            row["allocator"],
            f"{row['flows']:,}",
            number(row["ns_per_packet"]),
            f"{row['ratio']:.1f}",
            "–" if wake is None else f"{wake:,.0f}",
            "–" if each is None else number(each),
            f"{row['memory_bytes']:,}",
            number(row["bytes_per_flow"]),
        )
    return table


def datagrams_table(rows: Sequence[dict[str, Any]]) -> Table:
    """What datagrams cost on one core, by what carries them."""
    table = _table()
    for title in ("carried by", "path"):
        table.add_column(title, no_wrap=True)
    for title in ("ns per\ndatagram", "Mbit/s", f"ratio to\n{rows[0]['reference']}", "core\nbusy %"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            evidence.marked(row["scheme"]) if row["scheme"] else "UDP",
            row["path"],
            f"{row['ns_per_datagram']:,.0f}",
            f"{row['mbit_s']:,.0f}",
            f"{row['ratio']:.2f}",
            f"{row['cpu_percent']:.0f}",
        )
    return table


def _brief(count: int) -> str:
    """A count in at most five characters."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= 10 * size:
            return f"{count / size:.0f}{letter}"
    return str(count)
