"""Errors that the user can correct, damaged files, and the end of work by a signal."""

from __future__ import annotations

from pathlib import Path


class UsageError(ValueError):
    """Invalid usage. The message names the place, the problem and the accepted values."""


UNSUITABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError)
"""Exceptions that Python raises if a value of a document has an unsuitable type."""


def unsuitable(error: Exception) -> str:
    """Return the problem with a value in words; the message of a `ValueError` states it already."""
    if isinstance(error, ValueError):
        return str(error)
    if isinstance(error, KeyError):
        return f"{error} is missing; accepted: the keys and types of docs/papers.md"
    return f"a value has an unsuitable type ({error}); accepted: the keys and types of docs/papers.md"


class OptionError(UsageError):
    """An invalid value of an option that the command line and Python spell differently.

    Attributes:
        option: The name in Python: `x` for `--x`.
        problem: The problem and the accepted values.
    """

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option}: {problem}")
        self.option, self.problem = option, problem


class DamagedError(Exception):
    """A saved file was truncated, changed or renamed, or lacks a checksum.

    Attributes:
        path: The file.
        problem: The damage.
        old: Whether the file is intact, from a version that wrote no checksums.
    """

    REMEDY = "run the command that made these results again: it repeats what is damaged"

    def __init__(self, path: Path, problem: str, *, old: bool = False) -> None:
        super().__init__(f"{path}: {problem}; {self.REMEDY}")
        self.path, self.problem, self.old = path, problem, old


class Stopped(Exception):  # noqa: N818 (requested by the user)
    """A signal ended the work.

    Attributes:
        signal: The number of the signal; the command's exit status is 128 plus this.
    """

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal
