"""Results of throughput tests in the layout of `iperf3 --json`, for `narrows perf`.

Keys have iperf3's names, units and positions: bytes, seconds, bits per second, RTTs in microseconds. The streams of a
test share a connection: each stream reports the connection's RTT, window and MTU. `retransmits` counts packets declared
lost, whose data QUIC sends again; it is null per stream if there are several streams. `socket` is the stream's number.
`rttvar` and `snd_wnd` are null: the transport does not report them. At a receiver, the sender's RTTs and window are
null too, and so is the scheme unless the sender stated it. Keys that only TCP sockets have are missing (`cookie`,
`tcp_mss_default`, `sock_bufsize`, `sndbuf_actual`, `rcvbuf_actual`), as is the receiver's congestion control.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from narrows import engine

MAX_ROWS = 20_000
"""The most intervals, and the most stream rows, that a recording keeps. It only counts further intervals."""


@dataclass
class Extremes:
    """Minimum, mean and maximum of the intervals' RTTs in microseconds, and the largest window in bytes."""

    count: int = 0
    rtt_sum: int = 0
    rtt_min: int = 0
    rtt_max: int = 0
    cwnd_max: int = 0

    def add(self, rtt_us: int | None, cwnd_bytes: int | None) -> None:
        """Add the values of an interval."""
        self.cwnd_max = max(self.cwnd_max, cwnd_bytes or 0)
        if rtt_us is not None:
            self.rtt_min = min(self.rtt_min, rtt_us) if self.count else rtt_us
            self.rtt_max = max(self.rtt_max, rtt_us)
            self.rtt_sum += rtt_us
            self.count += 1

    def rows(self) -> dict[str, int | None]:
        """Return the values with iperf3's names."""
        rtts = (self.rtt_max, self.rtt_min, self.rtt_sum // self.count) if self.count else (None, None, None)
        names = ("max_snd_cwnd", "max_snd_wnd", "max_rtt", "min_rtt", "mean_rtt")
        return dict(zip(names, (self.cwnd_max or None, None, *rtts), strict=True))


@dataclass
class Recording:
    """The intervals of a test in the layout of iperf3. Its memory is bounded, however long the test."""

    _intervals: list[dict[str, Any]] = field(default_factory=list)
    _streams: int = 0
    _omitted: int = 0
    _extremes: Extremes = field(default_factory=Extremes)
    _cpu: os.times_result = field(default_factory=os.times)

    def add(self, row: Mapping[str, Any]) -> None:
        """Record an interval reported by the engine."""
        rtt = _micros(row["rtt_ms"])
        self._extremes.add(rtt, row["cwnd_bytes"])
        if len(self._intervals) >= MAX_ROWS:
            self._omitted += 1
            return
        counts = row["streams"]
        if self._streams + len(counts) > MAX_ROWS:
            counts = []
        self._streams += len(counts)
        time_span = {"start": row["start_s"], "end": row["end_s"], "seconds": row["end_s"] - row["start_s"]}
        streams = []
        for index, moved in enumerate(counts):
            own = {"socket": index, **time_span, "bytes": moved, "bits_per_second": _rate(moved, time_span["seconds"])}
            if row["sends"]:
                own |= {
                    "retransmits": row["lost"] if len(counts) == 1 else None,
                    "snd_cwnd": row["cwnd_bytes"], "snd_wnd": None, "rtt": rtt, "rttvar": None,
                    "pmtu": row["mtu_bytes"],
                }  # fmt: skip
            streams.append({**own, "omitted": False, "sender": row["sends"]})
        total = {**time_span, "bytes": row["bytes"], "bits_per_second": _rate(row["bytes"], time_span["seconds"])}
        if row["sends"]:
            total |= {"retransmits": row["lost"]}
        conditions = {
            "packets": row["packets"], "lost_packets": row["lost"], "rtt_ms": row["rtt_ms"],
            "cwnd_bytes": row["cwnd_bytes"], "pacing_mbit_s": row["pacing_mbit_s"], "state": row["state"],
            "silent_s": row["silent_s"],
        }  # fmt: skip
        self._intervals.append(
            {"streams": streams, "sum": {**total, "omitted": False, "sender": row["sends"], **conditions}}
        )

    def document(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the whole result, given the engine's report of the end."""
        document: dict[str, Any] = {"start": self._start(row), "intervals": self._intervals, "end": self._end(row)}
        if self._omitted:
            document["intervals_omitted"] = self._omitted
        if row["failure"] is not None:
            document["error"] = row["failure"]
        return document

    def _start(self, row: Mapping[str, Any]) -> dict[str, Any]:
        begun = time.time() - row["total"]["end_s"]
        (local, local_port), (remote, remote_port) = _split(row["local"]), _split(row["peer"])
        ends = {"local_host": local, "local_port": local_port, "remote_host": remote, "remote_port": remote_port}
        return {
            "connected": [{"socket": index, **ends} for index in range(row["streams"])],
            "version": f"narrows {engine.version()}",
            "system_info": " ".join(os.uname()),
            "timestamp": {
                "time": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(begun)), "timesecs": int(begun),
            },
            "connecting_to" if row["client"] else "accepted_connection": {"host": remote, "port": remote_port},
            "target_bitrate": 0,
            "test_start": {
                "protocol": "QUIC", "num_streams": row["streams"], "blksize": 0, "omit": 0,
                "duration": row["duration_s"], "bytes": 0, "blocks": 0,
                "reverse": int(row["sends"] != row["client"]), "tos": 0, "target_bitrate": 0,
                "congestion": row["scheme"], "sender": row["sends"],
            },
        }  # fmt: skip

    def _end(self, row: Mapping[str, Any]) -> dict[str, Any]:
        sends, sent, received = row["sends"], row["sent"], row["received"]
        lost = None if sent is None else sent["lost"]
        nothing = {"seconds": 0.0, "streams": [0] * row["streams"]}
        own = self._extremes.rows() if sends else dict.fromkeys(Extremes().rows())
        streams = []
        for index, (one, other) in enumerate(zip(_moved(sent or nothing), _moved(received or nothing), strict=True)):
            stream = {"socket": index, **one, "retransmits": lost if row["streams"] == 1 else None, **own}
            streams.append(
                {"sender": {**stream, "sender": sends}, "receiver": {"socket": index, **other, "sender": sends}}
            )
        return {
            "streams": streams,
            "sum_sent": {**_sum(sent or nothing), "retransmits": lost, "sender": sends},
            "sum_received": {**_sum(received or nothing), "sender": sends},
            "cpu_utilization_percent": self._utilization(),
            "sender_tcp_congestion": row["scheme"],
            "complete": row["complete"],
        }

    def _utilization(self) -> dict[str, float | None]:
        """Return the processor time of this process, in percent of the elapsed time."""
        then, now = self._cpu, os.times()
        passed = max(now.elapsed - then.elapsed, 1e-9)
        user, system = (100 * (new - old) / passed for new, old in ((now.user, then.user), (now.system, then.system)))
        host = {"host_total": user + system, "host_user": user, "host_system": system}
        return {**host, **dict.fromkeys(("remote_total", "remote_user", "remote_system"))}


def _micros(rtt_ms: float | None) -> int | None:
    return None if rtt_ms is None else round(rtt_ms * 1e3)


def _rate(moved: int, seconds: float) -> float:
    return moved * 8 / seconds if seconds > 0 else 0.0


def _span(seconds: float, moved: int) -> dict[str, Any]:
    return {
        "start": 0, "end": seconds, "seconds": seconds, "bytes": moved, "bits_per_second": _rate(moved, seconds),
    }  # fmt: skip


def _sum(tally: Mapping[str, Any]) -> dict[str, Any]:
    return _span(tally["seconds"], sum(tally["streams"]))


def _moved(tally: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for moved in tally["streams"]:
        yield _span(tally["seconds"], moved)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port) if port.isdigit() else 0
