"""A record: the results of one build over the whole catalogue."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import catalogue


class Failed(Exception):
    """A build could not be recorded."""


@dataclass(frozen=True)
class Build:
    """An interpreter that can import narrows."""

    python: str
    pythonpath: str | None

    def start(self, *arguments: str, folder: Path) -> subprocess.Popen[str]:
        """Start the interpreter in a folder that holds no other narrows."""
        # The interpreter of a virtual environment is a link; its target is the interpreter outside the environment.
        python = os.path.abspath(self.python) if os.sep in self.python else self.python  # noqa: PTH100
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        if self.pythonpath is not None:
            env["PYTHONPATH"] = str(Path(self.pythonpath).resolve())
        return subprocess.Popen(
            [python, *arguments], env=env, cwd=folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def registry(self, folder: Path) -> dict[str, Any]:
        """Schemes and router algorithms, as the build's command lists them."""
        lists = {}
        for kind in ("schemes", "routers"):
            process = self.start("-m", "narrows", kind, "--json", folder=folder)
            out, _ = process.communicate()
            if process.returncode != 0:
                raise Failed(f"the build cannot list its {kind}")
            lists[kind] = json.loads(out)
        return lists

    def rows(self, jobs: list[dict[str, Any]], folder: Path) -> Iterator[dict[str, Any]]:
        """Rows of the worker, one per run, as they arrive."""
        process = self.start(str(Path(__file__).with_name("worker.py")), folder=folder)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps({"runs": jobs}))
        process.stdin.close()
        for line in process.stdout:
            yield json.loads(line)
        if process.wait() != 0:
            raise Failed(f"the worker ended with {process.returncode}")


def record(build: Build, like: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Run everything with a build.

    Raises:
        Failed: The build refuses a scenario that it must run, or crashes.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = build.registry(folder)
        registry = like["registry"] if like is not None else own
        catalogue.prepare(folder)
        runs = {run.name: run for run in catalogue.everything(registry, folder)}
        hashes = {name: digest(tomllib.loads(run.text)) for name, run in runs.items()}
        rows = build.rows([job(run) for run in runs.values()], folder)
        engine = next(rows, {}).get("engine")
        made: dict[str, Any] = {}
        for count, row in enumerate(rows):
            run = runs[row["of"]]
            if "refused" in row and not run.may_refuse:
                raise Failed(row["why"])
            if row["run"] in made:
                raise Failed(f"two runs are called {row['run']!r}")
            made[row["run"]] = entry(row, hashes[run.name])
            if count % 500 == 499:
                print(f"{count + 1} runs", file=sys.stderr)
    refused = sum("refused" in row for row in made.values())
    took = time.monotonic() - started
    print(f"{len(made) - refused} runs and {refused} refusals in {took:.0f} s, engine {engine}", file=sys.stderr)
    return {
        "engine": engine,
        "schemes": [row["name"] for row in own["schemes"]],
        "routers": [row["name"] for row in own["routers"]],
        "registry": registry,
        "scenarios": {run.name: {"text": run.text, "overrides": run.overrides} for run in runs.values()},
        "runs": made,
    }


def job(run: catalogue.Run) -> dict[str, Any]:
    """A run as the worker reads it."""
    return {"name": run.name, "text": run.text, "directory": str(run.directory), "overrides": run.overrides}


def entry(row: Mapping[str, Any], scenario: str) -> dict[str, Any]:
    """A run in a record, with the hash of its scenario's content."""
    if "refused" in row:
        return {"scenario_sha256": scenario, "refused": row["refused"]}
    result = row["result"]
    return {
        "scenario_sha256": scenario,
        "event_hash": result["event_hash"],
        "result_sha256": digest(result),
        "result": result,
        "traces": row["traces"],
    }


def digest(value: Any) -> str:
    """A digest of JSON that does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
