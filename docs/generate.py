"""Writes what the documents take from the product: references, pages of schemes, printed outputs.

    python docs/generate.py            write all of it
    python docs/generate.py --check    write nothing; say what is not current, and end with status 1 if anything is
    python docs/generate.py --images   draw all pictures again

* Regions between `<!-- NAME -->` and `<!-- /NAME -->` are written from the engine's schema of scenarios.
* `docs/schemes` is written from the registry of schemes, one page each with two pictures (see `pictures.py`). A picture
  that is not there, or whose run has other events by now, is drawn.
* The outputs of commands and cells are what they print (see `blocks.py`).
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from blocks import ROOT, Document
from pictures import pictures, section, unneeded

DOCS = ROOT / "docs"
RUN = ("README.md", "docs/guide.md", "docs/scenarios.md", "docs/notebook.md", "docs/papers.md")
"""Documents whose blocks are run."""

Schema = Mapping[str, Any]

QUANTITIES = (
    "Rate", "Time", "Size", "Share", "Buffer", "Amount", "Frequency", "Warmup", "Period",
)  # fmt: skip
FIRST = ("name", "duration", "warmup", "seed", "repeat", "network", "links", "tcp", "dccp", "flows", "trace", "sweep")
"""The order in which a file is written; keys that are not here follow."""
LITERAL = re.compile(r"-?[0-9][\w.%]*|true|false|on|off|bulk|dumbbell")


def named(node: Schema) -> str | None:
    """The definition that a key's type is, looking through what may be absent."""
    if "$ref" in node:
        return str(node["$ref"]).rpartition("/")[2]
    inner = [named(option) for option in node.get("anyOf", ()) if option.get("type") != "null"]
    return next((name for name in inner if name is not None), None)


def text_form(node: Schema) -> str | None:
    """What a value may be that is a text or a table."""
    for option in node.get("anyOf", ()):
        found = option["description"] if option.get("type") == "string" else text_form(option)
        if found is not None:
            return str(found)
    return None


