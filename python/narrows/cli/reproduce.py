"""`narrows reproduce`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.numbers import whole
from narrows.cli.options import Jobs
from narrows.cli.outcome import guarded, print_table
from narrows.errors import UsageError
from narrows.files import check_writable
from narrows.progress import Terminal, print_status


@guarded
def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="PAPER", help="Reproduce this paper only, a name or the path of its folder; by default all papers."
        ),
    ] = None,
    figures: Annotated[list[str] | None, typer.Argument(metavar="FIGURE", help="Reproduce these figures only.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run one seed, and shorten the runs.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Run as long as the paper did.")] = False,
    seeds: Annotated[int | None, whole("--seeds", 1, help="Set the number of seeds.")] = None,
    world: Annotated[
        str | None,
        typer.Option(
            "--world", metavar="WORLD", help="Run in one world: paper (as its authors ran it) or today (Linux's TCP)."
        ),
    ] = None,
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="PLACE",
            help="Run on this machine's kernel too (kernel), as root: a third verdict for claims that it can decide.",
        ),
    ] = "sim",
    ablate: Annotated[
        bool,
        typer.Option("--ablate", help="Print which option of the paper's world turns each verdict that differs today."),
    ] = False,
    literal: Annotated[
        bool,
        typer.Option(
            "--literal", help="Run the equations and algorithms as printed too, and print what corrections are worth."
        ),
    ] = False,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Write the report to a folder.")] = Path(
        "report"
    ),
    papers: Annotated[Path | None, typer.Option(metavar="DIR", help="Read the papers from a folder.")] = None,
    allow_outside: Annotated[
        bool, typer.Option("--allow-outside", help="Read files outside a paper's folder that its figures name.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per claim, and nothing else.")] = False,
) -> None:
    """Run published experiments and judge their claims.

    Without PAPER it runs all papers: some 5000 runs, about five minutes on two cores; --quick gives a first look.
    """
    from narrows import ablation, engine, printed, reproduced
    from narrows import reproduce as work
    from narrows.api import check_backend
    from narrows.papers import KERNEL, WORLDS, load_all, locate

    if quick and full:
        raise UsageError("--quick, --full: these exclude each other; accepted: one of them, or neither")
    worlds = [name for name in WORLDS if world in (None, name)]
    if not worlds:
        raise UsageError(f"--world: there is no world {world!r}; accepted: {', '.join(WORLDS)}")
    check_backend(on, "--on", (engine.SIM, engine.KERNEL))
    if on == engine.KERNEL:
        if world == "paper":
            raise UsageError("--on, --world: the kernel runs today's world; accepted: without --world paper")
        worlds.append(KERNEL)
    if ablate and world is not None:
        raise UsageError("--ablate, --world: an ablation compares both worlds; accepted: one of these options")
    check_writable(out)
    chosen = load_all(*locate(papers, paper), figures or (), allow_outside=allow_outside)
    listener = Terminal(print_status, sys.stderr.isatty(), None)
    mode: reproduced.Mode = "quick" if quick else "full" if full else "default"
    flags = {"--quick": quick, "--full": full, "--ablate": ablate, "--literal": literal}
    flags["--allow-outside"] = allow_outside
    options = [("--seeds", seeds), ("--world", world), ("--papers", papers)]
    options.append(("--on", on if on != engine.SIM else None))
    words = [paper, *(figures or ()), *(flag for flag, on in flags.items() if on)]
    words += [str(part) for option in options if option[1] is not None for part in option]
    command = shlex.join(["narrows", "reproduce", *(str(word) for word in words if word is not None)])
    try:
        done, turns, forms = work.reproduce(
            chosen,
            out,
            mode=mode,
            seeds=seeds,
            chosen=worlds,
            jobs=jobs,
            listener=listener,
            ablate=ablate,
            literal=literal,
            command=command,
            print_status=print_status,
        )
    finally:
        listener.close()
    print_status(f"the report is {out / 'index.html'}")
    if as_json:
        for row, outcome in reproduced.rows(done):
            print(json.dumps(reproduced.data(row, outcome), ensure_ascii=False))
        return
    print_table(reproduced.table(done))
    for line in ablation.lines(turns or ()):
        print_table(line)
    for line in printed.lines(forms or ()):
        print_table(line)
    print_table(reproduced.sentence(done, mode))
