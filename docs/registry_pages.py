"""The pages of schemes and router algorithms, from their registries.

The text of a page is the module documentation of the file that implements it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pictures import section

NOTICE = "<!-- Written by docs/generate.py from the module documentation of the {kind}. -->"
PROVENANCE = {
    "verified": "we read the published rule or the authors' code; this follows it except for the differences listed.",
    "reconstruction": (
        "we could not obtain the published rule, or a part of it. This is our reconstruction; the text states which "
        "parts are known."
    ),
    "tool": "none; this is a tool for tests.",
}
GROUPS = {
    "verified": (
        "As published",
        "We read the published rule or the authors' code. These schemes follow it except for the differences listed.",
    ),
    "reconstruction": (
        "Our reconstructions",
        "We could not obtain the published rule, or a part of it. Each page separates the known rule from our\n"
        "additions. Tables and plots mark these schemes with a †.",
    ),
    "tool": ("Tools for tests", "No paper describes these."),
}
"""Provenance of schemes: the heading of each list and its introduction."""
RECOVERY = {
    "own": "the scheme sets its congestion window during recovery itself.",
    "prr": "the transport shapes the congestion window during recovery (proportional rate reduction, RFC 6937).",
}
ADD = "How to add one: [CONTRIBUTING.md](../../CONTRIBUTING.md)."


def scheme_pages(folder: Path, rows: Sequence[Any]) -> dict[Path, str]:
    """The pages of all schemes, and their list."""
    return {folder / "README.md": schemes_list(rows), **{folder / f"{row.name}.md": scheme_page(row) for row in rows}}


def router_pages(folder: Path, rows: Sequence[Any]) -> dict[Path, str]:
    """The pages of all router algorithms, and their list."""
    return {folder / "README.md": routers_list(rows), **{folder / f"{row.name}.md": router_page(row) for row in rows}}


def scheme_page(row: Any) -> str:
    """The page of a scheme: documentation, pictures and parameters."""
    aliases = f" Aliases: {', '.join(f'`{name}`' for name in row.aliases)}." if row.aliases else ""
    head, _, rest = row.page.strip().partition("\n")
    facts = (
        f"`{row.name}`: {row.summary}.{aliases}\n\n"
        f"Provenance: {PROVENANCE[row.provenance]} Recovery: {RECOVERY[row.recovery]}\n"
    )
    out = [NOTICE.format(kind="scheme"), "", head, "", facts, rest.strip(), "", *section(row.name)]
    out += ["## Parameters", ""]
    if row.params:
        out += [f"Set them after a colon: `{row.name}:{example(row.params[0])}`.", "", *params_table(row.params)]
    else:
        out.append("None.")
    return "\n".join(out).rstrip() + "\n"


def router_page(row: Any) -> str:
    """The page of a router algorithm: documentation and parameters."""
    head, _, rest = row.page.strip().partition("\n")
    facts = f"`{row.name}`: {row.summary}.\n\nProvenance: {PROVENANCE[row.provenance]}\n"
    keys = f'Set them as keys beside `kind`: `router = {{ kind = "{row.name}", … }}`.'
    out = [NOTICE.format(kind="router algorithm"), "", head, "", facts, rest.strip(), "", "## Parameters", ""]
    return "\n".join([*out, keys, "", *params_table(row.params)]).rstrip() + "\n"


def schemes_list(rows: Sequence[Any]) -> str:
    """The list of schemes, by provenance."""
    out = [
        "<!-- Written by docs/generate.py from the registry of schemes. -->", "", "# Schemes", "",
        "Each page states the idea, the control law with symbols and units, the states, the references with the",
        "version read, and every deliberate difference. `narrows schemes NAME` prints the same text, the module",
        "documentation of the scheme. Two pictures show a flow alone and against another scheme.", "",
    ]  # fmt: skip
    for provenance, (title, about) in GROUPS.items():
        group = [row for row in rows if row.provenance == provenance]
        if not group:
            continue
        out += [f"## {title}", "", about, "", "| scheme | control law in one line | parameters |", "|---|---|---|"]
        for row in group:
            aliases = "".join(f" (`{name}`)" for name in row.aliases)
            link = f"[{len(row.params)}]({row.name}.md#parameters)" if row.params else "–"
            out.append(f"| [`{row.name}`]({row.name}.md){aliases} | {row.summary} | {link} |")
        out.append("")
    return "\n".join([*out, ADD, ""])


def routers_list(rows: Sequence[Any]) -> str:
    """The list of router algorithms."""
    out = [
        "<!-- Written by docs/generate.py from the registry of router algorithms. -->", "", "# Router algorithms", "",
        "A router algorithm runs at the port of a link and assigns rates to flows. The keys `network.router` and",
        "`links.router` of a [scenario](../scenarios.md) place it; in a dumbbell a scheme that needs one brings its",
        "own. `narrows routers NAME` prints the same texts. [Explicit-rate networks](../topics/explicit-rates.md)",
        "shows them at work.", "",
        "| router algorithm | rule in one line | parameters |", "|---|---|---|",
    ]  # fmt: skip
    out += [
        f"| [`{row.name}`]({row.name}.md) | {row.summary} | [{len(row.params)}]({row.name}.md#parameters) |"
        for row in rows
    ]
    return "\n".join([*out, "", ADD, ""])


def example(param: Mapping[str, Any]) -> str:
    """A parameter with its default, as the command line accepts it."""
    value = param["default"]
    if param["kind"] != "choice":
        value = str(bool(value)).lower() if param["kind"] == "flag" else f"{value:g}"
    return f"{param['name']}={value}"


def params_table(params: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A table of parameters."""
    yield "| parameter | default | accepted | unit | meaning |"
    yield "|---|---|---|---|---|"
    for row in params:
        if row["kind"] == "flag":
            default, accepted = str(bool(row["default"])).lower(), "`true`, `false`"
        elif row["kind"] == "choice":
            default, accepted = row["default"], ", ".join(f"`{word}`" for word in row["choices"])
        else:
            default, accepted = f"{row['default']:g}", f"{row['min']:.10g} to {row['max']:.10g}"
        yield f"| `{row['name']}` | `{default}` | {accepted} | {row['unit'] or '–'} | {row['help']} |"
