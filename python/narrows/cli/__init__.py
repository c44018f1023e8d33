"""The `narrows` command.

`simulate` runs scenarios, `reproduce` papers, `fidelity` compares with the kernel; `new` starts studies; `results`
draws and reports; `registry` lists schemes and router algorithms; `tools` generates traces and measures the engine;
`packetdrill` runs packet scripts; `kernel` loads schemes into the kernel; `brf` sets up rates from the network; `dccp`,
`nodectl` and `perf` use real sockets. `options` holds the options that commands share, `numbers` options of whole
numbers, `outcome` messages and exit statuses.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows import engine
from narrows.cli import (
    brf,
    dccp,
    fidelity,
    kernel,
    new,
    nodectl,
    packetdrill,
    perf,
    registry,
    reproduce,
    results,
    simulate,
    tools,
)
from narrows.cli.options import spelled_out
from narrows.cli.outcome import FAILURE, INTERRUPTED
from narrows.progress import print_status, spelled

app = typer.Typer(
    name="narrows",
    help="Run congestion control schemes over simulated networks, and reproduce published experiments.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"narrows {engine.version()}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


for panel, commands in (
    ("Run experiments", (simulate.run, simulate.compare, simulate.sweep, reproduce.reproduce, fidelity.fidelity)),
    ("Show results", (results.plot, results.report)),
    ("Look up algorithms", (registry.schemes, registry.routers)),
    ("Tools", (tools.trace, tools.bench, packetdrill.packetdrill)),
):
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(new.app, rich_help_panel="Run experiments")
for group in (kernel, brf, dccp, nodectl, perf):
    app.add_typer(group.app, rich_help_panel="Tools")


def main() -> None:
    """Run the command."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller closed it: narrows … >&-
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (open until the end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error("narrows", spelled)
        sys.stdout.reconfigure(errors="narrows")  # the terminal may lack letters of the results
    if not os.environ.get("COLUMNS", "").strip("0"):  # rich would print lines without columns
        os.environ.pop("COLUMNS", None)
    try:
        app(args=spelled_out(sys.argv[1:]), prog_name="narrows")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except typer.Exit as ended:
        sys.exit(ended.exit_code)
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        if os.environ.get("NARROWS_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            # Help and version are outside of guarded commands.
            print_status(f"narrows: standard output: {error.strerror}")
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(FAILURE)
        print_status(
            f"narrows: a bug of Narrows: {type(error).__name__}: {error}\n"
            "  please report it with the command; NARROWS_DEBUG=1 prints where it is"
        )
        sys.exit(FAILURE)
