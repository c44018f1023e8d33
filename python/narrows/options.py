"""Options that several commands share, and what all commands do with errors."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, NoReturn, ParamSpec, get_type_hints

import typer

from narrows import api, engine, runner
from narrows.scenario import COMMAND_LINE, Misuse, Scenario, flag_of, setting

MISUSE, FAILURE, INTERRUPTED, TERMINATED = 2, 1, 130, 143

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
Scheme = Annotated[
    str | None,
    typer.Option(
        "--scheme",
        help="The scheme of all flows in place of the file's; several with commas sweep.",
        metavar="NAME[:KEY=VALUE,...]",
    ),
]
SCHEME_KEY = "flows.scheme"
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
            fail(scenario_error(error, given(kwargs.get("sets")), kwargs.get("scheme") is not None), MISUSE)
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


def scenario_error(error: engine.ScenarioError, keys: Sequence[str] = (), scheme: bool = False) -> str:
    """The engine's message. A value that came from the command line has no line, but a flag: its own, or `--set`.

    Args:
        error: What the engine said.
        keys: The keys that `--set` names.
        scheme: Whether the schemes are those of `--scheme`.
    """
    if error.source != COMMAND_LINE:
        return str(error)
    named = _everywhere(error.key or "")
    key = next((key for key in keys if named == _everywhere(key) or named.startswith(f"{_everywhere(key)}.")), None)
    place = f"--set {key}" if key is not None else flag_of(error.key) or error.key or COMMAND_LINE
    if scheme and named == SCHEME_KEY:
        place = "--scheme"
    accepted = f"\n  accepted: {error.accepted}" if error.accepted else ""
    return f"{place}: {error.message}{accepted}"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `run`, `compare` and `sweep` have in common."""

    duration: Duration = None
    seed: Seed = None
    repeat: Repeat = None
    loss: Loss = None
    queue: Queue = None
    sets: Sets = None
    as_json: Json = False
    out: Out = None
    trace: Trace = None
    packets: Packets = False
    jobs: Jobs = None

    def go(
        self, scenario: Scenario, *, scheme: str | None = None, ray: str | None = None, learn: Path | None = None
    ) -> None:
        """Replace, plan, run, keep and print."""
        if learn is not None:
            if self.out is not None:
                raise Misuse("--learn, -o: finished runs would be reused, not learned from; accepted: one of them")
            runner.writable(learn, folder=False, flag="--learn", make=False)
            scenario = scenario.replaced([("network.learned", str(learn.absolute()))])
        if self.trace is not None and self.out is None:
            raise Misuse("--trace: traces are files; accepted: --trace together with -o DIR")
        if self.packets and self.trace is None:
            raise Misuse("--packets: accepted together with --trace")
        if ray is not None and self.trace is not None:
            raise Misuse("--ray: a cluster's machines keep no traces here; accepted: --trace without --ray")
        if self.out is not None:
            runner.writable(self.out)
        scenario = api.traced(scenario.replaced(self._overrides(scheme)), self.trace or False, self.packets)
        traced = self.trace is not None
        planned = engine.plan(scenario.text, scenario.source, scenario.directory, scenario.overrides, traced)
        for note in api.notes(planned):
            say(f"narrows: note: {note}")
        printed = (lambda result: print(engine.dump(result), flush=True)) if self.as_json else None
        listener = runner.Terminal(say, sys.stderr.isatty(), printed)
        execute = runner.here if ray is None else runner.ray_execute(ray)
        try:
            done = runner.Runner(out=self.out, jobs=self.jobs, listener=listener, execute=execute).run(planned)
        finally:
            listener.close()
        if learn is not None:
            remember(learn, done[-1])
        if self.as_json and self.out is None:
            return
        from narrows.results import Results

        results = Results([item.point for item in planned], done, self.out)
        if self.out is not None:
            runner.write_atomic(self.out / "scenario.toml", scenario.as_text())
            results.save(self.out)
            say(f"results are in {self.out}")
        if not self.as_json:
            show(results.table())

    def _overrides(self, scheme: str | None) -> list[tuple[str, str]]:
        """What the options replace."""
        keys = given(self.sets)
        if (twice := next((key for key in keys if keys.count(key) > 1), None)) is not None:
            raise Misuse(f"--set {twice}: given twice; accepted: once, with several values to sweep: {twice}=A,B")
        if scheme is not None and SCHEME_KEY in keys:
            raise Misuse(f"--scheme, --set {SCHEME_KEY}: accepted: one of them")
        named = [(SCHEME_KEY, scheme), ("network.loss", self.loss), ("network.queue", self.queue)]
        flags = [(key, value) for key, value in named if value is not None]
        return api.common(self.seed, self.repeat, self.duration, [*flags, *(setting(text) for text in self.sets or ())])


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes the common options too, and is given them as `options`."""
    hints = get_type_hints(Options, include_extras=True)
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "options"]
    common = [
        inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=row.default, annotation=hints[row.name])
        for row in fields(Options)
    ]

    @functools.wraps(command)
    def inner(**kwargs: Any) -> None:
        options = Options(**{row.name: kwargs.pop(row.name) for row in fields(Options)})
        command(**kwargs, options=options)

    inner.__signature__ = signature.replace(parameters=[*own, *common])  # type: ignore[attr-defined]
    inner.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *common]}
    return inner


def remember(file: Path, result: Mapping[str, Any]) -> None:
    """Keep what the allocators of a run have learned.

    Raises:
        Misuse: None of them learns.
    """
    allocators = {row["link"]: row.get("allocator") or {} for row in result["links"]}
    learned = {link: row["learned"] for link, row in allocators.items() if "learned" in row}
    if not learned:
        raise Misuse("--learn: no allocator of this scenario learns; accepted: a scenario with one that does")
    runner.write_atomic(file, json.dumps(learned, indent=1))


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
