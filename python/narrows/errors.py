"""Errors that the user can correct, and the end of work by a signal."""

from __future__ import annotations


class UsageError(ValueError):
    """Invalid usage. The message names the place, the problem and the accepted values."""


class Stopped(Exception):  # noqa: N818 (requested by the user)
    """A signal ended the work.

    Attributes:
        signal: The number of the signal; the command's exit status is 128 plus this.
    """

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal
