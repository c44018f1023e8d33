"""The options that `run`, `compare` and `sweep` share."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from narrows import api, engine, runner
from narrows.arguments import is_text, shown
from narrows.cli.numbers import whole
from narrows.cli.outcome import SCHEME_KEY, USAGE_ERROR, fail, print_table, set_keys
from narrows.errors import UsageError
from narrows.files import check_writable, locked
from narrows.progress import Terminal, print_status
from narrows.scenario import Scenario, parse_set

FLOWS, BOTTLENECK, RUNS, OUTPUT = "Flows", "Bottleneck", "Runs", "Output"
"""Headings of options in help texts."""
CONTENTS = {"--pcap": "packets", "--qlog": "events"}
"""Contents of the files of a run, by option."""


def option(*names: str, panel: str, help: str, metavar: str | None = None) -> Any:  # noqa: A002 (named like typer's)
    """Return an option under a heading; without `names`, it is named after its parameter."""
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


Duration = Annotated[str | None, option(panel=RUNS, metavar="TIME", help="Set the simulated time.")]
Seed = Annotated[int | None, whole("--seed", 0, help="Set the first seed.", panel=RUNS)]
Repeat = Annotated[int | None, whole("--repeat", 1, help="Set the number of seeds.", panel=RUNS)]
On = Annotated[
    str,
    option(
        "--on", panel=RUNS, metavar="PLACE",
        help="Run in the simulator (sim); in real time, as root, on this machine's TCP: with the kernel's own"
        " schemes where it has them (kernel), or with ours (shim); or in real time on QUIC on this machine (quic; noq:"
        " with its own controllers).",
    ),
]  # fmt: skip
JOBS = "Limit simultaneous runs; all cores by default, but one at a time in real time."
Jobs = Annotated[int | None, whole("--jobs", 1, help=JOBS, panel=RUNS)]
Loss = Annotated[str | None, option(panel=BOTTLENECK, metavar="SHARE", help="Set the random loss at the bottleneck.")]
Queue = Annotated[
    str | None, option(panel=BOTTLENECK, metavar="NAME", help="Set the queue discipline of the bottleneck.")
]
Scheme = Annotated[
    str | None,
    option(
        "--scheme", panel=FLOWS, metavar="NAME[:KEY=VALUE,...]",
        help="Replace the scheme of all flows; several with commas sweep.",
    ),
]  # fmt: skip
AllowOutside = Annotated[
    bool, option("--allow-outside", panel=RUNS, help="Read files outside the scenario's folder that it names.")
]
Sets = Annotated[
    list[str] | None,
    option(
        "--set", panel=RUNS, metavar="KEY=VALUE",
        help="Replace a value of the scenario; several values with commas sweep. Repeatable.",
    ),
]  # fmt: skip
Json = Annotated[bool, option("--json", panel=OUTPUT, help="Print one JSON object per run, and nothing else.")]
Csv = Annotated[
    bool,
    option(
        "--csv", panel=OUTPUT,
        help="Print the table of flows as CSV, and nothing else. With -o, also write all tables there as CSV files.",
    ),
]  # fmt: skip
Out = Annotated[Path | None, option("--out", "-o", panel=OUTPUT, metavar="DIR", help="Keep the results in a folder.")]
Trace = Annotated[
    str | None,
    option(panel=OUTPUT, metavar="[TIME]", help=f"Record samples every {api.TRACE_INTERVAL}, or every TIME. Needs -o."),
]
Packets = Annotated[bool, option("--packets", panel=OUTPUT, help="Record every packet event too. Needs --trace.")]
Explain = Annotated[
    bool, option("--explain", panel=OUTPUT, help="Print every effective option and where it comes from; run nothing.")
]
Pcap = Annotated[
    Path | None,
    option(
        "--pcap", panel=OUTPUT, metavar="FILE",
        help="Write the packets of a single run to this pcapng file, for tshark and tcptrace.",
    ),
]  # fmt: skip
PcapAt = Annotated[
    str | None,
    option(
        "--pcap-at", panel=OUTPUT, metavar="HOSTS",
        help="Record packets at senders (default), receivers or both. Needs --pcap.",
    ),
]  # fmt: skip
PcapBytes = Annotated[
    int | None,
    whole(
        "--pcap-bytes", 1, 65_535, panel=OUTPUT,
        help="Keep the first N bytes of each packet; headers take at most 94. Needs --pcap.",
    ),
]  # fmt: skip
Qlog = Annotated[
    Path | None,
    option(
        "--qlog", panel=OUTPUT, metavar="FILE",
        help="Write the senders' events of a single run to this qlog file: packets, losses, cwnd, RTT, rates, states.",
    ),
]  # fmt: skip


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
    as_csv: Csv = False
    out: Out = None
    trace: Trace = None
    packets: Packets = False
    pcap: Pcap = None
    pcap_at: PcapAt = None
    pcap_bytes: PcapBytes = None
    qlog: Qlog = None
    jobs: Jobs = None
    on: On = engine.SIM

    def execute(
        self,
        scenario: Scenario,
        *,
        scheme: str | None = None,
        ray: str | None = None,
        learn: Path | None = None,
        allow_outside: bool = False,
    ) -> None:
        """Apply the options to a scenario, execute its runs, and print or save the results.

        Args:
            scenario: The scenario.
            scheme: Replaces the scheme of all flows.
            ray: The address of a Ray cluster.
            learn: The file of the router algorithms' learned state, loaded before the run and saved after it.
            allow_outside: Whether the scenario may name files outside its folder.
        """
        self._check(ray, learn)
        source = Path(scenario.source)
        for flag, file in self._files().items():
            if file.exists() and source.exists() and file.samefile(source):
                raise UsageError(f"{flag}: {file} is the scenario; accepted: another file")
        if learn is not None:
            scenario = scenario.replaced([("network.learned", str(learn.absolute()))])
        scenario = api.traced(scenario.replaced(self._overrides(scheme)), self.trace or False, self.packets)
        scenario = scenario.permitting(None if allow_outside else [value for _, value in scenario.overrides])
        if self.explain:
            self._explain(scenario, scheme)
            return
        planned = api.plan(scenario, self.trace is not None, self.on)
        self._check_single(len(planned))
        for warning in api.diagnostics(planned):
            print_status(f"narrows: warning: {warning}")
        printed = (lambda result: print(engine.json_line(result), flush=True)) if self.as_json else None
        listener = Terminal(print_status, sys.stderr.isatty(), printed)
        execute = runner.execute_locally if ray is None else runner.ray_executor(ray)
        files = self._files()
        if files:
            execute = runner.recording(self._capture(), self.qlog)
        work = runner.Runner(out=self.out, jobs=self.jobs, listener=listener, execute=execute, reuse=not files)
        with contextlib.nullcontext() if self.out is None else locked(self.out):
            self._run(work, planned, scenario, learn)

    def _run(self, work: runner.Runner, planned: list[engine.Planned], scenario: Scenario, learn: Path | None) -> None:
        """Execute planned runs, and print or save their results."""
        try:
            with self._held_pipes():
                done = work.run(planned)
        except runner.Interrupted:
            for flag, file in self._files().items():
                print_status(f"the {CONTENTS[flag]} so far are in {file}")
            raise
        finally:
            work.listener.close()
        if learn is not None:
            api.save_learned(learn, done[-1])
        if self.as_json and self.out is None:
            return
        from narrows.results import Results

        results = Results([item.point for item in planned], done, self.out)
        if self.out is not None:
            results.save(self.out, scenario.as_text())
            if self.as_csv:
                results.save_csv(self.out)
            print_status(f"results are in {self.out}")
        for flag, file in self._files().items():
            print_status(f"{CONTENTS[flag]} are in {file}")
        if self.as_csv:
            print(results.flows.write_csv(), end="", flush=True)
        elif not self.as_json:
            print_table(results.table())

    def _explain(self, scenario: Scenario, scheme: str | None) -> None:
        """Print every effective option of a scenario's points and its origin."""
        from narrows.cli import explain

        keys = set_keys(self.sets)
        for point in engine.explain(
            scenario.text, scenario.source, scenario.directory, scenario.overrides, scenario.outside
        ):
            named = explain.with_flags(point, keys, scheme is not None, scenario.source)
            if self.as_json:
                print(engine.json_line(named), flush=True)
            else:
                print_table(explain.tables(named))

    def _files(self) -> dict[str, Path]:
        """Return the files of the only run, by option."""
        files = {"--pcap": self.pcap, "--qlog": self.qlog}
        return {flag: file for flag, file in files.items() if file is not None}

    def _check_single(self, runs: int) -> None:
        """Reject options that write files of a single run if there are several runs."""
        for flag in self._files() if runs != 1 else ():
            raise UsageError(
                f"{flag}: the file holds one run, not {runs}; accepted: a single value for every key, one seed,"
                " and no --each with several schemes"
            )

    def _capture(self) -> engine.Capture | None:
        """Return the capture of the only run, if one is requested."""
        if self.pcap is None:
            return None
        return engine.Capture(self.pcap, self.pcap_at or engine.CAPTURE_ENDS[0], self.pcap_bytes)

    def _held_pipes(self) -> contextlib.ExitStack:
        """Open named pipes. Opening blocks until a reader opens them: Ctrl-C interrupts it here, but not in a run."""
        with contextlib.ExitStack() as stack:
            for file in self._files().values():
                if file.is_fifo():
                    stack.enter_context(file.open("wb"))
            return stack.pop_all()

    def _check(self, ray: str | None, learn: Path | None) -> None:
        """Reject options that exclude each other, and outputs that cannot be written."""
        api.check_backend(self.on, "--on")
        if self.on != engine.SIM and ray is not None:
            raise UsageError(f"--ray: a cluster runs the simulator; accepted: without --on {self.on}")
        outputs = {"--learn": learn, "-o": self.out, **self._files(), "--csv": self.as_csv or None}
        named = next((flag for flag, value in outputs.items() if value is not None), None)
        if self.explain and named is not None:
            raise UsageError(f"--explain, {named}: --explain runs nothing; accepted: one of them")
        if learn is not None:
            if self.out is not None:
                raise UsageError("--learn, -o: a reused run teaches nothing; accepted: one of them")
            check_writable(learn, folder=False, flag="--learn", make=False)
        if self.trace is not None and self.out is None:
            raise UsageError("--trace: traces need a folder; accepted: together with -o DIR")
        if self.packets and self.trace is None:
            raise UsageError("--packets: packet events are part of a trace; accepted: together with --trace")
        if self.as_csv and self.as_json:
            raise UsageError("--json, --csv: both print the results; accepted: one of them")
        self._check_capture(ray)
        if ray is not None and self.trace is not None:
            raise UsageError("--ray: traces stay on the cluster's machines; accepted: without --trace")
        if self.out is not None:
            check_writable(self.out)

    def _check_capture(self, ray: str | None) -> None:
        for flag, value in (("--pcap-at", self.pcap_at), ("--pcap-bytes", self.pcap_bytes)):
            if value is not None and self.pcap is None:
                raise UsageError(f"{flag}: this describes a capture; accepted: together with --pcap FILE")
        files = self._files()
        if len(files) == 2 and _same(*files.values()):
            raise UsageError(f"--pcap, --qlog: both write {self.qlog}; accepted: two files")
        for flag, file in files.items():
            if self.out is not None and file.resolve().is_relative_to(self.out.resolve()):
                raise UsageError(f"{flag}, -o: {file} lies among the results; accepted: a file outside {self.out}")
            if ray is not None:
                raise UsageError(f"--ray: {CONTENTS[flag]} stay on the cluster's machines; accepted: without {flag}")
            check_writable(file, folder=False, flag=flag, make=False)
        if self.pcap_at is not None and self.pcap_at not in engine.CAPTURE_ENDS:
            accepted = ", ".join(engine.CAPTURE_ENDS)
            raise UsageError(f"--pcap-at: `{self.pcap_at}` names no hosts; accepted: {accepted}")

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


def _same(first: Path, second: Path) -> bool:
    """Return whether two paths name one file, existing or not, also through links."""
    with contextlib.suppress(OSError):
        if first.samefile(second):
            return True
    return os.path.realpath(first) == os.path.realpath(second)


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
"""Matches times, valid or not, but no files or schemes."""


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """Insert the default interval after each `--trace` without one; refuse arguments that are not UTF-8."""
    for argument in arguments:
        if not is_text(argument):
            fail(f"{shown(argument)} is not UTF-8; accepted: arguments in UTF-8", USAGE_ERROR)
    out: list[str] = []
    for i, argument in enumerate(arguments):
        out.append(argument)
        following = arguments[i + 1] if i + 1 < len(arguments) else ""
        if argument == "--trace" and not _TIME.fullmatch(following):
            out.append(api.TRACE_INTERVAL)
    return out
