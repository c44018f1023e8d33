"""What was found, in sentences. Their numbers come from the results, and each says under which condition it is true."""

from __future__ import annotations

from typing import NamedTuple

from data import Data


class Finding(NamedTuple):
    """A sentence, and whether it is true."""

    text: str
    holds: bool


def of(data: Data) -> dict[str, list[Finding]]:
    """All findings, by the section of the page."""
    return {}
