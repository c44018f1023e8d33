"""`narrows schemes` and `routers`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from narrows import engine
from narrows.cli.outcome import USAGE_ERROR, fail, guarded, print_table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: a list, or one object with NAME.")]
PROVENANCE = {"reconstruction": "the published rule, or a part of it, could not be obtained"}
"""Explanations of provenances."""


@guarded
def schemes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this scheme.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the schemes, or show one: its control law, parameters and references."""
    rows = engine.schemes()
    if name is not None:
        place = engine.scheme_order().get(name)
        if place is None:
            fail(f"NAME: {engine.unknown_scheme(name)}", USAGE_ERROR)
        rows = (rows[place],)
    fields = ("name", "aliases", "summary", "provenance", "recovery", "params")
    _show("scheme", rows, fields, one=name is not None, as_json=as_json)


@guarded
def routers(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this router algorithm.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the router algorithms, or show one: its control law, parameters and references."""
    rows = engine.routers()
    if name is not None:
        rows = tuple(row for row in rows if row.name == name)
        if not rows:
            fail(f"NAME: {engine.unknown_router(name)}", USAGE_ERROR)
    fields = ("name", "summary", "provenance", "params")
    _show("router", rows, fields, one=name is not None, as_json=as_json)


def _show(kind: str, rows: Sequence[Any], fields: Sequence[str], *, one: bool, as_json: bool) -> None:
    """Print a registry, or one of its entries with its page."""
    if as_json:
        shown = (*fields, "page") if one else fields
        listed = [{field: getattr(row, field) for field in shown} for row in rows]
        print(json.dumps(listed[0] if one else listed, ensure_ascii=False))
    elif one:
        print_table(_entry(rows[0]), width=120)  # state diagrams must not wrap
    else:
        print_table(_listing(kind, rows))


def _entry(row: Any) -> Any:
    from rich.console import Group
    from rich.markdown import Markdown
    from rich.text import Text

    from narrows import provenance

    aliases = getattr(row, "aliases", ())
    also = f" (also {', '.join(aliases)})" if aliases else ""
    source = row.provenance
    if source in PROVENANCE:
        source = f"{provenance.WORDS}; {PROVENANCE[source]}"
    recovery = f" Recovery: {row.recovery}." if hasattr(row, "recovery") else ""
    purpose = row.summary
    if purpose.lower().startswith(f"{row.name.lower()}: "):  # the head has the name
        purpose = purpose[len(row.name) + 2 :]
    head = Text(f"{row.name}{also}: {purpose}\nProvenance: {source}.{recovery}\n")
    parts: list[Any] = [head, Markdown(row.page)]
    if row.params:
        parts += [Text(""), _parameters(row.params)]
    return Group(*parts)


def _listing(kind: str, rows: Sequence[Any]) -> Any:
    from narrows.tables import plain_table

    table = plain_table()
    table.add_column(kind, no_wrap=True)
    table.add_column("purpose")
    table.add_column("provenance", no_wrap=True)
    for row in rows:
        aliases = getattr(row, "aliases", ())
        also = f"\n({', '.join(aliases)})" if aliases else ""
        table.add_row(row.name + also, row.summary, row.provenance)
    return table


def _parameters(params: Sequence[Mapping[str, Any]]) -> Any:
    from narrows.tables import plain_table

    table = plain_table()
    for title in ("parameter", "default", "accepted", "meaning"):
        table.add_column(title, no_wrap=title in ("parameter", "default"))
    for row in params:
        unit = f" {row['unit']}" if row.get("unit") else ""
        if row["kind"] == "flag":
            default, accepted = str(bool(row["default"])).lower(), "true, false"
        elif row["kind"] == "choice":
            default, accepted = row["default"], ", ".join(row["choices"])
        else:
            low, high = (f"{row[end]:.10g}" if row.get(end) is not None else "" for end in ("min", "max"))
            default, accepted = f"{row['default']:g}{unit}", f"{low} … {high}{unit}"
        table.add_row(row["name"], default, accepted, row["help"])
    return table
