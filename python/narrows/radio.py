"""Generates radio paths as trace files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from narrows import engine
from narrows.arguments import check_arguments
from narrows.files import make_folder, write_atomic
from narrows.scenario import COMMAND_LINE

CAPACITY, LOSS, DELAY = "capacity.trace", "loss.trace", "delay.trace"


@dataclass(frozen=True)
class RadioTrace:
    """The contents of the three trace files of a radio path."""

    capacity: str
    """Mahimahi's format: one line per 1500-byte opportunity, its time in milliseconds."""
    loss: str
    """Lines of `start_ms end_ms share`."""
    delay: str
    """Lines of `at_ms delay_ms`."""

    def write(self, directory: str | Path) -> list[Path]:
        """Write the three files, and create their folder if needed.

        Raises:
            UsageError: The folder cannot be created.
            OSError: A file cannot be written.
        """
        folder = Path(directory)
        make_folder(folder)
        texts = {CAPACITY: self.capacity, LOSS: self.loss, DELAY: self.delay}
        for name, text in texts.items():
            write_atomic(folder / name, text)
        return [folder / name for name in texts]


def radio_trace(
    kind: str = "5g",
    *,
    seed: int = 1,
    duration: str = "60s",
    mean: str | None = None,
    peak: str | None = None,
    loss: str | None = None,
    handovers: str | None = None,
    delay: str | None = None,
) -> RadioTrace:
    """Generate a radio path: capacity with outages, bursts of loss, and steps of the delay.

    >>> narrows.radio_trace(seed=1, duration="60s").write("drive")  # doctest: +SKIP

    Args:
        kind: The radio technology: "5g".
        seed: Selects the path; the same seed gives the same path.
        duration: The length of the traces.
        mean: The long-term mean rate; "150mbit" by default.
        peak: The highest rate, at least three times the mean; "1gbit" by default.
        loss: The mean share of lost packets; "0.5%" by default.
        handovers: The mean time between handovers; "12s" by default.
        delay: The largest delay that a cell adds; "10ms" by default.

    Raises:
        ScenarioError: A value is invalid.
    """
    check_arguments(kind=kind, seed=seed, duration=duration, mean=mean, peak=peak, loss=loss, handovers=handovers)
    check_arguments(delay=delay)
    period = "60s" if duration is None else duration
    keys = {
        "kind": kind, "seed": seed, "period": period, "mean": mean, "peak": peak, "loss": loss,
        "handovers": handovers, "delay": delay,
    }  # fmt: skip
    text = json.dumps({key: value for key, value in keys.items() if value is not None})
    return RadioTrace(*engine.radio_trace(text, COMMAND_LINE))
