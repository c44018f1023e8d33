"""qlog files that were made to fail: numbers, sizes and work."""

import re

import pytest

from narrows import plots, qlog
from narrows.errors import UsageError
from qlogs import OLD_SEQUENCE, contained, event, sent, sequence

BIG = "9" * 400
HOSTILE = {
    "base of 400 digits": ({"rtt_base_ms": int(BIG)}, "`rtt_base_ms` is 999"),
    "negative base": ({"rtt_base_ms": -1}, "`rtt_base_ms` is -1"),
    "boolean base": ({"rtt_base_ms": True}, "`rtt_base_ms` is True"),
    "base of a text": ({"rtt_base_ms": "x"}, "`rtt_base_ms` is 'x'"),
    "great base": ({"rtt_base_ms": 1e300}, "`rtt_base_ms` is 1e+300"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_description_is_refused(tmp_path, name):
    """What a file says of its flows has types and limits too."""
    flow, message = HOSTILE[name]
    described = {"time": 0, "name": "simulation:scenario", "data": {"details": {"flows": [{"group_id": "", **flow}]}}}
    path = sequence(tmp_path / "a.sqlog", OLD_SEQUENCE, described, event(1, "quic:packet_sent", **sent(1)))
    with pytest.raises(UsageError, match="a.sqlog:2: " + re.escape(message)):
        qlog.load([path])


@pytest.mark.parametrize(
    ("unit", "records", "message"),
    [
        ("ms", [(-1e308, sent(1)), (1e308, sent(2))], "`time` is -1e\\+308"),
        ("ms", [(-9e18, sent(1)), (9e18, sent(2))], "`time` is 1.8e\\+19"),
        ("s", [(1e306, sent(1)), (1.1e306, sent(2))], "`time` is inf"),
        ("s", [(1, sent(1)), (2, sent(2, 1e300))], "`length` is 1e\\+300"),
        ("s", [(1, sent(1e30))], "`packet_number` is 1e\\+30"),
        ("s", [(1, {"latest_rtt": 4e18})], "`latest_rtt` is 4e\\+21"),
        ("ms", [(1, {"bandwidth_bytes": 1e9, "bandwidth_interval": 1e-300})], "`bandwidth_bytes` is inf|is 8e"),
        ("ms", [(1, {"lost_packets": 1e300})], "`lost_packets` is 1e\\+300"),
    ],
)  # fmt: skip
def test_hostile_numbers_are_refused(tmp_path, unit, records, message):
    """A number, a scaled one or a difference that no run reaches is refused before figures fail over it."""
    names = {"header": "packet_sent", "latest_rtt": "metrics_updated", "bandwidth_bytes": "bandwidth_est_update"}
    made = [event(time, names.get(next(iter(data)), "packet_lost"), **data) for time, data in records]
    path = contained(tmp_path / "a.qlog", {"configuration": {"time_units": unit}, "events": made})
    with pytest.raises(UsageError, match=message):
        plots.plot(qlog.load([path]))


def test_greatest_integers_stand_for_no_limit(tmp_path):
    """Stacks write the greatest integer of a type for a missing limit: it is left out, not refused."""
    path = contained(
        tmp_path / "a.qlog", {"events": [event(1, "metrics_updated", ssthresh=2**64 - 1, congestion_window=9)]}
    )
    assert set(qlog.load([path]).samples["series"]) == {"cwnd_bytes"}
