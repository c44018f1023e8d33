"""Frames of qlog files: samples per connection, and the results that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from narrows import engine
from narrows.errors import UsageError
from narrows.qlog.events import Connection, Points, plain
from narrows.results import Results

RUN = "qlog"
"""The id of the only run."""
BINS = 100
"""Bins of rates and losses in a log, each at least `LEAST_BIN_S` long."""
LEAST_BIN_S = 0.02
LABEL = 24
"""Letters of a file's name in a label."""
Column = tuple[int, str, Sequence[float], Sequence[float] | None, Sequence[str] | None]
"""Number of the flow, series, times, and values or texts."""


class Logged(Results):
    """The connections of qlog files as flows of one run, with samples over time.

    The series are those of a trace (`cwnd_bytes`, `inflight_bytes`, `pacing_rate_mbit_s`, `rtt_sample_ms`, `rtt_ms`,
    `min_rtt_ms`, `state`), `losses_pkt` (packets declared lost per bin), `sent_mbit_s`, and `throughput_mbit_s`: bytes
    acknowledged or, in the log of a receiver, received.
    """

    def __init__(self, files: Sequence[tuple[Path, Sequence[Connection]]]) -> None:
        connections = [connection for _, own in files for connection in own]
        self.hints = [
            f"{path}: its round-trip times look like seconds, though qlog counts milliseconds (quinn writes seconds); "
            "they are drawn a thousand times too small"
            for path, own in files
            if any(connection.has_rtt_in_seconds for connection in own)
        ]
        """What is implausible in the files."""
        duration = max(_end(connection) for connection in connections)
        flows, columns = [], list[Column]()
        for index, (connection, label) in enumerate(zip(connections, _labels(files), strict=True)):
            rows = _series(connection, max(duration / BINS, LEAST_BIN_S))
            columns += [(index, *row) for row in rows]
            flows.append(_flow(connection, label, {name: values for name, _, values, _ in rows}))
        result = {
            **dict.fromkeys(engine.RUN_FIELDS),
            "scenario": ", ".join(plain(path.name) for path, _ in files),
            "seed": None,
            "duration_s": duration,
            "flows": flows,
            "links": [],
            "id": RUN,
        }
        super().__init__([{}], [result])
        self._samples = _frame(columns)

    stepwise = True

    @property
    def traced(self) -> bool:
        """Whether there are samples."""
        return True

    def _scan(self, name: str) -> pl.LazyFrame:
        if name != "samples":
            raise UsageError(f"{name}: a qlog has samples only; accepted: samples")
        return self._samples.lazy()


def _end(connection: Connection) -> float:
    """Return the time of the last drawn event, in seconds."""
    points = [*connection.series.values(), connection.acked, connection.sent, connection.received, connection.losses]
    last = [times[-1] for times, _ in points if times] + [time for time, _ in connection.states[-1:]]
    return max(last, default=0.0) / 1e3


def _labels(files: Sequence[tuple[Path, Sequence[Connection]]]) -> list[tuple[str, str]]:
    """Return scheme and label of every connection; the label names the file if there are several."""
    labels = []
    for path, connections in files:
        name = plain(path.stem)[:LABEL] or "qlog"
        for connection in connections:
            scheme = connection.details.get("scheme")
            if isinstance(scheme, str) and scheme in engine.scheme_order():
                labels.append((scheme, scheme if len(files) == 1 else f"{scheme} ({name})"))
                continue
            parts = [name]
            if len(connections) > 1:
                parts.append(plain(connection.group)[:8] or connection.vantage)
            label = " ".join(part for part in parts if part)
            labels.append((label, label))
    return labels


