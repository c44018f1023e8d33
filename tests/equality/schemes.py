"""Runs made from the registry of a build: every scheme and router algorithm, and every parameter of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

DUMBBELL = """
duration = "{duration}"
warmup = "1s"
seed = 11
{tcp}
[network]
rate = "20mbit"
{network}
"""

ALONE: dict[str, dict[str, str]] = {
    "alone with loss": {"network": 'loss = "0.2%"', "duration": "8s"},
    "alone, deep buffer": {"network": 'buffer = "4bdp"', "duration": "12s"},  # beyond BBR's ten seconds to ProbeRTT
    "alone without SACK": {"network": 'loss = "1%"', "tcp": "[tcp]\nsack = false"},
    "alone with ECN": {"network": 'queue = { kind = "codel", ecn = true }', "tcp": "[tcp]\necn = true"},
    "alone, tiny buffer and bursts of loss": {
        "network": 'buffer = "5pkt"\nloss = { kind = "gilbert-elliott", to_bad = "1%", to_good = "20%" }'
    },
    "alone on a varying path": {"network": 'buffer = "200pkt"\njitter = "2ms"', "path": "cell.trace"},
    "alone, on and off": {"flow": 'app = { kind = "on-off", on = "300ms", off = "400ms", random = true }'},
    "alone, limited by its application": {"flow": 'app = { kind = "cbr", rate = "3mbit" }'},
    "alone, a file": {
        "flow": 'size = "900kB"',
        "network": 'loss = "2%"\naccess_rate = "100mbit"\naccess_delay = "2ms"',
    },
    "alone, a small receive window": {"tcp": '[tcp]\nreceive_window = "20kB"\nack_every = 1'},
    "two subflows": {"flow": "subflows = 2", "network": 'loss = "0.3%"', "couples": "yes"},
}
"""Networks in which a scheme runs alone: further keys of the network, of TCP and of the flow."""

AGAINST = {
    "newreno": {"network": 'buffer = "1bdp"', "first": 'rtt = "40ms"', "second": 'rtt = "40ms"\nstart = "500ms"'},
    "cubic": {"network": 'buffer = "3bdp"', "first": 'rtt = "80ms"', "second": 'rtt = "20ms"'},
}
"""Rivals, with the network, the flow of the scheme and that of the rival."""


def dumbbell(flows: str, network: str = "", tcp: str = "", duration: str = "5s") -> str:
    """A scenario of one bottleneck."""
    return DUMBBELL.format(duration=duration, tcp=tcp, network=network) + flows


def flow(scheme: str, more: str = 'rtt = "40ms"') -> str:
    """A flow of a scenario."""
    return f'[[flows]]\nscheme = "{scheme}"\n{more}\n'


def of_schemes(schemes: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, bool]]:
    """Name and text of runs with every scheme, and whether a build may refuse them."""
    for name in (row["name"] for row in schemes):
        for case, keys in ALONE.items():
            text = dumbbell(
                flow(name, f'rtt = "40ms"\n{keys.get("flow", "")}'),
                keys.get("network", ""), keys.get("tcp", ""), keys.get("duration", "5s"),
            )  # fmt: skip
            if "path" in keys:
                text = text.replace('rate = "20mbit"', f'capacity_trace = "{keys["path"]}"')
            # Neither DCCP nor schemes with protocol headers carry subflows.
            yield f"{name} {case}", text, "couples" in keys
        for rival, keys in AGAINST.items():
            flows = flow(name, keys["first"]) + flow(rival, keys["second"])
            yield f"{name} against {rival}", dumbbell(flows, keys["network"], duration="8s"), False
        # DCCP refuses schemes that couple subflows or have protocol headers.
        datagrams = flow(name, 'rtt = "40ms"\nprotocol = "dccp"')
        yield f"{name} over DCCP", dumbbell(datagrams, 'loss = "0.5%"'), True
        for alias in next(row["aliases"] for row in schemes if row["name"] == name):
            yield f"{alias} as {name}", dumbbell(flow(alias), duration="2s"), False


def values(param: Mapping[str, Any]) -> list[str]:
    """Values of a parameter besides its default: all choices, else one or two values within its range."""
    default = param["default"]
    if param["kind"] == "choice":
        return [word for word in param["choices"] if word != default]
    low, high = param["min"], param["max"]
    if param["kind"] == "flag":
        return ["off" if default else "on"]
    if param["kind"] == "count":
        near = range(int(low), int(high) + 1) if high - low <= 3 else (default + 1, default * 3 + 2)
        return [f"{value:.0f}" for value in near if low <= value <= high and value != default]
    wider = default * 1.3 if default else low + 0.3 * (high - low)
    chosen = [value for value in (wider, default * 0.7) if low <= value <= high and value != default]
    return [f"{value:.6g}" for value in chosen]


def of_parameters(schemes: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, bool]]:
    """A run for each value of each parameter of each scheme, beside a flow that makes it lose and yield."""
    for row in schemes:
        for param in row["params"]:
            for value in values(param):
                name = f"{row['name']}:{param['name']}={value}"
                marks = 'buffer = "2bdp"\nloss = "0.1%"\nqueue = { kind = "red", min = "20pkt", ecn = true }'
                flows = flow(name, 'rtt = "30ms"') + flow("newreno", 'rtt = "30ms"\nstart = "1s"')
                yield name, dumbbell(flows, marks, "[tcp]\necn = true", "4s"), False


def of_routers(routers: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, bool]]:
    """Every router algorithm with each of its parameters, used by flows of its scheme, cross traffic and UDP."""
    for row in routers:
        settings = [(param["name"], value) for param in row["params"] for value in ["", *values(param)]]
        for param, value in dict.fromkeys(pair if pair[1] else ("", "") for pair in settings):
            said = {"on": "true", "off": "false"}.get(value, f'"{value}"' if value[:1].isalpha() else value)
            keys = f'{{ kind = "{row["name"]}"{f", {param} = {said}" if param else ""} }}'
            flows = (
                flow(row["name"], 'rtt = "30ms"\ncount = 2\nstagger = "200ms"')
                + flow(row["name"], 'rtt = "60ms"\nstart = "1s"\napp = { kind = "cbr", rate = "2mbit" }\nstop = "3s"')
                + flow(row["name"], 'rtt = "30ms"\narrivals = { rate = "6/s", size = "40kB" }')
                + flow("cubic", 'rtt = "30ms"\nstart = "1500ms"')
                + flow("fixed:window=40", 'rtt = "30ms"\nprotocol = "udp"\napp = { kind = "cbr", rate = "1mbit" }')
            )
            text = dumbbell(flows, f'buffer = "1bdp"\nrouter = {keys}\naccess_rate = "100mbit"', duration="4s")
            yield f"router {row['name']} {param}={value}" if param else f"router {row['name']}", text, False
