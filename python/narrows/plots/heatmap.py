"""A column over two swept keys, as colours."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from narrows.errors import OptionError
from narrows.frames import ResultFrames
from narrows.plots import rows as tables
from narrows.plots.charts import DEFAULT_Y
from narrows.plots.names import label
from narrows.plots.panels import Layout, Panel, Places, add_title, label_panels
from narrows.plots.rows import Data, Where, means
from narrows.plots.style import COLOUR_MAP
from narrows.quantities import axis
from narrows.stats import number

READABLE = 64
"""The most cells of a panel that shows numbers in its cells."""


def heatmap(
    results: ResultFrames,
    *,
    table: str = "flows",
    x: str | None = None,
    y: str | None = None,
    z: str | None = None,
    panel: str | None = None,
    row: str | None = None,
    where: Where | None = None,
    columns: int | None = None,
    title: str | None = None,
    size: str | None = None,
) -> Figure:
    """Draw means over seeds as the colours of a grid of two swept keys, a panel per scheme.

    Args:
        results: The data.
        table: A frame of `results`.
        x: The key from left to right; by default the first one other than the scheme.
        y: The key from bottom to top; by default the next one.
        z: The column whose means the colours show.
        panel: The column that separates panels side by side; by default the scheme.
        row: The column that separates rows of panels.
        where: The values of rows to draw, by key.
        columns: Panels per line without `row`.
        title: The title of the figure.
        size: `column` or `page` of a paper.

    Raises:
        UsageError: A column does not exist or holds no numbers, there are not two swept keys, or a swept key would be
            averaged over.
    """
    data = tables.table(results, table).where(where)
    z = data.numbers("z", z or DEFAULT_Y.get(table, "goodput_mbit_s"))
    x, y = _keys(data, x, y)
    _, panel, row = data.split([x, y], None, panel, row)
    across, up = Places.of(data, x, numeric=False), Places.of(data, y, numeric=False)
    figure, panels = Layout(panel, row, columns, False, size).grid(data)
    grids = [_grid(part, (x, y, z), across, up, data) for part in panels]
    low, high = float(np.nanmin(grids)), float(np.nanmax(grids))
    norm = Normalize(low, high if high > low else low + 1.0)
    image = None
    for part, values in zip(panels, grids, strict=True):
        image = part.axes.imshow(values, COLOUR_MAP, origin="lower", aspect="auto", norm=norm)
        part.axes.grid(visible=False)
        part.axes.spines[:].set_visible(False)
        part.axes.set_xticks(range(len(across.at)), _ticks(across), rotation=60 if len(across.at) > 8 else 0)
        part.axes.set_yticks(range(len(up.at)), _ticks(up))
        if values.size <= READABLE:
            _write(part.axes, values, low, high)
    if image is not None:
        figure.colorbar(image, ax=[part.axes for part in panels], label=label(z), pad=0.02)
    label_panels(panels, label(x, _unit(across)), label(y, _unit(up)))
    add_title(figure, panels, title)
    return figure


def _keys(data: Data, x: str | None, y: str | None) -> tuple[str, str]:
    """Return the columns of the two axes."""
    keys = [key for key in data.results.keys if key in data.rows.columns and data.rows[key].n_unique() > 1]
    named = [None if name is None else data.column(option, name) for option, name in (("x", x), ("y", y))]
    free = [key for key in keys if key not in (*named, "flows.scheme")]
    for place, option in enumerate("xy"):
        if named[place] is None:
            if not free:
                known = ", ".join(keys) or "results of a sweep of two keys"
                raise OptionError(option, f"a heatmap needs two swept keys; accepted: {known}")
            named[place] = free.pop(0)
    if named[0] == named[1]:
        raise OptionError("y", f"{named[1]} is on the x axis; accepted: another key")
    return str(named[0]), str(named[1])


def _grid(
    part: Panel, names: tuple[str, str, str], across: Places, up: Places, data: Data
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the means of a panel: shape (values of y, values of x), NaN where there are none."""
    x, y, z = names
    values = np.full((len(up.at), len(across.at)), np.nan)
    for (side,), rows in part.rows.drop_nulls(z).group_by([y]):
        found = means(rows, x, z, data.limits(z))
        for place, mean in zip(found.places, found.means, strict=True):
            values[int(up.at[str(side)]), int(across.at[place])] = mean
    return values


def _ticks(places: Places) -> list[str]:
    """Return the tick labels of an axis: numbers if the values have a common unit, which the axis label then states."""
    found = axis(list(places.at))
    return list(places.ticks) if found is None or len(set(found[0])) < len(places.at) else [f"{v:g}" for v in found[0]]


def _unit(places: Places) -> str:
    found = axis(list(places.at))
    return found[1] if found is not None and len(set(found[0])) == len(places.at) else ""


def _write(axes: Axes, values: np.ndarray[tuple[int, int], np.dtype[np.float64]], low: float, high: float) -> None:
    """Write the numbers into the cells, light on dark colours and dark on light ones."""
    middle = (low + high) / 2
    for (up, across), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "white" if value < middle else "black"
            axes.text(across, up, number(float(value)), ha="center", va="center", fontsize="x-small", color=colour)
