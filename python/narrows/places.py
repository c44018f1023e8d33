"""Backends: the simulator, the TCP stack of this machine's kernel, and QUIC on this machine.

| backend | schemes |
|---|---|
| `sim` | ours, in the simulator |
| `kernel` | the kernel's own; ours where the kernel lacks the scheme | |
| `shim` | ours, on the kernel's TCP |
| `quic` | ours, in noq |
| `noq` | noq's own |
"""

from __future__ import annotations

from pathlib import Path

SIM, KERNEL, SHIM, QUIC, NOQ = BACKENDS = ("sim", "kernel", "shim", "quic", "noq")


def run_id(simulated: str, on: str) -> str:
    """Return the id of a run on a backend, given that of the simulated run."""
    return simulated if on == SIM else f"{simulated}-{on}"


def kernel_schemes() -> set[str]:
    """Return the names of the schemes that this kernel offers; none without Linux."""
    try:
        return set(Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="ascii").split())
    except OSError:
        return set()
