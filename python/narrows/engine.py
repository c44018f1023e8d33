"""The seam to the compiled engine; no other module imports it."""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows import _engine
from narrows._engine import Cancelled, Handle, LiveFailed, ScenarioError, datagram_scheme

__all__ = [
    "RUN_FIELDS",
    "Cancelled",
    "Handle",
    "LiveFailed",
    "Planned",
    "ScenarioError",
    "Scheme",
    "build",
    "datagram_scheme",
    "plan",
    "radio_trace",
    "run",
    "scheme_order",
    "schemes",
    "version",
]

RUN_FIELDS = (
    "version", "scenario", "seed", "duration_s", "wall_s", "events", "data_packets", "jain", "convergence_s",
    "flows", "links",
)  # fmt: skip
"""Fields of a result, in the order in which they are printed."""

FLOW_FIELDS = (
    "flow", "scheme", "rtt_base_ms", "goodput_mbit_s", "throughput_mbit_s", "retransmit_percent", "loss_percent",
    "rtt_min_ms", "rtt_mean_ms", "rtt_p50_ms", "rtt_p95_ms", "rtt_p99_ms", "fill_time_ms", "completion_s",
)  # fmt: skip
"""Fields of a flow in a result."""

LINK_FIELDS = (
    "link", "utilization", "queue_delay_mean_ms", "queue_delay_p95_ms", "queue_mean_pkt", "drops", "drop_percent",
)  # fmt: skip
"""Fields of a link in a result."""

CONNECTION_FIELDS = (
    "connection", "scheme", "subflows", "goodput_mbit_s", "completion_s", "start_s", "bytes_delivered",
    "duplicate_bytes", "reorder_peak_bytes", "reinjected_bytes", "rescued_bytes", "paths_given_up",
)  # fmt: skip
"""Fields of a connection of several subflows in a result, which has `connections` where there are some."""


@dataclass(frozen=True)
class Note:
    """A scenario runs, but not as it may have been meant."""

    source: str
    """The file, or `command line`."""
    line: int | None
    message: str


@dataclass(frozen=True)
class Planned:
    """One run that a scenario asks for: a point of its grid with one seed."""

    id: str
    seed: int
    point: Mapping[str, str]
    flows: int
    text: str
    """What the engine takes back, as it gave it."""
    directory: Path | None = None
    """Where files that the scenario names are found."""
    trace: bool = False
    """Whether its trace is kept."""
    notes: tuple[Note, ...] = ()
    """What a person should know of its point; of several seeds the first one's run has it."""


@dataclass(frozen=True)
class Scheme:
    """What is known of a scheme without running it."""

    name: str
    aliases: tuple[str, ...]
    summary: str
    evidence: str
    recovery: str
    params: tuple[Mapping[str, Any], ...]
    page: str


@dataclass(frozen=True)
class Allocator:
    """What is known of an allocator without running it."""

    name: str
    summary: str
    evidence: str
    params: tuple[Mapping[str, Any], ...]
    page: str


def version() -> str:
    """The version of the engine."""
    return _engine.version()


@functools.cache
def build() -> str:
    """A fingerprint of the engine's file: a saved run of another build is not reused."""
    path = getattr(_engine, "__file__", None)
    if path is None:
        return "unknown"
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


@functools.cache
def schemes() -> tuple[Scheme, ...]:
    """All registered schemes, in the order of the registry."""
    return tuple(
        Scheme(
            name=row["name"],
            aliases=tuple(row["aliases"]),
            summary=row["summary"],
            evidence=row["evidence"],
            recovery=row["recovery"],
            params=tuple(row["params"]),
            page=row["page"],
        )
        for row in json.loads(_engine.schemes())
    )


@functools.cache
def allocators() -> tuple[Allocator, ...]:
    """All registered allocators: what ports do to take part."""
    return tuple(Allocator(**{**row, "params": tuple(row["params"])}) for row in json.loads(_engine.allocators()))


@functools.cache
def scheme_order() -> Mapping[str, int]:
    """Each scheme's place in the registry, by name and alias."""
    return {name: place for place, s in enumerate(schemes()) for name in (s.name, *s.aliases)}


def no_scheme(name: str) -> str:
    """What is said where a name is that of no scheme: the nearest ones first, then all."""
    return _unknown("scheme", name, list(scheme_order()), [row.name for row in schemes()])


def no_allocator(name: str) -> str:
    """The same of allocators."""
    names = [row.name for row in allocators()]
    return _unknown("allocator", name, names, names)


