"""The benchmark: data packets delivered per wall-second on one core, and ns-3 beside it where that is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from narrows import engine
from narrows.scenario import Misuse


def run(names: list[str], repeats: int, tell: Any) -> list[dict[str, Any]]:
    """The rows of some cases, or of all.

    Raises:
        Misuse: There is no such case.
    """
    cases = {case["name"]: case["description"] for case in engine.bench_cases()}
    unknown = [name for name in names if name not in cases]
    if unknown:
        raise Misuse(f"CASE: there is no case {unknown[0]!r}; accepted: {', '.join(cases)}")
    rows = []
    for name, description in cases.items():
        if name in (names or cases):
            tell(f"{name}: {description}")
            rows += [checked(row) for row in engine.bench(name, repeats)]
    return rows


def checked(row: dict[str, Any]) -> dict[str, Any]:
    """The row, failed if the bench did not do what `narrows run` does."""
    if row["event_hash"] != row["run_hash"]:
        row["failed"] = [*row["failed"], f"its events ({row['event_hash']}) are not those of a run ({row['run_hash']})"]
    return row


def ns3(folder: Path | None = None) -> list[dict[str, Any]] | str:
    """What ns-3's dumbbell does on this machine, or why there is nothing to say.

    `bench/ns3/run` builds the comparison and prints JSON rows `{case, data_packets, wall_s, packets_per_s}`.
    """
    folder = folder or Path(__file__).parents[2] / "bench" / "ns3"
    script = folder / "run"
    if not script.is_file():
        return "no comparison with ns-3: bench/ns3 is part of the source tree only"
    if not _ns3_installed():
        return "no comparison with ns-3: its development files are not installed (Debian: libns3-dev)"
    try:
        done = subprocess.run([str(script)], capture_output=True, text=True, check=True, timeout=1800)
        return list(json.loads(done.stdout))
    except subprocess.CalledProcessError as error:
        return f"no comparison with ns-3: {script} failed: {(error.stderr or '').strip()[-300:]}"
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"no comparison with ns-3: {script}: {error}"


def _ns3_installed() -> bool:
    if any(path.is_dir() for path in Path("/usr/include").glob("ns3*")):
        return True
    tool = shutil.which("pkg-config")
    if tool is None:
        return False
    found = subprocess.run([tool, "--list-all"], capture_output=True, text=True, check=False)
    return any(line.startswith(("libns3", "ns3")) for line in found.stdout.splitlines())


def compared(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[str]:
    """One sentence per case that both ran."""
    ours = {row["case"]: row["packets_per_s"] for row in rows}
    return [
        f"{other['case']}: ns-3 delivers {other['packets_per_s']:,.0f} data packets per second here, "
        f"narrows {ours[other['case']]:,.0f}: {ours[other['case']] / other['packets_per_s']:.0f} times as many"
        for other in others
        if other["case"] in ours and other["packets_per_s"] > 0
    ]
