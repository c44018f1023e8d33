"""The seam to what the compiled engine does on hosts: programs of the kernel, BRF, and throughput tests of QUIC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from narrows import _engine
from narrows._engine import Handle, KernelFailed, KernelUnable
from narrows.records import Attached, BrfSwitch, Program, ProgramStatus, SwitchSettings

__all__ = ["Handle", "KernelFailed", "KernelUnable"]


def _programs() -> Any:
    """Return the engine's module if it has programs: on Linux."""
    if not hasattr(_engine, "load_program"):
        raise KernelUnable("narrows kernel needs Linux")
    return _engine


def kernel_programs() -> list[Program]:
    """Return the schemes that the kernel can run as programs.

    Raises:
        KernelUnable: This is not Linux.
    """
    return [Program(**row) for row in _programs().kernel_programs()]


def load_program(name: str, values: Sequence[tuple[str, str]]) -> str:
    """Load a program, and register its scheme until it is unloaded or the machine restarts.

    Args:
        name: In the kernel or in the registry.
        values: Parameters of the scheme, as text by name.

    Raises:
        KernelUnable: A parameter is refused, or the program. Nothing stays in the kernel.
        KernelFailed: The kernel refused a step.

    Returns:
        Its name in the kernel.
    """
    return str(_programs().load_program(name, list(values)))


def unload_program(name: str) -> tuple[str, int]:
    """Unregister a program. Connections that use it keep it until they end.

    Raises:
        KernelUnable: It is not loaded, or there are no rights.
        KernelFailed: The kernel refused a step.

    Returns:
        Its name in the kernel, and how many connections use it.
    """
    kernel_name, sockets = _programs().unload_program(name)
    return str(kernel_name), int(sockets)


def program_status(seconds: float) -> list[ProgramStatus]:
    """Observe the loaded programs for a time.

    Raises:
        KernelUnable: There are no rights.
        KernelFailed: The kernel refused a step.
    """
    return list(_programs().program_status(seconds))


def attach_brf(
    cgroup: Path | None,
    adopts: bool,
    limit_mbit: float | None = None,
    values: Sequence[tuple[str, str]] = (),
    dry: bool = False,
) -> Attached:
    """Write and read BRF's rate in TCP options of this host, until it is detached or the machine restarts.

    Args:
        cgroup: Whose connections take part; `None` for all.
        adopts: Every connection that begins there uses the scheme.
        limit_mbit: Most that receivers ask for, headers included.
        values: Parameters of the scheme, as text by name.
        dry: Only check.

    Raises:
        KernelUnable: A value is refused, or there are no rights. Nothing stays in the kernel.
        KernelFailed: The kernel refused a step.
    """
    attached: Attached = _programs().attach_brf(cgroup, adopts, limit_mbit, list(values), dry)
    return attached


def detach_brf(cgroup: Path | None) -> list[str]:
    """Undo `attach_brf` for a cgroup, or for all with `None`. Return what was removed, as lines.

    Raises:
        KernelUnable: There is no such attachment, or there are no rights.
        KernelFailed: The kernel refused a step.
    """
    return list(_programs().detach_brf(cgroup))


def brf_status() -> dict[str, Any]:
    """Return the attachments of `attach_brf`, and the counters since the scheme was loaded.

    Raises:
        KernelUnable: There are no rights.
        KernelFailed: The kernel refused a step.
    """
    return dict(_programs().brf_status())


def plan_brf_switch(settings: SwitchSettings) -> list[str]:
    """Return what a BRF switch would attach and create, a line per item; see `run_brf_switch`.

    Raises:
        KernelUnable: A port does not exist or cannot be used, or a value is refused.
    """
    return list(_programs().plan_brf_switch(settings))


def run_brf_switch(settings: SwitchSettings, handle: Handle, on_line: Callable[[str], None]) -> None:
    """Run a BRF switch on ports of this machine until `handle` is cancelled. Nothing stays attached.

    Args:
        settings: Its ports and parameters.
        handle: Ends it.
        on_line: Receives the lines of its log, from the thread that runs it.

    Raises:
        KernelUnable: There are no rights, or a port cannot be used.
        KernelFailed: The kernel refused a step.
    """
    _programs().run_brf_switch(settings, handle, on_line)


def brf_switches() -> list[BrfSwitch]:
    """Return the switches of this network namespace, with their latest reports."""
    return list(_programs().brf_switches())


def clean_brf_switches() -> list[str]:
    """Remove what killed switches left in this network namespace. Return the names of their ports.

    Raises:
        KernelUnable: There are no rights.
    """
    return list(_programs().clean_brf_switches())


def port_judge(utilization: float, queue: float) -> _engine.PortJudge:
    """Return the decisions of a BRF controller about a port: equation 5 and 6 with these thresholds."""
    return _programs().PortJudge(utilization, queue)  # type: ignore[no-any-return]


def perf_server(
    address: str,
    scheme: str,
    params: Sequence[tuple[str, str]],
    interval_s: float,
    identity: tuple[str, str] | None,
    once: bool,
    duration_s: float | None,
    connections: int,
    per_address: int,
    longest_s: float,
    handle: Handle,
    on_event: Callable[[dict[str, Any]], None],
) -> None:
    """Serve throughput tests of QUIC until `handle.cancel()`, the end of `duration_s`, or `once` the first test.

    Args:
        address: Where to listen.
        scheme: The scheme of what the server sends; with the prefix `noq:`, one of noq's own.
        params: Values of its parameters.
        interval_s: The interval between reports.
        identity: Files of certificate and key; `None`: a self-made certificate.
        once: Serve one test.
        duration_s: The longest duration.
        connections: The limit of simultaneous tests.
        per_address: The limit of simultaneous connections of an address.
        longest_s: The longest test that a client may ask for.
        handle: Ends the server.
        on_event: Called with records of `event`: listening, begun, interval, ended or warning.

    Raises:
        KernelUnable: A setting is refused.
        LiveFailed: The address cannot be used.
    """
    _engine.perf_server(
        address, scheme, params, interval_s, identity, once, duration_s, connections, per_address, longest_s, handle,
        on_event,
    )  # fmt: skip


def perf_client(
    address: str,
    scheme: str,
    params: Sequence[tuple[str, str]],
    interval_s: float,
    duration_s: float,
    streams: int,
    reverse: bool,
    name: str,
    trust: str,
    handle: Handle,
    on_event: Callable[[dict[str, Any]], None],
) -> None:
    """Run one throughput test of QUIC.

    Args:
        address: The server.
        scheme: The scheme of what the client sends, as for `perf_server`.
        params: Values of its parameters.
        interval_s: The interval between reports.
        duration_s: How long data is sent.
        streams: Parallel streams.
        reverse: The server sends.
        name: The name in its certificate.
        trust: `system`, `any`, `ca:FILE` or `fingerprint:DIGITS`.
        handle: Ends the test.
        on_event: Called with records of `event`.

    Raises:
        KernelUnable: A setting is refused.
        LiveFailed: The server cannot be reached or is not trusted, or the connection failed.
    """
    _engine.perf_client(
        address, scheme, params, interval_s, duration_s, streams, reverse, name, trust, handle, on_event
    )
