"""Who takes part in the study, and the network that each is made for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEEP = "250ms"
"""The buffer of a discipline that keeps its queue short by itself: for the worst only (RFC 9332, appendix A)."""


@dataclass(frozen=True)
class Contestant:
    """A scheme in its network."""

    name: str
    """What tables call it."""
    scheme: str
    explicit: bool = False
    """Whether routers name its rate; then they have the allocator of the scheme's name."""
    predicts: bool = False
    """Whether its allocator learns what flows of a kind use."""
    network: Mapping[str, Any] = field(default_factory=dict)
    """Keys of a scenario that its network differs in."""
    slotted: Mapping[str, Any] = field(default_factory=dict)
    """The same where links follow a capacity trace."""

    @property
    def allocator(self) -> str:
        """What ports that take part have."""
        return self.scheme.partition(":")[0] if self.explicit else "none"

    @property
    def folder(self) -> str:
        """A name for a folder."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.name.lower())


ALL = (
    Contestant("BRF", "brf", explicit=True, predicts=True),
    Contestant("Nodectl", "nodectl", explicit=True),
    Contestant("RCP", "rcp", explicit=True),
    Contestant("XCP", "xcp", explicit=True),
    Contestant(
        "Prague", "prague",
        network={"network.queue": "dualpi2", "network.buffer": DEEP},
        slotted={"network.queue": {"kind": "dualpi2", "ramp_min": "5ms", "ramp_range": "5ms"}},
    ),
    Contestant(
        "CUBIC/CoDel", "cubic",
        network={"network.queue": {"kind": "codel", "ecn": True}, "network.buffer": DEEP, "tcp.ecn": True},
    ),
    Contestant("BBR v3", "bbr3"),
    Contestant("CUBIC", "cubic"),
)  # fmt: skip
"""In the order of tables: those whose rate routers name, then those that routers mark, then those that are alone."""
