"""The options that `run`, `compare` and `sweep` share."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from narrows import api, engine, runner
from narrows.cli.numbers import whole
from narrows.cli.outcome import SCHEME_KEY, print_table, set_keys
from narrows.errors import UsageError
from narrows.files import check_writable
from narrows.progress import Terminal, print_status
from narrows.scenario import Scenario, parse_set

FLOWS, BOTTLENECK, RUNS, OUTPUT = "Flows", "Bottleneck", "Runs", "Output"
"""Headings of options in help texts."""

Duration = Annotated[str | None, typer.Option(help="Set the simulated time.", metavar="TIME", rich_help_panel=RUNS)]
Seed = Annotated[int | None, whole("--seed", 0, help="Set the first seed.", panel=RUNS)]
Repeat = Annotated[int | None, whole("--repeat", 1, help="Set the number of seeds.", panel=RUNS)]
Jobs = Annotated[int | None, whole("--jobs", 1, help="Limit simultaneous runs; all cores by default.", panel=RUNS)]
Loss = Annotated[
    str | None,
    typer.Option(help="Set the random loss at the bottleneck.", metavar="SHARE", rich_help_panel=BOTTLENECK),
]
Queue = Annotated[
    str | None,
    typer.Option(help="Set the queue discipline of the bottleneck.", metavar="NAME", rich_help_panel=BOTTLENECK),
]
Scheme = Annotated[
    str | None,
    typer.Option(
        "--scheme",
        help="Replace the scheme of all flows; several with commas sweep.",
        metavar="NAME[:KEY=VALUE,...]",
        rich_help_panel=FLOWS,
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Replace a value of the scenario; several values with commas sweep. Repeatable.",
        metavar="KEY=VALUE",
        rich_help_panel=RUNS,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per run, and nothing else.", rich_help_panel=OUTPUT)
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Keep the results in a folder.", metavar="DIR", rich_help_panel=OUTPUT),
]
Trace = Annotated[
    str | None,
    typer.Option(
        help=f"Record samples every {api.TRACE_INTERVAL}, or every TIME. Needs -o.",
        metavar="[TIME]",
        rich_help_panel=OUTPUT,
    ),
]
Packets = Annotated[
    bool, typer.Option("--packets", help="Record every packet event too. Needs --trace.", rich_help_panel=OUTPUT)
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Print every effective option and where it comes from; run nothing.",
        rich_help_panel=OUTPUT,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The shared options."""

    duration: Duration = None
    seed: Seed = None
    repeat: Repeat = None
    loss: Loss = None
    queue: Queue = None
    sets: Sets = None
    as_json: Json = False
    explain: Explain = False
    out: Out = None
    trace: Trace = None
    packets: Packets = False
    jobs: Jobs = None

    def execute(
        self, scenario: Scenario, *, scheme: str | None = None, ray: str | None = None, learn: Path | None = None
    ) -> None:
        """Apply the options to a scenario, execute its runs, and print or save the results.

        Args:
            scenario: The scenario.
            scheme: Replaces the scheme of all flows.
            ray: The address of a Ray cluster.
            learn: The file of the router algorithms' learned state: loaded before the run, saved after it.
        """
        self._check(ray, learn)
        if learn is not None:
            scenario = scenario.replaced([("network.learned", str(learn.absolute()))])
        scenario = api.traced(scenario.replaced(self._overrides(scheme)), self.trace or False, self.packets)
        if self.explain:
            self._explain(scenario, scheme)
            return
        planned = api.plan(scenario, self.trace is not None)
        for warning in api.diagnostics(planned):
            print_status(f"narrows: warning: {warning}")
        printed = (lambda result: print(engine.json_line(result), flush=True)) if self.as_json else None
        listener = Terminal(print_status, sys.stderr.isatty(), printed)
        execute = runner.execute_locally if ray is None else runner.ray_executor(ray)
        try:
            done = runner.Runner(out=self.out, jobs=self.jobs, listener=listener, execute=execute).run(planned)
        finally:
            listener.close()
        if learn is not None:
            api.save_learned(learn, done[-1])
        if self.as_json and self.out is None:
            return
        from narrows.results import Results

        results = Results([item.point for item in planned], done, self.out)
        if self.out is not None:
            api.save(results, scenario, self.out)
            print_status(f"results are in {self.out}")
        if not self.as_json:
            print_table(results.table())

    def _explain(self, scenario: Scenario, scheme: str | None) -> None:
        """Print every effective option of a scenario's points and its origin."""
        from narrows.cli import explain

        keys = set_keys(self.sets)
        for point in engine.explain(scenario.text, scenario.source, scenario.directory, scenario.overrides):
            named = explain.with_flags(point, keys, scheme is not None, scenario.source)
            if self.as_json:
                print(engine.json_line(named), flush=True)
            else:
                print_table(explain.tables(named))

    def _check(self, ray: str | None, learn: Path | None) -> None:
        """Reject options that exclude each other, and output places that cannot be written."""
        if self.explain and (self.out is not None or learn is not None):
            raise UsageError(
                f"--explain, {'-o' if learn is None else '--learn'}: --explain runs nothing; accepted: one"
            )
        if learn is not None:
            if self.out is not None:
                raise UsageError("--learn, -o: a reused run teaches nothing; accepted: one of them")
            check_writable(learn, folder=False, flag="--learn", make=False)
        if self.trace is not None and self.out is None:
            raise UsageError("--trace: traces need a folder; accepted: together with -o DIR")
        if self.packets and self.trace is None:
            raise UsageError("--packets: packet events are part of a trace; accepted: together with --trace")
        if ray is not None and self.trace is not None:
            raise UsageError("--ray: traces stay on the cluster's machines; accepted: without --trace")
        if self.out is not None:
            check_writable(self.out)

    def _overrides(self, scheme: str | None) -> list[tuple[str, str]]:
        """Return keys and values of the options."""
        keys = set_keys(self.sets)
        if (twice := next((key for key in keys if keys.count(key) > 1), None)) is not None:
            raise UsageError(
                f"--set {twice}: the key is given twice; accepted: once, with several values to sweep: {twice}=A,B"
            )
        if scheme is not None and SCHEME_KEY in keys:
            raise UsageError(f"--scheme, --set {SCHEME_KEY}: these set the same key; accepted: one of them")
        named = [(SCHEME_KEY, scheme), ("network.loss", self.loss), ("network.queue", self.queue)]
        flags = [(key, value) for key, value in named if value is not None]
        further = [*flags, *(parse_set(text) for text in self.sets or ())]
        return api.common_overrides(self.seed, self.repeat, self.duration, further)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the shared options to a command; it receives them as `options`."""
    hints = get_type_hints(Options, include_extras=True)
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "options"]
    shared = [
        inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=row.default, annotation=hints[row.name])
        for row in fields(Options)
    ]

    @functools.wraps(command)
    def inner(**kwargs: Any) -> None:
        options = Options(**{row.name: kwargs.pop(row.name) for row in fields(Options)})
        command(**kwargs, options=options)

    inner.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    inner.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *shared]}
    return inner


_TIME = re.compile(r"off|-?\d+(\.\d+)?\s*[a-zµ]*")
"""Matches times, valid or not, but neither files nor schemes."""


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """Insert the default interval after each `--trace` without one."""
    out: list[str] = []
    for i, argument in enumerate(arguments):
        out.append(argument)
        following = arguments[i + 1] if i + 1 < len(arguments) else ""
        if argument == "--trace" and not _TIME.fullmatch(following):
            out.append(api.TRACE_INTERVAL)
    return out
