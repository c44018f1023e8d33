"""Options of several groups: `--set`, and whole numbers, whose errors name the value and what is accepted."""

from __future__ import annotations

import re
from typing import Any

import typer

from narrows.cli.outcome import USAGE_ERROR, fail


def whole(
    flag: str,
    least: int,
    most: int | None = None,
    *,
    help: str,  # noqa: A002 (named like typer's)
    names: tuple[str, ...] = (),
    metavar: str = "N",
    panel: str | None = None,
) -> Any:
    """Return an option that takes a whole number.

    Args:
        flag: The option that errors name.
        least: The least accepted value.
        most: The greatest accepted value, if there is one.
        help: The help text.
        names: All spellings, if there are several.
        metavar: The placeholder of the value in help texts.
        panel: The heading of the option in help texts.
    """

    def parse(value: Any) -> int:
        return checked(flag, str(value), least, most)

    return typer.Option(*names, help=help, metavar=metavar, min=least, max=most, parser=parse, rich_help_panel=panel)


def parameters(of: str) -> Any:
    """Return the option that sets parameters of a scheme or router algorithm; `pairs` parses its values."""
    return typer.Option("--set", metavar="KEY=VALUE", help=f"Set a parameter of the {of} (repeatable).")


def checked(flag: str, text: str, least: int, most: int | None = None) -> int:
    """Parse a whole number; end the command with a message if the text is no whole number, or out of range."""
    accepted = f"accepted: a whole number from {least}{'' if most is None else f' to {most}'}"
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        fail(f"{flag}: `{text}` is not a whole number; {accepted}", USAGE_ERROR)
    number = int(text)
    if number < least or (most is not None and number > most):
        fail(f"{flag}: `{text}` is too {'small' if number < least else 'large'}; {accepted}", USAGE_ERROR)
    return number
