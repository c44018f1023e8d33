"""Scenarios as text: from a file, a dictionary or the flags of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMAND_LINE = "command line"
"""What errors name as the source of a scenario built from flags."""

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
"""The flag that sets a key; keys of flows by their last part."""


class Misuse(ValueError):  # noqa: N818 (it is the person's, not an error of the program)
    """What was asked for cannot be meant; the message says what can."""


@dataclass(frozen=True)
class Scenario:
    """A scenario's text, where it comes from, and what replaces its values."""

    text: str
    source: str = COMMAND_LINE
    directory: Path | None = None
    overrides: tuple[tuple[str, str], ...] = ()

    def replaced(self, overrides: Sequence[tuple[str, str]]) -> Scenario:
        """The same with further values replaced."""
        return Scenario(self.text, self.source, self.directory, (*self.overrides, *overrides))

    def as_text(self) -> str:
        """The scenario as it is kept beside its results: replaced values are listed in its head."""
        if not self.overrides:
            return self.text
        head = "".join(f"#   {key} = {value}\n" for key, value in self.overrides)
        return f"# Ran with these values in place of the ones below:\n{head}\n{self.text}"


def load(source: str | Path | Mapping[str, Any]) -> Scenario:
    """A scenario from a file's path, TOML text (anything with a line break or an equals sign), or a dictionary.

    Raises:
        Misuse: The file does not exist or cannot be read.
    """
    if isinstance(source, Mapping):
        return Scenario(to_toml(source), "the dictionary")
    if isinstance(source, str) and ("\n" in source or "=" in source):
        return Scenario(source, "the text")
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Misuse(f"no scenario file {path}; accepted: the path of a TOML file") from None
    except IsADirectoryError:
        raise Misuse(f"{path} is a folder; accepted: the path of a TOML file") from None
    except UnicodeDecodeError as error:
        line = bytes(error.object[: error.start]).count(b"\n") + 1
        byte = bytes(error.object)[error.start]
        raise Misuse(f"{path}:{line}: the byte 0x{byte:02x} is not UTF-8; accepted: a TOML file in UTF-8") from None
    except OSError as error:
        raise Misuse(f"cannot read {path}: {error.strerror}; accepted: a TOML file in UTF-8") from None
    return Scenario(text, str(path), path.parent)


