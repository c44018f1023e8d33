"""Runs a BRF switch on ports of this machine, for `narrows brf switch`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any

from narrows import engine, hosts
from narrows.errors import Stopped


def run(settings: Mapping[str, Any], on_line: Callable[[str], None]) -> None:
    """Run a switch until Ctrl-C or SIGTERM.

    Args:
        settings: As `hosts.run_brf_switch` takes them.
        on_line: Receives the lines of its log.

    Raises:
        Stopped: A signal ended it; nothing is attached any more.
        KernelUnable: There are no rights, or a port cannot be used.
        KernelFailed: The kernel refused a step.
    """
    handle = engine.Handle()
    failed: list[BaseException] = []
    finished = threading.Event()

    def work() -> None:
        try:
            hosts.run_brf_switch(settings, handle, on_line)
        except BaseException as error:
            failed.append(error)
        finally:
            finished.set()

    # Python runs signal handlers in the main thread only, so the main thread waits for an event.
    signals: list[int] = []

    def stop(number: int, _: object) -> None:
        signals.append(number)
        handle.cancel()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        thread = threading.Thread(target=work)
        thread.start()
        while not finished.wait(0.1):
            pass
        thread.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if failed:
        raise failed[0]
    if signals:
        raise Stopped("detached", signals[0])
