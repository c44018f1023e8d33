"""Builds the programs for ns-3, and runs the benchmark's dumbbells in it, if it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from narrows import engine
from narrows.quantities import quantity

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "bench" / "ns3" / "dumbbell.cc"
HEADERS = Path("/usr/include/ns3")
MODULES = ("applications", "internet", "point-to-point", "traffic-control", "network", "core")
MAX_FLOWS = 100
"""Cases with more flows are skipped: ns-3 takes many minutes to set up so many hosts."""
PACKETS = 100_000
"""Length of an ns-3 run in data packets. Whole cases take many minutes, at the same speed."""


def compare(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence per case: the speed of ns-3 with the same dumbbell, or the reason why it is missing.

    Compared rows gain `ns3`: the packets per second of ns-3, and the ratio of narrows to it.
    """
    try:
        program = build(SOURCE)
    except OSError as error:
        yield f"no comparison with ns-3: {error}"
        return
    scenarios = {case["name"]: case["scenario"] for case in engine.bench_cases()}
    for row in rows:
        if row["flows"] > MAX_FLOWS:
            yield f"{row['case']}: not compared with ns-3, which takes many minutes to set up so many hosts"
            continue
        try:
            speed = measure(program, scenarios[row["case"]])
        except subprocess.CalledProcessError as error:
            yield f"{row['case']}: ns-3 failed: {(error.stderr or '').strip()[-300:]}"
        except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            yield f"{row['case']}: ns-3 failed: {error}"
        else:
            ratio = row["packets_per_s"] / speed
            row["ns3"] = {"packets_per_s": speed, "ratio": ratio}
            yield (
                f"{row['case']}: ns-3 delivers {speed:,.0f} data packets per second on this machine: "
                f"narrows is {ratio:.0f} times as fast"
            )


def build(source: Path) -> Path:
    """Build a program for ns-3 if its source or a header beside it is newer, and return the program.

    Raises:
        OSError: The program cannot be built.
    """
    if not source.is_file():
        raise OSError("bench/ns3 exists in the source tree only")
    if not HEADERS.is_dir():
        raise OSError("its development files are not installed (Debian: libns3-dev)")
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise OSError("there is no C++ compiler")
    program = ROOT / "target" / "ns3" / source.stem
    newest = max(path.stat().st_mtime for path in (source, *source.parent.glob("*.h")))
    if not program.is_file() or program.stat().st_mtime < newest:
        program.parent.mkdir(parents=True, exist_ok=True)
        libraries = [f"-lns3-{module}" for module in MODULES]
        command = [compiler, "-O2", "-std=c++17", str(source), "-o", str(program), *libraries]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"{source} does not build: {done.stderr.strip()[-300:]}")
    return program


def measure(program: Path, scenario: str) -> float:
    """Return the data packets per wall-second of ns-3 with the parameters of a case's scenario."""
    data = tomllib.loads(scenario)
    (flow,) = data["flows"]
    rate, rtt, duration, spread = (
        _number(text) for text in (data["network"]["rate"], flow["rtt"], data["duration"], flow.get("spread", "0ms"))
    )
    seconds = min(duration / 1e3, PACKETS * 1500 * 8 / (rate * 1e6) + spread / 1e3)
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
