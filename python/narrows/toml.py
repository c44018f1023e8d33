"""Writes TOML; the standard library has a parser only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from narrows.errors import UsageError

CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Control characters except tabulators and line breaks."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(data: Mapping[str, Any]) -> str:
    """Format plain values, lists and dictionaries as a TOML document. Keys whose value is `None` are left out.

    Raises:
        UsageError: TOML cannot express the type of a value.
    """
    lines: list[str] = []
    _write_table(data, (), lines)
    return "\n".join(lines).strip() + "\n"


def inline(value: Any, key: str = "") -> str:
    """Format one value; a dictionary becomes an inline table.

    Args:
        value: Text, a number, a flag, a list or a dictionary.
        key: The key to name in an error.

    Raises:
        UsageError: TOML cannot express the type of the value.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(inline(item, key) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {inline(item, name)}" for name, item in value.items()) + "}"
    place = f"{key}: " if key else ""
    raise UsageError(
        f"{place}a scenario cannot hold a value of type {type(value).__name__}; accepted: text, numbers, lists, tables"
    )


def check_controls(data: Any, key: str = "") -> None:
    """Refuse texts and keys with control characters: they would reach terminals and figures.

    Args:
        data: A parsed document.
        key: The key of the document.

    Raises:
        ValueError: A control character was found; the message states the key and the character.
    """
    if isinstance(data, Mapping):
        for name, value in data.items():
            inside = f"{key}.{name}" if key else str(name)
            check_controls(str(name), repr(inside))
            check_controls(value, inside)
    elif isinstance(data, list | tuple):
        for value in data:
            check_controls(value, key)
    elif isinstance(data, str) and (found := CONTROLS.search(data)):
        raise ValueError(f"{key}: the text has the control character {found[0]!r}; accepted: letters and line breaks")


def _write_table(data: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    """Append plain values first: TOML attributes every key to the last table header above it."""
    tables: list[tuple[str, Any]] = []
    for key, value in data.items():
        if isinstance(value, Mapping) or _is_table_array(value):
            tables.append((key, value))
        elif value is not None:
            lines.append(f"{_key(key)} = {inline(value, key)}")
    for key, value in tables:
        name = ".".join(_key(part) for part in (*path, key))
        for row in [value] if isinstance(value, Mapping) else value:
            lines += ["", f"[{name}]" if isinstance(value, Mapping) else f"[[{name}]]"]
            _write_table(row, (*path, key), lines)


def _is_table_array(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quoted(key)


def _quoted(text: str) -> str:
    out = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif ord(char) < 0x20 or ord(char) == 0x7F:
            out.append(f"\\u{ord(char):04X}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'
