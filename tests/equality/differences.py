"""Differences between two records, named by run and field."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

LONGEST = 100
"""Characters of a value that a difference shows."""


@dataclass
class Report:
    """The outcome of a comparison."""

    compared: dict[str, int] = field(default_factory=dict)
    """Number of things compared, by kind."""
    found: list[str] = field(default_factory=list)
    """A line for each difference."""
    notes: list[str] = field(default_factory=list)
    """Remarks that are no differences."""

    def equal(self) -> bool:
        """Whether something was compared and nothing differs."""
        return any(self.compared.values()) and not self.found

    def lines(self) -> list[str]:
        """The report as text."""
        counted = ", ".join(f"{count} {kind}" for kind, count in self.compared.items()) or "nothing"
        verdict = "equal" if self.equal() else f"{len(self.found)} differ"
        return [*self.found, *self.notes, f"{counted} compared: {verdict}"]


def of_records(old: Mapping[str, Any], new: Mapping[str, Any], ignored: Collection[str] = ()) -> Report:
    """Compare two records."""
    before, after = old["runs"], new["runs"]
    common = [name for name in before if name in after]
    refused = sum("refused" in before[name] for name in common)
    report = Report({"runs": len(common) - refused, "refusals": refused})
    for kind in ("schemes", "routers"):
        report.found += sets(kind, old[kind], new[kind])
    report.found += sets("runs", before, after)
    report.found += scenarios(old["scenarios"], new["scenarios"])
    for name in common:
        found = list(of_runs(before[name], after[name], frozenset(ignored)))
        if found:
            more = f" (and {len(found) - 1} more fields)" if len(found) > 1 else ""
            report.found.append(f"{name}: {found[0]}{more}")
    if ignored:
        report.notes.append(f"ignored: {', '.join(sorted(ignored))}")
    if old.get("engine") == new.get("engine"):
        report.notes.append("both records come from the same engine")
    return report


def sets(kind: str, old: Collection[str], new: Collection[str]) -> list[str]:
    """A line for each name that one of two sets lacks."""
    only = [f"{kind}: only in the old: {name}" for name in old if name not in new]
    return only + [f"{kind}: only in the new: {name}" for name in new if name not in old]


def scenarios(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """A line for each scenario whose content differs: its runs cannot be compared."""
    for name in old.keys() & new.keys():
        before, after = ({**each[name], "text": tomllib.loads(each[name]["text"])} for each in (old, new))
        for place in list(of_values("scenario", before, after, ()))[:1]:
            yield f"{name}: {place}"


def of_runs(old: Mapping[str, Any], new: Mapping[str, Any], ignored: Collection[str]) -> Iterator[str]:
    """The fields in which two runs differ, the event hash first."""
    for key in ("refused", "event_hash", "result", "traces"):
        if key in old and key in new:
            yield from of_values(key, old[key], new[key], ignored)
        elif key in old or key in new:
            yield f"{key}: only in the {'old' if key in old else 'new'}"


def of_values(path: str, old: Any, new: Any, ignored: Collection[str]) -> Iterator[str]:
    """The paths at which two JSON values differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new} - set(ignored)):
            if key in old and key in new:
                yield from of_values(f"{path}.{key}", old[key], new[key], ignored)
            else:
                yield f"{path}.{key}: only in the {'old' if key in old else 'new'}"
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} items, now {len(new)}"
        for i, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from of_values(f"{path}[{i}]", before, after, ignored)
    elif json.dumps(old) != json.dumps(new):  # 1 is not 1.0, and NaN is NaN
        yield f"{path}: {shown(old)}, now {shown(new)}"


def shown(value: Any) -> str:
    """A value, not too long."""
    text = json.dumps(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"
