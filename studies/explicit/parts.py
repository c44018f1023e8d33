"""The parts of the study: a scenario file each, run for every contestant."""

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
from narrows.options import remember
from narrows.scenario import load, override_text

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Part:
    """A scenario file as the contestants run it."""

    file: str
    ours: str = "flows.scheme"
    """The key that names the contestant's scheme."""
    chain: bool = False
    """Whether its links need to be told that they take part; a dumbbell knows by the flows."""
    changed: Mapping[str, Any] = field(default_factory=dict)
    """Keys that differ from the file, for everybody."""
    slotted: bool = False
    """Whether its links follow a capacity trace, which hands out capacity millisecond by millisecond."""
    dies: str | None = None
    """When the allocator of an explicit scheme stops."""
    trace: str | None = None
    variant: str = ""
    """What tells it from other parts of the same file."""

    @property
    def name(self) -> str:
        """How results are found."""
        return f"{self.file}-{self.variant}" if self.variant else self.file

    @property
    def path(self) -> Path:
        """Its file."""
        return HERE / f"{self.file}.toml"

    def scenario(self) -> dict[str, Any]:
        """What its file says."""
        return tomllib.loads(self.path.read_text(encoding="utf-8"))

    def changes(self, contestant: Contestant) -> dict[str, Any]:
        """The keys that differ from the file for a contestant."""
        keys: dict[str, Any] = {self.ours: contestant.scheme, **contestant.network}
        if self.slotted:
            keys |= contestant.slotted
        if self.chain:
            keys["network.allocator"] = contestant.allocator
        if self.dies is not None and contestant.explicit:
            keys["network.allocator"] = {"kind": contestant.allocator, "dies": self.dies}
        return keys | dict(self.changed)

    def first_other_seed(self) -> int:
        """A seed that its runs do not have."""
        scenario = self.scenario()
        return int(scenario.get("seed", 1)) + int(scenario.get("repeat", 1))

    def planned(self, contestant: Contestant) -> int:
        """How many runs it has for a contestant; an error if the file does not suit it."""
        changes = [(key, override_text(value)) for key, value in self.changes(contestant).items()]
        scenario = api.traced(load(self.path).replaced(changes), self.trace or False)
        traced = self.trace is not None
        return len(engine.plan(scenario.text, scenario.source, scenario.directory, scenario.overrides, traced))

    def run(self, contestant: Contestant, out: Path) -> narrows.Results:
        """All its runs for a contestant, in this thread; those that are finished are not run again."""
        folder = out / self.name / contestant.folder
        keys = self.changes(contestant)
        return narrows.run(self.path, set=keys, trace=self.trace or False, out=folder, jobs=1)


BARE = {"links.1.allocator": "none", "links.1.queue": "droptail", "links.1.buffer": "1bdp"}
"""A second link that does not take part."""

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
"""All parts that every contestant runs."""


def run_predictions(contestant: Contestant, out: Path, jobs: int | None) -> dict[str, narrows.Results]:
    """Runs of predict.toml for a contestant that predicts: without, with what is learned meanwhile, and before."""
    part = Part("predict")
    silent = {"kind": contestant.allocator, "prediction": False}
    before = out / "learned.json"
    earlier = narrows.run(part.path, set=part.changes(contestant), seed=part.first_other_seed(), repeat=1, jobs=jobs)
    remember(before, earlier.raw[0])
    changes: dict[str, dict[str, Any]] = {
        "no prediction": {"network.allocator": silent},
        "learned meanwhile": {},
        "learned before": {"network.learned": str(before.absolute())},
    }
    return {
        name: narrows.run(part.path, set=part.changes(contestant) | keys, jobs=jobs) for name, keys in changes.items()
    }


Runs = Mapping[str, Mapping[str, narrows.Results]]
"""Results by part and by contestant."""


def named(name: str) -> Part:
    """The part of that name."""
    return next(part for part in PARTS if part.name == name)


def run_all(contestants: Sequence[Contestant], out: Path, jobs: int | None) -> dict[str, dict[str, narrows.Results]]:
    """Every part for every contestant. A part's runs follow each other, so many parts go on at a time."""
    work = [(part, contestant) for part in PARTS for contestant in contestants]
    done: dict[str, dict[str, narrows.Results]] = {part.name: {} for part in PARTS}
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        waiting = [(part, who, pool.submit(part.run, who, out)) for part, who in work]
        for part, who, future in waiting:
            done[part.name][who.name] = future.result()
            print(f"{part.name}: {who.name}", flush=True)
    return done
