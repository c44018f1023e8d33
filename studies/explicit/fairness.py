"""Fair shares: the rates of all flows if the network were max-min fair at every moment. The study's reference."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrows.quantities import quantity

PAYLOAD = 1448 / 1500
"""The share of payload in a full packet."""


@dataclass(frozen=True)
class Flow:
    """The properties of a flow that determine its fair share. Times in seconds, rates in Mbit/s of payload."""

    label: str
    links: tuple[int, ...] = (0,)
    start: float = 0.0
    stop: float = float("inf")
    limit: float = float("inf")
    """The rate of its application."""
    on: float = float("inf")
    off: float = 0.0
    """Durations of busy and idle periods."""

    def wants(self, time: float) -> bool:
        """Whether its application sends at a time."""
        return self.start <= time < self.stop and (time - self.start) % (self.on + self.off) < self.on

    def changes(self, end: float) -> Iterable[float]:
        """Yield the times at which its application starts or stops sending."""
        yield from (self.start, self.stop)
        time = self.start
        while self.off and time < end:
            yield time + self.on
            time += self.on + self.off
            yield time


def max_min_rates(flows: Sequence[Flow], capacities: Sequence[float]) -> list[float]:
    """Return max-min fair rates by progressive filling: all rise equally until a link or an application limits them."""
    rates = [0.0] * len(flows)
    rising = set(range(len(flows)))
    while rising:
        room = []
        for link, capacity in enumerate(capacities):
            users = [i for i in rising if link in flows[i].links]
            if users:
                used = sum(rates[i] for i, flow in enumerate(flows) if link in flow.links)
                room.append((capacity - used) / len(users))
        step = min([*room, *(flows[i].limit - rates[i] for i in rising)])
        for i in rising:
            rates[i] += step
        full = {
            link
            for link, capacity in enumerate(capacities)
            if sum(rates[i] for i, flow in enumerate(flows) if link in flow.links) >= capacity * (1 - 1e-12)
        }
        rising = {i for i in rising if rates[i] < flows[i].limit * (1 - 1e-12) and full.isdisjoint(flows[i].links)}
    return rates


def fair_shares(flows: Sequence[Flow], capacities: Sequence[float], begin: float, end: float) -> list[float]:
    """Return the mean max-min rate of every flow over the part of its lifetime between two times."""
    inside = {time for flow in flows for time in flow.changes(end) if begin < time < end}
    times = sorted({begin, end, *inside})
    got = [0.0] * len(flows)
    for left, right in itertools.pairwise(times):
        busy = [i for i, flow in enumerate(flows) if flow.wants((left + right) / 2)]
        for i, rate in zip(busy, max_min_rates([flows[i] for i in busy], capacities), strict=True):
            got[i] += rate * (right - left)
    return [sum_ / (min(flow.stop, end) - max(flow.start, begin)) for sum_, flow in zip(got, flows, strict=True)]


def seconds(text: str) -> float:
    """Parse a time of a scenario, in seconds."""
    found = quantity(text)
    assert found is not None and found[1] == "ms", text
    return found[0] / 1e3


def mbit(text: str) -> float:
    """Parse a rate of a scenario, in Mbit/s."""
    found = quantity(text)
    assert found is not None and found[1] == "Mbit/s", text
    return found[0]


def share(text: str) -> float:
    """Parse a percentage of a scenario, as a share."""
    found = quantity(text)
    assert found is not None and found[1] == "%", text
    return found[0] / 100


def flows_of(scenario: Mapping[str, Any]) -> list[Flow]:
    """Return all flows of a scenario in file order. Random starts lie in the warm-up and count as 0."""
    nodes = _nodes(scenario)
    flows = []
    for entry in scenario["flows"]:
        app = entry.get("app", {})
        fixed = re.search(r"\brate=([\d.]+)", entry["scheme"])
        limit = mbit(app["rate"]) if "rate" in app else float(fixed[1]) if fixed else float("inf")
        path = tuple(range(nodes.index(entry["from"]), nodes.index(entry["to"]))) if "from" in entry else (0,)
        flow = Flow(
            label=entry.get("label", entry["scheme"]),
            links=path,
            start=seconds(entry.get("start", "0s")),
            stop=seconds(entry["stop"]) if "stop" in entry else float("inf"),
            limit=limit,
            on=seconds(app["on"]) if "on" in app else float("inf"),
            off=seconds(app["off"]) if "off" in app else 0.0,
        )
        flows += [flow] * int(entry.get("arrivals", entry).get("limit" if "arrivals" in entry else "count", 1))
    return flows


def _nodes(scenario: Mapping[str, Any]) -> list[str]:
    """Return the nodes of a chain in the direction of data."""
    links = scenario.get("links")
    if links is None:
        return [f"r{i}" for i in range(int(scenario["network"].get("hops", 0)) + 1)]
    forth = [link for link in links if link["from"] < link["to"]]
    return [forth[0]["from"], *(link["to"] for link in forth)]


def capacities_of(scenario: Mapping[str, Any]) -> list[float]:
    """Return the payload rates of the links in the direction of data, in Mbit/s, minus losses behind their queues."""
    network = scenario["network"]
    links = [link for link in scenario.get("links", ()) if link["from"] < link["to"]]
    rows = links or [network] * int(network.get("hops", 1))
    lost = share(network.get("loss", "0%")) if network.get("loss_at") != "ingress" else 0.0
    return [mbit(row.get("rate", network.get("rate"))) * PAYLOAD * (1 - lost) for row in rows]


def narrowest(traces: Sequence[str], begin: float, end: float) -> float:
    """Return the mean payload rate, in Mbit/s, of links in series with capacity traces: the lowest rate per second."""
    rates = []
    for text in traces:
        times = [int(line) for line in text.splitlines() if line and not line.startswith("#")]
        period = times[-1]
        assert period % 1000 == 0, "a trace of whole seconds"
        packets = [0] * (period // 1000)
        for time in times:
            packets[max(0, time - 1) // 1000] += 1
        rates.append(packets)
    span = range(int(begin), int(end))
    least = [min(packets[second % len(packets)] for packets in rates) for second in span]
    return sum(least) / len(least) * 1500 * 8 / 1e6 * PAYLOAD
