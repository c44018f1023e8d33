"""The interface to the engine's work on real hosts: programs of the kernel, BRF, and throughput tests of QUIC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from narrows import _engine
from narrows._engine import Handle, HostFailed, HostUnable, perf_client, perf_server
from narrows.records import Attached, BrfSwitch, Program, ProgramStatus, SwitchSettings

__all__ = ["Handle", "HostFailed", "HostUnable", "perf_client", "perf_server"]


def _programs() -> Any:
    """Return the engine's module, which has programs on Linux only."""
    if not hasattr(_engine, "load_program"):
        raise HostUnable("narrows kernel needs Linux")
    return _engine


def kernel_programs() -> list[Program]:
    """Return the schemes that the kernel can run as programs.

    Raises:
        HostUnable: This is not Linux.
    """
    return [Program(**row) for row in _programs().kernel_programs()]


def load_program(name: str, values: Sequence[tuple[str, str]]) -> str:
    """Load a program, and register its scheme until it is unloaded or the machine restarts.

    Args:
        name: Its name in the kernel or in the registry.
        values: Parameters of the scheme, as text by name.

    Raises:
        HostUnable: A parameter or the program is refused. Nothing stays in the kernel.
        HostFailed: The kernel refused a step.

    Returns:
        Its name in the kernel.
    """
    return str(_programs().load_program(name, list(values)))


def unload_program(name: str) -> tuple[str, int]:
    """Unregister a program. Connections that use it keep it until they end.

    Raises:
        HostUnable: The program is not loaded, or the user lacks the rights.
        HostFailed: The kernel refused a step.

    Returns:
        The program's name in the kernel, and how many connections still use it.
    """
    kernel_name, sockets = _programs().unload_program(name)
    return str(kernel_name), int(sockets)


def program_status(seconds: float) -> list[ProgramStatus]:
    """Observe the loaded programs for a time.

    Raises:
        HostUnable: The user lacks the rights.
        HostFailed: The kernel refused a step.
    """
    return list(_programs().program_status(seconds))


def attach_brf(
    cgroup: Path | None,
    adopts: bool,
    limit_mbit: float | None = None,
    values: Sequence[tuple[str, str]] = (),
    dry: bool = False,
) -> Attached:
    """Write and read BRF's rate in TCP options on this host, until BRF is detached or the machine restarts.

    Args:
        cgroup: The cgroup whose connections use the option; `None` for all connections.
        adopts: Whether every connection that begins there uses the scheme.
        limit_mbit: The highest rate that receivers request, headers included.
        values: Parameters of the scheme, as text by name.
        dry: Only check.

    Raises:
        HostUnable: A value is refused, or the user lacks the rights. Nothing stays in the kernel.
        HostFailed: The kernel refused a step.
    """
    attached: Attached = _programs().attach_brf(cgroup, adopts, limit_mbit, list(values), dry)
    return attached


def detach_brf(cgroup: Path | None) -> list[str]:
    """Undo `attach_brf` for a cgroup, or for all with `None`. Return the removed items, one line each.

    Raises:
        HostUnable: There is no such attachment, or the user lacks the rights.
        HostFailed: The kernel refused a step.
    """
    return list(_programs().detach_brf(cgroup))


def brf_status() -> dict[str, Any]:
    """Return the attachments of `attach_brf`, and the counters since the scheme was loaded.

    Raises:
        HostUnable: The user lacks the rights.
        HostFailed: The kernel refused a step.
    """
    return dict(_programs().brf_status())


def plan_brf_switch(settings: SwitchSettings) -> list[str]:
    """Return the items that a BRF switch would attach and create, one line each; see `run_brf_switch`.

    Raises:
        HostUnable: A port does not exist or cannot be used, or a value is refused.
    """
    return list(_programs().plan_brf_switch(settings))


def run_brf_switch(settings: SwitchSettings, handle: Handle, on_line: Callable[[str], None]) -> None:
    """Run a BRF switch on ports of this machine until `handle` is cancelled. Nothing stays attached.

    Args:
        settings: Its ports and parameters.
        handle: Ends the switch.
        on_line: Receives the lines of the log, in the switch's thread.

    Raises:
        HostUnable: The user lacks the rights, or a port cannot be used.
        HostFailed: The kernel refused a step.
    """
    _programs().run_brf_switch(settings, handle, on_line)


def brf_switches() -> list[BrfSwitch]:
    """Return the switches of this network namespace, with their latest reports."""
    return list(_programs().brf_switches())


def clean_brf_switches() -> list[str]:
    """Remove leftovers of killed switches in this network namespace. Return the names of their ports.

    Raises:
        HostUnable: The user lacks the rights.
    """
    return list(_programs().clean_brf_switches())


def port_judge(utilization: float, queue: float) -> _engine.PortJudge:
    """Return the judge of a BRF controller for a port: equations 5 and 6 with these thresholds."""
    return _programs().PortJudge(utilization, queue)  # type: ignore[no-any-return]
