"""Handles signals: they end sessions on sockets, and wait until steps that must not be interrupted are complete."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from narrows import engine
from narrows.errors import Stopped
from narrows.progress import print_status


def supervised(work: Callable[[], None], handle: engine.Handle) -> tuple[BaseException | None, list[int]]:
    """Run `work` to its end; Ctrl-C or SIGTERM cancels `handle`, a second signal cancels it again.

    Returns:
        The exception of `work`, if any, and the signals received.
    """
    failed: list[BaseException] = []
    finished = threading.Event()

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
        finally:
            finished.set()

    # Python runs signal handlers between bytecodes of the main thread, which therefore waits for an event. Handlers
    # only record the signal: they may interrupt each other, or a print.
    signals: list[int] = []

    def stop(number: int, _: object) -> None:
        signals.append(number)
        handle.cancel()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        thread = threading.Thread(target=guarded)
        thread.start()
        reported, over = 0, False
        while not over:
            over = finished.wait(0.1)
            while reported < min(len(signals), 2):
                reported += 1
                print_status("closing" if reported == 1 else "stopping")
        thread.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return failed[0] if failed else None, signals


@contextmanager
def undivided() -> Iterator[list[int]]:
    """Defer Ctrl-C and SIGTERM during a change that outlives the command.

    Yields:
        The signals so far. The caller ends the command with the first one, and reports the state.
    """
    signals: list[int] = []
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, lambda number, _: signals.append(number))
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def conclude(failed: BaseException | None, signals: list[int]) -> None:
    """Raise the end of a session: a signal takes precedence over a failure of the peer.

    Raises:
        Stopped: A signal ended the session.
    """
    if failed is not None and not isinstance(failed, engine.LiveFailed):
        raise failed
    if signals:
        raise Stopped("stopped" if failed is None else f"stopped: {failed}", signals[0])
    if failed is not None:
        raise failed
