"""The functions of the library. Each builds a scenario, plans its runs, and executes them on all cores."""

from __future__ import annotations

import contextlib
import inspect
import json
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows import engine
from narrows.arguments import check_arguments, shown
from narrows.errors import UsageError
from narrows.files import locked, write_atomic
from narrows.runner import Runner
from narrows.scenario import COMMAND_LINE, Comparison, Scenario, load, override_text, split_values

if TYPE_CHECKING:
    from narrows.results import Results

Source = str | Path | Mapping[str, Any]
Quantities = str | Sequence[str]

TRACE_INTERVAL = "10ms"
"""The default sampling interval of traces."""


def run(
    scenario: Source,
    *,
    seed: int | None = None,
    repeat: int | None = None,
    duration: str | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 (named like the option)
    trace: bool | str = False,
    out: str | Path | None = None,
    jobs: int | None = None,
    on: str = engine.SIM,
    allow_outside: bool = False,
) -> Results:
    """Run a scenario: every point of its grid, with every seed.

    >>> narrows.run("scenarios/two-rtts.toml", repeat=5).flows             # doctest: +SKIP
    >>> narrows.run({"network": {"rate": "10mbit"}, "flows": [{"scheme": "bbr", "rtt": "40ms"}]},
    ...             trace=True).plot("time")                               # doctest: +SKIP

    Args:
        scenario: The path of a TOML file, TOML text, or a dictionary with the same keys.
        seed: The first seed.
        repeat: The number of seeds.
        duration: The simulated time, such as "60s".
        set: Keys and values that replace those of the scenario; a list sweeps: `{"network.buffer": ["1bdp", "4bdp"]}`.
        trace: Record samples every 10 ms, or at the given interval ("1ms").
        out: The folder for the results; finished runs in it are reused.
        jobs: Simultaneous runs; all cores by default.
        on: The backend: "sim"; or in real time, on this machine: "kernel", its TCP stack, as root; "shim", the same
            stack with our schemes; "quic", QUIC with our schemes; "noq", QUIC with noq's own controllers.
        allow_outside: Whether a scenario file may name files outside its folder; `set` may anyway.

    Raises:
        ScenarioError: The scenario is invalid; the message names line, key and accepted values.
        UsageError: The scenario cannot be read.
        HostUnable: The backend cannot execute the scenario.
    """
    check_arguments(scenario=scenario, seed=seed, repeat=repeat, duration=duration, set=set, trace=trace, out=out)
    check_arguments(jobs=jobs, on=on, allow_outside=allow_outside)
    overrides = overrides_of(set)
    chosen = load(scenario).replaced(common_overrides(seed, repeat, duration, overrides))
    chosen = chosen.permitting(None if allow_outside else [value for _, value in overrides])
    return execute(chosen, trace=trace, out=out, jobs=jobs, on=on)


def compare(
    *schemes: str,
    rate: str = "100mbit",
    rtt: Quantities = "40ms",
    buffer: str = "1bdp",
    start: Quantities | None = None,
    stop: Quantities | None = None,
    count: int = 1,
    each: bool = False,
    queue: str | None = None,
    loss: str | None = None,
    ack_every: int | None = None,
    ecn: bool = False,
    seed: int | None = None,
    repeat: int | None = None,
    duration: str | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 (named like the option)
    trace: bool | str = False,
    out: str | Path | None = None,
    jobs: int | None = None,
    on: str = engine.SIM,
) -> Results:
    """Run schemes against each other over one bottleneck, or each alone.

    >>> narrows.compare("bbr", "cubic", rate="100mbit", rtt="40ms", buffer="4bdp")          # doctest: +SKIP
    >>> narrows.compare("bbr", "cubic", rtt=["10ms", "50ms"], each=True).plot("delay")      # doctest: +SKIP

    Args:
        *schemes: Names, optionally with parameters ("bbr:cwnd_gain=1.5"), one flow each.
        rate: The bottleneck's rate.
        rtt: The base round-trip time: one value for all flows, or one per flow.
        buffer: The bottleneck's buffer: "1bdp", "100pkt", "64kB", "20ms".
        start: The start time: one value for all flows, or one per flow.
        stop: The stop time: one value for all flows, or one per flow.
        count: Copies of each flow.
        each: Run every scheme alone, with as many flows as the longest of `rtt`, `start` and `stop`.
        queue: The bottleneck's queue discipline.
        loss: The bottleneck's random loss.
        ack_every: Segments per acknowledgement.
        ecn: Negotiate classic ECN, and let the queue discipline set marks.
        seed: The first seed.
        repeat: The number of seeds.
        duration: The simulated time.
        set: Further keys and values.
        trace: Record samples every 10 ms, or at the given interval.
        out: The folder for the results.
        jobs: Simultaneous runs.
        on: As for `run`.

    Raises:
        ScenarioError: A value is invalid.
        UsageError: A list of values does not match the number of flows.
        HostUnable: The backend cannot execute the scenario.
    """
    check_arguments(schemes=schemes, rate=rate, rtt=rtt, buffer=buffer, start=start, stop=stop, count=count, each=each)
    check_arguments(queue=queue, loss=loss, ack_every=ack_every, ecn=ecn, seed=seed, repeat=repeat, duration=duration)
    check_arguments(set=set, trace=trace, out=out, jobs=jobs, on=on)
    comparison = Comparison(
        schemes=schemes, rate=rate, rtt=split_values(rtt, "--rtt"), buffer=buffer,
        start=split_values(start, "--start"), stop=split_values(stop, "--stop"),
        count=count, each=each, queue=queue, loss=loss, ack_every=ack_every, ecn=ecn,
    )  # fmt: skip
    overrides = overrides_of(set)
    return execute(
        comparison.scenario().replaced(common_overrides(seed, repeat, duration, overrides)),
        trace=trace,
        out=out,
        jobs=jobs,
        on=on,
    )


