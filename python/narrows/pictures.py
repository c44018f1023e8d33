"""Plots as parts of a page: embedded bitmaps, with links to their vector versions beside the page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from urllib.parse import quote

from PIL import Image

COLOURS = 128
"""Colours of an embedded bitmap. Plots have few colours, and a palette takes a third of the bytes of true colour."""
BROAD = 900
"""Plots wider than this many pixels have several panels and get a row of their own."""
VECTORS = ("svg", "pdf")
"""The formats of the vector files beside the page."""


@dataclass(frozen=True)
class Picture:
    """A plot on a page."""

    source: str
    """The bitmap as a data URL."""
    width: int
    """In pixels, like the height."""
    height: int
    title: str
    alt: str
    """A description for readers who cannot see the plot."""
    links: dict[str, str]
    """The addresses of the vector versions, by format."""

    @property
    def broad(self) -> bool:
        """Whether the plot needs a row of its own."""
        return self.width > BROAD


def picture(png: bytes, stem: str, title: str, alt: str) -> Picture:
    """Return a plot as a part of a page.

    Args:
        png: The bitmap.
        stem: The path of its files relative to the page, without endings.
        title: The caption.
        alt: The description.
    """
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        width, height = image.size
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(buffer, "png", optimize=True)
    source = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
    return Picture(source, width, height, title, alt, {form: quote(f"{stem}.{form}") for form in VECTORS})
