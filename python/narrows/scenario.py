"""Loads scenarios as text, from a file, a dictionary or command-line options."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from narrows.arguments import is_text, shown
from narrows.errors import UsageError
from narrows.files import read_text
from narrows.toml import check_controls, inline, to_toml

COMMAND_LINE = "command line"
"""The source that errors name for a scenario built from options."""

FLAGS = {
    "duration": "--duration",
    "seed": "--seed",
    "repeat": "--repeat",
    "network.rate": "--rate",
    "network.buffer": "--buffer",
    "network.loss": "--loss",
    "network.queue": "--queue",
    "tcp.ack_every": "--ack-every",
    "tcp.ecn": "--ecn",
    "trace.samples": "--trace",
    "trace.packets": "--packets",
    "rtt": "--rtt",
    "start": "--start",
    "stop": "--stop",
    "count": "--count",
    "app.rate": "--rate",
    "dccp.datagram_bytes": "--size",
    "scheme": "SCHEME",
}
"""The option that sets a key. Keys of flows are listed without `flows.` and the number."""


@dataclass(frozen=True)
class Scenario:
    """A scenario's text, its source, and the values that replace those in the text."""

    text: str
    source: str = COMMAND_LINE
    directory: Path | None = None
    overrides: tuple[tuple[str, str], ...] = ()
    outside: tuple[str, ...] | None = ()
    """Names of files that may lie outside the folder; `None` permits all."""

    def replaced(self, overrides: Sequence[tuple[str, str]]) -> Scenario:
        """Return the scenario with further overrides."""
        return replace(self, overrides=(*self.overrides, *overrides))

    def permitting(self, values: Iterable[str] | None) -> Scenario:
        """Return the scenario with files permitted that lie outside its folder.

        Args:
            values: Values of overrides by the user, which may name files; `None` permits all files.
        """
        if values is None:
            return replace(self, outside=None)
        names = [part.strip().strip("'\"") for value in values for part in (value, *re.split(r"[,{}=\[\]]", value))]
        return replace(self, outside=tuple(dict.fromkeys(name for name in names if name)))

    def as_text(self) -> str:
        """Return the text to store beside the results; its head comment lists the overrides."""
        if not self.overrides:
            return self.text
        head = "".join(f"#   {key} = {value}\n" for key, value in self.overrides)
        return f"# Ran with these values in place of the ones below:\n{head}\n{self.text}"


def load(source: str | Path | Mapping[str, Any], *, stream: bool = True) -> Scenario:
    """Load a scenario from a path, a dictionary, or TOML text (recognised by a line break or an equals sign).

    Args:
        source: The scenario.
        stream: Whether the path may be a pipe or a device, as `/dev/stdin`.

    Raises:
        UsageError: The file cannot be read, or has control characters in strings.
    """
    loaded = _load(source, stream=stream)
    if "\\" in loaded.text:  # TOML allows control characters as escapes only
        try:
            data = tomllib.loads(loaded.text)
        except (ValueError, RecursionError):
            return loaded  # the engine reports the error
        try:
            check_controls(data)
        except ValueError as error:
            raise UsageError(f"{loaded.source}: {error}") from None
    return loaded


def _load(source: str | Path | Mapping[str, Any], *, stream: bool) -> Scenario:
    if isinstance(source, Mapping):
        try:
            return Scenario(to_toml(source), "the dictionary")
        except (RecursionError, TypeError):
            raise UsageError("the dictionary is nested too deeply, or has keys that are no texts") from None
    if isinstance(source, str) and ("\n" in source or "=" in source):
        return Scenario(source, "the text")
    path = Path(source)
    return Scenario(read_text(path, "a TOML file in UTF-8", stream=stream), str(path), path.parent)


