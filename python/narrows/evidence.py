"""Which schemes are our own reconstructions, and how tables, plots and claims say so.

The registry knows it; no list is kept here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from narrows import engine

WORDS = "our reconstruction"
MARK = "†"
NOTE = f"{MARK} {WORDS}"
"""What stands below a table or a plot in which a mark is."""


@functools.cache
def reconstructions() -> frozenset[str]:
    """Names and aliases of the schemes whose published rule could not be obtained."""
    rows = [row for row in engine.schemes() if row.evidence == "reconstruction"]
    return frozenset(name for row in rows for name in (row.name, *row.aliases))


def marked(text: str) -> str:
    """A series or label, with a mark behind each scheme in it that is a reconstruction.

    A scheme stands at the start of a part between ", ": `bbq`, `bbq:alpha=3`, `bbq, 50 ms`.
    """
    return ", ".join(f"{part} {MARK}" if _scheme(part) in reconstructions() else part for part in text.split(", "))


def remark(schemes: Iterable[str]) -> str:
    """What is said of a claim about these schemes; empty if all of them are as published."""
    schemes = list(schemes)
    ours = [name for name in schemes if name in reconstructions()]
    if not ours:
        return ""
    return WORDS if len(schemes) == 1 else subject(ours)


def subject(names: Sequence[str]) -> str:
    """These schemes, as reconstructions: `bbq, bbr-acw: our reconstructions`."""
    return f"{', '.join(names)}: {WORDS}{'s' if len(names) > 1 else ''}"


def named_in(sql: str) -> set[str]:
    """The registered schemes, by their own names, that a query names in quotes: `'bbq'`, `'bbq:alpha=3'`, `'bbq%'`."""
    return named_among(text.lstrip("%") for text in re.findall(r"'([^']*)'", sql))


def named_among(texts: Iterable[str]) -> set[str]:
    """The registered schemes, by their own names, with which some of these texts begin."""
    rows, order = engine.schemes(), engine.scheme_order()
    return {rows[order[name]].name for name in map(_scheme, texts) if name in order}


def _scheme(text: str) -> str:
    start = re.match(r"[\w-]+", text)
    return start[0] if start else ""