@dataclass(frozen=True)
class Comparison:
    """What `compare` is told. Times, rates and sizes are texts with units, as in a scenario file."""

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
    rest: Mapping[str, Any] = field(default_factory=dict)

    def scenario(self) -> Scenario:
        """The scenario that this stands for.

        Raises:
            Misuse: The lists of values do not fit the flows.
        """
        if not self.schemes:
            raise Misuse("SCHEME: compare needs at least one scheme; `narrows schemes` lists them")
        if self.count < 1:
            raise Misuse(f"--count: {self.count} flows cannot run; accepted: 1 or more")
        lists = {"rtt": self.rtt, "start": self.start, "stop": self.stop}
        data: dict[str, Any] = {
            "name": " ".join([*self.schemes, *(["each"] if self.each else [])]),
            **{key: value for key, value in self.rest.items() if not isinstance(value, Mapping)},
            "network": {"rate": self.rate, "buffer": self.buffer},
        }
        if self.queue is not None:
            data["network"]["queue"] = marking(self.queue) if self.ecn else self.queue
        if self.loss is not None:
            data["network"]["loss"] = self.loss
        tcp: dict[str, Any] = {}
        if self.ack_every is not None:
            tcp["ack_every"] = self.ack_every
        if self.ecn:
            tcp["ecn"] = True
        if tcp:
            data["tcp"] = tcp
        data |= {key: value for key, value in self.rest.items() if isinstance(value, Mapping)}
        if self.each:
            flows = max(1, *(len(values) for values in lists.values()))
            data["flows"] = [self._flow(self.schemes[0], i, flows, lists) for i in range(flows)]
            data["sweep"] = {"flows.scheme": list(dict.fromkeys(self.schemes))}
        else:
            flows = len(self.schemes)
            data["flows"] = [self._flow(name, i, flows, lists) for i, name in enumerate(self.schemes)]
        return Scenario(to_toml(data))

    def _flow(self, scheme: str, index: int, flows: int, lists: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        flow: dict[str, Any] = {"scheme": scheme}
        for key, values in lists.items():
            if not values:
                continue
            if len(values) not in (1, flows):
                raise Misuse(
                    f"--{key}: {len(values)} values for {flows} flows; accepted: one value for all flows, "
                    f"or one for each ({', '.join(f'flow {i + 1}' for i in range(min(flows, 4)))}"
                    f"{', …' if flows > 4 else ''})"
                )
            flow[key] = values[index if len(values) > 1 else 0]
        if self.count > 1:
            flow["count"] = self.count
        return flow


def marking(queue: str) -> str | dict[str, Any]:
    """A queue discipline that marks instead of dropping. Drop-tail cannot, and a table says for itself."""
    return queue if queue == "droptail" or "{" in queue else {"kind": queue, "ecn": True}


def values(text: str | Sequence[str] | None, flag: str = "") -> tuple[str, ...]:
    """The values of a comma list, or of a list, that a flag was given.

    Raises:
        Misuse: One of them is empty.
    """
    if text is None:
        return ()
    parts = tuple(part.strip() for part in text.split(",")) if isinstance(text, str) else tuple(map(str, text))
    if not all(parts):
        raise Misuse(
            f"{flag}{': ' if flag else ''}{text!r}: a value before or after a comma is missing; "
            "accepted: one value, or several such as 10ms,50ms"
        )
    return parts


def setting(text: str) -> tuple[str, str]:
    """The key and the value of `--set key=value`.

    Raises:
        Misuse: It has no key or no value.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise Misuse(f"--set {text}: accepted: key=value, for example --set network.buffer=5bdp")
    return key.strip(), value.strip()


def override_text(value: Any) -> str:
    """A value as `--set` takes it: lists become comma lists, dictionaries inline tables."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(override_text(inner) for inner in value)
    if isinstance(value, Mapping):
        return _value(value, "")
    return str(value)


def flag_of(key: str | None) -> str | None:
    """The flag that sets a key, if there is one: `flows.1.rtt` is set by `--rtt`."""
    if key is None:
        return None
    return FLAGS.get(re.sub(r"^flows\.(\d+\.)?", "", key))


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(data: Mapping[str, Any]) -> str:
    """A dictionary of plain values, lists and dictionaries as TOML.

    Raises:
        Misuse: A value has a type that TOML does not know.
    """
    lines: list[str] = []
    _table(data, (), lines)
    return "\n".join(lines).strip() + "\n"


def _table(data: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    nested: list[tuple[str, Any]] = []
    for key, value in data.items():
        if isinstance(value, Mapping) or (
            isinstance(value, list | tuple) and value and all(isinstance(v, Mapping) for v in value)
        ):
            nested.append((key, value))
        elif value is not None:
            lines.append(f"{_key(key)} = {_value(value, key)}")
    for key, value in nested:
        name = ".".join(_key(part) for part in (*path, key))
        for row in [value] if isinstance(value, Mapping) else value:
            lines += ["", f"[{name}]" if isinstance(value, Mapping) else f"[[{name}]]"]
            _table(row, (*path, key), lines)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    out = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif ord(char) < 0x20 or ord(char) == 0x7F:
            out.append(f"\\u{ord(char):04X}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def _value(value: Any, key: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(inner, key) for inner in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v, key)}" for k, v in value.items()) + "}"
    place = f"{key}: " if key else ""
    raise Misuse(f"{place}a {type(value).__name__} has no place in a scenario; accepted: text, numbers, lists, tables")
