"""The reference of scenario keys, from the engine's JSON schema of scenarios.

The schema's texts are the doc comments of the Rust types that parse a scenario, so a key documents itself where it is
defined. A default stands in parentheses at the end of the first sentence, or is the schema's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

QUANTITIES = (
    "Rate", "Time", "Size", "Share", "Buffer", "Amount", "Frequency", "Warmup", "Period",
)  # fmt: skip
FIRST = (
    "name",
    "duration",
    "warmup",
    "seed",
    "repeat",
    "literal",
    "network",
    "links",
    "tcp",
    "dccp",
    "flows",
    "trace",
    "sweep",
)
"""The order in which people write a file; other keys follow in alphabetical order."""
LITERAL = re.compile(r"-?[0-9][\w.%]*|true|false|on|off|bulk|dumbbell")


def regions(schema: Schema) -> dict[str, str]:
    """The generated regions of `docs/scenarios.md`, by name."""
    return {"quantities": quantities_region(schema), "keys": keys_region(schema)}


def quantities_region(schema: Schema) -> str:
    """The table of quantities and the texts that each accepts.

    Raises:
        SystemExit: The schema has a quantity that `QUANTITIES` lacks.
    """
    defs = schema["$defs"]
    missing = [name for name, row in defs.items() if "pattern" in row and name not in QUANTITIES]
    if missing:
        raise SystemExit(f"docs/scenario_keys.py: QUANTITIES lacks {', '.join(missing)}")
    rows = [f"| {name.lower()} | {defs[name]['description']} |" for name in QUANTITIES]
    return "\n".join(["| quantity | accepted |", "|---|---|", *rows, ""])


def keys_region(schema: Schema) -> str:
    """The tables of all keys."""
    defs = schema["$defs"]
    out = ["### Top level", "", *keys_table(schema, defs)]
    for title, name, accepted in tables(schema):
        about = " ".join(defs[name]["description"].split())
        if accepted is not None:
            about += f" Accepted: {accepted}."
        out += [f'<a id="{anchor(name)}"></a>', f"### `{title}`", "", about, ""]
        for kind, table in kinds(defs[name]).items():
            out += [f'`kind = "{kind}"`: {" ".join(table["description"].split())}', "", *keys_table(table, defs)]
        if "properties" in defs[name]:
            out += keys_table(defs[name], defs)
    return "\n".join(out).rstrip() + "\n"


def tables(schema: Schema) -> Iterator[tuple[str, str, str | None]]:
    """Every table of a scenario, breadth first: its title, its type and the text form that may replace it."""
    defs = schema["$defs"]
    waiting: list[tuple[str, Schema]] = [("", schema)]
    seen: set[str] = set()
    while waiting:
        path, table = waiting.pop(0)
        properties = {
            key: node for part in [table, *kinds(table).values()] for key, node in part.get("properties", {}).items()
        }
        for key in sorted(properties, key=lambda key: (place(key), key)):
            node = properties[key]
            options = defs.get(named(node) or "", {}).get("anyOf", ())
            # Some keys accept a list of tables or another form: document the list.
            node = next((option for option in options if "items" in option), node)
            listed = "array" in node.get("type", ()) and "items" in node
            name = named(node["items"] if listed else node)
            if name is None or name in seen or not ("properties" in defs[name] or kinds(defs[name])):
                continue
            seen.add(name)
            where = f"{path}.{key}" if path else key
            waiting.append((where, defs[name]))
            title = f"[[{where}]]" if listed else f"[{key}]" if not path else f"{where} = {{ … }}"
            yield title, name, text_form(node)


def kinds(table: Schema) -> dict[str, Schema]:
    """The tables that the key `kind` selects, without that key."""
    return {
        part["properties"]["kind"]["const"]: {
            **part,
            "properties": {key: node for key, node in part["properties"].items() if key != "kind"},
        }
        for part in table.get("oneOf", ())
        if "properties" in part
    }


def keys_table(table: Schema, defs: Mapping[str, Schema]) -> Iterator[str]:
    """The keys of one table, then the meaning of every value of its enumerations."""
    properties: Mapping[str, Schema] = table["properties"]
    if not properties:
        return
    required = table.get("required", ())
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    order = sorted(properties, key=lambda key: (key not in required, place(key) if "flows" in properties else 0, key))
    for key in order:
        text, default = meaning(properties[key], key in required)
        yield f"| `{key}` | {spelled(properties[key], defs)} | {default} | {text} |"
    for key in order:
        values = choices(properties[key], defs)
        if values:
            yield ""
        yield from (f'* `{key} = "{value}"`: {text}' for value, text in values.items())
    yield ""


def place(key: str) -> int:
    """The rank of a key within a file."""
    return FIRST.index(key) if key in FIRST else len(FIRST)


def named(node: Schema) -> str | None:
    """The definition of a key, also of an optional type."""
    if "$ref" in node:
        return str(node["$ref"]).rpartition("/")[2]
    inner = [named(option) for option in node.get("anyOf", ()) if option.get("type") != "null"]
    return next((name for name in inner if name is not None), None)


def text_form(node: Schema) -> str | None:
    """The text that a key accepts in place of a table, in words."""
    for option in node.get("anyOf", ()):
        found = option["description"] if option.get("type") == "string" else text_form(option)
        if found is not None:
            return str(found)
    return None


def spelled(node: Schema, defs: Mapping[str, Schema]) -> str:
    """The type of a value, in words."""
    types = node.get("type", ())
    types = [types] if isinstance(types, str) else [each for each in types if each != "null"]
    if "array" in types:
        inner = spelled(node["items"], defs)
        return f"list of {inner}s" if inner == "text" else f"list of {inner}"
    name = named(node)
    if name is None:
        if "object" in types:
            extra = node.get("additionalProperties", {})
            return "table" if not isinstance(extra, dict) or named(extra) is None else "table of values"
        words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true`, `false`"}
        return " or ".join(words[each] for each in types)
    target = defs[name]
    if name in QUANTITIES:
        return f"[{name.lower()}](#quantities)"
    if "anyOf" in target:
        return " or ".join(spelled(option, defs) for option in target["anyOf"])
    if "oneOf" in target and not kinds(target):
        return ", ".join(f"`{option['const']}`" for option in target["oneOf"])
    return f"text or [table](#{anchor(name)})" if text_form(node) else f"[table](#{anchor(name)})"


def anchor(name: str) -> str:
    """The anchor of a table."""
    return "table-" + re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def meaning(node: Schema, needed: bool) -> tuple[str, str]:
    """The description and the default of a key."""
    text = " ".join(str(node.get("description", "")).split())
    if needed:
        return text, "required"
    found = re.search(r" \(([^()]*)\)(?=[.;])", text)
    if found is not None:
        text = text[: found.start()] + text[found.end() :]
        default = "; ".join(literal(part.strip()) for part in found[1].split(";"))
        return text, default.replace("`off`", "`false`") if "boolean" in node.get("type", ()) else default
    default = node.get("default")
    if isinstance(default, str | bool | int | float) and default != "":
        return text, f"`{str(default).lower() if isinstance(default, bool) else default}`"
    return text, "–"


def literal(default: str) -> str:
    """A default as code if a file could contain it, else in words."""
    return f"`{default}`" if LITERAL.fullmatch(default) else default


def choices(node: Schema, defs: Mapping[str, Schema]) -> dict[str, str]:
    """The values of an enumeration with their meanings; empty for other keys."""
    name = named(node)
    target = defs[name] if name is not None else {}
    options = () if kinds(target) else target.get("oneOf", ())
    return {option["const"]: " ".join(option["description"].split()) for option in options}
