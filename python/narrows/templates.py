"""Texts and SQL with placeholders, as claims files hold them.

| placeholder | stands for |
|---|---|
| `{NAME}` in SQL | a value, quoted here: a text, a number, or a list for `IN` |
| `{QUERY}` in SQL | the SQL of that name, or of the name in a value `"{QUERY}"` |
| `{QUERY(NAME = OTHER)}` in SQL | the same with `{OTHER}` in place of its `{NAME}` |
| `{NAME}` elsewhere | the value; in prose the way `names` spells it |
| `{{`, `}}` | the brace itself |

A value may hold placeholders too, as `"5bdp{at}"` does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

NAME = r"[A-Za-z_][\w-]*"
PIECE = re.compile(rf"\{{\{{|\}}\}}|\{{\s*({NAME})\s*(?:\(([^(){{}}]*)\)\s*)?\}}|[{{}}]")
LONE = re.compile(rf"\{{\s*({NAME})\s*\}}")
BINDING = re.compile(rf"\s*({NAME})\s*=\s*({NAME})\s*")
ACCEPTED = "accepted: {NAME}, {QUERY(NAME = OTHER)}, and {{ or }} for a brace"


@dataclass(frozen=True)
class Sql:
    """A piece of SQL: copied, where a value would be quoted."""

    text: str


@dataclass(frozen=True)
class Placeholder:
    """A placeholder: its name, and the names that stand for others inside it."""

    name: str
    bound: Mapping[str, str]


def parts(text: str) -> Iterator[str | Placeholder]:
    """The texts and placeholders of a template, in order.

    Raises:
        ValueError: A brace belongs to no placeholder.
    """
    end = 0
    for match in PIECE.finditer(text):
        yield text[end : match.start()]
        end = match.end()
        if match[0] in ("{{", "}}"):
            yield match[0][0]
        elif match[1] is None:
            start = text[match.start() : match.start() + 30].partition("\n")[0]
            raise ValueError(f"the brace of {start!r} belongs to no placeholder; {ACCEPTED}")
        else:
            yield Placeholder(match[1], _bindings(match))
    yield text[end:]


def _bindings(match: re.Match[str]) -> dict[str, str]:
    if match[2] is None:
        return {}
    pairs = [BINDING.fullmatch(pair) for pair in match[2].split(",")]
    found = {pair[1]: pair[2] for pair in pairs if pair is not None}
    if len(found) < len(pairs):
        raise ValueError(f"{match[0]} is no placeholder; {ACCEPTED}")
    return found


def literal(value: Any) -> str:
    """A value as SQL writes it.

    Raises:
        ValueError: SQL has no such value.
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    if isinstance(value, list) and value and not any(isinstance(each, list) for each in value):
        return f"({', '.join(map(literal, value))})"
    raise ValueError(f"{value!r} is no value for SQL; accepted: a text, a number, true, false, or a list of these")


@dataclass
class Writer:
    """Fills templates from one scope, and notes which of its names were needed."""

    scope: Mapping[str, Any]
    names: Mapping[str, str] = field(default_factory=dict)
    """How prose spells values, such as `bbr-gc = "BBR-GC"`."""
    used: set[str] = field(default_factory=set)

    def prose(self, text: str) -> str:
        """A text for people.

        Raises:
            ValueError: A placeholder is malformed, has no value, stands for itself, or is SQL.
        """
        return "".join(part if isinstance(part, str) else self._shown(self._of(part)) for part in parts(text))

    def plain(self, value: Any, chain: tuple[str, ...] = ()) -> Any:
        """A value with all placeholders of its texts filled.

        Raises:
            ValueError: As for prose.
        """
        if isinstance(value, str) and (lone := LONE.fullmatch(value)):
            return self._of(Placeholder(lone[1], {}), chain)
        if isinstance(value, str):
            filled = (part if isinstance(part, str) else str(self._of(part, chain)) for part in parts(value))
            return "".join(filled)
        if isinstance(value, list):
            return [self.plain(each, chain) for each in value]
        if isinstance(value, dict):
            return {self.plain(key, chain): self.plain(each, chain) for key, each in value.items()}
        return value

    def sql(self, text: str) -> str:
        """A query.

        Raises:
            ValueError: As for prose; or a placeholder stands within quotes, or is bound to nothing.
        """
        return self._sql(text, {}, (), set()).strip()

    def _sql(self, text: str, bound: Mapping[str, str], chain: tuple[str, ...], met: set[str]) -> str:
        written: list[str] = []
        for part in parts(text):
            if isinstance(part, str):
                written.append(part)
                continue
            if (quote := _open_quote("".join(written))) is not None:
                raise ValueError(f"{{{part.name}}} stands within {quote}; accepted: outside, as values are quoted here")
            met.add(part.name)
            name = bound.get(part.name, part.name)
            piece = self._piece(name)
            if piece is not None:
                if name in chain:
                    raise ValueError(f"the query {name!r} contains itself: {' → '.join((*chain, name))}")
                inner = {old: bound.get(new, new) for old, new in part.bound.items()}
                inside: set[str] = set()
                written.append(f"{self._sql(piece, {**bound, **inner}, (*chain, name), inside).strip()}")
                if idle := sorted(inner.keys() - inside):
                    known = ", ".join(sorted(inside)) or "none"
                    raise ValueError(f"the query {name!r} has no placeholder {{{idle[0]}}}; accepted: {known}")
                met |= (inside - inner.keys()) | set(part.bound.values())
            elif part.bound:
                raise ValueError(f"{{{part.name}(…)}} is no query; accepted: {self._known(Sql)}")
            else:
                written.append(literal(self._value(name)))
        return "".join(written)

    def _piece(self, name: str) -> str | None:
        """The SQL that a name stands for, if it stands for any: itself, or by a value `"{NAME}"`."""
        value, behind = self.scope.get(name), {name}
        while isinstance(value, str) and (inner := LONE.fullmatch(value)) and inner[1] not in behind:
            behind.add(inner[1])
            value = self.scope.get(inner[1])
        if not isinstance(value, Sql):
            return None
        self.used |= behind
        return value.text

    def _of(self, hole: Placeholder, chain: tuple[str, ...] = ()) -> Any:
        if hole.bound or isinstance(self.scope.get(hole.name), Sql):
            raise ValueError(f"{{{hole.name}}} is SQL and cannot stand in a text; accepted: {self._known(object)}")
        return self._value(hole.name, chain)

    def _value(self, name: str, chain: tuple[str, ...] = ()) -> Any:
        if name not in self.scope:
            raise ValueError(f"{{{name}}} has no value; accepted: {self._known(object, Sql)}")
        if name in chain:
            raise ValueError(f"{{{name}}} stands for itself: {' → '.join((*chain, name))}")
        self.used.add(name)
        return self.plain(self.scope[name], (*chain, name))

    def _known(self, *kinds: type) -> str:
        """The names of the scope that are values, SQL or both."""
        values = sorted(name for name, value in self.scope.items() if not isinstance(value, Sql))
        pieces = sorted(name for name, value in self.scope.items() if isinstance(value, Sql))
        return ", ".join([*(values if object in kinds else []), *(pieces if Sql in kinds else [])]) or "none is stated"

    def _shown(self, value: Any) -> str:
        if isinstance(value, list):
            return ", ".join(map(self._shown, value))
        return self.names.get(str(value), str(value))


def _open_quote(text: str) -> str | None:
    """The quotation mark that a text leaves open."""
    quote = None
    for character in text:
        if quote is None and character in "'\"":
            quote = character
        elif character == quote:
            quote = None
    return quote
