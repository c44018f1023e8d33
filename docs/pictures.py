"""The pictures on the pages of schemes: a flow's life alone, and against another scheme.

A picture is made by the two commands that its page shows, so a scheme that is registered has its pictures. The hash of
the run's events is kept in the picture and shown on the page: a stale picture is noticed by running, without drawing.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blocks import ROOT

FOLDER = ROOT / "docs" / "schemes" / "images"
RIVALS = ("cubic", "newreno")
"""Whom a scheme meets; the second is for the first."""
PATH = ("--rate", "100mbit", "--rtt", "40ms")
COLOURS = 64
"""A palette of so many makes a file a third as large, and no difference that is seen."""
KEY = "Event hash"


@dataclass(frozen=True)
class Picture:
    """One picture of a scheme."""

    scheme: str
    name: str
    flows: tuple[str, ...]
    about: str
    shows: str
    options: tuple[str, ...]
    trace: str
    panels: str

    @property
    def path(self) -> Path:
        """Its file."""
        return FOLDER / f"{self.name}.png"

    def run(self) -> list[str]:
        """The command that makes the run, without what it records."""
        return ["compare", *self.flows, *PATH, *self.options]

    def commands(self, folder: str, target: str) -> Iterator[list[str]]:
        """The commands that make it."""
        yield [*self.run(), "--trace", self.trace, "-o", folder]
        yield ["plot", folder, "--series", self.panels, "-o", target]

    def section(self) -> Iterator[str]:
        """What its page shows."""
        run, plot = (f"narrows {shlex.join(command)}" for command in self.commands(self.name, f"{self.name}.png"))
        yield from (self.about, "", f"![{self.shows}](images/{self.path.name})", "")
        head, _, tail = plot.partition(" -o ")
        yield from ("```sh", run, f"{head} \\", f"    -o {tail}", "```", "")
        yield from (f"The events of this run have the hash `{self.drawn()}`.", "")

    def drawn(self) -> str:
        """The hash of the run that the file shows."""
        return stored(self.path) or "none: there is no picture yet"

    def now(self) -> str:
        """The hash that the run has with the present engine. Sampling is part of it, keeping the samples not."""
        return str(json.loads(narrows([*self.run(), "--set", f"trace.samples={self.trace}", "--json"]))["event_hash"])

    def draw(self) -> None:
        """Make it by its commands."""
        from PIL import Image
        from PIL.PngImagePlugin import PngInfo

        from narrows.results import Results

        with tempfile.TemporaryDirectory(prefix="narrows-picture-") as folder:
            target = Path(folder) / "picture.png"
            for command in self.commands(f"{folder}/run", str(target)):
                narrows(command)
            info = PngInfo()
            info.add_text(KEY, Results.load(f"{folder}/run").raw[0]["event_hash"])
            self.path.parent.mkdir(parents=True, exist_ok=True)
            few = Image.open(target).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
            few.save(self.path, optimize=True, pnginfo=info)


def pictures(scheme: str) -> tuple[Picture, Picture]:
    """The pictures of a scheme."""
    rival = next(name for name in RIVALS if name != scheme)
    rates = "pacing_mbit_s+bw_estimate_mbit_s"
    alone = Picture(
        scheme, f"{scheme}-alone", (scheme,), "Alone, with a buffer of 1 BDP:",
        f"Window, rates where it paces, round-trip time and queue of a lone {scheme} flow over 25 s",
        ("--buffer", "1bdp", "--duration", "25s"), "20ms", f"cwnd_bytes+inflight_bytes,{rates},rtt_ms,queue_pkt",
    )  # fmt: skip
    shared = Picture(
        scheme, f"{scheme}-against-{rival}", (scheme, rival), f"Against `{rival}`, with a buffer of 2 BDP:",
        f"Throughputs, data in flight and queue of a {scheme} and a {rival} flow over 30 s",
        ("--buffer", "2bdp", "--duration", "30s"), "200ms", "throughput_mbit_s,inflight_bytes,queue_pkt",
    )  # fmt: skip
    return alone, shared


def section(scheme: str) -> Iterator[str]:
    """The pictures on a scheme's page."""
    yield from ("## In pictures", "", "One run each over 100 Mbit/s and 40 ms.", "")
    for picture in pictures(scheme):
        yield from picture.section()


def stored(path: Path) -> str | None:
    """The hash that a picture holds, if there is such a picture."""
    from PIL import Image

    if not path.is_file():
        return None
    with Image.open(path) as image:
        return getattr(image, "text", {}).get(KEY)


def narrows(arguments: list[str]) -> str:
    """What a command prints.

    Raises:
        SystemExit: It fails.
    """
    from typer.testing import CliRunner

    from narrows.cli import app

    os.environ["MPLBACKEND"] = "agg"
    done = CliRunner().invoke(app, arguments)
    if done.exit_code != 0:
        raise SystemExit(
            f"docs/pictures.py: narrows {shlex.join(arguments)} fails:\n{done.stderr}{done.exception or ''}"
        )
    return done.stdout


def unneeded(rows: tuple[Any, ...]) -> Iterator[Path]:
    """Pictures of schemes that are no more."""
    wanted = {picture.path for row in rows for picture in pictures(row.name)}
    yield from (path for path in sorted(FOLDER.glob("*")) if path not in wanted)
