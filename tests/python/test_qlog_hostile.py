"""qlog files that were made to fail: numbers, sizes and work."""

import json
import random
import re
import sys
import tracemalloc

import pytest

from narrows import plots, qlog
from narrows.errors import UsageError
from narrows.qlog import events, walk
from qlogs import OLD_SEQUENCE, ack, contained, event, sent, sequence

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
    """The values by which a file describes its flows have types and limits too."""
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
    """An implausible number, scaled number or difference is refused before a figure fails on it."""
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


def lines_executed(work):
    """Return how many lines of Python some work executes: a measure of its cost that is independent of the machine."""
    count = 0

    def step(frame, kind, _):
        nonlocal count
        count += kind == "line"
        return step

    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(None)
    return count


def test_acknowledgement_costs_what_it_covers_first():
    """With packet 0 never acknowledged, cumulative ranges cost four times as much for four times the packets."""

    def work(packets):
        space = events.PacketSpace()
        space.send(0, 1.0)
        for number in range(1, packets + 1):
            space.send(number, 1.0)
            assert space.acknowledge(1, number) == 1.0

    # If each range walked over all packets before it, the work would take 16 times the lines.
    assert lines_executed(lambda: work(1600)) < 5 * lines_executed(lambda: work(400))


def test_acknowledgement_counts_as_a_set_of_numbers_does(monkeypatch):
    """Random packets and ranges give the bytes that a set of unacknowledged numbers gives."""
    draw = random.Random(5)
    for _ in range(50):
        space, waiting, number = events.PacketSpace(), {}, 0
        for _ in range(200):
            if draw.random() < 0.6:
                number += draw.choice([1, 1, 2, 9])
                waiting[number] = draw.randrange(1500)
                space.send(number, waiting[number])
            first = draw.randrange(number + 5)
            last = first + draw.randrange(30)
            covered = [waiting.pop(each) for each in range(first, last + 1) if each in waiting]
            assert space.acknowledge(first, last) == sum(covered)


def test_counts_are_limited(tmp_path, monkeypatch):
    """Ranges of a frame, values of a file, traces, letters of groups and heads have limits."""
    path = tmp_path / "a.qlog"
    for module, limit, value, trace, message in [
        (events, "MOST_RANGES", 3, [event(1, "packet_sent", **sent(1)), event(2, "packet_received", **ack(*"1234"))],
         "a frame has more than 3 ranges"),
        (events, "MOST_VALUES", 3, [event(1, "packet_sent", **sent(1))] * 4, "more than 3 values"),
        (events, "MOST_VALUES", 3, [event(1, "congestion_state_updated", new=f"{n}") for n in range(4)], "than 3 values"),
        (events, "LONGEST_NAME", 3, [{**event(1, "packet_sent", **sent(1)), "group_id": "abcd"}], "more than 3 letters"),
        (walk, "MOST_RECORD_BYTES", 100, [event(1, "x", text="x" * 200)], "a value has more than 0 MiB"),
    ]:  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, value)
            contained(path, {"events": trace})
            with pytest.raises(UsageError, match=rf"a\.qlog:\d+: .*{message}"):
                qlog.load([path])
    path.write_text('{"qlog_version": "0.3", "traces": [' + "{}," * 1_000 + "{}]}")
    with pytest.raises(UsageError, match="more than 1,000 traces"):
        qlog.load([path])
    head = json.dumps({"common_fields": "x" * 600_000})
    path.write_text(f'{{"qlog_version": "0.3", "traces": [{head}, {head}]}}')
    with pytest.raises(UsageError, match="the heads have more than 1 MiB"):
        qlog.load([path])


EMPTY = "[]," * 100_000
EVENT = json.dumps(event(1, "packet_sent", **sent(1)))
LARGE = {
    "member of the file": f'{{"qlog_version": "0.3", "x": [{EMPTY}[]], "traces": [{{"events": [{EVENT}]}}]}}',
    "nested member": f'{{"qlog_version": "0.3", "x": {{"y": [[{EMPTY}[]]]}}, "traces": [{{"events": [{EVENT}]}}]}}',
    "member of a trace": f'{{"qlog_version": "0.3", "traces": [{{"x": [{EMPTY}[]], "events": [{EVENT}]}}]}}',
    "event": f'{{"qlog_version": "0.3", "traces": [{{"events": [[{EMPTY}[]], {EVENT}]}}]}}',
    "member that is read": f'{{"qlog_version": "0.3", "title": [{EMPTY}[]], "traces": [{{"events": [{EVENT}]}}]}}',
    "head of a sequence": f'{{"qlog_version": "0.3", "trace": [{EMPTY}[]]}}\n{EVENT}\n',
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_member_is_not_built(tmp_path, monkeypatch, name):
    """300 kB of empty lists, which would take some 7 MB as objects, are not built wherever they stand in a file."""
    monkeypatch.setattr(walk, "MOST_RECORD_BYTES", 1 << 16)
    path = tmp_path / "a.qlog"
    path.write_text(LARGE[name])
    qlog.load([contained(tmp_path / "small.qlog", {"events": [json.loads(EVENT)]})])  # imports before the measurement
    tracemalloc.start()
    try:
        loaded = qlog.load([path])
        assert loaded.flows["packets_sent"].to_list() == [1]
    except UsageError as error:
        assert "more than 0 MiB" in str(error) or name == "head of a sequence", error
        assert not name.endswith("member") and "member of" not in name
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # The text twice, as `bytes` and as `str`, and a part of it as objects.
    assert peak < 3 * len(LARGE[name]) + 3_000_000, peak


def test_skipped_values_end_where_parsed_ones_do(tmp_path):
    """Skipping a value accepts the same input as the parser, and ends at the same position."""
    draw = random.Random(3)

    def made(depth):
        kind = draw.randrange(7 if depth else 4)
        if kind < 4:
            return draw.choice([None, True, 0, -1.5e-7, 10**20, "", 'a"\\\n', "é[{,:"])
        inner = [made(depth - 1) for _ in range(draw.randrange(4))]
        return inner if kind < 6 else {f"k{place}": value for place, value in enumerate(inner)}

    refused = 0
    for _ in range(2_000):
        text = json.dumps(made(4), indent=draw.choice([None, 1]), ensure_ascii=False)
        if draw.random() < 0.5:
            place = draw.randrange(len(text))
            text = (
                text[:place] + draw.choice(["", ",", "]", "}", "[", ":", "1", " "]) + text[place + draw.randrange(2) :]
            )
        try:
            end = json.JSONDecoder().raw_decode(text.lstrip())[1] + len(text) - len(text.lstrip())
        except ValueError:
            end = None
        stepper = walk.Walk(tmp_path, text, float)
        try:
            stepper.skip()
            assert end is not None and stepper.at == end + len(text[end:]) - len(text[end:].lstrip()), text
        except UsageError:
            refused += 1
            assert end is None, text
    assert refused > 300
