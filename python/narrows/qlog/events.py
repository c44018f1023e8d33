"""The meaning of events: names, values and times of all versions and stacks, per connection.

Names are those of old and new drafts (`recovery:metrics_updated`, `quic:recovery_metrics_updated`) and of mvfst. Old
versions state a unit of time, `configuration.time_units`, which also applies to round-trip times.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from narrows.arguments import shown
from narrows.qlog.reading import Trace
from narrows.qlog.walk import refuse
from narrows.shapes import LARGEST

METRICS: Mapping[str, tuple[str, float | None]] = {
    "congestion_window": ("cwnd_bytes", 1.0),
    "cwnd": ("cwnd_bytes", 1.0),
    "current_cwnd": ("cwnd_bytes", 1.0),
    "bytes_in_flight": ("inflight_bytes", 1.0),
    "pacing_rate": ("pacing_rate_mbit_s", 1e-6),
    "ssthresh": ("ssthresh_bytes", 1.0),
    "latest_rtt": ("rtt_sample_ms", None),
    "smoothed_rtt": ("rtt_ms", None),
    "min_rtt": ("min_rtt_ms", None),
    "rtt_variance": ("rttvar_ms", None),
    "pto_count": ("pto_count", 1.0),
}
"""Series and factor of a metric; `None` stands for the trace's unit of time in milliseconds."""
UNLIMITED = 2.0**62
"""Values from here on mean no limit: stacks write the greatest integer of a type."""
UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
"""Units of time in milliseconds."""
DELTAS = ("delta", "relative_to_previous_event")
"""Values of `time_format` for times relative to the previous event."""
SPACES = {"initial": "initial", "handshake": "handshake"}
"""Packet number spaces by packet type; all other types share one."""
MOST_CONNECTIONS = 1_000
"""The most connections of a file."""
LONGEST_NAME = 200
"""The most letters of a `group_id`."""
MOST_VALUES = 5_000_000
"""The most values of a figure: metrics, states, packets."""
MOST_RANGES = 32_768
"""The most ranges of a frame: more than fit into the longest datagram."""
MOST_OUTSTANDING = 65_536
"""Packets sent that may wait for an acknowledgement in a space; older ones count as never acknowledged."""
Points = tuple["array[float]", "array[float]"]
"""Times in milliseconds, and values."""


class PacketSpace:
    """The unacknowledged packets of a packet number space, in the order of their numbers.

    Links skip acknowledged packets, so that a range costs only the packets that it is the first to cover: a
    disjoint-set forest over the indices of the list, with path halving.
    """

    def __init__(self) -> None:
        self._numbers, self._sizes, self._links = array("q"), array("d"), array("q")

    def send(self, number: int, size: float) -> None:
        """Record a packet."""
        if self._numbers and number <= self._numbers[-1]:
            return
        self._links.append(len(self._numbers))
        self._numbers.append(number)
        self._sizes.append(size)
        if len(self._numbers) > 2 * MOST_OUTSTANDING:
            for column in (self._numbers, self._sizes, self._links):
                del column[:MOST_OUTSTANDING]
            self._links = array("q", (place - MOST_OUTSTANDING for place in self._links))

    def acknowledge(self, first: int, last: int) -> float:
        """Return the bytes of a range that no earlier range covered."""
        end = bisect_left(self._numbers, last + 1)
        place = self._open(bisect_left(self._numbers, first, hi=end))
        covered = array("d")
        while place < end:
            covered.append(self._sizes[place])
            self._links[place] = place + 1
            place = self._open(place + 1)
        return math.fsum(covered)

    def _open(self, place: int) -> int:
        """Return the first unacknowledged index from this one on, or the length of the list."""
        links, count = self._links, len(self._links)
        while place < count and links[place] != place:
            after = links[place]
            if after < count:
                links[place] = links[after]
            place = after
        return place


