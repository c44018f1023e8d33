"""Steps through a JSON text, building one event at a time, and refuses invalid JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from narrows.errors import UsageError

MOST_RECORD_BYTES = 1 << 20
"""The largest event, and the largest head of a file; Python's objects take some fifty times the bytes of `[],[],`."""
MOST_DEPTH = 500
"""The deepest nesting."""
ACCEPTED = "accepted: qlog of draft-00 to 0.4, or with a file_schema, as JSON or JSON-SEQ"
SHORTER = "accepted: shorter events and heads"
_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(
    r'[ \t\r\n]*(?:([\[{])|([\]}])|([,:])|("[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+")'
    r"|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+|true|false|null))"
)
"""An opening bracket, a closing one, a separator, a text, or another scalar."""


def refuse(path: Path, line: int, problem: str, accepted: str = ACCEPTED) -> NoReturn:
    """Refuse a file.

    Raises:
        UsageError: Always.
    """
    raise UsageError(f"{path}:{line}: {problem}; {accepted}")


class Walk:
    """Steps through a JSON text, and parses values one by one.

    Args:
        path: The file, for errors.
        text: The text.
        constant: Called with NaN and infinities.
    """

    def __init__(self, path: Path, text: str, constant: Callable[[str], Any]) -> None:
        self.path, self.text, self.at = path, text, 0
        self.taken = 0
        """Letters of the heads parsed so far."""
        self._decoder = json.JSONDecoder(parse_constant=constant)
        self._counted = (0, 1)
        self._base, self._window = 0, ""
        self._space()

    def line(self) -> int:
        """Return the line of the current position."""
        at, line = self._counted if self._counted[0] <= self.at else (0, 1)
        line += self.text.count("\n", at, self.at)
        self._counted = (self.at, line)
        return line

    def refuse(self, problem: str, accepted: str = ACCEPTED) -> NoReturn:
        """Refuse the file at the current position."""
        refuse(self.path, self.line(), problem, accepted)

    def _space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = self.at if match is None else match.end()

    def opens(self, bracket: str) -> bool:
        """Skip a character if it is next; return whether it was."""
        if not self.text.startswith(bracket, self.at):
            return False
        self.at += 1
        self._space()
        return True

    def value(self) -> Any:
        """Parse the next value. The parser sees a window of the text, which bounds its objects."""
        if not self._base <= self.at < self._base + len(self._window):
            self._move()
        while True:
            end, problem = -1, None
            try:
                value, end = self._decoder.raw_decode(self._window, self.at - self._base)
            except json.JSONDecodeError as error:
                problem = error
            except RecursionError:
                self.refuse("the JSON is nested too deeply")
            except ValueError as error:
                self.refuse(f"this is no JSON: {str(error).partition(';')[0]}")
            last = self._base + len(self._window) >= len(self.text)
            if problem is None and (end < len(self._window) or last):  # a number may go on behind the window
                break
            if not last and self._base < self.at:
                self._move()
            elif not last:
                self.skip()  # names what is no JSON
                self.refuse(f"a value has more than {MOST_RECORD_BYTES >> 20} MiB", SHORTER)
            elif problem is not None:
                self.at = self._base + problem.pos
                self.refuse(f"this is no JSON: {problem.msg}")
        self.at = self._base + end
        self._space()
        return value

    def _move(self) -> None:
        self._base, self._window = self.at, self.text[self.at : self.at + MOST_RECORD_BYTES]

    def skip(self) -> None:
        """Skip a value without building it."""
        opened = bytearray()
        expected = "v"  # v value, V value or end, k key, K key or end, c colon, n the next one or the end
        while True:
            match = _TOKEN.match(self.text, self.at)
            if match is None:
                self._space()
                self.refuse("this is no JSON: expected a value")
            kind, token = match.lastindex, match[match.lastindex or 0]
            if kind == 1 and expected in "vV":
                if len(opened) == MOST_DEPTH:
                    self.refuse("the JSON is nested too deeply")
                opened.append(ord("]" if token == "[" else "}"))
                expected = "V" if token == "[" else "K"
            elif kind == 2 and expected in "VKn" and opened and opened[-1] == ord(token):
                opened.pop()
                expected = "n"
            elif kind == 3 and ((token == "," and expected == "n" and opened) or (token == ":" and expected == "c")):
                expected = "v" if token == ":" or opened[-1] == ord("]") else "k"
            elif kind == 4 and expected in "kK":
                expected = "c"
            elif kind in (4, 5) and expected in "vV":
                expected = "n"
            else:
                self._space()
                self.refuse(f"this is no JSON: unexpected `{token[:20]}`")
            self.at = match.end()
            if not opened:
                break
        self._space()

    def items(self, bracket: str) -> Iterator[None]:
        """Yield at the start of every item, and skip the closing bracket."""
        if self.opens(bracket):
            return
        while True:
            yield
            if self.opens(bracket):
                return
            if not self.opens(","):
                self.refuse(f"this is no JSON: expected `,` or `{bracket}`")

    def members(self) -> Iterator[str]:
        """Yield the key of every member of an object, at the start of its value."""
        for _ in self.items("}"):
            key = self.value()
            if not isinstance(key, str) or not self.opens(":"):
                self.refuse("this is no JSON: expected a key and `:`")
            yield key

    def events(self, start: int | None) -> Iterator[tuple[int, Any]]:
        """Yield line and value of every item of the list whose items begin at `start`."""
        if start is None:
            return
        self.at = start
        for _ in self.items("]"):
            yield self.line(), self.value()

    def end(self) -> None:
        """Reject text after the value."""
        if self.at < len(self.text):
            self.refuse("this is no JSON: text behind the object")
