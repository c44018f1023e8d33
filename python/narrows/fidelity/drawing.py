"""Saves the comparison, and draws the map of agreement: a tile per cell, coloured by its deviation."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from narrows import engine, plots
from narrows.fidelity import tables
from narrows.fidelity.comparison import Row, disturbed
from narrows.fidelity.grid import KINDS
from narrows.files import write_atomic
from narrows.plots.style import COLOUR_MAP, DEFAULTS, Drawing, Size, size_of

CELLS, MAP = "cells.jsonl", "agreement"
ACROSS = 3
"""Panels side by side, one per scheme."""
GREATEST = 2.0
"""Deviations beyond twice the bound have one colour."""
MISS = "#D00000"
EMPTY = "#F0F0F0"
TILE, MARGIN, GAP, HEAD, FOOT = 0.28, 2.2, 0.15, 0.3, 1.8
"""Sizes in inches: a tile, the margin beside panels, the gap between panels, a title, and the foot below them all."""
LETTERS = 13
"""Letters of a note per inch."""


def save(rows: Sequence[Row], totals: Row, out: Path) -> list[Path]:
    """Write `cells.jsonl` and the map as SVG and PNG; return the files."""
    text = "".join(engine.json_line(row) + "\n" for row in [*rows, totals])
    write_atomic(out / CELLS, text)
    files = [out / CELLS, *(out / f"{MAP}.{form}" for form in ("svg", "png"))]
    figure = agreement_map(rows, totals)
    for file in files[1:]:
        plots.save(figure, file)
    return files


def severity(row: Row) -> float:
    """Return a cell's largest deviation relative to its bound; a missing value counts as `GREATEST`."""
    return max(
        GREATEST if one["deviation"] is None else abs(one["deviation"]) / one["bound"] for one in row["criteria"]
    )


def agreement_map(rows: Sequence[Row], totals: Row) -> Figure:
    """Draw a panel per combination of schemes: buffers from left to right, paths from top to bottom."""
    panels: dict[str, list[Row]] = {}
    for kind in KINDS:
        for row in rows:
            if row["kind"] == kind:
                panels.setdefault(row["who"], []).append(row)
    lines: list[list[str]] = []
    for kind in KINDS:
        of_kind = [who for who, found in panels.items() if found[0]["kind"] == kind]
        lines += [of_kind[first : first + ACROSS] for first in range(0, len(of_kind), ACROSS)]
    rooms = sorted({str(row["room"]) for row in rows}, key=_room_order)
    paths = [list(dict.fromkeys(row["path"] for row in sorted(_all(panels, line), key=_order))) for line in lines]
    size = Size()
    heights = [len(names) for names in paths]
    across = max(len(line) for line in lines)
    height = FOOT + len(lines) * HEAD + sum(heights) * TILE
    inches = (MARGIN + across * (len(rooms) * TILE + GAP), height)
    with mpl.rc_context({**DEFAULTS, **size_of(None).look}):
        figure = Drawing(size, inches)
        axes = figure.subplots(len(lines), across, squeeze=False, gridspec_kw={"height_ratios": heights})
        norm = Normalize(0, GREATEST)
        for down, (line, names) in enumerate(zip(lines, paths, strict=True)):
            for place, part in enumerate(axes[down]):
                if place >= len(line):
                    part.set_axis_off()
                    continue
                _panel(part, line[place], panels[line[place]], rooms, names, norm)
                if place > 0:
                    part.tick_params(labelleft=False)
                if down + 1 < len(lines) and place < len(lines[down + 1]):
                    part.tick_params(labelbottom=False)
                else:
                    part.set_xlabel("buffer, BDP")
        bar = figure.colorbar(
            ScalarMappable(norm, COLOUR_MAP),
            ax=axes,
            label="largest deviation / bound",
            extend="max",
            aspect=40,
            shrink=0.8,
        )
        bar.ax.axhline(1, color=MISS)
        note = " ".join(tables.summary(totals))
        marked = f" {tables.DISTURBED}: a run was disturbed." if totals["disturbed_runs"] else ""
        figure.suptitle("Simulator and kernel", x=0.02, ha="left")
        figure.supxlabel(
            textwrap.fill(f"Red frames: misses.{marked} {note}", int(inches[0] * LETTERS)),
            x=0.02,
            ha="left",
            size="small",
        )
    return figure


def _panel(
    axes: Axes, who: str, rows: Sequence[Row], rooms: Sequence[str], paths: Sequence[str], norm: Normalize
) -> None:
    """Draw the cells of one combination of schemes."""
    axes.set_title(who)
    axes.set(xlim=(-0.5, len(rooms) - 0.5), ylim=(len(paths) - 0.5, -0.5))
    axes.set_xticks(range(len(rooms)), [room.removesuffix("bdp") for room in rooms], rotation=90)
    axes.set_yticks(range(len(paths)), paths)
    axes.tick_params(length=0, labelsize="small")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    for x, y in itertools.product(range(len(rooms)), range(len(paths))):
        axes.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, facecolor=EMPTY))
    for row in rows:
        x, y, found = rooms.index(row["room"]), paths.index(row["path"]), severity(row)
        frame = {"edgecolor": MISS, "linewidth": 1.8, "zorder": 3} if not row["agrees"] else {"edgecolor": "white"}
        axes.add_patch(
            Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, facecolor=mpl.colormaps[COLOUR_MAP](norm(found)), **frame)
        )
        axes.text(
            x, y, f"{found:.1f}" + tables.DISTURBED * bool(disturbed(row)), ha="center", va="center", size=6,
            weight="normal" if row["agrees"] else "bold", color="white" if found < GREATEST / 2 else "black", zorder=4,
        )  # fmt: skip


def _all(panels: Mapping[str, Sequence[Row]], line: Sequence[str]) -> list[Row]:
    return [row for who in line for row in panels[who]]


def _order(row: Row) -> tuple[float, float, list[float]]:
    """Order paths by loss, rate and RTT."""
    return row["loss_percent"], row["rate_mbit_s"], row["rtt_ms"]


def _room_order(room: str) -> tuple[bool, float, str]:
    """Order buffers by size, before queue disciplines."""
    return (False, float(room.removesuffix("bdp")), "") if room.endswith("bdp") else (True, 0.0, room)
