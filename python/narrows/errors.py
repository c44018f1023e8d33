"""Errors that the user can correct, and the end of work by a signal."""

from __future__ import annotations


class UsageError(ValueError):
    """Invalid usage. The message names the place, the problem and the accepted values."""


class OptionError(UsageError):
    """An invalid value of an option that the command line and Python spell differently.

    Attributes:
        option: The name in Python: `x` for `--x`.
        problem: The problem and the accepted values.
    """

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option}: {problem}")
        self.option, self.problem = option, problem


class Stopped(Exception):  # noqa: N818 (requested by the user)
    """A signal ended the work.

    Attributes:
        signal: The number of the signal; the command's exit status is 128 plus this.
    """

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal
