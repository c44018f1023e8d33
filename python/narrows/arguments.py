"""Checks the types of the library's arguments: one style of message for all functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from narrows.errors import UsageError

Check = tuple[Callable[[Any], bool], str]


def check_arguments(**given: Any) -> None:
    """Refuse arguments that do not fit their entry in `KINDS`; `None` is accepted where it is a default.

    Raises:
        UsageError: An argument does not fit; the message names it, its value and the accepted values.
    """
    for name, value in given.items():
        fits, accepted = KINDS[name]
        if not fits(value):
            raise UsageError(f"{name}: {shown(value)} does not fit; accepted: {accepted}")


def shown(value: Any, most: int = 80) -> str:
    """Format a value for a message, in at most `most` characters."""
    try:
        text = repr(value)
    except Exception:  # a value may have any `__repr__`
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def is_text(value: Any) -> bool:
    """Whether a value is a string without NUL that UTF-8 can encode."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _optional(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


def _texts(value: Any) -> bool:
    return is_text(value) or (isinstance(value, Sequence) and not isinstance(value, bytes) and all(map(is_text, value)))


def _path(value: Any) -> bool:
    try:
        return isinstance(value, str | os.PathLike) and is_text(os.fspath(value))
    except TypeError:
        return False


def _paths(value: Any) -> bool:
    return _path(value) or (isinstance(value, Sequence) and len(value) > 0 and all(map(_path, value)))


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 63


is_count = _whole(0)
"""Whether a value is a count: a whole number that the engine accepts."""


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _table(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(is_text, value))


KINDS: Mapping[str, Check] = {
    "scenario": (
        lambda value: _path(value) or _table(value),
        "a path, a TOML text, or a dictionary with texts as keys",
    ),
    "schemes": (lambda value: all(map(is_text, value)), "texts, one per flow: names that `narrows schemes` lists"),
    "rate": (is_text, "a text with a unit, such as '100mbit'"),
    "buffer": (is_text, "a text with a unit, such as '1bdp'"),
    "rtt": (_texts, "a text with a unit, such as '40ms', or a list of them"),
    "start": (_optional(_texts), "a text with a unit, such as '5s', or a list of them"),
    "stop": (_optional(_texts), "a text with a unit, such as '5s', or a list of them"),
    "count": (_whole(1), "a whole number from 1"),
    "each": (_flag, "True or False"),
    "ecn": (_flag, "True or False"),
    "allow_outside": (_flag, "True or False"),
    "queue": (_optional(is_text), "a text, such as 'fq_codel'"),
    "loss": (_optional(is_text), "a text, such as '1%'"),
    "ack_every": (_optional(_whole(1)), "a whole number from 1"),
    "seed": (_optional(is_count), "a whole number from 0"),
    "repeat": (_optional(_whole(1)), "a whole number from 1"),
    "duration": (_optional(is_text), "a text with a unit, such as '60s'"),
    "set": (_optional(_table), "a dictionary of keys and values, such as {'network.buffer': '1bdp'}"),
    "grid": (_table, "a dictionary of keys and lists of values, such as {'network.buffer': ['1bdp', '4bdp']}"),
    "trace": (lambda value: _flag(value) or is_text(value), "True, False, or an interval such as '10ms'"),
    "out": (_optional(_path), "the path of a folder"),
    "jobs": (_optional(_whole(1)), "a whole number from 1"),
    "on": (is_text, "a text: sim, kernel or shim"),
    "kind": (is_text, "a text, such as '5g'"),
    "mean": (_optional(is_text), "a text with a unit, such as '150mbit'"),
    "peak": (_optional(is_text), "a text with a unit, such as '1gbit'"),
    "handovers": (_optional(is_text), "a text with a unit, such as '12s'"),
    "delay": (_optional(is_text), "a text with a unit, such as '10ms'"),
    "directory": (_path, "the path of a folder"),
    "paths": (_paths, "the path of a qlog file, or a list of them"),
}
"""For each argument, whether a value fits it, and the accepted values in words."""


def pairs(sets: Sequence[str]) -> list[tuple[str, str]]:
    """Parse the parameters of `--set`, each `KEY=VALUE`.

    Raises:
        UsageError: A parameter has no equals sign.
    """
    values = []
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set: `{text}` sets nothing; accepted: KEY=VALUE")
        values.append((key.strip(), value.strip()))
    return values