def _unknown(kind: str, name: str, known: list[str], listed: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"there is no {kind} {name!r}{hint}\n  accepted: {', '.join(listed)}"


def schema() -> dict[str, Any]:
    """The JSON schema of a scenario."""
    return dict(json.loads(_engine.schema()))


def plan(
    text: str,
    source: str,
    directory: Path | None,
    overrides: Sequence[tuple[str, str]] = (),
    trace: bool = False,
) -> list[Planned]:
    """Every run a scenario asks for.

    Args:
        text: The scenario, TOML.
        source: The name that errors show for it.
        directory: Where files that it names are found.
        overrides: Keys and values that replace or add to those of the scenario.
        trace: Keep the traces of the runs; the scenario says what they record.

    Raises:
        ScenarioError: The scenario or an override is not acceptable.
    """
    rows = _engine.plan(text, source, None if directory is None else str(directory), list(overrides))
    planned = []
    for row in rows:
        parsed = json.loads(row)
        planned.append(
            Planned(
                parsed["id"],
                int(parsed["seed"]),
                as_point(parsed["point"]),
                int(parsed["flows"]),
                row,
                directory,
                trace,
                tuple(Note(**note) for note in parsed.get("notes", ())),
            )
        )
    return planned


def run(planned: Planned, traces: Path | None, handle: Handle | None) -> dict[str, Any]:
    """Run it and return its result; its trace goes to a folder. Other threads go on meanwhile.

    Raises:
        Cancelled: The handle's `cancel` was called.
    """
    directory = None if planned.directory is None else str(planned.directory)
    text = _engine.run(planned.text, directory, None if traces is None else str(traces), handle)
    return ordered(json.loads(text))


def radio_trace(text: str, source: str) -> tuple[str, str, str]:
    """The texts of the capacity, loss and delay traces that a table of keys asks for, as under `radio` in a scenario.

    Raises:
        ScenarioError: A key or value is not acceptable.
    """
    return _engine.radio_trace(text, source)


def as_point(pairs: Mapping[str, Any]) -> dict[str, str]:
    """The swept keys of a run with their values as text, in the order of the scenario."""
    return {str(key): str(value) for key, value in pairs.items()}


def ordered(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result with its fixed fields first, and the others after them."""
    first = {key: result[key] for key in RUN_FIELDS}
    first["flows"] = [{key: flow[key] for key in FLOW_FIELDS} | flow for flow in result["flows"]]
    first["links"] = [{key: link[key] for key in LINK_FIELDS} | link for link in result["links"]]
    first["point"] = as_point(result.get("point", {}))
    return {**first, **{key: value for key, value in result.items() if key not in first}}


def bench_cases() -> list[dict[str, str]]:
    """Name, description and scenario of the benchmark's cases."""
    return list(json.loads(_engine.bench_cases()))


def bench(name: str, repeats: int) -> dict[str, Any]:
    """The row of one benchmark case."""
    return dict(json.loads(_engine.bench(name, repeats)))


def bench_schemes(repeats: int, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """What an acknowledgement costs schemes: a row each, with the ratio to the first of the registry."""
    return list(json.loads(_engine.bench_schemes(repeats, list(names))))


def bench_allocators(repeats: int, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """What allocators cost the link they sit at: a row for each number of flows, that of no allocator first.

    Raises:
        ValueError: There is no such allocator.
    """
    return list(json.loads(_engine.bench_allocators(repeats, list(names))))


def datagram_schemes() -> list[str]:
    """The schemes that are made for datagrams."""
    return list(json.loads(_engine.datagram_schemes()))


def bench_datagrams(scheme: str | None, path: str, duration_s: float) -> dict[str, Any]:
    """How many datagrams arrived, their size, and the time that took.

    Args:
        scheme: What controls them; none for plain UDP.
        path: `memory` or `loopback`; of plain UDP `batches` or `calls`.
        duration_s: About how long to measure.

    Raises:
        LiveFailed: There was no connection.
    """
    return dict(json.loads(_engine.bench_datagrams(scheme, path, duration_s)))


def live(
    text: str,
    *,
    sender: bool,
    address: str,
    duration_s: float | None,
    timeout_s: float,
    once: bool,
    connections: int,
    capture: Path | None,
    handle: Handle,
    tell: Callable[[str, str], None],
) -> None:
    """Send or receive DCCP over UDP until it ends or the handle's `cancel` is called; other threads go on meanwhile.

    Args:
        text: A scenario whose first flow says what is sent and how.
        sender: Send, or receive.
        address: The other side's address with its port, or the one to listen at.
        duration_s: When to end, if not before.
        timeout_s: When an answer that does not come is given up.
        once: A receiver ends after one connection.
        connections: How many a receiver serves at a time; others are told that it is too busy.
        capture: A file for all packets.
        handle: The means to stop it.
        tell: Called with `listening` and an address, with `progress` once a second and `ended` for each connection,
            and a report; JSON.

    Raises:
        LiveFailed: There was no connection, or the other side fell silent.
        ScenarioError: The scenario is not acceptable.
    """
    file = None if capture is None else str(capture)
    _engine.live(text, sender, address, duration_s, timeout_s, once, connections, file, handle, tell)


def dump(result: Mapping[str, Any]) -> str:
    """A result on one line of JSON. A number that is not finite has no place there and becomes null."""
    return json.dumps(_finite(result), allow_nan=False, ensure_ascii=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
