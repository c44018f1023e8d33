"""Goldens of two trees: snapshots, hashes on pages, packets of corpora, claims and scenarios of papers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from differences import Report, of_values, sets, shown

SKIPPED = {"target", ".venv", ".git", "node_modules"}
"""Folders that hold no sources."""

PAPERS = """
import json, sys
from pathlib import Path
from narrows import papers
FIELDS = ("kind", "paper", "unit", "tolerance", "within", "baseline", "direction", "schemes")
rows = {}
for paper in papers.load_all(Path(sys.argv[1])):
    for figure in paper.figures:
        rows[f"{paper.id} {figure.id}"] = {
            "scenario": figure.scenario.text, "trace": figure.trace, "quick": figure.quick, "full": figure.full,
            "claims": {claim.id: {name: getattr(claim, name) for name in FIELDS} for claim in figure.claims},
        }
print(json.dumps(rows, default=dict))
"""
"""Lists the figures of a tree's papers with the tree's own reader, so the format of the files may change."""


def of_trees(old: Path, new: Path) -> Report:
    """Compare the goldens of two trees."""
    report = Report()
    for kind, read in {"snapshots": snapshots, "pages with hashes": pages, "corpora": corpora}.items():
        before, after = read(old), read(new)
        report.compared[kind] = len(before)
        report.found += sets(kind, before, after)
        for name in before:
            if name in after and before[name] != after[name]:
                report.found.append(f"{kind}: {name}: {first(before[name], after[name])}")
    try:
        ours, theirs = papers(old), papers(new)
    except RuntimeError as error:
        report.found.append(str(error))
        return report
    report.compared["figures of papers"] = len(ours)
    report.compared["claims"] = sum(len(figure["claims"]) for figure in ours.values())
    for name in sorted({*ours, *theirs}):
        report.found += [f"papers: {place}" for place in of_values(name, ours.get(name), theirs.get(name), ())]
    report.found += [f"{kind}: {old} has none" for kind, count in report.compared.items() if count == 0]
    return report


def files(tree: Path, pattern: str) -> Iterator[Path]:
    """Sources of a tree."""
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(set(folders) - SKIPPED)
        yield from (Path(folder, name) for name in sorted(names) if Path(name).match(pattern))


def snapshots(tree: Path) -> dict[str, list[str]]:
    """The lines of each snapshot without insta's header, by its own name: `table` of `golden__table.snap`."""
    found: dict[str, list[str]] = {}
    for path in files(tree, "*.snap"):
        name = path.stem.rpartition("__")[2]
        while name in found:
            name += "'"
        _, _, body = path.read_text(encoding="utf-8").removeprefix("---\n").partition("\n---\n")
        found[name] = body.strip("\n").splitlines()
    return found


def pages(tree: Path) -> dict[str, list[str]]:
    """The hashes of runs that pages of schemes and router algorithms state, in order."""
    found = {}
    for path in files(tree / "docs", "*.md"):
        hashes = re.findall(r"`([0-9a-f]{16})`", path.read_text(encoding="utf-8"))
        if hashes:
            found[str(path.relative_to(tree))] = hashes
    return found


def corpora(tree: Path) -> dict[str, list[str]]:
    """The packets of each corpus, without the text beside them."""
    return {
        path.name: re.findall(r"\b(?:[0-9a-f]{2}){6,}\b", path.read_text(encoding="utf-8"))
        for path in files(tree, "*.hex")
    }


def papers(tree: Path) -> dict[str, Any]:
    """The figures of a tree's papers, with scenario and claims, read by the tree's own Python.

    Raises:
        RuntimeError: The tree's Python cannot read them.
    """
    tree = tree.resolve()
    own = tree / ".venv" / "bin" / "python"
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            [str(own) if own.exists() else sys.executable, "-c", PAPERS, str(tree / "papers")],
            env={**os.environ, "PYTHONPATH": str(tree / "python")},
            cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
    if process.returncode != 0:
        lines = process.stderr.strip().splitlines() or ["no reason given"]
        raise RuntimeError(f"papers: {tree} cannot be read: {lines[-1]}")
    rows: dict[str, Any] = json.loads(process.stdout)
    for row in rows.values():
        row["scenario"] = tomllib.loads(row["scenario"])
    return rows


def first(old: list[str], new: list[str]) -> str:
    """The first line in which two lists differ."""
    for number, (before, after) in enumerate(zip(old, new, strict=False), 1):
        if before != after:
            return f"line {number}: {shown(before)}, now {shown(after)}"
    return f"{len(old)} lines, now {len(new)}"
