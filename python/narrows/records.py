"""Arguments and results of the engine as records: runs, captures, warnings, entries of registries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from narrows.places import SIM


@dataclass(frozen=True)
class Diagnostic:
    """A warning about a valid scenario, such as a setting without effect."""

    source: str
    """The file, or `command line`."""
    line: int | None
    message: str


@dataclass(frozen=True)
class Planned:
    """One run of a scenario: a point of its grid, with one seed."""

    id: str
    seed: int
    point: Mapping[str, str]
    flows: int
    text: str
    """The engine's own description of the run, passed back to it unchanged."""
    schemes: tuple[str, ...]
    """The schemes of its flows, with their parameters."""
    directory: Path | None = None
    """The folder of the files that the scenario names."""
    trace: bool = False
    """Whether to keep the trace."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Diagnostics of the point, attached to the run of its first seed."""
    on: str = SIM
    """Its backend: one of `BACKENDS`."""
    outside: tuple[str, ...] | None = None
    """Names of files that may lie outside that folder; `None` permits all."""


@dataclass(frozen=True)
class Capture:
    """A packet capture of a run, pcapng."""

    file: Path
    ends: str = "senders"
    """The hosts that record their packets: one of `CAPTURE_ENDS`."""
    snap: int | None = None
    """Bytes kept of each packet; `None` keeps all."""


CAPTURE_ENDS = ("senders", "receivers", "both")
"""Accepted values of `Capture.ends`."""


@dataclass(frozen=True)
class Router:
    """The registry's entry of a router algorithm."""

    name: str
    summary: str
    provenance: str
    params: tuple[Mapping[str, Any], ...]
    page: str
    """The module documentation, Markdown."""


@dataclass(frozen=True)
class Scheme(Router):
    """The registry's entry of a scheme."""

    aliases: tuple[str, ...]
    recovery: str


@dataclass(frozen=True)
class Program:
    """A scheme that the kernel can run as a BPF program."""

    name: str
    """Its name in the kernel."""
    scheme: str
    """The twin in the registry, with the same algorithm and parameters."""
    summary: str
    registered: bool
    """Whether the kernel offers the name."""


class Sources(TypedDict):
    """Fingerprints of sources that runs depend on: locked dependencies, backends and schemes."""

    build: str
    backends: dict[str, str]
    schemes: dict[str, str]


class PlannedRow(TypedDict):
    """The fields of `Planned` that the engine knows."""

    id: str
    seed: int
    point: dict[str, str]
    flows: int
    schemes: list[str]
    warnings: list[dict[str, Any]]
    """The fields of `Diagnostic`."""
    text: str


class FlowRow(TypedDict):
    """A flow in a result, fields in printing order; fields that only some flows have follow."""

    flow: str
    scheme: str
    rtt_base_ms: float
    goodput_mbit_s: float
    throughput_mbit_s: float
    retransmit_percent: float
    loss_percent: float
    rtt_min_ms: float | None
    rtt_mean_ms: float | None
    rtt_p50_ms: float | None
    rtt_p95_ms: float | None
    rtt_p99_ms: float | None
    fill_time_ms: float | None
    completion_s: float | None


class LinkRow(TypedDict):
    """A link in a result, fields in printing order; `router` follows if the link has a router algorithm."""

    link: str
    utilization: float
    queue_delay_mean_ms: float
    queue_delay_p95_ms: float
    queue_mean_pkt: float
    drops: int
    drop_percent: float


class RunRow(TypedDict):
    """A result, fields in printing order. Fields of some runs follow: `connections`, `counters`, `host` and others."""

    version: str
    scenario: str
    seed: int
    duration_s: float
    wall_s: float
    events: int
    data_packets: int
    jain: float
    convergence_s: float | None
    flows: list[FlowRow]
    links: list[LinkRow]


Option = TypedDict(
    "Option", {"key": str, "value": Any, "resolved": NotRequired[str], "from": str, "line": NotRequired[int]}
)
"""An effective option of a scenario, and its origin."""


class FlowOptions(TypedDict):
    """The options of a flow."""

    flow: str
    scheme: str
    protocol: str
    options: list[Option]
    transport: list[Option]
    params: list[Option]


class LinkOptions(TypedDict):
    """The options of a link of a graph."""

    link: str
    options: list[Option]


class Explanation(TypedDict):
    """Every effective option of a point of a scenario."""

    scenario: str
    point: dict[str, Any]
    run: list[Option]
    network: list[Option]
    links: NotRequired[list[LinkOptions]]
    flows: list[FlowOptions]


class Setting(TypedDict):
    """The value of an option in a profile, and the source that it follows."""

    key: str
    value: str
    follows: str


class Profile(TypedDict):
    """A profile of transport options: its settings, and features that it lacks."""

    name: str
    summary: str
    tcp: list[Setting]
    params: list[Setting]
    lacks: list[str]


class BenchCase(TypedDict):
    """A benchmark case."""

    name: str
    description: str
    scenario: str


class ScriptReport(TypedDict):
    """The outcome of a packetdrill script."""

    result: str
    """`pass`, `fail` or `skip`."""
    line: int | None
    """`None` after a pass."""
    reason: str
    unchecked: list[str]
    """The system calls whose results were not compared."""


class Datagrams(TypedDict):
    """The datagrams that arrived in a measurement, their size, and the wall time."""

    datagrams: int
    wall_s: float
    datagram_bytes: int


class ProgramStatus(TypedDict):
    """Counters of a program of the kernel; calls and times cover the observed period."""

    name: str
    scheme: str
    sockets: int
    opened: int
    acks: int
    timeouts: int
    errors: int
    calls: int
    ns_per_call: float | None
    ns_per_ack: float | None
    cpu_percent: float
    observed_s: float
    parameters: list[tuple[str, float]]


class Attached(TypedDict):
    """An attachment of BRF to a cgroup."""

    cgroup: str
    link: str
    scheme: str
    loads: bool
    """Whether attaching loads the scheme."""
    adopts: bool
    """Whether connections that begin there use the scheme."""


class BrfSwitch(TypedDict):
    """A BRF switch of this network namespace."""

    process: int
    ports: list[str]
    runs: bool
    report: dict[str, Any] | None


class SwitchSettings(TypedDict):
    """Settings of a BRF switch."""

    ports: list[tuple[str, str]]
    """Interfaces with their roles: `acks`, `bottleneck` or `senders`."""
    rate_mbit: float
    buffer: int
    """In packets."""
    period_ms: float
    patience_ms: float
    poll_s: float | None
    """The interval of its own controller; `None` without one."""
    control: str | None
    """The address for an external controller."""
    sets: list[tuple[str, str]]


class Delay(TypedDict):
    """One-way delays of datagrams."""

    min_ms: float
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float


class DatagramReport(TypedDict):
    """A connection of datagrams on sockets; `crates/dccp-udp/src/report.rs` explains the fields."""

    role: str
    remote: str
    scheme: str | None
    ccid: int
    duration_s: float
    end: str
    reset_code: int | None
    reset_name: str | None
    datagrams_written: int
    datagrams: int
    bytes: int
    datagrams_acknowledged: int
    bytes_acknowledged: int
    packets_sent: int
    packets_received: int
    lost: int | None
    unreported: int
    duplicates: int
    too_late: int
    loss_percent: float | None
    marked: int
    queue_drops: int
    timeouts: int
    throughput_mbit_s: float
    rtt_ms: float | None
    delay: Delay | None


class Overview(TypedDict):
    """The progress of many connections of datagrams."""

    connections: int
    half_open: int
    datagrams: int
    bytes: int
    throughput_mbit_s: float
