"""The interface to the compiled engine: runs, registries and benchmarks. `hosts` is its interface to real hosts."""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from narrows import _engine
from narrows._engine import (
    Cancelled,
    Handle,
    HostFailed,
    HostUnable,
    LiveFailed,
    ScenarioError,
    bench,
    bench_cases,
    bench_datagrams,
    bench_routers,
    bench_schemes,
    datagram_scheme,
    datagram_schemes,
    live,
    radio_trace,
    schema,
    version,
)
from narrows.places import BACKENDS, KERNEL, NOQ, QUIC, SHIM, SIM, kernel_schemes, run_id
from narrows.records import (
    CAPTURE_ENDS,
    Capture,
    Diagnostic,
    Explanation,
    FlowRow,
    LinkRow,
    Planned,
    Profile,
    Router,
    RunRow,
    Scheme,
    ScriptReport,
    Sources,
)

__all__ = [
    "BACKENDS",
    "CAPTURE_ENDS",
    "KERNEL",
    "NOQ",
    "QUIC",
    "RUN_FIELDS",
    "SHIM",
    "SIM",
    "Cancelled",
    "Capture",
    "Handle",
    "HostFailed",
    "HostUnable",
    "LiveFailed",
    "Planned",
    "Router",
    "ScenarioError",
    "Scheme",
    "bench",
    "bench_cases",
    "bench_datagrams",
    "bench_routers",
    "bench_schemes",
    "build",
    "check_place",
    "datagram_scheme",
    "datagram_schemes",
    "emulator",
    "explain",
    "kernel_schemes",
    "live",
    "plan",
    "profiles",
    "radio_trace",
    "routers",
    "run",
    "run_id",
    "schema",
    "scheme_order",
    "schemes",
    "version",
]

# Names shared with the engine, each written once.
ROUTER = "router"
"""A router algorithm: the field of a link and of a benchmark row, the key of a scenario, the prefix of its series."""
FINGERPRINTS = {SIM: "sim", KERNEL: "kernel", SHIM: "kernel", QUIC: "quic", NOQ: "quic"}
"""The name of the sources that a run depends on, by backend."""

RUN_FIELDS = tuple(RunRow.__annotations__)
"""Fields of a result, in printing order."""

FLOW_FIELDS = tuple(FlowRow.__annotations__)
"""Fields of a flow in a result."""

LINK_FIELDS = tuple(LinkRow.__annotations__)
"""Fields of a link in a result."""

CONNECTION_COUNTS = (
    "bytes_delivered", "duplicate_bytes", "reorder_peak_bytes", "reinjected_bytes", "rescued_bytes", "paths_given_up",
)  # fmt: skip
"""Whole numbers among the fields of a multipath connection."""

CONNECTION_FIELDS = (
    "connection", "scheme", "subflows", "goodput_mbit_s", "completion_s", "start_s", *CONNECTION_COUNTS
)  # fmt: skip
"""Fields of a multipath connection. A result has `connections` only if it contains such connections."""


@functools.cache
def _sources() -> Sources:
    return _engine.sources()


def fingerprint(planned: Planned) -> str:
    """Return a fingerprint of the sources that a run depends on: its backend, and the schemes of its flows.

    Saved runs of another fingerprint are not reused. After a change of one scheme, runs of other schemes remain valid.
    Runs in real time also depend on the kernel's version; of our schemes, they depend only on those that they execute.
    """
    names = {scheme.partition(":")[0].strip() for scheme in planned.schemes}
    place = [] if planned.on == SIM else [planned.on, platform.release()]
    if planned.on == NOQ:
        names = set()
    if planned.on == KERNEL:
        offered = kernel_schemes()
        names -= {name for name in names if name in offered or name.replace("-", "_") in offered}
    order, rows, sources = scheme_order(), schemes(), _sources()
    try:
        parts = sorted(sources["schemes"][rows[order[name]].name] for name in names)
    except KeyError:  # a scheme from outside the registry
        return build()
    parts = [sources["build"], sources["backends"][FINGERPRINTS[planned.on]], *place, *parts]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


def emulator() -> str:
    """Return a fingerprint of the sources that runs on the kernel depend on."""
    return str(_sources()["backends"]["kernel"])


@functools.cache
def build() -> str:
    """Return a fingerprint of the engine's file."""
    path = getattr(_engine, "__file__", None)
    if path is None:
        return "unknown"
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


@functools.cache
def schemes() -> tuple[Scheme, ...]:
    """Return all schemes in registry order."""
    return tuple(
        Scheme(**_entry(row), aliases=tuple(row["aliases"]), recovery=row["recovery"]) for row in _engine.schemes()
    )


@functools.cache
def routers() -> tuple[Router, ...]:
    """Return all router algorithms in registry order."""
    return tuple(Router(**_entry(row)) for row in _engine.routers())