@dataclass
class Connection:
    """The data of a file about one connection."""

    group: str
    """Its `group_id`, empty without one."""
    vantage: str
    """The type of the vantage point."""
    title: str
    series: dict[str, Points] = field(default_factory=dict)
    """Metrics by series."""
    states: list[tuple[float, str]] = field(default_factory=list)
    """Times of states, in milliseconds, and their names."""
    acked: Points = field(default_factory=lambda: (array("d"), array("d")))
    """Newly acknowledged bytes."""
    sent: Points = field(default_factory=lambda: (array("d"), array("d")))
    """Bytes of packets sent."""
    received: Points = field(default_factory=lambda: (array("d"), array("d")))
    """Bytes of packets received."""
    losses: Points = field(default_factory=lambda: (array("d"), array("d")))
    """Packets declared lost."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """The description of the connection in the event `simulation:scenario`."""
    spaces: dict[str, PacketSpace] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not (self.series or self.states or self.sent[0] or self.received[0] or self.losses[0])

    @property
    def has_rtt_in_seconds(self) -> bool:
        """Whether round-trip times look like seconds: the first acknowledgement took a hundred times the greatest."""
        samples = self.series.get("rtt_sample_ms", self.series.get("rtt_ms"))
        if samples is None or not (self.sent[0] and self.acked[0]):
            return False
        return 0 < 100 * max(samples[1]) < self.acked[0][0] - self.sent[0][0]

    def align(self, start: float) -> None:
        """Sort events by time, and count times from `start`, in milliseconds."""
        for times, values in (*self.series.values(), self.acked, self.sent, self.received, self.losses):
            if times:
                shifted = np.array(times) - start
                order = np.argsort(shifted, kind="stable")
                times[:] = array("d", shifted[order])
                values[:] = array("d", np.array(values)[order])
        visits = sorted(((time - start, name) for time, name in self.states), key=lambda visit: visit[0])
        self.states = [visit for place, visit in enumerate(visits) if not place or visits[place - 1][1] != visit[1]]


class Reader:
    """Reads the traces of a file.

    Args:
        path: The file, for errors.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = 1
        self._found: dict[tuple[int, str], Connection] = {}
        self._traces = self._values = 0
        self._described: dict[str, Mapping[str, Any]] = {}
        self._events: Mapping[str, Callable[[Connection, float, Mapping[str, Any]], None]] = {
            "metrics_updated": self._metrics,
            "recovery_metrics_updated": self._metrics,
            "metric_update": self._metrics,
            "congestion_metric_update": self._metrics,
            "bandwidth_est_update": self._bandwidth,
            "congestion_state_updated": self._state,
            "packet_sent": self._sent,
            "packet_received": self._received,
            "packets_acked": self._acked,
            "packet_lost": self._lost,
            "packets_lost": self._lost,
        }

    def connections(self) -> list[Connection]:
        """Return the connections with data, in the order of their first events."""
        for connection in self._found.values():
            connection.details = self._described.get(connection.group, {})
            connection.spaces.clear()
        return [connection for connection in self._found.values() if not connection.is_empty]

    def read(self, trace: Trace) -> None:
        """Read the events of a trace.

        Raises:
            UsageError: A value that is read has an unsuitable type or size.
        """
        number, self._traces = self._traces, self._traces + 1
        common = _object(trace.head.get("common_fields"))
        unit = str(_object(trace.head.get("configuration")).get("time_units", "ms")).lower()
        if unit not in UNITS:
            refuse(self._path, self._line, f"unknown time_units `{unit[:20]}`", f"accepted: {', '.join(UNITS)}")
        self._unit = UNITS[unit]
        columns = trace.head.get("event_fields")
        columns = [str(name).lower() for name in columns] if isinstance(columns, list) else []
        vantage = str(_object(trace.head.get("vantage_point")).get("type", ""))
        style = str(common.get("time_format", "")).lower()
        clock, least, greatest = 0.0, math.inf, -math.inf
        for line, event in trace.events:
            self._line = line
            if event in ([], {}):  # stacks end their lists so
                continue
            event = self._named(event, columns)
            name, data = str(event["name"]).lower(), event.get("data")
            time, by_delta = self._time(event, style)
            clock = self._bounded("time", clock + time if by_delta else time)
            least, greatest = min(least, clock), max(greatest, clock)
            self._bounded("time", greatest - least)
            if name == "simulation:scenario":
                self._describe(data)
            kind = self._events.get(name.rpartition(":")[2])
            if kind is None:
                continue
            if not isinstance(data, dict):
                self._refuse("`data` of an event is no object")
            group = self._group(event.get("group_id", common.get("group_id", "")))
            kind(self._connection(number, group, vantage, trace.title), clock, data)
        for (trace_number, _), connection in self._found.items():
            if trace_number == number:
                connection.align(least)

    def _connection(self, trace: int, group: str, vantage: str, title: str) -> Connection:
        key = (trace, group)
        if key not in self._found:
            if len(self._found) == MOST_CONNECTIONS:
                self._refuse(f"the file has more than {MOST_CONNECTIONS:,} connections", "accepted: fewer connections")
            self._found[key] = Connection(group, plain(vantage), plain(title))
        return self._found[key]

    def _group(self, group: Any) -> str:
        if isinstance(group, str) and len(group) > LONGEST_NAME:
            self._refuse(f"a `group_id` has more than {LONGEST_NAME} letters", "accepted: a shorter one")
        return group if isinstance(group, str) else ""

    def _refuse(self, problem: str, accepted: str = "accepted: events as the drafts define them") -> NoReturn:
        refuse(self._path, self._line, problem, accepted)

    def _named(self, event: Any, columns: list[str]) -> dict[str, Any]:
        """Return an event with its name as `name`, whatever its form."""
        if isinstance(event, list) and columns:
            event = dict(zip(columns, event, strict=False))
        if not isinstance(event, dict):
            self._refuse("an event is no object")
        if "name" not in event:
            kind = event.get("event", event.get("type", event.get("event_type")))
            if kind is None:
                self._refuse("an event has no `name`")
            event = {**event, "name": f"{event.get('category', '')}:{kind}"}
        return dict(event)

    def _time(self, event: Mapping[str, Any], style: str) -> tuple[float, bool]:
        """Return the time of an event in milliseconds, and whether it is relative to the previous event."""
        own = str(event.get("time_format", style)).lower()
        if "delta_time" in event:
            return self._number(event, "delta_time") * self._unit, True
        name = next((name for name in ("time", "relative_time") if name in event), None)
        if name is None:
            self._refuse("an event has no `time`")
        return self._number(event, name, signed=True) * self._unit, own in DELTAS

    def _number(self, data: Mapping[str, Any], name: str, signed: bool = False) -> float:
        """Return a member as a finite number; mvfst writes some as texts."""
        value = data[name]
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise TypeError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number) or (number < 0 and not signed):
            self._refuse(f"`{name}` is {shown(value, 40)}", "accepted: a number from 0")
        return number

    def _bounded(self, name: str, number: float) -> float:
        """Refuse a scaled number that no run reaches: figures cannot show it."""
        if not -LARGEST <= number < LARGEST:
            self._refuse(f"`{name}` is {number:g}", "accepted: numbers below 2^63")
        return number

    def _quantity(self, data: Mapping[str, Any], name: str, factor: float = 1.0) -> float:
        """Return a member, times a factor, as a number of plausible size."""
        return self._bounded(name, self._number(data, name) * factor)

    def _describe(self, data: Any) -> None:
        """Record the flows that this tool describes in its own files."""
        flows = _object(_object(data).get("details")).get("flows")
        for flow in flows if isinstance(flows, list) else ():
            if isinstance(flow, dict) and isinstance(flow.get("group_id"), str):
                described = dict[str, Any]()
                if isinstance(flow.get("scheme"), str):
                    described["scheme"] = flow["scheme"][:LONGEST_NAME]
                if flow.get("rtt_base_ms") is not None:
                    described["rtt_base_ms"] = self._quantity(flow, "rtt_base_ms")
                self._described[self._group(flow["group_id"])] = described
                if len(self._described) > MOST_CONNECTIONS:
                    self._refuse(f"the file describes more than {MOST_CONNECTIONS:,} flows", "accepted: fewer flows")

    def _add(self, connection: Connection, series: str, time: float, value: float) -> None:
        self._append(connection.series.setdefault(series, (array("d"), array("d"))), time, value)

    def _append(self, points: Points, time: float, value: float) -> None:
        self._count()
        points[0].append(time)
        points[1].append(value)

    def _count(self) -> None:
        self._values += 1
        if self._values > MOST_VALUES:
            self._refuse(f"the file has more than {MOST_VALUES:,} values to draw", "accepted: a shorter log")

    def _metrics(self, connection: Connection, time: float, data: Mapping[str, Any]) -> None:
        for name, (series, factor) in METRICS.items():
            if data.get(name) is None:
                continue
            value = self._number(data, name)
            if value < UNLIMITED:
                value = self._bounded(name, value * (self._unit if factor is None else factor))
                self._add(connection, series, time, value)
        if isinstance(data.get("state"), str):
            self._enter(connection, time, data["state"])

    def _bandwidth(self, connection: Connection, time: float, data: Mapping[str, Any]) -> None:
        """Record mvfst's estimate: bytes per interval."""
        if data.get("bandwidth_bytes") is None or not data.get("bandwidth_interval"):
            return
        interval = self._quantity(data, "bandwidth_interval", self._unit)
        if interval > 0:
            rate = self._bounded("bandwidth_bytes", self._quantity(data, "bandwidth_bytes", 8e-3) / interval)
            self._add(connection, "bw_estimate_mbit_s", time, rate)

    def _state(self, connection: Connection, time: float, data: Mapping[str, Any]) -> None:
        if isinstance(data.get("new"), str):
            self._enter(connection, time, data["new"])

    def _enter(self, connection: Connection, time: float, state: str) -> None:
        state = plain(state)
        if not connection.states or connection.states[-1][1] != state or time < connection.states[-1][0]:
            self._count()
            connection.states.append((time, state))

    def _packet(self, data: Mapping[str, Any]) -> tuple[str, int | None, float]:
        """Return space, number and size of a packet."""
        header = _object(data.get("header"))
        kind = header.get("packet_type", data.get("packet_type"))
        places = ((_object(data.get("raw")), "length"), (header, "packet_size"), (data, "packet_size"))
        size = next((self._quantity(part, name) for part, name in places if part.get(name) is not None), 0.0)
        number = None
        if header.get("packet_number", data.get("packet_number")) is not None:
            part = header if header.get("packet_number") is not None else data
            number = int(self._quantity(part, "packet_number"))
        return SPACES.get(str(kind).lower(), ""), number, size

    def _sent(self, connection: Connection, time: float, data: Mapping[str, Any]) -> None:
        space, number, size = self._packet(data)
        self._append(connection.sent, time, size)
        if number is not None:
            connection.spaces.setdefault(space, PacketSpace()).send(number, size)

    def _received(self, connection: Connection, time: float, data: Mapping[str, Any]) -> None:
        space, _, size = self._packet(data)
        self._append(connection.received, time, size)
        frames = data.get("frames")
        own = connection.spaces.get(space)
        if own is None:
            return
        for frame in frames if isinstance(frames, list) else ():
            kind = _object(frame).get("frame_type")
            ranges = _object(frame).get("acked_ranges")
            if str(kind).lower() not in ("ack", "ack_ecn") or not isinstance(ranges, list):
                continue
            if len(ranges) > MOST_RANGES:
                self._refuse(f"a frame has more than {MOST_RANGES:,} ranges", "accepted: frames that a datagram holds")
            total = math.fsum(own.acknowledge(*self._range(ends)) for ends in ranges)
            if total > 0:
                self._append(connection.acked, time, total)

    def _acked(self, connection: Connection, time: float, data: Mapping[str, Any]) -> None:
        """Record packets that a sender considers delivered, which frames need not show."""
        numbers = data.get("packet_numbers")
        own = connection.spaces.get(SPACES.get(str(data.get("packet_number_space")).lower(), ""))
        if own is None or not isinstance(numbers, list):
            return
        if len(numbers) > MOST_RANGES:
            self._refuse(f"an event acknowledges more than {MOST_RANGES:,} packets", "accepted: several events")
        places = [int(self._quantity({"packet_numbers": number}, "packet_numbers")) for number in numbers]
        total = math.fsum(own.acknowledge(number, number) for number in places)
        if total > 0:
            self._append(connection.acked, time, total)

    def _range(self, ends: Any) -> tuple[int, int]:
        """Return first and last number of a range, given as a number or a list of one or two."""
        ends = ends if isinstance(ends, list) else [ends]
        if not 1 <= len(ends) <= 2:
            self._refuse("`acked_ranges` has a range without ends")
        numbers = [int(self._quantity({"acked_ranges": end}, "acked_ranges")) for end in ends]
        return min(numbers), max(numbers)

    def _lost(self, connection: Connection, time: float, data: Mapping[str, Any]) -> None:
        count = self._quantity(data, "lost_packets") if data.get("lost_packets") is not None else 1.0
        self._append(connection.losses, time, count)


def plain(text: str) -> str:
    """Clean an untrusted text for a figure: short, printable, and without matplotlib's formulas."""
    return "".join(letter for letter in text[:60] if letter.isprintable() and letter != "$").strip()


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
