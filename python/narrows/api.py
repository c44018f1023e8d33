"""The library's functions. Each builds a scenario, plans its runs, and runs them on all cores."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows import engine
from narrows.runner import Runner, Silent, write_atomic
from narrows.scenario import COMMAND_LINE, Comparison, Misuse, Scenario, load, override_text, values

if TYPE_CHECKING:
    from narrows.results import Results

Source = str | Path | Mapping[str, Any]
Quantities = str | Sequence[str]

TRACE_INTERVAL = "10ms"
"""How often a trace samples if nothing else is said."""


def run(
    scenario: Source,
    *,
    seed: int | None = None,
    repeat: int | None = None,
    duration: str | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 (as the flag is called)
    trace: bool | str = False,
    out: str | Path | None = None,
    jobs: int | None = None,
) -> Results:
    """Run a scenario: every point of its grid with every seed.

    >>> narrows.run("scenarios/two-rtts.toml", repeat=5).flows             # doctest: +SKIP
    >>> narrows.run({"network": {"rate": "10mbit"}, "flows": [{"scheme": "bbr", "rtt": "40ms"}]},
    ...             trace=True).plot("time")                               # doctest: +SKIP

    Args:
        scenario: Path of a TOML file, TOML text, or the same as a dictionary.
        seed: The first seed.
        repeat: How many seeds.
        duration: Simulated time, such as "60s".
        set: Keys and values in place of the scenario's; a list sweeps: `{"network.buffer": ["1bdp", "4bdp"]}`.
        trace: Record samples every 10 ms, or every so often ("1ms").
        out: A folder that keeps the results; finished runs found there are reused.
        jobs: Runs at a time; all cores by default.

    Raises:
        ScenarioError: The scenario is not acceptable; the message names line, key and what would be accepted.
        Misuse: The scenario cannot be read.
    """
    overrides = [(key, override_text(value)) for key, value in (set or {}).items()]
    return execute(load(scenario).replaced(common(seed, repeat, duration, overrides)), trace=trace, out=out, jobs=jobs)


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
    set: Mapping[str, Any] | None = None,  # noqa: A002 (as the flag is called)
    trace: bool | str = False,
    out: str | Path | None = None,
    jobs: int | None = None,
) -> Results:
    """Run schemes against each other over one bottleneck, or each alone.

    >>> narrows.compare("bbr", "cubic", rate="100mbit", rtt="40ms", buffer="4bdp")          # doctest: +SKIP
    >>> narrows.compare("bbr", "cubic", rtt=["10ms", "50ms"], each=True).plot("delay")      # doctest: +SKIP

    Args:
        *schemes: Names, with parameters if wanted ("bbr:cwnd_gain=1.5"); one named twice gives two flows.
        rate: The bottleneck's rate.
        rtt: Base round-trip time of all flows, or one for each.
        buffer: The bottleneck's buffer: "1bdp", "100pkt", "64kB", "20ms".
        start: When the flows start; one for all or one for each.
        stop: When they stop; one for all or one for each.
        count: How many times each flow is there.
        each: Run every scheme alone, with as many flows as `rtt`, `start` or `stop` have values.
        queue: Queue discipline.
        loss: Random loss.
        ack_every: Segments per acknowledgement.
        ecn: Classic ECN: flows ask for marks, and the queue discipline sets them.
        seed: The first seed.
        repeat: How many seeds.
        duration: Simulated time.
        set: Further keys and values.
        trace: Record samples every 10 ms, or every so often.
        out: A folder that keeps the results.
        jobs: Runs at a time.

    Raises:
        ScenarioError: A value is not acceptable.
        Misuse: Lists of values do not fit the flows.
    """
    comparison = Comparison(
        schemes=schemes, rate=rate, rtt=values(rtt, "--rtt"), buffer=buffer,
        start=values(start, "--start"), stop=values(stop, "--stop"),
        count=count, each=each, queue=queue, loss=loss, ack_every=ack_every, ecn=ecn,
    )  # fmt: skip
    overrides = [(key, override_text(value)) for key, value in (set or {}).items()]
    return execute(
        comparison.scenario().replaced(common(seed, repeat, duration, overrides)),
        trace=trace,
        out=out,
        jobs=jobs,
    )


def sweep(scenario: Source, grid: Mapping[str, Sequence[Any]], **options: Any) -> Results:
    """Run a scenario at every combination of some values.

    >>> narrows.sweep("scenarios/two-rtts.toml", {"network.buffer": ["0.5bdp", "1bdp"]}, repeat=5)  # doctest: +SKIP

    Args:
        scenario: As for `run`.
        grid: Keys, each with its values.
        **options: As for `run`.
    """
    lone = [key for key, row in grid.items() if isinstance(row, str) or not row]
    if lone:
        raise Misuse(f"{lone[0]}: a sweep takes a list of values, such as ['1bdp', '4bdp']")
    return run(scenario, set={**options.pop("set", {}), **grid}, **options)


def common(
    seed: int | None, repeat: int | None, duration: str | None, further: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The overrides that the common options stand for; those given one by one win."""
    pairs = [("seed", seed), ("repeat", repeat), ("duration", duration)]
    return [*((key, str(value)) for key, value in pairs if value is not None), *further]


def traced(scenario: Scenario, trace: bool | str, packets: bool = False) -> Scenario:
    """The scenario with a trace asked for."""
    if not trace:
        return scenario
    overrides = [("trace.samples", trace if isinstance(trace, str) else TRACE_INTERVAL)]
    return scenario.replaced([*overrides, ("trace.packets", "true")] if packets else overrides)


def notes(planned: Sequence[engine.Planned]) -> list[str]:
    """What a person should know of a plan, each thing once with the lines that it is about."""
    lines: dict[tuple[str, str], list[int]] = {}
    for note in (note for item in planned for note in item.notes):
        seen = lines.setdefault((note.source, note.message), [])
        if note.source != COMMAND_LINE and note.line is not None and note.line not in seen:
            seen.append(note.line)
    place = {key: f"{key[0]}:{','.join(map(str, seen))}: " if seen else "" for key, seen in lines.items()}
    return [place[key] + key[1] for key in lines]


def execute(
    scenario: Scenario, *, trace: bool | str = False, out: str | Path | None = None, jobs: int | None = None
) -> Results:
    """Plan and run, and keep the results where there is a folder."""
    from narrows.results import Results

    scenario = traced(scenario, trace)
    planned = engine.plan(scenario.text, scenario.source, scenario.directory, scenario.overrides, bool(trace))
    for note in notes(planned):
        warnings.warn(note, stacklevel=3)
    keep = None
    folder = None if out is None else Path(out)
    if trace and folder is None:
        keep = tempfile.TemporaryDirectory(prefix="narrows-")
        folder = Path(keep.name)
    runner = Runner(out=folder, jobs=jobs, listener=Silent())
    done = runner.run(planned)
    results = Results([item.point for item in planned], done, folder, keep)
    if folder is not None:
        write_atomic(folder / "scenario.toml", scenario.as_text())
        results.save(folder)
    return results
