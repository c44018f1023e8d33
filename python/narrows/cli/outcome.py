"""The end of every command: tables on standard output, messages on standard error, and the exit status."""

from __future__ import annotations

import errno
import functools
import os
import re
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn, ParamSpec

import typer

from narrows import engine, runner
from narrows.errors import DamagedError, Stopped, UsageError
from narrows.progress import print_status, shown
from narrows.scenario import COMMAND_LINE, flag_of

USAGE_ERROR, FAILURE = 2, 1
"""Exit statuses of invalid usage and of failed work."""
INTERRUPTED = 128 + signal.SIGINT
SCHEME_KEY = "flows.scheme"
"""The key that `--scheme` sets."""

P = ParamSpec("P")


def print_table(table: Any, width: int | None = None) -> None:
    """Print to standard output, 80 columns or `width` wide unless it is a terminal."""
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else width)
    console.width = max(console.width, 20)  # rich prints nothing in columns without width
    console.print(shown(table) if isinstance(table, str) else _Shown(table), crop=False)


def borderless(titles: Sequence[str], left: Collection[str]) -> Any:
    """Return an empty table without rules; its columns are aligned to the right, except those in `left`."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, justify="left" if title in left else "right")
    return table


class _Shown:
    """A table whose text `shown` escapes."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __rich_console__(self, console: Any, options: Any) -> Any:
        for part in console.render(self.table, options):
            yield part if part.control else part._replace(text=shown(part.text))


def fail(text: str, status: int) -> NoReturn:
    """End the command with a message."""
    print_status(f"narrows: {text}")
    raise typer.Exit(status)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Convert errors of a command to a message and an exit status: 2 usage error, 1 failure, 130 Ctrl-C."""

    @functools.wraps(command)
    def inner(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except engine.ScenarioError as error:
            fail(scenario_error(error, set_keys(kwargs.get("sets")), kwargs.get("scheme") is not None), USAGE_ERROR)
        except (UsageError, engine.HostUnable) as error:
            fail(str(error), USAGE_ERROR)
        except runner.Interrupted as stopped:
            kept = "; nothing was kept, -o DIR keeps finished runs"
            if stopped.out is not None:
                kept = f"; {stopped.out} keeps them, and the same command executes the others"
            fail(f"{stopped}{kept}", INTERRUPTED)
        except Stopped as stopped:
            fail(str(stopped), 128 + stopped.signal)
        except KeyboardInterrupt:
            fail("stopped", INTERRUPTED)
        except (DamagedError, engine.HostFailed, engine.LiveFailed) as error:
            fail(str(error), FAILURE)
        except runner.RunError as error:
            fail(f"a run failed: {error}", FAILURE)
        except OSError as error:
            if isinstance(error, BrokenPipeError) and error.filename is None:  # the reader closed standard output
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(FAILURE) from None
            # Python names every file except its standard streams.
            full = "standard output" if error.errno == errno.ENOSPC else None
            place = error.filename2 or error.filename or full  # the second name of a failed rename is its destination
            fail(f"{place}: {error.strerror}" if error.strerror and place else str(error), FAILURE)

    return inner


def set_keys(sets: Any) -> tuple[str, ...]:
    """Return the keys that `--set` names."""
    return tuple(str(text).partition("=")[0].strip() for text in sets or ())


def scenario_error(error: engine.ScenarioError, keys: Sequence[str] = (), scheme: bool = False) -> str:
    """Format an error of the engine. A value from the command line has an option instead of a line.

    Args:
        error: The error.
        keys: The keys that `--set` names.
        scheme: Whether `--scheme` set the schemes.
    """
    if error.source != COMMAND_LINE:
        return str(error)
    named = without_index(error.key or "")
    key = next((key for key in keys if named == without_index(key) or named.startswith(f"{without_index(key)}.")), None)
    place = f"--set {key}" if key is not None else flag_of(error.key) or error.key or COMMAND_LINE
    if scheme and named == SCHEME_KEY:
        place = "--scheme"
    return located(error, place)


def located(error: engine.ScenarioError, place: str) -> str:
    """Format an error of the engine with `place` instead of its source."""
    accepted = f"\n  accepted: {error.accepted}" if error.accepted else ""
    return f"{place}: {error.message}{accepted}"


def without_index(key: str) -> str:
    """Remove the numbers of items from a key: `flows.rtt` for `flows.0.rtt`."""
    return re.sub(r"\.\d+(?=\.|$)", "", key)