def spelled(node: Schema, defs: Mapping[str, Schema]) -> str:
    """What a value is."""
    kinds = node.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
    if "array" in kinds:
        inner = spelled(node["items"], defs)
        return f"list of {inner}s" if inner == "text" else f"list of {inner}"
    name = named(node)
    if name is None:
        if "object" in kinds:
            extra = node.get("additionalProperties", {})
            return "table" if not isinstance(extra, dict) or named(extra) is None else "table of values"
        words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true`, `false`"}
        return " or ".join(words[kind] for kind in kinds)
    target = defs[name]
    if name in QUANTITIES:
        return f"[{name.lower()}](#quantities)"
    if "oneOf" in target:
        return ", ".join(f"`{option['const']}`" for option in target["oneOf"])
    return f"text or [table](#{anchor(name)})" if text_form(node) else f"[table](#{anchor(name)})"


def anchor(name: str) -> str:
    """Where a table is described."""
    return "table-" + re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def meaning(node: Schema, kinds: Sequence[str], needed: bool) -> tuple[str, str]:
    """Description and default of a key. The default is in brackets at the description's end, or the schema's own."""
    text = " ".join(str(node.get("description", "")).split())
    if needed:
        return text, "needed"
    found = re.search(r" \(([^()]*)\)(?=[.;])", text)
    if found is not None:
        text = text[: found.start()] + text[found.end() :]
        default = "; ".join(of_kind(part.strip(), kinds) for part in found[1].split(";"))
        return text, default.replace("`off`", "`false`") if "boolean" in node.get("type", ()) else default
    default = node.get("default")
    if isinstance(default, str | bool | int | float) and default != "":
        return text, f"`{str(default).lower() if isinstance(default, bool) else default}`"
    return text, "–"


def of_kind(part: str, kinds: Sequence[str]) -> str:
    """A default, perhaps one of some kinds only (`pie: 15ms`); a kind without default needs the key."""
    head, colon, default = part.partition(": ")
    if kinds and all(kind in kinds for kind in head.split(", ")):
        return f"{head}: {literal(default)}" if colon else f"{head}: needed"
    return literal(part)


def literal(default: str) -> str:
    """A default as it is written in a file, or in words."""
    return f"`{default}`" if LITERAL.fullmatch(default) else default


def keys_table(table: Schema, defs: Mapping[str, Schema]) -> Iterator[str]:
    """A table of keys, and the values of those that name one of a few."""
    properties: Mapping[str, Schema] = table["properties"]
    required = table.get("required", ())
    kinds = choices(properties["kind"], defs) if "kind" in properties else {}
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    order = sorted(properties, key=lambda key: (key not in required, place(key) if "flows" in properties else 0, key))
    for key in order:
        text, default = meaning(properties[key], () if key == "kind" else tuple(kinds), key in required)
        yield f"| `{key}` | {spelled(properties[key], defs)} | {default} | {text} |"
    for key in order:
        values = choices(properties[key], defs)
        if values:
            yield ""
        yield from (f'* `{key} = "{value}"`: {text}' for value, text in values.items())
    yield ""


def place(key: str) -> int:
    """Where a key stands among those of a file."""
    return FIRST.index(key) if key in FIRST else len(FIRST)


def choices(node: Schema, defs: Mapping[str, Schema]) -> dict[str, str]:
    """The values of a key that names one of a few, with what they mean."""
    name = named(node)
    target = defs[name] if name is not None else {}
    return {option["const"]: " ".join(option["description"].split()) for option in target.get("oneOf", ())}


def tables(schema: Schema) -> Iterator[tuple[str, str, str | None]]:
    """Every table of a scenario, the nearest first: where it is, its name, and what else may stand in its place."""
    defs = schema["$defs"]
    waiting: list[tuple[str, Schema]] = [("", schema)]
    seen: set[str] = set()
    while waiting:
        path, table = waiting.pop(0)
        for key in sorted(table["properties"], key=lambda key: (place(key), key)):
            node = table["properties"][key]
            listed = "array" in node.get("type", ()) and "items" in node
            name = named(node["items"] if listed else node)
            if name is None or name in seen or "properties" not in defs[name]:
                continue
            seen.add(name)
            where = f"{path}.{key}" if path else key
            waiting.append((where, defs[name]))
            title = f"[[{where}]]" if listed else f"[{key}]" if not path else f"{where} = {{ … }}"
            yield title, name, text_form(node)


def keys_region(schema: Schema) -> str:
    """The reference of all keys."""
    defs = schema["$defs"]
    out = ["### The file itself", "", *keys_table(schema, defs)]
    for title, name, accepted in tables(schema):
        about = " ".join(defs[name]["description"].split())
        if accepted is not None:
            about += f" Accepted: {accepted}."
        out += [f'<a id="{anchor(name)}"></a>', f"### `{title}`", "", about, "", *keys_table(defs[name], defs)]
    return "\n".join(out).rstrip() + "\n"


def quantities_region(schema: Schema) -> str:
    """What texts with units are accepted."""
    defs = schema["$defs"]
    missing = [name for name, row in defs.items() if "pattern" in row and name not in QUANTITIES]
    if missing:
        raise SystemExit(f"docs/generate.py: QUANTITIES lacks {', '.join(missing)}")
    rows = [f"| {name.lower()} | {defs[name]['description']} |" for name in QUANTITIES]
    return "\n".join(["| quantity | accepted |", "|---|---|", *rows, ""])


def scheme_page(row: Any) -> str:
    """The page of a scheme: its essay, its pictures and its parameters."""
    aliases = f" It is also called {', '.join(f'`{name}`' for name in row.aliases)}." if row.aliases else ""
    head, _, rest = row.page.strip().partition("\n")
    facts = (
        f"`{row.name}`: {row.summary}.{aliases}\n\n"
        f"Evidence: {EVIDENCE[row.evidence]} Recovery: {RECOVERY[row.recovery]}\n"
    )
    out = [NOTICE, "", head, "", facts, rest.strip(), "", *section(row.name), "## Parameters", ""]
    if row.params:
        out += [f"Set them after a colon: `{row.name}:{example(row.params[0])}`.", "", *params_table(row.params)]
    else:
        out.append("It has none.")
    return "\n".join(out).rstrip() + "\n"


NOTICE = "<!-- Written by docs/generate.py from the head of the scheme's file. -->"
EVIDENCE = {
    "verified": "the published rule or the authors' code was read, and this follows it but for the differences listed.",
    "reconstruction": (
        "the published rule, or a part of it, could not be obtained; this is our reconstruction, and the text says "
        "what of it is known."
    ),
    "tool": "none; it is a tool for tests.",
}
GROUPS = {
    "verified": (
        "As published",
        "The published rule or the authors' code was read, and these follow it but for the differences listed.",
    ),
    "reconstruction": (
        "Our reconstructions",
        "The published rule, or a part of it, could not be obtained. The page says what is known and what is ours;\n"
        "tables and plots mark these with a †.",
    ),
    "tool": ("Tools for tests", "Schemes that no paper describes."),
}
"""Evidence of schemes: the head of its list, and what is said of it."""
RECOVERY = {
    "own": "the scheme sets its window during recovery itself.",
    "prr": "the transport shapes the window during recovery (proportional rate reduction, RFC 6937).",
}


def example(param: Mapping[str, Any]) -> str:
    """A parameter with its default, as a command line sets it."""
    value = str(bool(param["default"])).lower() if param["kind"] == "flag" else f"{param['default']:g}"
    return f"{param['name']}={value}"


def params_table(params: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The parameters of a scheme."""
    yield "| parameter | default | accepted | unit | meaning |"
    yield "|---|---|---|---|---|"
    for row in params:
        if row["kind"] == "flag":
            default, accepted = str(bool(row["default"])).lower(), "`true`, `false`"
        else:
            default, accepted = f"{row['default']:g}", f"{row['min']:.10g} to {row['max']:.10g}"
        yield f"| `{row['name']}` | `{default}` | {accepted} | {row['unit'] or '–'} | {row['help']} |"


def allocator_page(row: Any) -> str:
    """The page of an allocator: its essay and its parameters."""
    head, _, rest = row.page.strip().partition("\n")
    facts = f"`{row.name}`: {row.summary}.\n\nEvidence: {EVIDENCE[row.evidence]}\n"
    keys = f'They are keys beside `kind`: `allocator = {{ kind = "{row.name}", … }}`.'
    out = [NOTICE.replace("scheme", "allocator"), "", head, "", facts, rest.strip(), "", "## Parameters", ""]
    return "\n".join([*out, keys, "", *params_table(row.params)]).rstrip() + "\n"


def allocators_list(rows: Sequence[Any]) -> str:
    """The list of allocators."""
    out = [
        "<!-- Written by docs/generate.py from the registry of allocators. -->", "", "# Allocators", "",
        "An allocator is what a port of a node does to take part in congestion control: `network.allocator` and",
        "`links.allocator` in a [scenario](../scenarios.md) place it; in a dumbbell the scheme that needs one brings",
        "its own. The same texts are printed by `narrows allocators NAME`.", "",
        "| allocator | what it does | parameters |", "|---|---|---|",
    ]  # fmt: skip
    out += [
        f"| [`{row.name}`]({row.name}.md) | {row.summary} | [{len(row.params)}]({row.name}.md#parameters) |"
        for row in rows
    ]
    return "\n".join([*out, "", "How to add one: [CONTRIBUTING.md](../../CONTRIBUTING.md).", ""])


def schemes_list(rows: Sequence[Any]) -> str:
    """The list of schemes."""
    out = [
        "<!-- Written by docs/generate.py from the registry of schemes. -->", "", "# Schemes", "",
        "A page says what a scheme does, its law with symbols and units, its states, what was read, and in what it",
        "differs from that on purpose. The same text is at the head of the scheme's file, and `narrows schemes NAME`",
        "prints it. Two pictures show a flow's life alone and against another scheme.", "",
    ]  # fmt: skip
    for evidence, (title, about) in GROUPS.items():
        group = [row for row in rows if row.evidence == evidence]
        if not group:
            continue
        out += [f"## {title}", "", about, "", "| scheme | what it does | parameters |", "|---|---|---|"]
        for row in group:
            aliases = "".join(f" (`{name}`)" for name in row.aliases)
            link = f"[{len(row.params)}]({row.name}.md#parameters)" if row.params else "–"
            out.append(f"| [`{row.name}`]({row.name}.md){aliases} | {row.summary} | {link} |")
        out.append("")
    return "\n".join([*out, "How to add one: [CONTRIBUTING.md](../../CONTRIBUTING.md).", ""])


def in_region(text: str, name: str, content: str) -> str:
    """The text with the content of a region replaced."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if text.count(start) != 1 or text.count(end) != 1:
        raise SystemExit(f"docs/generate.py: the region {name!r} must be there once")
    return text[: text.index(start) + len(start)] + content + text[text.index(end) :]


def references() -> dict[Path, str]:
    """Everything that is written from schema and registry."""
    from narrows import engine

    schema = engine.schema()
    page = DOCS / "scenarios.md"
    text = page.read_text(encoding="utf-8")
    for name, content in (("quantities", quantities_region(schema)), ("keys", keys_region(schema))):
        text = in_region(text, name, content)
    rows = engine.schemes()
    schemes = {DOCS / "schemes" / f"{row.name}.md": scheme_page(row) for row in rows}
    allocators = {DOCS / "allocators" / f"{row.name}.md": allocator_page(row) for row in engine.allocators()}
    return {
        page: text,
        DOCS / "schemes" / "README.md": schemes_list(rows),
        **schemes,
        DOCS / "allocators" / "README.md": allocators_list(engine.allocators()),
        **allocators,
    }


def with_outputs(path: Path) -> str:
    """The document with the outputs that its blocks have now."""
    with tempfile.TemporaryDirectory(prefix="narrows-docs-") as folder:
        return Document(path, Path(folder)).run()


def images() -> None:
    """Draw the pictures of the documents."""
    import narrows
    from narrows import plots

    run = narrows.compare("bbr", "cubic", rate="100mbit", rtt="40ms", buffer="4bdp", trace="50ms")
    series = ["inflight_bytes", "rtt_ms", "queue_pkt"]
    title = "BBR and CUBIC share 100 Mbit/s, 40 ms, buffer 4 BDP"
    plots.save(run.plot("time", series=series, title=title), DOCS / "images" / "bbr-cubic.png")
    sweep = narrows.run(ROOT / "scenarios" / "bbr-vs-cubic.toml")
    plots.save(sweep.plot("share"), DOCS / "images" / "share.png")


def settle_pictures(check: bool, *, runs: bool, again: bool) -> int:
    """Draw the pictures of schemes that are missing or stale, or count them."""
    from narrows import engine

    found = 0
    for path in unneeded(engine.schemes()):
        found += 1
        print(f"{path.name} is of no scheme" + ("; `make docs` removes it" if check else ", removed"))
        if not check:
            path.unlink()
    for picture in (picture for row in engine.schemes() for picture in pictures(row.name)):
        there = picture.path.is_file()
        current = there and (not runs or picture.drawn() == picture.now())
        found += not current
        if check and not current:
            why = "shows a run that the engine does no more" if there else "is not there"
            print(f"{picture.path.name} {why}; `make docs` draws it")
        elif not check and (again or not current):
            picture.draw()
            print(f"drew {picture.path.name}")
    return found


def main() -> int:
    """Write, or compare."""
    arguments = argparse.ArgumentParser(description="Write what the documents take from the product.")
    arguments.add_argument("--check", action="store_true", help="write nothing; status 1 if something is not current")
    arguments.add_argument("--references", action="store_true", help="do not run what the documents show")
    arguments.add_argument("--images", action="store_true", help="draw all pictures again; with --check, do their runs")
    asked = arguments.parse_args()
    stale = 0

    def settle(path: Path, text: str | None) -> None:
        nonlocal stale
        old = path.read_text(encoding="utf-8") if path.is_file() else None
        if old == text:
            return
        stale += 1
        name = path.relative_to(ROOT)
        if asked.check:
            there, current = (old or "").splitlines(), (text or "").splitlines()
            lines = list(difflib.unified_diff(there, current, f"{name}", "current", n=0, lineterm=""))
            print("\n".join([f"{name} is not current; `make docs` writes it", *lines[:40]]))
        elif text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")

    if asked.images and not asked.check:
        images()
    stale += settle_pictures(asked.check, runs=asked.images or not asked.references, again=asked.images)
    written = references()
    for path, text in written.items():
        settle(path, text)
    for path in sorted((DOCS / "schemes").glob("*.md")):
        if path not in written:  # of a scheme that is no more
            settle(path, None)
    if not asked.references:
        for name in RUN:
            settle(ROOT / name, with_outputs(ROOT / name))
    return 1 if asked.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
