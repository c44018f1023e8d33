"""Marks our own reconstructions of schemes in tables, plots and claims.

The registry states the provenance of every scheme; this module keeps no list.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from narrows import engine

WORDS = "our reconstruction"
MARK = "†"
NOTE = f"{MARK} {WORDS}"
"""The footnote that explains the mark."""


@functools.cache
def reconstructions() -> frozenset[str]:
    """Return names and aliases of the schemes whose published rule could not be obtained."""
    rows = [row for row in engine.schemes() if row.provenance == "reconstruction"]
    return frozenset(name for row in rows for name in (row.name, *row.aliases))


def marked(text: str) -> str:
    """Append the mark to each reconstruction in a label.

    Labels join their parts by ", ", and a part may begin with a scheme: `NAME`, `NAME:KEY=VALUE`, `NAME, 50 ms`.
    """
    return ", ".join(f"{part} {MARK}" if _scheme(part) in reconstructions() else part for part in text.split(", "))


def remark(schemes: Iterable[str]) -> str:
    """Return the remark of a claim about these schemes; empty without a reconstruction."""
    schemes = list(schemes)
    ours = [name for name in schemes if name in reconstructions()]
    if not ours:
        return ""
    return WORDS if len(schemes) == 1 else subject(ours)


def subject(names: Sequence[str]) -> str:
    """Return the statement that these schemes are reconstructions: `A, B: our reconstructions`."""
    return f"{', '.join(names)}: {WORDS}{'s' if len(names) > 1 else ''}"


def named_in(sql: str) -> set[str]:
    """Return the primary names of the schemes that a query quotes: `'NAME'`, `'NAME:KEY=VALUE'`, `'NAME%'`."""
    return named_among(text.lstrip("%") for text in re.findall(r"'([^']*)'", sql))


def named_among(texts: Iterable[str]) -> set[str]:
    """Return the primary names of the schemes that begin any of these texts."""
    rows, order = engine.schemes(), engine.scheme_order()
    return {rows[order[name]].name for name in map(_scheme, texts) if name in order}


def _scheme(text: str) -> str:
    start = re.match(r"[\w-]+", text)
    return start[0] if start else ""
