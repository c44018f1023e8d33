"""The parts of the study: one scenario file each, run for every contestant."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contestants import Contestant

import narrows
from narrows import api, engine
from narrows.scenario import load, override_text

HERE = Path(__file__).resolve().parent
ROUTER = f"network.{engine.ROUTER}"
"""The key of the router algorithm of all links."""


@dataclass(frozen=True)
class Part:
    """A scenario file, with the changes that the contestants make."""

    file: str
    ours: str = "flows.scheme"
    """The key that names the contestant's scheme."""
    chain: bool = False
    """Whether links must name their router algorithm; a dumbbell takes the algorithm from its flows."""
    changed: Mapping[str, Any] = field(default_factory=dict)
    """Keys that change for every contestant."""
    slotted: bool = False
    """Whether links follow a capacity trace, with a resolution of one millisecond."""
    dies: str | None = None
    """When the router algorithm of an explicit scheme stops."""
    trace: str | None = None
    variant: str = ""
    """Distinguishes parts with the same file."""

    @property
    def name(self) -> str:
        """The name of its results."""
        return f"{self.file}-{self.variant}" if self.variant else self.file

    @property
    def path(self) -> Path:
        """Its scenario file."""
        return HERE / f"{self.file}.toml"

    def scenario(self) -> dict[str, Any]:
        """Return the scenario as a dictionary."""
        return tomllib.loads(self.path.read_text(encoding="utf-8"))

    def changes(self, contestant: Contestant) -> dict[str, Any]:
        """Return the keys that change for a contestant."""
        keys: dict[str, Any] = {self.ours: contestant.scheme, **contestant.network}
        if self.slotted:
            keys |= contestant.slotted
        if self.chain:
            keys[ROUTER] = contestant.router
        if self.dies is not None and contestant.explicit:
            keys[ROUTER] = {"kind": contestant.router, "dies": self.dies}
        return keys | dict(self.changed)

    def first_other_seed(self) -> int:
        """Return a seed that its runs do not use."""
        scenario = self.scenario()
        return int(scenario.get("seed", 1)) + int(scenario.get("repeat", 1))

    def planned(self, contestant: Contestant) -> int:
        """Return the number of runs for a contestant.

        Raises:
            ScenarioError: The file does not suit the contestant.
        """
        changes = [(key, override_text(value)) for key, value in self.changes(contestant).items()]
        scenario = api.traced(load(self.path).replaced(changes), self.trace or False)
        return len(api.plan(scenario, self.trace is not None))

    def run(self, contestant: Contestant, out: Path) -> narrows.Results:
        """Execute the runs for a contestant in this thread; finished runs are reused."""
        folder = out / self.name / contestant.folder
        keys = self.changes(contestant)
        return narrows.run(self.path, set=keys, trace=self.trace or False, out=folder, jobs=1)


BARE = {f"links.1.{engine.ROUTER}": "none", "links.1.queue": "droptail", "links.1.buffer": "1bdp"}
"""Keys of a second link that does not participate."""

PARTS = (
    Part("rtt"),
    Part("flows"),
    Part("unequal"),
    Part("join", trace="40ms"),
    Part("alone"),
    Part("arrivals"),
    Part("mice"),
    Part("limited"),
    Part("loss"),
    Part("loss", variant="before", changed={"network.loss_at": "ingress"}),
    Part("feedback", chain=True),
    Part("moving", chain=True),
    Part("capacity", chain=True, slotted=True),
    Part("radio", slotted=True),
    Part("partial", chain=True, variant="whole"),
    Part("partial", chain=True, variant="half", changed=BARE),
    Part("coexist", ours="flows.0.scheme", chain=True),
    Part("deaf", ours="flows.0.scheme", chain=True),
    Part("dies", chain=True, dies="20s", trace="200ms"),
)
"""The parts that every contestant runs."""


def run_predictions(contestant: Contestant, out: Path, jobs: int | None) -> dict[str, narrows.Results]:
    """Run predict.toml without prediction, with rates learned during the run, and with rates learned before it."""
    part = Part("predict")
    silent = {"kind": contestant.router, "prediction": False}
    before = out / "learned.json"
    earlier = narrows.run(part.path, set=part.changes(contestant), seed=part.first_other_seed(), repeat=1, jobs=jobs)
    api.save_learned(before, earlier.raw[0])
    changes: dict[str, dict[str, Any]] = {
        "no prediction": {ROUTER: silent},
        "learned meanwhile": {},
        "learned before": {"network.learned": str(before.absolute())},
    }
    return {
        name: narrows.run(part.path, set=part.changes(contestant) | keys, jobs=jobs) for name, keys in changes.items()
    }


Runs = Mapping[str, Mapping[str, narrows.Results]]
"""Results by part and contestant."""


def named(name: str) -> Part:
    """Return the part with this name."""
    return next(part for part in PARTS if part.name == name)


def run_all(contestants: Sequence[Contestant], out: Path, jobs: int | None) -> dict[str, dict[str, narrows.Results]]:
    """Run every part for every contestant: the runs of a part one after the other, several parts at a time."""
    work = [(part, contestant) for part in PARTS for contestant in contestants]
    done: dict[str, dict[str, narrows.Results]] = {part.name: {} for part in PARTS}
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        waiting = [(part, who, pool.submit(part.run, who, out)) for part, who in work]
        for part, who, future in waiting:
            done[part.name][who.name] = future.result()
            print(f"{part.name}: {who.name}", flush=True)
    return done
