"""Words that differ between the old and the new build: the one place that knows them.

Scenario texts are translated to the words of the build that runs them, in either direction. Names in records (keys of
results, series of traces, labels of runs) are compared in the new words. A pair may be a word, `("allocator",
"router")`, or the value of a parameter, `("between=2", "between=drain")`. It stands for itself between characters that
are neither letters nor digits, so `allocator` covers `network.allocator` and the series `allocator_state`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

RENAMED: tuple[tuple[str, str], ...] = (
    ("allocators", "routers"),
    ("allocator", "router"),
    ("between=1", "between=cruise"),
    ("between=2", "between=drain"),
    ("between=3", "between=probe"),
    ("rtt=1", "rtt=smoothed"),
    ("rtt=2", "rtt=least"),
    ("predictor = 1", 'predictor = "ewma"'),
    ("predictor = 2", 'predictor = "holt"'),
)
"""Pairs of an old and a new word. No new word may be an old word of another pair."""

NUMBERED: Mapping[str, tuple[str, ...]] = {"predictor": ("present", "ewma", "holt")}
"""Parameters whose choices the old build numbers from zero, with their words."""

CHOICES = ("old", "new")


def translated(text: str, words: str) -> str:
    """A text in the words of the old or the new build."""
    for pair in RENAMED:
        old, new = pair if words == "new" else pair[::-1]
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(old)}(?![A-Za-z0-9]|\.\d)", new, text)
    return text


def chosen(key: str, value: Any) -> Any:
    """The word for a numbered choice of the parameter `key`; any other value as it is."""
    words = NUMBERED.get(key, ())
    return words[value] if isinstance(value, int) and value < len(words) else value


def normalised(value: Any) -> Any:
    """A value of JSON or TOML with every name in it in the new words.

    Raises:
        ValueError: Two keys of an object become one, so a difference could hide.
    """
    if isinstance(value, str):
        return translated(value, "new")
    if isinstance(value, Mapping):
        renamed = {translated(str(key), "new"): normalised(chosen(key, inner)) for key, inner in value.items()}
        if len(renamed) != len(value):
            raise ValueError(f"two keys become one: {', '.join(map(str, value))}")
        return renamed
    if isinstance(value, list | tuple):
        return [normalised(inner) for inner in value]
    return value


def scenario(text: str) -> Any:
    """The content of a scenario, without its comments, in the new words."""
    return normalised(tomllib.loads(text))
