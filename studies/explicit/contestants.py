"""The contestants: schemes, each in the network that it is made for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEEP = "250ms"
"""The buffer of a discipline that keeps its queue short: only the worst case fills it (RFC 9332, appendix A)."""


@dataclass(frozen=True)
class Contestant:
    """A scheme in its network."""

    name: str
    """The name in tables."""
    scheme: str
    explicit: bool = False
    """Whether routers assign its rate. Their algorithm has the name of the scheme."""
    predicts: bool = False
    """Whether its router algorithm learns the rates of classes of flows."""
    network: Mapping[str, Any] = field(default_factory=dict)
    """The keys of a scenario that its network changes."""
    slotted: Mapping[str, Any] = field(default_factory=dict)
    """Further keys that the network changes if links follow a capacity trace."""

    @property
    def router(self) -> str:
        """The router algorithm of participating links."""
        return self.scheme.partition(":")[0] if self.explicit else "none"

    @property
    def folder(self) -> str:
        """The name of its folder of results."""
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
"""In table order: schemes with assigned rates, schemes with ECN marks, and schemes without help from routers."""
