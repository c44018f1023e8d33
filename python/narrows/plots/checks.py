"""The types of options, checked before a figure is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from narrows.arguments import is_text, shown
from narrows.errors import OptionError


def check_options(options: Mapping[str, Any]) -> None:
    """Reject values whose type does not fit their option.

    Raises:
        OptionError: The value is of another type.
    """
    for name, value in options.items():
        fits, accepted = CHECKS[name]
        if not fits(value):
            raise OptionError(name, f"{shown(value)} does not fit this option; accepted: {accepted}")


def _text(value: Any) -> bool:
    return value is None or is_text(value)


def _texts(value: Any) -> bool:
    return _text(value) or (isinstance(value, Sequence) and all(isinstance(part, str) for part in value))


def _flag(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _whole(least: int) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= least)

    return fits


def _one(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _where(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, Mapping) and all(
        isinstance(key, str)
        and (
            _one(one)
            or (isinstance(one, Sequence) and not isinstance(one, bytes) and len(one) > 0 and all(map(_one, one)))
        )
        for key, one in value.items()
    )


def _points(value: Any) -> bool:
    return isinstance(value, Sequence) and all(isinstance(part, Mapping) and {"x", "y"} <= set(part) for part in value)


_TEXT = (_text, "a text")
_COLUMN = (_text, "the name of a column")
_FLAG = (_flag, "True or False")
CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("x", "y", "z", "panel", "row", "table"), _COLUMN),
    **dict.fromkeys(("title", "xlabel", "ylabel", "sql"), _TEXT),
    **dict.fromkeys(("own_axes", "logx", "logy"), _FLAG),
    **dict.fromkeys(("series", "by"), (_texts, "the name of a column, or several")),
    "size": (_text, "column or page"),
    "where": (_where, "values by key, such as {'network.buffer': '1bdp'}"),
    "columns": (_whole(1), "a whole number from 1"),
    "run": (_whole(0), "a whole number from 0"),
    "points": (_points, "a list of points with x and y"),
}
"""For each option, whether a value fits it, and the accepted values in words."""