def _entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that all registry rows have."""
    fields = {key: row[key] for key in ("name", "summary", "page")}
    return {**fields, "provenance": row["provenance"], "params": tuple(row["params"])}


@functools.cache
def scheme_order() -> Mapping[str, int]:
    """Return the registry position of each scheme, by name and alias."""
    return {name: place for place, s in enumerate(schemes()) for name in (s.name, *s.aliases)}


def unknown_scheme(name: str) -> str:
    """Return the error text for an unknown scheme: close matches first, then all names."""
    return _unknown("scheme", name, list(scheme_order()), [row.name for row in schemes()])


def unknown_router(name: str) -> str:
    """Return the error text for an unknown router algorithm."""
    names = [row.name for row in routers()]
    return _unknown("router algorithm", name, names, names)


def _unknown(kind: str, name: str, known: list[str], listed: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"there is no {kind} {name!r}{hint}\n  accepted: {', '.join(listed)}"


def plan(
    text: str,
    source: str,
    directory: Path | None,
    overrides: Sequence[tuple[str, str]] = (),
    trace: bool = False,
    on: str = SIM,
    outside: tuple[str, ...] | None = None,
) -> list[Planned]:
    """Return every run of a scenario: all points of its grid, with all seeds.

    Args:
        text: The scenario, TOML.
        source: Its name in error messages.
        directory: The folder of the files that it names.
        overrides: Keys and values that replace or extend those of the scenario.
        trace: Keep the traces of the runs; the scenario selects what they record.
        on: Where the runs are executed: one of `BACKENDS`.
        outside: Names of files that may lie outside the folder; `None` permits all.

    Raises:
        ScenarioError: The scenario or an override is invalid.
        HostUnable: The backend cannot execute the scenario.
    """
    folder = None if directory is None else str(directory)
    planned = []
    for row in _engine.plan(text, source, folder, list(overrides), outside):
        if on != SIM:
            check_place(row["text"], directory, on, outside)
        found = tuple(Diagnostic(**found) for found in row["warnings"])
        planned.append(
            Planned(
                run_id(row["id"], on), row["seed"], row["point"], row["flows"], row["text"], tuple(row["schemes"]),
                directory, trace, found, on, outside,
            )
        )  # fmt: skip
    return planned


def check_place(planned: str, directory: Path | None, on: str, outside: tuple[str, ...] | None = None) -> None:
    """Refuse a run, given as the engine's description, that the kernel or QUIC cannot execute.

    Raises:
        HostUnable: The reason, with what is accepted.
    """
    _engine.check_place(planned, None if directory is None else str(directory), on, outside)


def explain(
    text: str,
    source: str,
    directory: Path | None,
    overrides: Sequence[tuple[str, str]] = (),
    outside: tuple[str, ...] | None = None,
) -> list[Explanation]:
    """Return every effective option of a scenario and its origin, one record per point. Arguments as for `plan`.

    Raises:
        ScenarioError: The scenario or an override is invalid.
    """
    folder = None if directory is None else str(directory)
    return _engine.explain(text, source, folder, list(overrides), outside)


@functools.cache
def profiles() -> tuple[Profile, ...]:
    """Return the profiles of transport options, the default first: settings with sources, missing features."""
    return tuple(_engine.profiles())


def run(
    planned: Planned,
    traces: Path | None,
    handle: Handle | None,
    capture: Capture | None = None,
    qlog: Path | None = None,
) -> dict[str, Any]:
    """Execute a run and return its result. Other Python threads continue meanwhile.

    Args:
        planned: The run.
        traces: The folder for its trace.
        handle: Reports progress and cancels the run.
        capture: Its packet capture; after a cancellation the file has the packets so far.
        qlog: The file of its qlog; after a cancellation it has the events so far.

    Raises:
        Cancelled: The handle's `cancel` was called.
        OSError: The trace, the capture or the qlog cannot be written.
        HostFailed: The kernel refused a step.
    """
    directory = None if planned.directory is None else str(planned.directory)
    folder = None if traces is None else str(traces)
    packets = None if capture is None else (str(capture.file), capture.ends, capture.snap)
    events = None if qlog is None else str(qlog)
    row = _engine.run(planned.text, directory, folder, handle, packets, planned.on, planned.outside, events)
    return ordered({**_finite(row), "id": planned.id})


def as_point(pairs: Mapping[str, Any]) -> dict[str, str]:
    """Return the swept keys of a run, in scenario order, with their values as text."""
    return {str(key): str(value) for key, value in pairs.items()}


def ordered(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with the documented fields first."""
    first = {key: result[key] for key in RUN_FIELDS}
    first["flows"] = [{key: flow[key] for key in FLOW_FIELDS} | flow for flow in result["flows"]]
    first["links"] = [{key: link[key] for key in LINK_FIELDS} | link for link in result["links"]]
    first["point"] = as_point(result.get("point", {}))
    return {**first, **{key: value for key, value in result.items() if key not in first}}


def learned(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the state that router algorithms of a run have learned, by link."""
    found = {row["link"]: row.get(ROUTER) or {} for row in result["links"]}
    return {link: router["learned"] for link, router in found.items() if "learned" in router}


def packetdrill(text: str, directory: Path | None, lateness_ms: float | None = None) -> ScriptReport:
    """Run a packetdrill script against the TCP endpoint, or on this machine's kernel.

    Args:
        text: The script.
        directory: The folder that its shell scripts are relative to.
        lateness_ms: Run on the kernel, with at least this tolerance for times; `None` for the endpoint.

    Raises:
        HostUnable: The user may not create network namespaces.
        HostFailed: The kernel refused a step.
    """
    return _engine.packetdrill(text, None if directory is None else str(directory), lateness_ms)


def json_line(result: Mapping[str, Any]) -> str:
    """Format a result as one line of JSON; infinities and NaN become null."""
    return json.dumps(_finite(result), allow_nan=False, ensure_ascii=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
