"""Generated radio paths as files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from narrows import engine
from narrows.scenario import COMMAND_LINE

CAPACITY, LOSS, DELAY = "capacity.trace", "loss.trace", "delay.trace"


@dataclass(frozen=True)
class RadioTrace:
    """A path as texts: capacity in mahimahi's format, and loss and delay beside it."""

    capacity: str
    """One time in milliseconds per line, at which 1500 bytes may leave."""
    loss: str
    """Lines of `start_ms end_ms share`."""
    delay: str
    """Lines of `at_ms delay_ms`."""

    def write(self, directory: str | Path) -> list[Path]:
        """Write the three files to a folder, which is made if it is not there.

        Raises:
            OSError: They cannot be written.
        """
        from narrows.runner import write_atomic

        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
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
    """Generate a radio path: capacity with outages, bursts of loss and steps of the delay.

    >>> narrows.radio_trace(seed=1, duration="60s").write("drive")  # doctest: +SKIP

    Args:
        kind: Which radio: "5g".
        seed: The same seed gives the same path.
        duration: How long it is.
        mean: Mean rate over the long run; "150mbit" if not given.
        peak: Greatest rate, at least three times the mean; "1gbit".
        loss: Mean share of packets that is lost; "0.5%".
        handovers: Mean time to the next handover; "12s".
        delay: The most by which a cell's delay is longer than the stated one; "10ms".

    Raises:
        ScenarioError: A value is not acceptable.
    """
    keys = {
        "kind": kind, "seed": seed, "period": duration, "mean": mean, "peak": peak, "loss": loss,
        "handovers": handovers, "delay": delay,
    }  # fmt: skip
    text = json.dumps({key: value for key, value in keys.items() if value is not None})
    return RadioTrace(*engine.radio_trace(text, COMMAND_LINE))