def _series(connection: Connection, width: float) -> list[tuple[str, Any, Any, Any]]:
    """Return name, times in seconds, values and texts of every series of a connection.

    Args:
        connection: The connection.
        width: The bins of rates and losses, in seconds.
    """
    end = _end(connection)
    rows: list[tuple[str, Any, Any, Any]] = []
    for name, points in connection.series.items():
        times, values = _arrays(points)
        rows.append((name, times, values, None))
    if connection.states:
        # The last state lasts until the end.
        visits = [*connection.states, (end * 1e3, connection.states[-1][1])]
        rows.append(("state", np.array([time for time, _ in visits]) / 1e3, None, [name for _, name in visits]))
    binned = {"sent_mbit_s": connection.sent, "losses_pkt": connection.losses}
    if (carried := _carried(connection)) is not None:
        binned["throughput_mbit_s"] = carried
    packets = connection.sent[0] or connection.received[0]
    for name, points in binned.items():
        if points[0] or (name == "losses_pkt" and packets):
            rows.append((name, *_binned(points, end, width, rate=name != "losses_pkt"), None))
    return rows


def _carried(connection: Connection) -> Points | None:
    """Return acknowledged or received bytes over time, whichever are more; `None` without either."""
    received, acked = sum(connection.received[1]), sum(connection.acked[1])
    if acked == 0 and received <= sum(connection.sent[1]):
        return None
    return connection.acked if acked >= received else connection.received


def _arrays(points: Points) -> tuple[Any, Any]:
    return np.frombuffer(points[0]) / 1e3, np.frombuffer(points[1])


def _binned(points: Points, end: float, width: float, *, rate: bool) -> tuple[Any, Any]:
    """Return the ends of bins with the sums of their values, or their rates in Mbit/s for bytes."""
    bins = max(1, round(end / width))
    times, values = _arrays(points) if points[0] else (np.zeros(0), np.zeros(0))
    places = np.clip((times / width).astype(np.int64), 0, bins - 1)
    sums = np.bincount(places, weights=values, minlength=bins)
    return (np.arange(bins) + 1) * width, sums * 8e-6 / width if rate else sums


def _flow(connection: Connection, label: tuple[str, str], series: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a connection; values that the log lacks are `None`."""
    scheme, spec = label
    rtt = series.get("rtt_sample_ms", series.get("rtt_ms"))
    row: dict[str, Any] = {**dict.fromkeys(engine.FLOW_FIELDS), "flow": spec, "scheme": scheme, "spec": spec}
    least = [float(values.min()) for values in (rtt, series.get("min_rtt_ms")) if values is not None]
    base = connection.details.get("rtt_base_ms")
    row["rtt_min_ms"] = min(least, default=None)
    row["rtt_base_ms"] = row["rtt_min_ms"] if base is None else base
    if rtt is not None:
        row["rtt_mean_ms"] = float(rtt.mean())
        for percent in (50, 95, 99):
            row[f"rtt_p{percent}_ms"] = float(np.percentile(rtt, percent))
    carried, duration = _carried(connection), _end(connection)
    if carried is not None and duration > 0:
        row["throughput_mbit_s"] = sum(carried[1]) * 8e-6 / duration
    if connection.sent[0]:
        row["packets_sent"] = len(connection.sent[0])
        row["loss_percent"] = 100 * sum(connection.losses[1]) / len(connection.sent[0])
    return row


def _frame(columns: Sequence[Column]) -> pl.DataFrame:
    """Return the samples in long form, with the columns of traces."""
    parts = []
    for index, name, times, values, texts in columns:
        count = len(times)
        parts.append(
            pl.DataFrame(
                {
                    "id": pl.repeat(RUN, count, eager=True),
                    "time_s": pl.Series(times, dtype=pl.Float64),
                    "kind": pl.repeat("flow", count, eager=True),
                    "index": pl.repeat(index, count, dtype=pl.UInt32, eager=True),
                    "series": pl.repeat(name, count, eager=True),
                    "value": pl.Series([None] * count if values is None else values, dtype=pl.Float64),
                    "text": pl.Series([None] * count if texts is None else texts, dtype=pl.String),
                }
            )
        )
    return pl.concat(parts)
