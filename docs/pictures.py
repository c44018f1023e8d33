"""The pictures on the pages of schemes: a flow alone, and against another scheme.

The two commands that a page shows draw its picture, so every registered scheme has pictures. A picture holds the event
hash of its run, and the page shows it: a new run detects a stale picture without drawing.
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
"""The opponent of every scheme is the first entry; the opponent of the first entry is the second."""
PATH = ("--rate", "100mbit", "--rtt", "40ms")
COLOURS = 64
"""Size of the palette: it cuts files to a third without a visible difference."""
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
        """Path of its file."""
        return FOLDER / f"{self.name}.png"

    def run(self) -> list[str]:
        """The command of the run, without its trace."""
        return ["compare", *self.flows, *PATH, *self.options]

    def commands(self, folder: str, target: str) -> Iterator[list[str]]:
        """The commands that draw the picture."""
        yield [*self.run(), "--trace", self.trace, "-o", folder]
        yield ["plot", folder, "--series", self.panels, "-o", target]

    def section(self) -> Iterator[str]:
        """Its part of the page: the picture, its commands and its event hash."""
        run, plot = (f"narrows {shlex.join(command)}" for command in self.commands(self.name, f"{self.name}.png"))
        yield from (self.about, "", f"![{self.shows}](images/{self.path.name})", "")
        head, _, tail = plot.partition(" -o ")
        yield from ("```sh", run, f"{head} \\", f"    -o {tail}", "```", "")
        yield from (f"The events of this run have the hash `{self.drawn()}`.", "")

    def drawn(self) -> str:
        """The event hash of the run in the file."""
        return stored(self.path) or "none: there is no picture yet"

    def now(self) -> str:
        """The event hash of the run with the present engine; sampling changes the hash, storing samples does not."""
        return str(json.loads(narrows([*self.run(), "--set", f"trace.samples={self.trace}", "--json"]))["event_hash"])

    def draw(self) -> None:
        """Draw the picture with its commands."""
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
    """Both pictures of a scheme."""
    rival = next(name for name in RIVALS if name != scheme)
    rates = "pacing_rate_mbit_s+bw_estimate_mbit_s"
    alone = Picture(
        scheme, f"{scheme}-alone", (scheme,), "Alone, with a buffer of 1 BDP:",
        f"Window, rates where it paces, round-trip time and queue of a lone {scheme} flow over 25 s",
        ("--buffer", "1bdp", "--duration", "25s"), "20ms", f"cwnd_bytes+inflight_bytes,{rates},rtt_sample_ms,queue_pkt",
    )  # fmt: skip
    shared = Picture(
        scheme, f"{scheme}-against-{rival}", (scheme, rival), f"Against `{rival}`, with a buffer of 2 BDP:",
        f"Throughputs, data in flight and queue of a {scheme} and a {rival} flow over 30 s",
        ("--buffer", "2bdp", "--duration", "30s"), "200ms", "throughput_mbit_s,inflight_bytes,queue_pkt",
    )  # fmt: skip
    return alone, shared


def section(scheme: str) -> Iterator[str]:
    """The section of pictures on the page of a scheme."""
    yield from ("## In pictures", "", "One run each over 100 Mbit/s and 40 ms.", "")
    for picture in pictures(scheme):
        yield from picture.section()


def stored(path: Path) -> str | None:
    """The event hash in a picture; None without picture or hash."""
    from PIL import Image

    if not path.is_file():
        return None
    with Image.open(path) as image:
        return getattr(image, "text", {}).get(KEY)


def narrows(arguments: list[str]) -> str:
    """The output of a command.

    Raises:
        SystemExit: The command fails.
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
    """Pictures of schemes that no longer exist."""
    wanted = {picture.path for row in rows for picture in pictures(row.name)}
    yield from (path for path in sorted(FOLDER.glob("*")) if path not in wanted)
