"""Options that several commands share, and what all commands do with errors."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, ParamSpec

import typer

from narrows import api, engine, runner
from narrows.scenario import COMMAND_LINE, Misuse, Scenario, flag_of, setting

MISUSE, FAILURE, INTERRUPTED = 2, 1, 130

Duration = Annotated[str | None, typer.Option(help="Simulated time.", metavar="TIME")]
Seed = Annotated[int | None, typer.Option(help="The first seed.", metavar="N")]
Repeat = Annotated[int | None, typer.Option(help="How many seeds to run.", metavar="N")]
Loss = Annotated[str | None, typer.Option(help="Random loss at the bottleneck.", metavar="SHARE")]
Queue = Annotated[str | None, typer.Option(help="Queue discipline of the bottleneck.", metavar="NAME")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per run, and nothing else.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder that keeps the results.", metavar="DIR")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", help="Replace a value; several values with commas sweep. Repeatable.", metavar="KEY=VALUE"),
]
Trace = Annotated[
    str | None,
    typer.Option(help=f"Record samples, every {api.TRACE_INTERVAL} or every TIME. Needs -o.", metavar="[TIME]"),
]
Packets = Annotated[bool, typer.Option("--packets", help="Record every packet event too. Needs --trace.")]
Jobs = Annotated[int | None, typer.Option(help="Runs at a time; all cores by default.", metavar="N", min=1)]

P = ParamSpec("P")


def say(text: str) -> None:
    """Tell the person; standard output is for results."""
    print(text, file=sys.stderr, flush=True)


def fail(text: str, status: int) -> NoReturn:
    """End with a message."""
    say(f"narrows: {text}")
    raise typer.Exit(status)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """A command whose errors become a message of one screen and an exit status: 2 misuse, 1 failure, 130 Ctrl-C."""

    @functools.wraps(command)
    def inner(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except engine.ScenarioError as error:
            fail(scenario_error(error, given(kwargs.get("sets"))), MISUSE)
        except Misuse as error:
            fail(str(error), MISUSE)
        except runner.Interrupted as stopped:
            kept = "; nothing was kept, -o DIR keeps finished runs"
            if stopped.out is not None:
                kept = f"; they are kept in {stopped.out}, and the same command does the rest"
            fail(f"stopped after {stopped.finished} of {stopped.total} runs{kept}", INTERRUPTED)
        except KeyboardInterrupt:
            fail("stopped", INTERRUPTED)
        except runner.RunFailed as error:
            fail(f"a run failed: {error}", FAILURE)
        except BrokenPipeError:  # the reader of standard output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILURE) from None
        except OSError as error:
            named = error.strerror and error.filename
            fail(f"{error.filename}: {error.strerror}" if named else str(error), FAILURE)

    return inner


def given(sets: Any) -> tuple[str, ...]:
    """The keys that `--set` names."""
    return tuple(str(text).partition("=")[0].strip() for text in sets or ())


def scenario_error(error: engine.ScenarioError, keys: Sequence[str] = ()) -> str:
    """The engine's message. A value that came from the command line has no line, but a flag: its own, or `--set`."""
    if error.source != COMMAND_LINE:
        return str(error)
    named = _everywhere(error.key or "")
    key = next((key for key in keys if named == _everywhere(key) or named.startswith(f"{_everywhere(key)}.")), None)
    place = f"--set {key}" if key is not None else flag_of(error.key) or error.key or COMMAND_LINE
    accepted = f"\n  accepted: {error.accepted}" if error.accepted else ""
    return f"{place}: {error.message}{accepted}"


def overrides(
    sets: Sequence[str] | None,
    seed: int | None,
    repeat: int | None,
    duration: str | None,
    loss: str | None,
    queue: str | None,
) -> list[tuple[str, str]]:
    """What the common options replace."""
    network = [("network.loss", loss), ("network.queue", queue)]
    keys = given(sets)
    if (twice := next((key for key in keys if keys.count(key) > 1), None)) is not None:
        raise Misuse(f"--set {twice}: given twice; accepted: once, with several values to sweep: {twice}=A,B")
    flags = [(key, value) for key, value in network if value is not None]
    return api.common(seed, repeat, duration, [*flags, *(setting(text) for text in sets or ())])


def go(
    scenario: Scenario,
    *,
    out: Path | None,
    as_json: bool,
    trace: str | None,
    packets: bool,
    jobs: int | None,
    ray: str | None = None,
) -> None:
    """Plan, run, keep and print."""
    if trace is not None and out is None:
        raise Misuse("--trace: traces are files; accepted: --trace together with -o DIR")
    if packets and trace is None:
        raise Misuse("--packets: accepted together with --trace")
    if ray is not None and trace is not None:
        raise Misuse("--ray: a cluster's machines keep no traces here; accepted: --trace without --ray")
    if out is not None:
        runner.writable(out)
    scenario = api.traced(scenario, trace or False, packets)
    planned = engine.plan(scenario.text, scenario.source, scenario.directory, scenario.overrides, trace is not None)
    printed = (lambda result: print(engine.dump(result), flush=True)) if as_json else None
    listener = runner.Terminal(say, sys.stderr.isatty(), printed)
    execute = runner.here if ray is None else runner.ray_execute(ray)
    try:
        done = runner.Runner(out=out, jobs=jobs, listener=listener, execute=execute).run(planned)
    finally:
        listener.close()
    if as_json and out is None:
        return
    from narrows.results import Results

    results = Results([item.point for item in planned], done, out)
    if out is not None:
        runner.write_atomic(out / "scenario.toml", scenario.as_text())
        results.save(out)
        say(f"results are in {out}")
    if not as_json:
        show(results.table())


def show(table: Any, width: int | None = None) -> None:
    """Print to standard output; where that is not a terminal, 80 columns wide or as wide as asked for."""
    from rich.console import Console

    Console(highlight=False, width=None if sys.stdout.isatty() else width).print(table)


def _everywhere(key: str) -> str:
    """A key without the numbers of items: `flows.rtt` for `flows.0.rtt`."""
    return re.sub(r"\.\d+(?=\.|$)", "", key)


_TIME = re.compile(r"off|-?\d+(\.\d+)?\s*[a-zµ]*")
"""What is meant as a time, if not a good one; files and schemes do not read so."""


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--trace`'s time written out where it was left out."""
    out: list[str] = []
    for i, argument in enumerate(arguments):
        out.append(argument)
        following = arguments[i + 1] if i + 1 < len(arguments) else ""
        if argument == "--trace" and not _TIME.fullmatch(following):
            out.append(api.TRACE_INTERVAL)
    return out
