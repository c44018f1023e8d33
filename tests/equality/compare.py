"""Show that two builds of Narrows behave the same: event hashes, whole results, traces, goldens.

    python tests/equality/compare.py record --narrows-python OLD/.venv/bin/python -o old.json
    python tests/equality/compare.py record --narrows-python NEW/.venv/bin/python --like old.json -o new.json
    python tests/equality/compare.py compare old.json new.json
    python tests/equality/compare.py goldens OLD NEW

`record` runs the whole catalogue with one build, about two thousand short runs, and keeps every result. `--like` takes
the names of schemes, router algorithms and parameters from another record, so that both make the same runs.
`--pythonpath DIR` runs the Python sources and the engine in DIR (`TREE/python`) with the packages of that interpreter.

`compare` counts the runs, prints each difference with its first differing field, and exits with 1 if there are any, or
if the sets of runs differ. `--ignore FIELD` leaves a field out, whatever object it is in; the output says so. Sizes of
data structures, such as `peak_flow_bytes`, are the only candidates.

`goldens` compares two trees: insta snapshots, event hashes on pages of schemes and routers, packets of corpora, and the
claims and scenarios of papers. Papers need an engine: TREE/python, run by TREE/.venv or else by this interpreter.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import differences
import goldens
import record


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(description="Compare two builds of Narrows.")
    commands = top.add_subparsers(dest="command", required=True)
    of_record = commands.add_parser("record", help="run everything with one build")
    of_record.add_argument("--narrows-python", required=True, metavar="PYTHON", help="the interpreter of the build")
    of_record.add_argument("--pythonpath", metavar="DIR", help="import narrows from here")
    of_record.add_argument("--like", type=Path, metavar="RECORD", help="make the runs of this record")
    of_record.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="the record")
    of_compare = commands.add_parser("compare", help="compare two records")
    of_compare.add_argument("old", type=Path)
    of_compare.add_argument("new", type=Path)
    of_compare.add_argument("--ignore", action="append", default=[], metavar="FIELD", help="leave a field out")
    of_goldens = commands.add_parser("goldens", help="compare the goldens of two trees")
    of_goldens.add_argument("old", type=Path)
    of_goldens.add_argument("new", type=Path)
    return top


def main(arguments: list[str] | None = None) -> int:
    """The command; its exit status."""
    arguments = parser().parse_args(arguments)
    if arguments.command == "record":
        like = json.loads(arguments.like.read_text()) if arguments.like else None
        build = record.Build(arguments.narrows_python, arguments.pythonpath)
        try:
            made = record.record(build, like)
        except record.Failed as failed:
            print(failed, file=sys.stderr)
            return 1
        arguments.out.write_text(json.dumps(made, sort_keys=True, indent=0) + "\n")
        return 0
    if arguments.command == "compare":
        old, new = (json.loads(path.read_text()) for path in (arguments.old, arguments.new))
        report = differences.of_records(old, new, arguments.ignore)
    else:
        report = goldens.of_trees(arguments.old, arguments.new)
    print("\n".join(report.lines()))
    return 0 if report.equal() else 1


if __name__ == "__main__":
    sys.exit(main())
