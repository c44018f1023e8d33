"""`narrows new`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.outcome import guarded
from narrows.progress import print_status

app = typer.Typer(name="new", help="Start new work from a template that runs at once.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `study` a subcommand, although it is the only one."""


@app.command()
@guarded
def study(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Write this folder. Its last part is the name of the study.")
    ],
) -> None:
    """Start a study: a folder with a scenario and claims, for `narrows reproduce NAME`."""
    from narrows import studies

    for path in studies.create(Path(name)):
        print_status(f"wrote {path}")
    print_status(f"run it with: narrows reproduce {shlex.quote(name)}")
