"""SQL and texts of claims files, with placeholders.

| placeholder | stands for |
|---|---|
| `{NAME}` in SQL | a value, quoted here: a text, a number, true, false, or a list of these for `IN` |
| `{QUERY}` in SQL | the query of that name, or the one that a value `"{QUERY}"` names |
| `{QUERY(NAME = OTHER)}` in SQL | the same with `{OTHER}` in place of its `{NAME}` |
| `{NAME}` in a text | the value; in texts for people as `names` spells it |
| `{{`, `}}` | the brace itself |

Values may contain placeholders too: `"5bdp{at}"`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

NAME = r"[\w-]+"
PIECE = re.compile(rf"\{{\{{|\}}\}}|\{{\s*({NAME})\s*(?:\(([^(){{}}]*)\)\s*)?\}}|[{{}}]")
LONE = re.compile(rf"\{{\s*({NAME})\s*\}}")
"""A string that is one placeholder: it becomes the value itself, with its type."""
BINDING = re.compile(rf"\s*({NAME})\s*=\s*({NAME})\s*")
MOST_LETTERS, MOST_NESTED = 100_000, 50
"""The longest text, and the deepest nesting of placeholders."""
ACCEPTED = "accepted: {NAME}, {QUERY(NAME = OTHER)}, and {{ or }} for a brace"


@dataclass(frozen=True)
class Sql:
    """A query or a part of a query. Templates copy it unchanged; they quote values."""

    text: str


@dataclass(frozen=True)
class Placeholder:
    """The name in braces, and the names that it binds to other names."""

    name: str
    bound: Mapping[str, str]


def parts(text: str) -> Iterator[str | Placeholder]:
    """Yield the texts and placeholders of a template, in order.

    Raises:
        ValueError: A brace is not part of a placeholder.
    """
    end = 0
    for match in PIECE.finditer(text):
        yield text[end : match.start()]
        end = match.end()
        if match[0] in ("{{", "}}"):
            yield match[0][0]
        elif match[1] is None:
            found = text[match.start() : match.start() + 30].partition("\n")[0]
            raise ValueError(f"the brace of {found!r} belongs to no placeholder; {ACCEPTED}")
        else:
            yield Placeholder(match[1], _bindings(match))
    yield text[end:]


def _bindings(match: re.Match[str]) -> dict[str, str]:
    if match[2] is None:
        return {}
    pairs = [BINDING.fullmatch(pair) for pair in match[2].split(",")]
    bound = {pair[1]: pair[2] for pair in pairs if pair is not None}
    if len(bound) < len(pairs):
        raise ValueError(f"{match[0]} is no placeholder; {ACCEPTED}")
    return bound


def literal(value: Any) -> str:
    """Return a value as an SQL literal.

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
    """Fills templates with the values and queries of a scope."""

    scope: Mapping[str, Any]
    """Values by name, and queries as `Sql`."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Spellings of values in texts for people, such as `name = "Name"`."""
    used: set[str] = field(default_factory=set)
    """Names of the scope that templates have used."""

    def prose(self, text: str) -> str:
        """Fill a text for people.

        Raises:
            ValueError: A placeholder is malformed, has no value, contains itself, or is a query.
        """
        return self._prose(text, ())

    def _prose(self, text: str, chain: tuple[str, ...]) -> str:
        written: list[str] = []
        for part in parts(text):
            if isinstance(part, Placeholder):
                value = self._stated(part, chain)
                inner = (*chain, part.name)
                part = self._spelled(self._prose(value, inner) if isinstance(value, str) else self.plain(value, inner))
            written.append(part)
            self._within(sum(map(len, written)), chain)
        return "".join(written)

    def plain(self, value: Any, chain: tuple[str, ...] = ()) -> Any:
        """Fill all texts in a value, however deep.

        Raises:
            ValueError: As for prose.
        """
        if isinstance(value, str):
            if (lone := LONE.fullmatch(value)) is not None:
                return self._value(Placeholder(lone[1], {}), chain)
            written = []
            for part in parts(value):
                written.append(part if isinstance(part, str) else str(self._value(part, chain)))
                self._within(sum(map(len, written)), chain)
            return "".join(written)
        if isinstance(value, list):
            return [self.plain(each, chain) for each in value]
        if isinstance(value, dict):
            return {self.plain(key, chain): self.plain(each, chain) for key, each in value.items()}
        return value

    def sql(self, text: str) -> str:
        """Fill a query.

        Raises:
            ValueError: As for prose; or a placeholder stands within quotes, or binds a name that nothing uses.
        """
        return self._sql(text, {}, (), set()).strip()

    def _sql(self, text: str, bound: Mapping[str, str], chain: tuple[str, ...], met: set[str]) -> str:
        """Fill SQL in which names are `bound` to others; `met` collects the names that the SQL uses."""
        written: list[str] = []
        for part in parts(text):
            if isinstance(part, str):
                written.append(part)
                continue
            if (quote := _open_quote("".join(written))) is not None:
                raise ValueError(f"{{{part.name}}} stands within {quote}; accepted: outside, values are quoted here")
            met.add(part.name)
            name = bound.get(part.name, part.name)
            query = self._query(name)
            if query is not None:
                if name in chain:
                    raise ValueError(f"the query {name!r} contains itself: {' → '.join((*chain, name))}")
                inner = {old: bound.get(new, new) for old, new in part.bound.items()}
                inside: set[str] = set()
                written.append(self._sql(query, {**bound, **inner}, (*chain, name), inside).strip())
                self._within(sum(map(len, written)), chain)
                if idle := sorted(inner.keys() - inside):
                    known = ", ".join(sorted(inside)) or "none"
                    raise ValueError(f"the query {name!r} has no placeholder {{{idle[0]}}}; accepted: {known}")
                met |= (inside - inner.keys()) | set(part.bound.values())
            elif part.bound:
                raise ValueError(f"{{{part.name}(…)}} is no query; accepted: {self._known(values=False)}")
            else:
                written.append(literal(self._value(Placeholder(name, {}))))
        return "".join(written)

    def _query(self, name: str) -> str | None:
        """Return the SQL of a name, stated directly or by a value `"{QUERY}"`."""
        value, behind = self.scope.get(name), {name}
        while isinstance(value, str) and (inner := LONE.fullmatch(value)) and inner[1] not in behind:
            behind.add(inner[1])
            value = self.scope.get(inner[1])
        if not isinstance(value, Sql):
            return None
        self.used |= behind
        return value.text

    def _within(self, length: int, chain: tuple[str, ...]) -> None:
        """Limit the growth of texts by nested placeholders.

        Raises:
            ValueError: The text is too long, or its placeholders are nested too deeply.
        """
        if length > MOST_LETTERS or len(chain) > MOST_NESTED:
            raise ValueError(
                f"the placeholders stand for too much; accepted: up to {MOST_LETTERS} letters and {MOST_NESTED} levels"
            )

    def _value(self, part: Placeholder, chain: tuple[str, ...] = ()) -> Any:
        """Return the value of a placeholder, filled."""
        return self.plain(self._stated(part, chain), (*chain, part.name))

    def _stated(self, part: Placeholder, chain: tuple[str, ...]) -> Any:
        """Return the value of a placeholder as stated."""
        name = part.name
        if part.bound or isinstance(self.scope.get(name), Sql):
            raise ValueError(
                f"{{{name}}} is a query and cannot stand in a text; accepted: {self._known(queries=False)}"
            )
        if name not in self.scope:
            raise ValueError(f"{{{name}}} has no value; accepted: {self._known()}")
        if name in chain:
            raise ValueError(f"{{{name}}} contains itself: {' → '.join((*chain, name))}")
        self.used.add(name)
        return self.scope[name]

    def _known(self, *, values: bool = True, queries: bool = True) -> str:
        """Return names of the scope, for errors."""
        known = [name for name, value in self.scope.items() if (queries if isinstance(value, Sql) else values)]
        return ", ".join(sorted(known)) or "none is stated"

    def _spelled(self, value: Any) -> str:
        if isinstance(value, list):
            return ", ".join(map(self._spelled, value))
        return self.names.get(str(value), str(value))


def _open_quote(text: str) -> str | None:
    """Return the quotation mark that a text leaves open."""
    quote = None
    for character in text:
        if quote is None and character in "'\"":
            quote = character
        elif character == quote:
            quote = None
    return quote
