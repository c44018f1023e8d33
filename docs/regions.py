"""Regions of pages, between `<!-- NAME -->` and `<!-- /NAME -->`, and tables for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def filled(page: Path, contents: Mapping[str, str]) -> str:
    """The text of a page with the contents of its regions replaced.

    Raises:
        SystemExit: A region is absent, or occurs more than once.
    """
    text = page.read_text(encoding="utf-8")
    for name, content in contents.items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise SystemExit(f"{page} needs the region {name!r} exactly once")
        text = text[: text.index(start) + len(start)] + content.removesuffix("\n") + "\n" + text[text.index(end) :]
    return text


def fill(page: Path, contents: Mapping[str, str]) -> None:
    """Write the contents of regions to a page."""
    page.write_text(filled(page, contents), encoding="utf-8")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], rule: str | None = None) -> str:
    """A Markdown table; without a rule, all columns but the first are aligned to the right."""
    rule = rule or "|---|" + "---:|" * (len(heads) - 1)
    return "\n".join([f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)])
