"""Tables of results for a terminal of 80 columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich import box
from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from narrows import engine, provenance
from narrows.frames import ResultFrames
from narrows.stats import interval, number

MANY = 12
"""With more flows in a run, the table has one row per scheme and base RTT."""

FLOW_COLUMNS = (
    ("goodput\nMbit/s", "goodput_mbit_s"),
    ("retrans.\n%", "retransmit_percent"),
    ("RTT mean\nms", "rtt_mean_ms"),
    ("RTT p95\nms", "rtt_p95_ms"),
)
SCHEME_AXIS, RTT_AXIS = re.compile(r"flows\.(\d+\.)?scheme"), re.compile(r"flows\.(\d+\.)?rtt")
"""Swept keys whose values the columns `scheme` and `base RTT` of the table of flows may show."""
LINK_COLUMNS = (
    ("used\n%", "utilization_percent"),
    ("queue delay\nmean ms", "queue_delay_mean_ms"),
    ("queue delay\np95 ms", "queue_delay_p95_ms"),
    ("dropped\n%", "drop_percent"),
)


def summary(results: ResultFrames) -> Group:
    """Return the tables of results, with the notes below them."""
    if len(results) == 0:
        return Group(Text("no runs"))
    many_points = len({tuple(point.items()) for point in results.points}) > 1
    parts: list[Any] = [_flow_table(results, many_points)]
    if len(results.connections):
        parts.append(_connection_table(results, many_points))
    parts.append(_link_table(results, many_points))
    parts.append(Text(notes(results)))
    return Group(*parts)


def notes(results: ResultFrames) -> str:
    """Return the notes below the tables: fairness, warm-up, seeds and marks."""
    runs = results.runs
    parts = []
    rivals = _competitors(results) > 1
    if runs.select(*results.keys).n_unique() == 1 if results.keys else True:
        if rivals:
            parts.append(f"Jain's index {spread(runs['jain'].to_list())}.")
        times = [value for value in runs["convergence_s"].to_list() if value is not None]
        if len(times) == runs.height:
            parts.append(f"Fair shares after {spread(times)} s.")
        elif rivals:
            lasting = f"lasted five seconds in {len(times)} of {runs.height} runs"
            parts.append(f"Fair shares {lasting if runs.height > 1 else 'did not last five seconds'}.")
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
    if (hosts := [result["host"] for result in results.raw if result.get("host")]) and len(hosts) == len(results.raw):
        parts.append(host_note(hosts))
    if not provenance.reconstructions().isdisjoint(results.flows["scheme"].to_list()):
        parts.append(f"{provenance.NOTE}.")
    return " ".join(parts)


def host_note(hosts: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence about the hosts of runs in real time, and the emulator's lateness."""
    releases = ", ".join(dict.fromkeys(str(host["kernel"]) for host in hosts))
    mean = max(host["lateness"]["mean_us"] for host in hosts)
    late = max(host["lateness"]["p99_us"] for host in hosts)
    longest = max(host["lateness"]["longest_ms"] for host in hosts)
    text = (
        f"Linux {releases}; deliveries were {number(mean)} µs late on average, 99 % at most {number(late)} µs, the"
        f" longest {number(longest)} ms."
    )
    disturbed = sum(bool(host["disturbed"]) for host in hosts)
    if disturbed:
        text += f" {disturbed} of {len(hosts)} runs were disturbed: this machine was too busy."
    if drops := sum(host.get("socket_drops") or 0 for host in hosts):
        text += f" Sockets dropped {drops} packets for lack of room."
    if not all(host["real_time"] for host in hosts):
        text += " The emulator had no real-time priority."
    return text


def _is_crowded(frame: pl.DataFrame) -> bool:
    per_run = frame.group_by("id").len()["len"].max()
    return isinstance(per_run, int) and per_run > MANY


def _competitors(results: ResultFrames) -> int:
    """Return the greatest number of competitors in a run; the subflows of a connection count as one."""
    flows = results.flows
    if "connection" in flows.columns:
        flows = flows.with_columns(pl.col("connection").fill_null(pl.col("index").cast(pl.String)))
        flows = flows.unique(["id", "seed", "connection"])
    most = flows.group_by("id", "seed").len()["len"].max()
    return most if isinstance(most, int) else 0


