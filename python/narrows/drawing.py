"""Draws the plots of a reproduction on all cores: those whose data, options or code changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from narrows import plots
from narrows.errors import UNSUITABLE, UsageError, unsuitable
from narrows.files import contents
from narrows.results import Results

FORMS = ("png", "svg", "pdf")
"""The files of a plot."""
INDEX = "plots.json"
"""Lists the plots of a folder: the digest of its inputs and the checksums of its files, per plot."""
MOST_BYTES = 256 << 20
FEW = 4
"""Up to this many plots are drawn in one process: starting more processes takes a second."""


@dataclass(frozen=True)
class Drawing:
    """A plot to draw."""

    stem: str
    """The path of its files in the report's folder, without their endings."""
    place: str
    """The location of its options, for messages."""
    options: Mapping[str, Any]
    results: Results
    data: bytes
    """The digest of the results."""

    def digest(self) -> str:
        """Return the digest of all that the plot shows."""
        stated = json.dumps(dict(self.options), sort_keys=True, default=str)
        return hashlib.sha256(self.data + stated.encode() + _code()).hexdigest()


def draw(
    drawings: Sequence[Drawing],
    out: Path,
    jobs: int | None = None,
    print_status: Callable[[str], None] = lambda text: None,
) -> dict[str, bytes]:
    """Return the files of all plots by name, and the index of the folder.

    Args:
        drawings: The plots.
        out: The folder, which may hold plots of an earlier reproduction.
        jobs: Simultaneous processes; all cores by default.
        print_status: Receives a line before plots are drawn.

    Raises:
        UsageError: A plot's options do not suit its data.
    """
    kept = _index(out)
    files: dict[str, bytes] = {}
    todo = []
    for drawing in drawings:
        before = _read(out, drawing, kept.get(drawing.stem))
        if before is None:
            todo.append(drawing)
        else:
            files |= before
    if todo:
        print_status(f"drawing {len(todo)} of {len(drawings)} plots")
    for made in _images(todo, jobs):
        files |= made
    index = {drawing.stem: _entry(drawing, files) for drawing in drawings}
    files[INDEX] = (json.dumps(index, indent=1, sort_keys=True) + "\n").encode()
    return files


def _images(todo: Sequence[Drawing], jobs: int | None) -> Iterator[dict[str, bytes]]:
    if len(todo) <= FEW or jobs == 1:
        yield from map(_image, todo)
        return
    # A forked process would share the threads of the data frames.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_image, todo)


def _image(drawing: Drawing) -> dict[str, bytes]:
    options = dict(drawing.options)
    kind = options.pop("kind", "line")
    try:
        figure = plots.plot(drawing.results, kind, **options)
    except UNSUITABLE as error:
        raise UsageError(f"{drawing.place}: {unsuitable(error)}") from None
    return {f"{drawing.stem}.{form}": plots.image(figure, form) for form in FORMS}


def _read(out: Path, drawing: Drawing, entry: Any) -> dict[str, bytes] | None:
    """Return the files of an earlier drawing if they have the same inputs and are undamaged."""
    try:
        files = {f"{drawing.stem}.{form}": contents(out / f"{drawing.stem}.{form}", MOST_BYTES) for form in FORMS}
    except (OSError, ValueError):
        return None
    return files if entry == _entry(drawing, files) else None


def _entry(drawing: Drawing, files: Mapping[str, bytes]) -> list[str]:
    """Return the entry of a plot in the index: the digest of its inputs, then the checksums of its files."""
    return [drawing.digest(), *(hashlib.sha256(files[f"{drawing.stem}.{form}"]).hexdigest() for form in FORMS)]


def _index(out: Path) -> dict[str, Any]:
    try:
        index = json.loads(contents(out / INDEX, MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return index if isinstance(index, dict) else {}


@cache
def _code() -> bytes:
    """The digest of the code that draws."""
    parts = [version("matplotlib").encode()]
    parts += [path.read_bytes() for path in sorted(Path(plots.__file__).parent.glob("*.py"))]
    return hashlib.sha256(b"".join(parts)).digest()
