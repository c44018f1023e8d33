"""Measures single parts: schemes per acknowledgement, router algorithms per packet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narrows import engine
from narrows.errors import UsageError

SCHEME_ROUNDS, ROUTER_ROUNDS = 201, 51
"""Default numbers of rounds."""


def schemes(names: list[str], repeats: int) -> list[dict[str, Any]]:
    """Measure the cost of an acknowledgement for some schemes, or all.

    Raises:
        UsageError: There is no such scheme.
    """
    check_schemes(names)
    return engine.bench_schemes(repeats, names)


def routers(names: list[str], repeats: int) -> list[dict[str, Any]]:
    """Measure the cost that some router algorithms, or all, add to their link.

    Raises:
        UsageError: There is no such router algorithm.
    """
    known = {row.name for row in engine.routers()}
    for name in names:
        if name not in known:
            raise UsageError(f"ROUTER: {engine.unknown_router(name)}")
    return engine.bench_routers(repeats, names)


def check_schemes(names: Sequence[str]) -> None:
    """Reject unknown schemes.

    Raises:
        UsageError: There is no such scheme.
    """
    for name in names:
        if name not in engine.scheme_order():
            raise UsageError(f"SCHEME: {engine.unknown_scheme(name)}")
