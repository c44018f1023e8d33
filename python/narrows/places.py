"""Where runs are executed: the simulator, or the TCP stack of this machine's kernel."""

from __future__ import annotations

from pathlib import Path

SIM, KERNEL = "sim", "kernel"
BACKENDS = (SIM, KERNEL)


def kernel_id(simulated: str) -> str:
    """Return the id of a run on the kernel."""
    return f"{simulated}-{KERNEL}"


def kernel_schemes() -> set[str]:
    """Return the names of the schemes that this kernel offers; none without Linux."""
    try:
        return set(Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="ascii").split())
    except OSError:
        return set()
