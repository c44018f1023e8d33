"""Reports the progress of runs on standard error; standard output is for results."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from narrows.engine import Planned
from narrows.errors import DamagedError

PROGRESS_AFTER_S = 2.0
"""Time after which a bar appears."""
LINE_EVERY_S = 30.0
"""Interval of the progress lines that replace the bar where standard error is no terminal."""


def shown(text: str) -> str:
    """Escape unprintable characters of a text that a peer or a file may have chosen, to protect the terminal.

    Line breaks and tabulators remain. The engine escapes texts of peers itself, including line breaks.
    """
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


PLAIN = {"±": "+-", "✓": "+", "✗": "x", "×": "x", "–": "-", "…": "...", "µ": "u", "≤": "<=", "≥": ">="}
"""ASCII replacements of symbols in tables."""


def spelled(error: UnicodeError) -> tuple[str, int]:
    """Handle an encoding error: replace characters that the terminal lacks by ASCII, or escape them."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    escaped = [PLAIN.get(letter) or letter.encode("ascii", "backslashreplace").decode() for letter in letters]
    return "".join(escaped), error.end


def print_status(text: str) -> None:
    """Print a line to standard error, escaped by `shown`."""
    print(shown(text), file=sys.stderr, flush=True)


def damage_lines(damages: Sequence[DamagedError]) -> Iterator[str]:
    """Yield a line per damaged file, whose run is repeated, and one for all files that only lack a checksum."""
    for damage in damages:
        if not damage.old:
            yield f"{damage.path} {damage.problem}: the run is repeated"
    old = [damage.path for damage in damages if damage.old]
    if old:
        more = f" and {len(old) - 1} more" if len(old) > 1 else ""
        yield f"{old[0]}{more} have no checksum, as of an earlier version: the runs are repeated"


class Listener:
    """Receives the progress of the runs, and ignores it. All calls come from one thread."""

    def damaged(self, damages: Sequence[DamagedError]) -> None:
        """Receive the damaged files of saved runs, which will be repeated."""

    def reused(self, reused: int, total: int) -> None:
        """Receive the number of runs that were already finished."""

    def progress(self, share: float, finished: int, total: int) -> None:
        """Receive the completed share of the work, 0 to 1, and the number of finished runs."""

    def result(self, planned: Planned, result: Mapping[str, Any]) -> None:
        """Receive the result of the next run in the order of the plan."""

    def close(self) -> None:
        """Receive the end of the work."""


class Silent(Listener):
    """A listener that warns of damage and ignores the rest."""

    def damaged(self, damages: Sequence[DamagedError]) -> None:
        """Warn of each damaged file."""
        for line in damage_lines(damages):
            warnings.warn(line, stacklevel=2)


class Terminal(Listener):
    """A listener that shows a bar on a terminal, and elsewhere prints a line periodically.

    Args:
        report: Prints a line.
        bar: Whether to show a bar.
        each: Receives every result.
        noun: What is counted.
    """

    def __init__(
        self,
        report: Callable[[str], None],
        bar: bool,
        each: Callable[[dict[str, Any]], None] | None = None,
        noun: str = "runs",
    ) -> None:
        self._report, self._bar, self._each, self._noun = report, bar, each, noun
        self._begin = self._line = time.monotonic()
        self._first: float | None = None
        self._progress: Any = None
        self._task: Any = None

    @property
    def bar_visible(self) -> bool:
        """Whether a bar is on the screen."""
        return self._progress is not None

    def damaged(self, damages: Sequence[DamagedError]) -> None:
        """Name the damaged files."""
        for line in damage_lines(damages):
            self._report(f"narrows: warning: {line}")

    def reused(self, reused: int, total: int) -> None:
        """Report the number of reused runs."""
        self._report(f"reused {reused} of {total} runs")

    def progress(self, share: float, finished: int, total: int) -> None:
        """Move the bar, or print a line if one is due."""
        if not self._bar:
            self._print_line(share, finished, total)
            return
        if self._progress is None:
            if time.monotonic() - self._begin < PROGRESS_AFTER_S:
                return
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task("", total=1.0)
        self._progress.update(self._task, completed=share, description=f"{finished} of {total} {self._noun}")

    def result(self, planned: Planned, result: Mapping[str, Any]) -> None:
        """Pass the result to `each`."""
        if self._each is not None:
            self._each(dict(result))

    def close(self) -> None:
        """Remove the bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _print_line(self, share: float, finished: int, total: int) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first, self._begin = share, now  # reused runs took no time
        if now - self._line < LINE_EVERY_S or share <= self._first:
            return
        self._line = now
        left = (now - self._begin) / (share - self._first) * (1 - share)
        remaining = f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s"
        self._report(f"{finished} of {total} {self._noun}, about {remaining} left")
