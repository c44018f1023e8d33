"""The benchmark: data packets per wall-second on one core, beside ns-3 where that is installed; the cost of schemes."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from narrows import engine
from narrows.quantities import quantity
from narrows.scenario import Misuse

ROOT = Path(__file__).resolve().parents[2]
NS3_SOURCE = ROOT / "bench" / "ns3" / "dumbbell.cc"
NS3_HEADERS = Path("/usr/include/ns3")
REPEATS, ROUNDS, TURNS = 3, 201, 51
"""How often a case is run, and how many rounds schemes and allocators have, where nothing is said."""
NS3_FLOWS = 100
"""Cases of more flows are not run in ns-3."""
NS3_MODULES = ("applications", "internet", "point-to-point", "traffic-control", "network", "core")
NS3_PACKETS = 100_000
"""How many packets ns-3 is given: its speed does not depend on it, and whole cases would take it many minutes."""


def run(names: Sequence[str], repeats: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """The rows of some cases, or of all. A row fails whose events are not those of a plain run of its scenario.

    Raises:
        Misuse: There is no such case.
    """
    cases = {case["name"]: case for case in engine.bench_cases()}
    unknown = [name for name in names if name not in cases]
    if unknown:
        raise Misuse(f"CASE: there is no case {unknown[0]!r}; accepted: {', '.join(cases)}")
    rows = []
    for name in names or cases:
        tell(f"{name}: {cases[name]['description']}")
        row = engine.bench(name, repeats)
        (planned,) = engine.plan(cases[name]["scenario"], name, None)
        row["run_hash"] = engine.run(planned, None, None)["event_hash"]
        if row["event_hash"] != row["run_hash"]:
            reason = f"its events ({row['event_hash']}) are not those of a run of the same scenario ({row['run_hash']})"
            row["failed"] = [*row["failed"], reason]
        rows.append(row)
    return rows


def costs(names: Sequence[str], repeats: int) -> list[dict[str, Any]]:
    """What an acknowledgement costs each scheme, or some of them.

    Raises:
        Misuse: There is no such scheme.
    """
    known = engine.scheme_order()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Misuse(f"SCHEME: {engine.no_scheme(unknown[0])}")
    return engine.bench_schemes(repeats, names)


def ports(names: Sequence[str], repeats: int) -> list[dict[str, Any]]:
    """What each allocator, or some of them, cost the link at whose port they sit.

    Raises:
        Misuse: There is no such allocator.
    """
    try:
        return engine.bench_allocators(repeats, names)
    except ValueError as error:
        raise Misuse(f"ALLOCATOR: {error}") from error


def beside_ns3(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One sentence per case: what ns-3 does with the same dumbbell here, or why there is nothing to say.

    A row that was compared gains `ns3`: packets per second there, and how many times as many here.
    """
    try:
        program = _ns3_built()
    except OSError as error:
        yield f"no comparison with ns-3: {error}"
        return
    scenarios = {case["name"]: case["scenario"] for case in engine.bench_cases()}
    for row in rows:
        if row["flows"] > NS3_FLOWS:
            yield f"{row['case']}: not compared with ns-3, whose set-up of so many hosts alone takes many minutes"
            continue
        try:
            theirs = _ns3_run(program, scenarios[row["case"]])
        except subprocess.CalledProcessError as error:
            yield f"{row['case']}: ns-3 failed: {(error.stderr or '').strip()[-300:]}"
        except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            yield f"{row['case']}: ns-3 failed: {error}"
        else:
            row["ns3"] = {"packets_per_s": theirs, "ratio": row["packets_per_s"] / theirs}
            yield (
                f"{row['case']}: ns-3 delivers {theirs:,.0f} data packets per second on this machine: "
                f"narrows is {row['packets_per_s'] / theirs:.0f} times as fast"
            )


def _ns3_built() -> Path:
    """The dumbbell for ns-3, built if its source is newer.

    Raises:
        OSError: It cannot be built.
    """
    if not NS3_SOURCE.is_file():
        raise OSError("bench/ns3 is part of the source tree only")
    if not NS3_HEADERS.is_dir():
        raise OSError("its development files are not installed (Debian: libns3-dev)")
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise OSError("there is no C++ compiler")
    program = ROOT / "target" / "ns3" / "dumbbell"
    if not program.is_file() or program.stat().st_mtime < NS3_SOURCE.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        libraries = [f"-lns3-{module}" for module in NS3_MODULES]
        command = [compiler, "-O2", "-std=c++17", str(NS3_SOURCE), "-o", str(program), *libraries]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"{NS3_SOURCE} does not build: {done.stderr.strip()[-300:]}")
    return program


def _ns3_run(program: Path, scenario: str) -> float:
    """Data packets per wall-second of ns-3, with the numbers of a case's scenario."""
    data = tomllib.loads(scenario)
    (flow,) = data["flows"]
    rate, rtt, duration, spread = (
        _number(text) for text in (data["network"]["rate"], flow["rtt"], data["duration"], flow.get("spread", "0ms"))
    )
    seconds = min(duration / 1e3, NS3_PACKETS * 1500 * 8 / (rate * 1e6) + spread / 1e3)
    arguments = {
        "flows": flow.get("count", 1), "rate": f"{rate:g}", "rtt": f"{rtt:g}", "seconds": f"{seconds:g}",
        "spread": f"{spread / 1e3:g}", "scheme": f"Tcp{flow['scheme'].capitalize()}",
    }  # fmt: skip
    command = [str(program), *(f"--{key}={value}" for key, value in arguments.items())]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return float(json.loads(done.stdout)["packets_per_s"])


def _number(text: str) -> float:
    found = quantity(text)
    if found is None:
        raise ValueError(f"{text!r} is not a number with a unit")
    return found[0]
