"""Runs a BRF switch on ports of this machine, for `narrows brf switch`."""

from __future__ import annotations

from collections.abc import Callable

from narrows import engine, hosts
from narrows.errors import Stopped
from narrows.records import SwitchSettings
from narrows.supervision import supervised


def run(settings: SwitchSettings, on_line: Callable[[str], None]) -> None:
    """Run a switch until Ctrl-C or SIGTERM.

    Args:
        settings: As for `hosts.run_brf_switch`.
        on_line: Receives the lines of its log.

    Raises:
        Stopped: A signal ended the switch; nothing is attached any more.
        HostUnable: The user lacks the rights, or a port cannot be used.
        HostFailed: The kernel refused a step.
    """
    handle = engine.Handle()
    failed, signals = supervised(lambda: hosts.run_brf_switch(settings, handle, on_line), handle)
    if failed is not None:
        raise failed
    if signals:
        raise Stopped("detached", signals[0])