@dataclass(frozen=True)
class Comparison:
    """The arguments of `compare`. Times, rates and sizes are strings with units, as in a scenario file."""

    schemes: Sequence[str]
    rate: str = "100mbit"
    rtt: Sequence[str] = ("40ms",)
    buffer: str = "1bdp"
    start: Sequence[str] = ()
    stop: Sequence[str] = ()
    count: int = 1
    each: bool = False
    queue: str | None = None
    loss: str | None = None
    ack_every: int | None = None
    ecn: bool = False

    def scenario(self) -> Scenario:
        """Build the scenario.

        Raises:
            UsageError: A list of values does not match the number of flows.
        """
        if not self.schemes:
            raise UsageError("SCHEME: no scheme is given; accepted: one or more names that `narrows schemes` lists")
        if self.count < 1:
            raise UsageError(f"--count: {self.count} is too small; accepted: 1 or more")
        network: dict[str, Any] = {"rate": self.rate, "buffer": self.buffer}
        if self.queue is not None:
            network["queue"] = marking(self.queue) if self.ecn else self.queue
        if self.loss is not None:
            network["loss"] = self.loss
        tcp: dict[str, Any] = {}
        if self.ack_every is not None:
            tcp["ack_every"] = self.ack_every
        if self.ecn:
            tcp["ecn"] = True
        data: dict[str, Any] = {
            "name": " ".join([*self.schemes, *(["each"] if self.each else [])]),
            "network": network,
            **({"tcp": tcp} if tcp else {}),
        }
        lists = {"rtt": self.rtt, "start": self.start, "stop": self.stop}
        if self.each:
            flows = max(1, *(len(row) for row in lists.values()))
            data["flows"] = [self._flow(self.schemes[0], i, flows, lists) for i in range(flows)]
            data["sweep"] = {"flows.scheme": list(dict.fromkeys(self.schemes))}
        else:
            flows = len(self.schemes)
            data["flows"] = [self._flow(name, i, flows, lists) for i, name in enumerate(self.schemes)]
        return Scenario(to_toml(data))

    def _flow(self, scheme: str, index: int, flows: int, lists: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        flow: dict[str, Any] = {"scheme": scheme}
        for key, row in lists.items():
            if not row:
                continue
            if len(row) not in (1, flows):
                raise UsageError(
                    f"--{key}: there are {len(row)} values for {flows} flows; "
                    f"accepted: one value for all flows, or {flows} values in the order of the flows"
                )
            flow[key] = row[index if len(row) > 1 else 0]
        if self.count > 1:
            flow["count"] = self.count
        return flow


def marking(queue: str) -> str | dict[str, Any]:
    """Return a queue discipline that sets ECN marks. Drop-tail cannot mark; an inline table states `ecn` itself."""
    return queue if queue == "droptail" or "{" in queue else {"kind": queue, "ecn": True}


def split_values(text: str | Sequence[str] | None, flag: str = "") -> tuple[str, ...]:
    """Split an option's value at its commas; a list stays unchanged.

    Args:
        text: The value; `None` gives no values.
        flag: The option that errors name.

    Raises:
        UsageError: A value is empty.
    """
    if text is None:
        return ()
    parts = tuple(part.strip() for part in text.split(",")) if isinstance(text, str) else tuple(map(str, text))
    if not all(parts):
        place = f"{flag}: " if flag else ""
        raise UsageError(f"{place}{text!r} has an empty value; accepted: one value, or several such as 10ms,50ms")
    return parts


def parse_set(text: str) -> tuple[str, str]:
    """Split the `key=value` of `--set`.

    Raises:
        UsageError: The key or the value is missing.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise UsageError(f"--set: {text!r} is incomplete; accepted: key=value, such as network.buffer=5bdp")
    return key.strip(), value.strip()


def override_text(value: Any) -> str:
    """Format a value as `--set` takes it: a list becomes a comma list, a dictionary an inline table.

    Raises:
        UsageError: TOML cannot express the type of a value in a dictionary.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(override_text(inner) for inner in value)
    if isinstance(value, Mapping):
        return inline(value)
    if not isinstance(value, int | float) and not is_text(value):
        raise UsageError(f"{shown(value)} is no value of a scenario; accepted: texts, numbers, flags, lists and tables")
    return str(value)


def flag_of(key: str | None) -> str | None:
    """Return the option that sets a key, if there is one: `--rtt` for `flows.1.rtt`."""
    if key is None:
        return None
    return FLAGS.get(re.sub(r"^flows\.(\d+\.)?", "", key))
