"""What the engine takes and returns, as records: runs, captures, warnings, and the entries of its registries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """The engine's own description of the run, JSON; passed back to it unchanged."""
    directory: Path | None = None
    """The folder of the files that the scenario names."""
    trace: bool = False
    """Whether to keep the trace."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Diagnostics of the point, attached to the run of its first seed."""
    on: str = SIM
    """Where it runs: one of `BACKENDS`."""
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
class Scheme:
    """The registry's entry of a scheme."""

    name: str
    aliases: tuple[str, ...]
    summary: str
    provenance: str
    recovery: str
    params: tuple[Mapping[str, Any], ...]
    page: str
    """The module documentation, Markdown."""


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
class Program:
    """A scheme that the kernel can run as a program of its own."""

    name: str
    """In the kernel."""
    scheme: str
    """The twin in the registry, with the same algorithm and parameters."""
    summary: str
    registered: bool
    """Whether the kernel offers the name."""