def _flow_table(results: ResultFrames, many_points: bool) -> Table:
    flows = results.flows
    grouped = _is_crowded(flows)
    multipath = len(results.connections) > 0
    points = [key for key in results.keys if many_points]
    keys = [key for key in points if not _is_stated(key, flows)]
    by = [*points, *([] if grouped else ["index"]), "spec", "rtt_base_ms"]
    if grouped and multipath:  # keep subflows apart from single flows
        flows = flows.with_columns(pl.col("connection").is_not_null().alias("subflow"))
        by.append("subflow")
    columns = list(FLOW_COLUMNS)
    if grouped:
        columns[0] = ("Mbit/s\neach" if multipath else "Mbit/s\nper flow", "goodput_mbit_s")
    if flows["completion_s"].null_count() < flows.height:
        columns[-1] = ("completed\ns", "completion_s")
    if (
        flows["fill_time_ms"].null_count() == 0
        and "network.buffer" not in results.keys
        and flows["index"].n_unique() == 1
    ):
        columns[2] = ("BDP filled\nms", "fill_time_ms")
    table = plain_table()
    for key in keys:
        table.add_column(heading(key, keys, ("flow", "flows", "scheme")), overflow="fold")
    if not grouped and flows["index"].n_unique() > 1:
        table.add_column("flow", justify="left" if multipath else "right", overflow="fold")
    table.add_column("scheme", overflow="fold")
    table.add_column("base RTT\nms", justify="right")
    if grouped:
        table.add_column("subflows\nor flows" if multipath else "flows", justify="right")
    for title, _ in columns:
        table.add_column(title, justify="right", overflow="fold")
    names = [name for _, name in columns]
    per_seed = flows.group_by([*by, "seed"], maintain_order=True).agg(
        *(pl.col(name).mean() for name in names), pl.len().alias("flows"), pl.col("label").first()
    )
    previous: Sequence[Any] = ()
    for place, rows in per_seed.group_by(by, maintain_order=True):
        row = dict(zip(by, place, strict=True))
        point = [row[key] for key in keys]
        cells = [provenance.marked(str(v)) if list(previous) != point else "" for v in point]
        previous = point
        if not grouped and flows["index"].n_unique() > 1:
            cells.append(str(rows["label"][0]) if multipath else str(int(str(row["index"])) + 1))
        scheme = provenance.marked(str(rows["spec"][0]))
        if keys:  # columns are narrow: break between parameters
            scheme = re.sub(r"[:,](?=\w)", "\\g<0>\n", scheme)
        cells += [scheme, f"{rows['rtt_base_ms'][0]:.4g}"]
        if grouped:
            cells.append(str(rows["flows"][0]))
        cells += [spread(rows[name].to_list()) for name in names]
        table.add_row(*cells)
    return whole_words(table)


def _is_stated(key: str, flows: pl.DataFrame) -> bool:
    """Whether the scheme or base RTT of every row of flows shows the value of a swept key."""
    if RTT_AXIS.fullmatch(key):
        own = "rtt_base_ms"
    elif SCHEME_AXIS.fullmatch(key):
        own = "spec"
        order = engine.scheme_order()

        def place(name: Any) -> Any:
            plain = str(name).partition(":")[0].strip()
            return order.get(plain, plain)

        if any(place(value) != place(scheme) for value, scheme in flows.select(key, "scheme").unique().rows()):
            return False  # the value is the scheme of other flows
    else:
        return False
    return flows.select(own, key).n_unique() == flows[own].n_unique()


def _connection_table(results: ResultFrames, many_points: bool) -> Table:
    """Return the table of multipath connections; goodput counts data delivered in the connection's order."""
    frame = results.connections
    grouped = _is_crowded(frame)
    keys = [key for key in results.keys if many_points]
    by = [*keys, "scheme", "subflows"] if grouped else [*keys, "index", "connection", "scheme", "subflows"]
    columns = [("Mbit/s\neach" if grouped else "goodput\nMbit/s", "goodput_mbit_s")]
    if frame["completion_s"].null_count() < frame.height:
        columns.append(("completed\ns", "completion_s"))
    table = plain_table()
    for key in keys:
        table.add_column(heading(key, keys, ("connection", "connections", "scheme", "subflows")), overflow="fold")
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
        cells = [provenance.marked(str(row[key])) for key in keys]
        if not grouped:
            cells.append(str(row["connection"]))
        cells += [provenance.marked(str(row["scheme"])), str(row["subflows"])]
        if grouped:
            cells.append(str(rows["connections"][0]))
        table.add_row(*cells, *(spread(rows[name].to_list()) for _, name in columns))
    return whole_words(table)


def _link_table(results: ResultFrames, many_points: bool) -> Table:
    links = results.links.with_columns((pl.col("utilization") * 100).alias("utilization_percent"))
    keys = [key for key in results.keys if many_points]
    by = [*keys, "link"] if links["link"].n_unique() > 1 or not keys else keys
    table = plain_table()
    for key in by:
        table.add_column(key if key == "link" else heading(key, keys, ("link",)), overflow="fold")
    for title, _ in LINK_COLUMNS:
        table.add_column(title, justify="right", overflow="fold")
    for place, rows in links.group_by(by, maintain_order=True):
        table.add_row(
            *(provenance.marked(str(part)) for part in place),
            *(spread(rows[name].to_list()) for _, name in LINK_COLUMNS),
        )
    return whole_words(table)


def spread(values: Sequence[float | None]) -> str:
    """Format values as `mean ± half-width`, with the number of values present if some are `None`."""
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


def heading(key: str, keys: Sequence[str], taken: Sequence[str] = ()) -> str:
    """Return the heading of a swept key: its last part, or the whole key if that part is ambiguous.

    Args:
        key: The key.
        keys: All keys of the table.
        taken: Headings of the other columns of the table.
    """
    head, dot, last = key.rpartition(".")
    alone = sum(other.rpartition(".")[2] == last for other in keys) == 1
    return last if not dot or (alone and last not in taken) else f"{head}.\n{last}"


def whole_words(table: Table, *also: str) -> Table:
    """Keep numbers whole: columns of numbers are as wide as their longest word, even beyond the terminal's width.

    Args:
        table: The table.
        also: The headings of further columns, besides those aligned to the right.
    """
    for column in table.columns:
        if column.justify == "right" or column.header in also:
            texts = [text.plain if isinstance(text, Text) else str(text) for text in (column.header, *column.cells)]
            column.min_width = max((cell_len(word) for text in texts for word in text.split()), default=1)
    return table


def plain_table() -> Table:
    """Return an empty table in the style of all tables."""
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
