"""The tables of `--explain`: every effective option and its origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from narrows.cli.outcome import SCHEME_KEY, without_index
from narrows.scenario import COMMAND_LINE, flag_of

Row = Mapping[str, Any]
Point = Mapping[str, Any]


def with_flags(point: Point, sets: Sequence[str], scheme: bool, source: str) -> dict[str, Any]:
    """Return a point in which values from the command line name their option.

    Args:
        point: The engine's explanation of a point.
        sets: The keys that `--set` names.
        scheme: Whether `--scheme` set the schemes.
        source: The scenario's source; a scenario built from options has no lines.
    """

    def named(key: str) -> Callable[[Row], dict[str, Any]]:
        return lambda row: _named(row, f"{key}.{row['key']}" if key else row["key"], sets, scheme, source)

    flows = []
    for flow in point["flows"]:
        parts = {"options": "flows", "transport": "flows.tcp", "params": "flows.params"}
        if flow["protocol"] == "dccp":
            parts["transport"] = "flows.dccp"
        flows.append({**flow, **{part: [named(key)(row) for row in flow[part]] for part, key in parts.items()}})
    links = [{**link, "options": list(map(named("links"), link["options"]))} for link in point.get("links", ())]
    out = {**point, "run": list(map(named(""), point["run"])), "network": list(map(named("network"), point["network"]))}
    return {**out, **({"links": links} if links else {}), "flows": flows}


def _named(row: Row, key: str, sets: Sequence[str], scheme: bool, source: str) -> dict[str, Any]:
    """Return a row with the option that set it, if any. `key` omits the indices of list items."""
    written = row["from"] == "command line"
    if not written and (source != COMMAND_LINE or "line" not in row):
        return dict(row)
    rest = {name: value for name, value in row.items() if name != "line"}
    # Transport options may be set for all flows; parameters may follow the scheme's name.
    own = [key, key.removeprefix("flows."), key.removeprefix("links."), key.replace("links.", "network.")]
    if key.startswith("flows.params."):
        own.append(SCHEME_KEY)
    plain = [without_index(text) for text in sets]
    if written and any(name == text or name.startswith(f"{text}.") for text in plain for name in own):
        return {**rest, "from": "--set"}
    if written and scheme and SCHEME_KEY in own:
        return {**rest, "from": "--scheme"}
    flags = (flag_of(name) for name in own)
    return {**rest, "from": next((flag for flag in flags if flag is not None), "command line")}


def tables(point: Point) -> Group:
    """Return the tables of a point: the run, the network, its links, and each flow."""
    parts: list[Any] = []
    swept = ", ".join(f"{key} = {value}" for key, value in point["point"].items())
    parts.append(Text(f"{point['scenario']}: {swept}" if swept else str(point["scenario"]), style="bold"))
    parts.append(_table("run", point["run"]))
    parts.append(_table("network", point["network"]))
    parts.extend(_table(f"link {link['link']}", link["options"]) for link in point.get("links", ()))
    shared = Counter(flow["flow"] for flow in point["flows"])
    for index, flow in enumerate(point["flows"]):
        # Results number flows with the same label; an entry of the scenario may stand for several flows.
        name = flow["flow"] if shared[flow["flow"]] == 1 else f"{flow['flow']} (flows.{index})"
        parts.append(_table(f"flow {name}", flow["options"]))
        parts.append(_table(f"flow {name}: {flow['protocol'].upper()}", flow["transport"]))
        if flow["params"]:
            parts.append(_table(f"flow {name}: parameters of {flow['scheme']}", flow["params"]))
    return Group(*parts)


def _table(title: str, rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    table.add_column("option", no_wrap=True, min_width=18)
    table.add_column("value", overflow="fold", min_width=12)
    table.add_column("from", min_width=14)
    for row in rows:
        table.add_row(Text(row["key"]), Text(_value(row)), Text(_origin(row)))
    return table


def _value(row: Row) -> str:
    text = _spelled(row["value"])
    return f"{text} = {row['resolved']}" if "resolved" in row and row["resolved"] != text else text


def _spelled(value: Any) -> str:
    """Return a value as a scenario spells it, without quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_spelled(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(_spelled, value))
    return str(value)


def _origin(row: Row) -> str:
    return f"{row['from']}, line {row['line']}" if "line" in row else str(row["from"])
