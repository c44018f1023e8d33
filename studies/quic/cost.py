"""Measures the cost of schemes in noq beside its own controllers, for docs/topics/quic.md.

    python studies/quic/cost.py [--acks] [--loopback] [SCHEME …]

`--acks`: nanoseconds per acknowledgement (`cargo bench --bench acks`, all schemes). `--loopback`: throughput over
loopback of the named schemes (default: bbr-gc, bbr3, bbr, cubic, newreno) relative to noq's own CUBIC in the same run
(`--bench loopback`), with a receive buffer of 4 MiB and with the system's default. Without both, both.
Needs a quiet machine; the tables replace those of the page.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from study import PAGE, fill

ROOT = Path(__file__).resolve().parents[2]
SCHEMES = ["bbr-gc", "bbr3", "bbr", "cubic", "newreno"]
GROUP = "million acknowledgements in noq"
SHORT = ["--warm-up-time", "0.5", "--measurement-time", "2", "--sample-size", "10"]


def bench(name: str, arguments: list[str]) -> str:
    """Run a benchmark of the adapter and return what it prints."""
    command = ["cargo", "bench", "--quiet", "-p", "narrows-quic", "--bench", name, "--", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"`{' '.join(command)}` ended with status {done.returncode}")
    return done.stdout


def acks() -> list[str]:
    """Return the table of nanoseconds per acknowledgement, noq's own controllers first."""
    bench("acks", SHORT)
    found = []
    for file in (ROOT / "target" / "criterion" / GROUP).glob("*/new/benchmark.json"):
        name = json.loads(file.read_text(encoding="utf-8"))["function_id"]
        estimates = json.loads(file.with_name("estimates.json").read_text(encoding="utf-8"))
        # One measurement is a million acknowledgements.
        found.append((not name.startswith("noq:"), estimates["median"]["point_estimate"] / 1e6, name))
    lines = [f"| {name} | {cost:.0f} |" for _, cost, name in sorted(found)]
    return ["| controller | ns per acknowledgement |", "|---|---:|", *lines]


def throughput(arguments: list[str]) -> dict[str, list[str]]:
    """Return Mbit/s and the ratio to noq's CUBIC by controller."""
    rows = [line.split() for line in bench("loopback", arguments).splitlines()]
    return {row[0]: row[1:] for row in rows if len(row) == 3 and row[0] != "controller"}


def loopback(schemes: list[str]) -> list[str]:
    """Return the table of throughput over loopback, with both receive buffers."""
    wide, small = throughput(schemes), throughput(["--small", *schemes])
    lines = [f"| {name} | {' | '.join(wide[name] + small[name])} |" for name in wide]
    head = "| controller | Mbit/s, 4 MiB | to noq's CUBIC | Mbit/s, default buffer | to noq's CUBIC |"
    return [head, "|---|---:|---:|---:|---:|", *lines]


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemes", nargs="*", default=SCHEMES, help="schemes over loopback")
    parser.add_argument("--acks", action="store_true", help="measure acknowledgements only")
    parser.add_argument("--loopback", action="store_true", help="measure throughput only")
    options = parser.parse_args()
    both = options.acks == options.loopback
    for region, wanted, table in [
        ("acks", options.acks, acks),
        ("loopback", options.loopback, lambda: loopback(options.schemes)),
    ]:
        if both or wanted:
            lines = table()
            fill(PAGE, {region: "\n".join(lines)})
            print(*lines, sep="\n")


if __name__ == "__main__":
    main()
