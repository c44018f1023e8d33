"""Runs the hostile tests in their long forms, and prints the table of what was tried.

    make redteam                       about twenty minutes; NARROWS_SEED=N selects another seed
    python tests/redteam.py --short    in the forms of the ordinary tests
    python tests/redteam.py --docs     writes the table to docs/security.md too, if all tests passed

The exit status is 1 if a test fails. A skipped test, for example without root, has no row.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "security.md"
ROW = re.compile(r"^(?:test .* \.\.\. )?([^|]+?) \| ([\d ,]+?) \| ([^|]+)$")
RUST = (
    (
        "cargo",
        "test",
        "--quiet",
        "-p",
        "narrows-dccp",
        "--test",
        "all",
        "hostile",
        "--",
        "--include-ignored",
        "--nocapture",
    ),
    (
        "cargo",
        "test",
        "--quiet",
        "-p",
        "narrows-dccp-udp",
        "--lib",
        "tests::load",
        "--",
        "--include-ignored",
        "--nocapture",
        "--test-threads=1",
    ),
)
NAMED = (
    ("Nodectl", "negotiation", "tests::attack"),
    ("BRF switch", "brf", "switch::control::tests"),
    ("QUIC server", "perf", "tests::hostile"),
    ("DCCP server", "dccp-udp", "tests::attack"),
    ("DCCP sender", "dccp-udp", "tests::endings"),
    ("text of peers", "host", "text::tests"),
)
"""Subjects, crates and modules of tests. Some tests print rows; each other test is one row with its name."""
REPLAY = (
    "cargo",
    "test",
    "--quiet",
    "-p",
    "narrows-programs",
    "--test",
    "all",
    "programs",
    "--",
    "--include-ignored",
    "--nocapture",
)
"""Compares programs of the kernel with their twins. The test prints rows too."""
REPLAYED = {"NARROWS_PROGRAM_EVENTS": "10000000", "NARROWS_PROGRAM_FUZZ": "1000"}
"""The numbers of simulated events and of random tapes, for each program."""
LONGER = "10"
"""The Rust tests multiply their attempts by this."""
PYTHON = [
    f"tests/python/test_{name}.py"
    for name in (
        "damage",
        "hostile_results",
        "strangers",
        "malformed_studies",
        "fuzz",
        "interruptions",
        "qlog",
        "qlog_hostile",
        "dissector",
    )
]

Row = tuple[str, str, str]


def rows(lines: list[str]) -> list[Row]:
    """Return the rows of an output."""
    return [match.group(1, 2, 3) for line in lines if (match := ROW.match(line.strip(" .")))]


def outputs(lines: list[str]) -> dict[str, list[str]]:
    """Return the lines that each test printed, from an output with `--show-output`."""
    found: dict[str, list[str]] = {}
    own: list[str] = []
    for line in lines:
        if match := re.match(r"^---- (\S+) stdout ----$", line):
            own = found.setdefault(match[1], [])
        else:
            own.append(line)
    return found


def run(command: list[str] | tuple[str, ...], settings: dict[str, str]) -> tuple[bool, list[str]]:
    """Run a command; return whether it succeeded, and the lines of its standard output."""
    print(" ".join(command), file=sys.stderr, flush=True)
    done = subprocess.run(command, cwd=ROOT, env=os.environ | settings, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(done.stdout, file=sys.stderr)
    return done.returncode == 0, done.stdout.splitlines()


def attempts(short: bool) -> tuple[bool, list[Row]]:
    """Run all tests; return whether all passed, and the rows."""
    passed, found = True, []
    for command in RUST:
        good, lines = run(command, {} if short else {"NARROWS_REDTEAM": LONGER})
        passed, found = passed and good, found + rows(lines)
    good, lines = run(REPLAY, {} if short else REPLAYED)
    replayed = rows(lines)
    passed, found = passed and good and bool(replayed), found + replayed
    for subject, crate, module in NAMED:
        command = (
            "cargo",
            "test",
            "-p",
            f"narrows-{crate}",
            "--lib",
            "--",
            "--include-ignored",
            "--show-output",
            module,
        )
        good, lines = run(command, {} if short else {"NARROWS_REDTEAM": LONGER})
        passed, by_test = passed and good, outputs(lines)
        line_of = re.compile(rf"^test {module}::(\w+) \.\.\. ok$")
        named = [match[1] for line in lines if (match := line_of.match(line.strip()))]
        passed = passed and bool(named)  # a filter that matches no test is no success
        for name in named:
            alone = (f"{subject}: {name.removeprefix('long_').replace('_', ' ')}", "1", "as the name says")
            found += rows(by_test.get(f"{module}::{name}", [])) or [alone]
    with tempfile.NamedTemporaryFile("r", suffix=".table") as table:
        settings = {"NARROWS_REDTEAM_TABLE": table.name} | ({} if short else {"NARROWS_REDTEAM": "1"})
        good, _ = run([sys.executable, "-m", "pytest", "-q", *PYTHON], settings)
        found += rows(table.read().splitlines())
    return passed and good, found


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--short", action="store_true", help="run the forms of the ordinary tests")
    parser.add_argument("--docs", action="store_true", help="write the table to docs/security.md, if all passed")
    asked = parser.parse_args()
    passed, found = attempts(asked.short)
    lines = ["| tried | how many | result |", "|---|---:|---|", *(f"| {' | '.join(row)} |" for row in found)]
    print("\n".join(lines))
    if asked.docs and not passed:
        print(f"{PAGE} stays as it is: a test failed", file=sys.stderr)
    elif asked.docs:
        page = PAGE.read_text(encoding="utf-8")
        pattern = re.compile(r"(<!-- redteam -->\n).*?(<!-- /redteam -->)", re.DOTALL)
        page, regions = pattern.subn(lambda match: "\n".join([match[1] + lines[0], *lines[1:], match[2]]), page)
        assert regions == 1, f"{PAGE}: no region redteam"
        PAGE.write_text(page, encoding="utf-8")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
