"""Narrows: a workshop for congestion control.

>>> import narrows
>>> results = narrows.compare("bbr", "cubic", rate="100mbit", rtt="40ms", buffer="4bdp")  # doctest: +SKIP
>>> results.flows                                                                        # doctest: +SKIP

`run`, `compare` and `sweep` return `Results`: polars frames of flows, links and runs, tables, and matplotlib figures.
"""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

try:
    from narrows.api import compare, run, sweep
    from narrows.engine import Router, Scheme, routers, schemes, version
    from narrows.engine import ScenarioError as ScenarioError
    from narrows.errors import UsageError
    from narrows.radio import radio_trace
except KeyboardInterrupt:
    # This package loads before the command's modules, so only this handler can end the command quietly.
    if PurePath(sys.argv[0]).name not in ("narrows", "-m"):
        raise
    sys.exit(130)

if TYPE_CHECKING:
    from narrows.results import Results

__all__ = [
    "Results",
    "Router",
    "ScenarioError",
    "Scheme",
    "UsageError",
    "compare",
    "radio_trace",
    "routers",
    "run",
    "schemes",
    "sweep",
]
__version__ = version()


def __getattr__(name: str) -> Any:
    if name == "Results":  # polars takes a third of a second to load: too long for `narrows --help`
        from narrows.results import Results

        return Results
    raise AttributeError(f"module 'narrows' has no attribute {name!r}")