def sweep(scenario: Source, grid: Mapping[str, Sequence[Any]], **options: Any) -> Results:
    """Run a scenario at every point of a grid.

    >>> narrows.sweep("scenarios/two-rtts.toml", {"network.buffer": ["0.5bdp", "1bdp"]}, repeat=5)  # doctest: +SKIP

    Args:
        scenario: As for `run`.
        grid: Keys, each with a list of values.
        **options: As for `run`.

    Raises:
        ScenarioError: The scenario or a value is invalid.
        UsageError: A key has no list of values, or the scenario cannot be read.
    """
    check_arguments(grid=grid, set=options.get("set"))
    known = inspect.signature(run).parameters
    for name in options:
        if name not in known:
            raise UsageError(f"{name}: there is no such option; accepted: {', '.join(known)}")
    for key, row in grid.items():
        if not isinstance(row, Sequence) or isinstance(row, str | bytes) or not row:
            raise UsageError(f"{key}: {shown(row)} is not a list of values; accepted: a list such as ['1bdp', '4bdp']")
    return run(scenario, set={**(options.pop("set", None) or {}), **grid}, **options)


def overrides_of(given: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the overrides of an argument `set`.

    Raises:
        UsageError: A scenario cannot express a value.
    """
    try:
        return [(key, override_text(value)) for key, value in (given or {}).items()]
    except RecursionError:
        raise UsageError("set: a value holds itself, or is nested too deeply; accepted: plain values") from None


def common_overrides(
    seed: int | None, repeat: int | None, duration: str | None, further: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return the overrides of the shared options, followed by `further`, which takes precedence."""
    pairs = [("seed", seed), ("repeat", repeat), ("duration", duration)]
    return [*((key, str(value)) for key, value in pairs if value is not None), *further]


def traced(scenario: Scenario, trace: bool | str, packets: bool = False) -> Scenario:
    """Return the scenario with tracing enabled, unless `trace` is false."""
    if not trace:
        return scenario
    overrides = [("trace.samples", trace if isinstance(trace, str) else TRACE_INTERVAL)]
    return scenario.replaced([*overrides, ("trace.packets", "true")] if packets else overrides)


def plan(scenario: Scenario, traced: bool, on: str = engine.SIM) -> list[engine.Planned]:
    """Return every run of a scenario.

    Raises:
        ScenarioError: The scenario is invalid.
        HostUnable: The backend cannot execute the scenario.
    """
    return engine.plan(
        scenario.text, scenario.source, scenario.directory, scenario.overrides, traced, on, scenario.outside
    )


def check_backend(on: str, flag: str = "on", accepted: Sequence[str] = engine.BACKENDS) -> None:
    """Check a backend.

    Raises:
        UsageError: There is no such backend, or it cannot execute these runs.
    """
    if on not in accepted:
        what = "none of this" if on in engine.BACKENDS else "nothing"
        raise UsageError(f"{flag}: `{on}` runs {what}; accepted: {', '.join(accepted)}")


def diagnostics(planned: Sequence[engine.Planned]) -> list[str]:
    """Return the warnings about a plan, each once, with the lines that cause it."""
    lines: dict[tuple[str, str], list[int]] = {}
    for found in (found for item in planned for found in item.diagnostics):
        seen = lines.setdefault((found.source, found.message), [])
        if found.source != COMMAND_LINE and found.line is not None and found.line not in seen:
            seen.append(found.line)
    place = {key: f"{key[0]}:{','.join(map(str, seen))}: " if seen else "" for key, seen in lines.items()}
    return [place[key] + key[1] for key in lines]


def execute(
    scenario: Scenario,
    *,
    trace: bool | str = False,
    out: str | Path | None = None,
    jobs: int | None = None,
    on: str = engine.SIM,
) -> Results:
    """Plan and run a scenario, and save the results if there is an output folder."""
    from narrows.results import Results

    check_backend(on)
    scenario = traced(scenario, trace)
    planned = plan(scenario, bool(trace), on)
    for warning in diagnostics(planned):
        warnings.warn(warning, stacklevel=3)
    keep = None
    folder = None if out is None else Path(out)
    if trace and folder is None:
        keep = tempfile.TemporaryDirectory(prefix="narrows-")
        folder = Path(keep.name)
    with contextlib.nullcontext() if folder is None else locked(folder):
        done = Runner(out=folder, jobs=jobs).run(planned)
        results = Results([item.point for item in planned], done, folder, keep)
        if folder is not None:
            results.save(folder, scenario.as_text())
    return results


def save_learned(file: Path, result: Mapping[str, Any]) -> None:
    """Write the learned state of a run's router algorithms as JSON: one string per link.

    Raises:
        UsageError: No router algorithm of the run learns.
    """
    learned = engine.learned(result)
    if not learned:
        raise UsageError(
            "--learn: no router algorithm of this scenario learns; accepted: a scenario with one that learns"
        )
    write_atomic(file, json.dumps(learned, indent=1))
