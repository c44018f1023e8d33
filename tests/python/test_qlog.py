"""qlog in and out: the option, files of this and other stacks as figures, and hostile files."""

import gzip
import json
import os

import pytest

from attempts import Tally, generators, many
from narrows import plots, qlog
from narrows.errors import UsageError
from narrows.qlog import events, reading, walk
from qlogs import OLD_SEQUENCE, SEQUENCE, ack, contained, event, points, sent, sequence

from conftest import BRIEF, call, narrows_in, ran  # isort: skip

METRICS = {"congestion_window": 12000, "bytes_in_flight": 6000, "latest_rtt": 41.5, "pacing_rate": 8000000}
EXPECTED = {
    "cwnd_bytes": [(1.0, 12000.0)],
    "inflight_bytes": [(1.0, 6000.0)],
    "rtt_sample_ms": [(1.0, 41.5)],
    "pacing_rate_mbit_s": [(1.0, 8.0)],
}


def new_style(path):
    """The current drafts, as this tool and the newest versions of other stacks write them."""
    return sequence(path, SEQUENCE, event(5000, "quic:other"), event(6000, "quic:recovery_metrics_updated", **METRICS))


def old_sequence(path):
    """quiche, quinn and ngtcp2: 0.3 with categories; absolute times."""
    first = event(1_700_000_000_000.25, "transport:parameters_set", owner="local")
    return sequence(path, OLD_SEQUENCE, first, event(1_700_000_001_000.25, "recovery:metrics_updated", **METRICS))


def deltas(path):
    """Times relative to the event before, objects in one line each, and no separators."""
    head = {**OLD_SEQUENCE, "trace": {"common_fields": {"time_format": "delta"}}}
    rows = [event(3, "quic:a"), event(400, "quic:b"), event(600, "recovery:metrics_updated", **METRICS)]
    return sequence(path, head, *rows, separator="")


def old_object(path):
    """quic-go and aioquic: one object, times relative to a reference."""
    rows = [event(10, "connectivity:a"), event(1010, "recovery:metrics_updated", **METRICS)]
    return contained(path, {"common_fields": {"reference_time": 5}, "events": rows})


def picoquic(path):
    """picoquic: events as lists, capitals, and microseconds also in metrics."""
    metrics = {"cwnd": 12000, "bytes_in_flight": 6000, "latest_rtt": 41500, "pacing_rate": 8000000}
    trace = {
        "event_fields": ["relative_time", "CATEGORY", "EVENT_TYPE", "DATA"],
        "configuration": {"time_units": "us"},
        "events": [[0, "TRANSPORT", "OTHER", {}], [1_000_000, "recovery", "METRICS_UPDATED", metrics]],
    }
    return contained(path, trace, qlog_version="draft-00")


def mvfst(path):
    """mvfst: times as strings, metrics in events with mvfst's names, and no pacing rate."""
    trace = {
        "event_fields": ["relative_time", "category", "event", "data"],
        "configuration": {"time_offset": 0, "time_units": "us"},
        "events": [
            ["0", "transport", "other", {}],
            ["1000000", "metric_update", "congestion_metric_update",
             {"bytes_in_flight": 6000, "current_cwnd": 12000, "congestion_event": "ack", "state": "Steady"}],
            ["1000000", "recovery", "metric_update", {"latest_rtt": 41500, "min_rtt": 40000, "smoothed_rtt": 41000}],
            ["1000001", "loss", "packets_lost", {"largest_lost_packet_num": 9, "lost_bytes": 99, "lost_packets": 3}],
        ],
    }  # fmt: skip
    return contained(path, trace, qlog_version="draft-00")


@pytest.mark.parametrize("write", [new_style, old_sequence, deltas, old_object, picoquic, mvfst])
def test_metrics_of_every_stack_become_series(tmp_path, write):
    """Names, units and times of every form lead to the same series."""
    loaded = qlog.load([write(tmp_path / "a.qlog")])
    for series, expected in EXPECTED.items():
        if write is not mvfst or series != "pacing_rate_mbit_s":
            [(time, value)], [(at, expected_value)] = points(loaded, series), expected
            assert (time, value) == pytest.approx((at, expected_value)), series


@pytest.mark.parametrize("write", [new_style, old_sequence, deltas, old_object, picoquic, mvfst])
def test_compressed_files_and_byte_order_marks_are_read(tmp_path, write):
    """A file may be compressed, and may begin with a byte order mark."""
    text = write(tmp_path / "a.qlog").read_bytes()
    plain = points(qlog.load(tmp_path / "a.qlog"), "cwnd_bytes")
    for name, data in {"b.qlog.gz": gzip.compress(text), "c.sqlog": b"\xef\xbb\xbf" + text}.items():
        (tmp_path / name).write_bytes(data)
        assert qlog.accepts(tmp_path / name)
        assert points(qlog.load(tmp_path / name), "cwnd_bytes") == plain
    (tmp_path / "d.qlog.gz").write_bytes(gzip.compress(text)[:-20])
    with pytest.raises(UsageError, match=r"d\.qlog\.gz: this is no whole gzip file"):
        qlog.load(tmp_path / "d.qlog.gz")


@pytest.mark.parametrize("write", [new_style, old_sequence, deltas])
def test_last_record_needs_no_newline(tmp_path, write):
    """The last record counts if it is whole, and the separator may be all that divides records."""
    text = write(tmp_path / "a.qlog").read_bytes()
    expected = points(qlog.load(tmp_path / "a.qlog"), "cwnd_bytes")
    (tmp_path / "b.qlog").write_bytes(text.rstrip())
    assert points(qlog.load(tmp_path / "b.qlog"), "cwnd_bytes") == expected
    if text.startswith(b"\x1e"):
        (tmp_path / "c.qlog").write_bytes(text.replace(b"\n", b""))
        assert points(qlog.load(tmp_path / "c.qlog"), "cwnd_bytes") == expected


def test_empty_entries_are_left_out(tmp_path):
    """Stacks end the list of events with an empty entry."""
    rows = [event(0, "quic:a"), {}, event(1000, "recovery:metrics_updated", **METRICS), {}]
    loaded = qlog.load(contained(tmp_path / "a.qlog", {"events": rows}))
    assert points(loaded, "cwnd_bytes") == EXPECTED["cwnd_bytes"]


def test_late_events_are_sorted(tmp_path):
    """Times count from the least one, and the run lasts until the greatest, wherever these stand."""
    update = "quic:recovery_metrics_updated"
    late, first = event(9000, update, congestion_window=3), event(5000, update, congestion_window=1)
    loaded = qlog.load(sequence(tmp_path / "a.qlog", SEQUENCE, late, first, event(6000, update, congestion_window=2)))
    assert points(loaded, "cwnd_bytes") == [(0.0, 1.0), (1.0, 2.0), (4.0, 3.0)]
    assert loaded.runs["duration_s"].item() == 4.0


def test_rtt_in_seconds_is_named(tmp_path):
    """Round-trip times far below the delay of the first acknowledgement are named; plausible ones are not."""
    for rtt, hints in [(0.04, 1), (40.0, 0)]:
        rows = [
            event(0, "quic:packet_sent", **sent(0)),
            event(40, "quic:packet_received", **ack([0, 0])),
            event(40, "quic:recovery_metrics_updated", latest_rtt=rtt),
        ]
        loaded = qlog.load(sequence(tmp_path / f"{hints}.qlog", SEQUENCE, *rows))
        assert len(loaded.hints) == hints
        assert all("look like seconds" in hint for hint in loaded.hints)


def test_losses_and_states_of_mvfst_are_read(tmp_path):
    """Losses and states in the names of mvfst are read."""
    loaded = qlog.load([mvfst(tmp_path / "a.qlog")])
    assert sum(value for _, value in points(loaded, "losses_pkt")) == 3
    assert loaded.samples.filter(series="state")["text"].to_list() == ["Steady", "Steady"]


def test_throughput_counts_each_acknowledged_packet_once(tmp_path):
    """Ranges repeat acknowledged packets, each packet number space counts separately, unknown numbers have no bytes."""
    records = [event(10 * number, "quic:packet_sent", **sent(number)) for number in range(100)]
    records += [
        event(995, "quic:packet_sent", **sent(0, 500, "initial")),
        event(996, "quic:packet_received", **ack([0, 9], [20], [30, 2**60])),
        event(997, "quic:packet_received", **ack([0, 25])),
        event(998, "quic:packet_received", **ack(0, kind="initial")),
        event(1000, "quic:packet_received", **ack([7])),
    ]
    loaded = qlog.load([sequence(tmp_path / "a.sqlog", SEQUENCE, *records)])
    rows = points(loaded, "throughput_mbit_s")
    width = rows[0][0]
    # Acknowledged: packets 0 to 25 and 30 to 99.
    assert sum(value for _, value in rows) * width * 125_000 == pytest.approx(96 * 1200 + 500)
    assert loaded.flows["throughput_mbit_s"][0] == pytest.approx((96 * 1200 + 500) * 8e-6)
    assert loaded.flows["packets_sent"][0] == 101


def test_packets_acked_count_as_delivered(tmp_path):
    """A sender may name delivered packets; each counts once, even if a frame names it too."""
    records = [event(10 * number, "quic:packet_sent", **sent(number)) for number in range(10)]
    records += [
        event(99, "quic:packets_acked", packet_numbers=[0, 1, 2, 2, 40]),
        event(99, "quic:packets_acked", packet_number_space="initial", packet_numbers=[5]),
        event(100, "quic:packet_received", **ack([0, 3])),
        event(100, "recovery:packets_acked", packet_numbers=[9]),
    ]
    loaded = qlog.load([sequence(tmp_path / "a.sqlog", SEQUENCE, *records)])
    assert loaded.flows["throughput_mbit_s"][0] == pytest.approx(5 * 1200 * 8e-6 / 0.1)


def test_receiver_throughput_is_what_it_received(tmp_path):
    """Throughput at a receiver counts the packets that it received."""
    records = [event(10 * number, "transport:packet_received", **sent(number)) for number in range(101)]
    loaded = qlog.load([sequence(tmp_path / "a.sqlog", OLD_SEQUENCE, *records)])
    assert loaded.flows["throughput_mbit_s"][0] == pytest.approx(101 * 1200 * 8e-6)


def test_groups_are_flows_of_their_own(tmp_path):
    """A server that logs all connections into one file names them by `group_id`."""
    records = [
        {**event(number, "recovery:metrics_updated", congestion_window=10 * number), "group_id": f"id{number % 3}"}
        for number in range(1, 31)
    ]
    loaded = qlog.load([sequence(tmp_path / "all.sqlog", OLD_SEQUENCE, *records)])
    assert loaded.flows["spec"].to_list() == ["all id1", "all id2", "all id0"]
    assert loaded.flows["rtt_base_ms"].to_list() == [None] * 3


def test_no_limit_is_no_value(tmp_path):
    """The greatest integer of a type means that there is no threshold yet."""
    record = event(0, "recovery:metrics_updated", congestion_window=1, ssthresh=2**64 - 1)
    loaded = qlog.load([sequence(tmp_path / "a.sqlog", OLD_SEQUENCE, record)])
    assert loaded.samples["series"].to_list() == ["cwnd_bytes"]


def test_last_record_that_is_cut_is_left_out(tmp_path):
    """Half a record at the end, as a killed writer leaves it, is skipped."""
    path = new_style(tmp_path / "a.sqlog")
    path.write_text(path.read_text() + '\x1e{"time": 7000, "na')
    assert points(qlog.load([path]), "cwnd_bytes") == EXPECTED["cwnd_bytes"]


def test_records_may_span_lines(tmp_path):
    """A record of JSON-SEQ may span lines."""
    path = tmp_path / "a.sqlog"
    records = [SEQUENCE, event(0, "quic:recovery_metrics_updated", **METRICS), event(5, "quic:packet_lost")]
    path.write_text("".join(f"\x1e{json.dumps(record, indent=2)}\n" for record in records))
    loaded = qlog.load([path])
    assert sum(value for _, value in points(loaded, "losses_pkt")) == 1
    path.write_text(path.read_text() + '\x1e\n{"time": 1,\n "name": 2 "data"}\n')
    with pytest.raises(UsageError, match=r"a\.sqlog:\d+: this is no JSON: Expecting ',' delimiter"):
        qlog.load([path])


# The command


@pytest.mark.slow
def test_plot_draws_several_files_together(tmp_path):
    """Two files share the panels; the figure goes beside the first file, or to the path of `-o`."""
    first, second = new_style(tmp_path / "ours.sqlog"), picoquic(tmp_path / "theirs.qlog")
    result = call("plot", first, second)
    assert (result.exit_code, result.stderr) == (0, f"wrote {tmp_path / 'ours.png'}\n")
    assert call("plot", second, "-o", tmp_path / "x.svg", "--series", "cwnd_bytes+inflight_bytes").exit_code == 0
    assert (tmp_path / "x.svg").stat().st_size > 1000


def test_plot_labels_name_flow_and_file(tmp_path):
    """A flow of ours has its scheme's colour and name; others have the name of the file."""
    described = {"details": {"flows": [{"group_id": "1 bbr", "scheme": "bbr", "rtt_base_ms": 40}]}}
    ours = [{**event(1, "quic:recovery_metrics_updated", **METRICS), "group_id": "1 bbr"}]
    ours.append({**event(9, "quic:recovery_metrics_updated", **METRICS), "group_id": "1 bbr"})
    first = sequence(tmp_path / "ours.sqlog", SEQUENCE, event(0, "simulation:scenario", **described), *ours)
    figure = plots.plot(qlog.load([first, picoquic(tmp_path / "theirs.qlog")]))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["1 bbr (ours), 40 ms", "2 theirs, 41.5 ms"]
    lines = figure.axes[0].get_lines()
    assert lines[0].get_color() == plots.style.scheme_colour("bbr") != lines[1].get_color()
    assert lines[0].get_drawstyle() == "steps-post"
    assert figure.axes[0].get_title(loc="left") == "ours.sqlog, theirs.qlog"
    assert plots.plot(qlog.load([first])).axes


def test_names_from_strangers_are_plain_text(tmp_path):
    """Names from untrusted files are drawn literally; matplotlib would parse text between dollar signs as a formula."""
    named = event(1, "recovery:congestion_state_updated", new="$\\frac{$\x1b[31m")
    record = {**event(0, "recovery:metrics_updated", **METRICS), "group_id": "$x$\n"}
    other = {**event(0, "recovery:metrics_updated", **METRICS), "group_id": "$\\q$"}
    path = sequence(tmp_path / "$a$.sqlog", OLD_SEQUENCE, record, other, {**named, "group_id": "$x$\n"})
    assert call("plot", path).exit_code == 0
    assert qlog.load([path]).flows["spec"].to_list() == ["a x", "a \\q"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}/none.sqlog"], "{}/none.sqlog: there is no such file; accepted: qlog of draft-00"),
        (["{}", "{}/a.sqlog"], "{} is no qlog file; accepted: one folder of results, or one or several qlog files"),
        (["{}/a.sqlog", "{}/none.sqlog"], "{}/none.sqlog: there is no such file"),
        (["{}/a.sqlog", "--kind", "heatmap"], "accepted"),
        (["{}/a.sqlog", "--series", "queue_pkt"], "the trace has no series queue_pkt; accepted: cwnd_bytes"),
    ],
)
def test_plot_refuses_what_cannot_be_drawn(tmp_path, arguments, message):
    """A plot of qlog files refuses unsuitable kinds and paths."""
    new_style(tmp_path / "a.sqlog")
    result = call("plot", *(part.format(tmp_path) for part in arguments))
    assert result.exit_code == 2
    assert message.format(tmp_path) in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


# Hostile and damaged files

HEAD = json.dumps(SEQUENCE) + "\n"


def after_packet(record):
    """Return a sequence of a packet sent and a record."""
    return HEAD + "".join(json.dumps(each) + "\n" for each in (event(0, "quic:packet_sent", **sent(0)), record))


DAMAGED = {
    "empty": ("", ":1: this is no qlog"),
    "text": ("hello\n", ":1: this is no qlog"),
    "list": ("[1, 2]\n", ":1: this is no qlog"),
    "other": ('{"a": 1}\n', ":1: this is no qlog: it has neither `file_schema` nor `qlog_version`"),
    "schema": ('{"file_schema": "urn:x"}\n', ":1: unknown file_schema 'urn:x'"),
    "version": ('{"qlog_version": "9"}\n', ":1: unknown qlog_version '9'"),
    "no events": (HEAD, ": the file has neither metrics nor packets"),
    "no traces": ('{"qlog_version": "0.3",\n"traces": []}', ":1: the qlog has no trace"),
    "cut": ('{"qlog_version": "0.3",\n"traces": [{"events": [\n{"time": 1', ":3: this is no JSON"),
    "cut list": ('{"qlog_version": "0.3",\n"traces": [{"events": [\n{"time": 1}', ":3: this is no JSON: expected `,`"),
    "behind": ('{"qlog_version": "0.3",\n"traces": [{"events": []}]}\nx', ":3: this is no JSON: text behind"),
    "events": ('{"qlog_version": "0.3",\n"traces": [{"events": 7}]}', ":2: `events` is no list"),
    "nested": (HEAD + "[" * 500_000 + "\n", ":2: the JSON is nested too deeply"),
    "nested object": ('{"qlog_version": "0.3",\n"a":' + '{"a":' * 300_000, ":2: the JSON is nested too deeply"),
    "digits": (HEAD + '{"time": ' + "1" * 9_000 + "}\n", ":2: this is no JSON"),
    "nan": (HEAD + '{"time": NaN, "name": "quic:packet_lost"}\n', ":2: this is no JSON: NaN is no number"),
    "infinite": (
        HEAD + '{"time": 1e999, "name": "quic:packet_lost"}\n',
        ":2: `time` is inf; accepted: a number from 0",
    ),
    "no time": (HEAD + '{"name": "quic:packet_lost"}\n', ":2: an event has no `time`"),
    "no name": (HEAD + '{"time": 1}\n', ":2: an event has no `name`"),
    "no object": (HEAD + "7\n", ":2: an event is no object"),
    "data": (HEAD + '{"time": 1, "name": "quic:packet_sent", "data": 3}\n', ":2: `data` of an event is no object"),
    "value": (
        HEAD + '\n{"time": 1, "name": "quic:recovery_metrics_updated", "data": {"congestion_window": "many"}}\n',
        ":3: `congestion_window` is 'many'; accepted: a number from 0",
    ),
    "negative": (
        HEAD + '{"time": 1, "name": "quic:recovery_metrics_updated", "data": {"latest_rtt": -1}}\n',
        ":2: `latest_rtt` is -1",
    ),
    "range": (
        after_packet(event(1, "quic:packet_received", **ack([1, 2, 3]))),
        ":3: `acked_ranges` has a range without ends",
    ),
    "acked": (
        after_packet(event(1, "quic:packets_acked", packet_numbers=["x"])),
        ":3: `packet_numbers` is 'x'; accepted: a number from 0",
    ),
    "units": (
        '{"qlog_version": "0.3", "traces": [{"configuration": {"time_units": "h"}, "events": []}]}',
        ":1: unknown time_units `h`; accepted: ns, us, ms, s",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_file_is_refused_with_its_line(tmp_path, name):
    """One sentence states file, line and problem."""
    text, message = DAMAGED[name]
    path = tmp_path / "a.qlog"
    path.write_text(text)
    result = call("plot", path)
    assert result.exit_code == 2, result.stderr
    assert f"{path}{message}" in result.stderr.replace("\n", "")
    assert result.stderr.count("\n") == 1 and len(result.stderr) < 400


def test_bytes_that_are_no_text_are_refused(tmp_path):
    """Bytes that are not UTF-8 are refused with the file's name."""
    path = tmp_path / "a.qlog"
    path.write_bytes(HEAD.encode() + b'{"time": 1, "name": "\xff"}\n')
    with pytest.raises(UsageError, match=r"a\.qlog:2: the byte 0xff is not UTF-8"):
        qlog.load([path])
    path.write_bytes(b'{"qlog_version": "0.3",\n "title": "\xff"}')
    with pytest.raises(UsageError, match=r"a\.qlog:2: the byte 0xff is not UTF-8"):
        qlog.load([path])


def test_limits_bound_memory(tmp_path, monkeypatch):
    """A file beyond a limit is refused; packets that are never acknowledged are removed."""
    path = tmp_path / "a.qlog"
    for module, limit, value, text, message in [
        (walk, "MOST_RECORD_BYTES", 1 << 10, HEAD + '{"a": "' + "x" * 2_000 + '"}\n', "a text has more than"),
        (reading, "MOST_BYTES", 100, '{"qlog_version": "0.3",\n"a": "' + "x" * 200 + '"}', "is larger than 0 MiB"),
        (reading, "MOST_EVENTS", 3, HEAD + '{"time": 1, "name": "a"}\n' * 4, "more than 3 events"),
        (events, "MOST_CONNECTIONS", 2, HEAD + "".join(
            json.dumps({**event(1, "quic:packet_lost"), "group_id": f"{number}"}) + "\n" for number in range(3)
        ), "more than 2 connections"),
    ]:  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, value)
            path.write_text(text)
            with pytest.raises(UsageError, match=message):
                qlog.load([path])
    monkeypatch.setattr(events, "MOST_OUTSTANDING", 10)
    space = events.PacketSpace()
    for number in range(1_000):
        space.send(number, 1.0)
    assert space.acknowledge(0, 2**70) <= 20


def test_special_files_are_refused(tmp_path):
    """A pipe, which would wait for a writer, is refused."""
    os.mkfifo(tmp_path / "a.qlog")
    with pytest.raises(UsageError, match="is not a regular file"):
        qlog.load([tmp_path / "a.qlog"])
    with pytest.raises(UsageError, match="this is a folder"):
        qlog.load([tmp_path])


@pytest.mark.parametrize("write", [new_style, old_object, mvfst])
@pytest.mark.attempts
def test_mutated_files_are_read_or_refused(tmp_path, write):
    """A mutated file is read, or refused in a sentence that names it."""
    path = write(tmp_path / "a.qlog")
    whole = path.read_bytes()
    tally = Tally(f"mutated qlog files, {write.__name__.replace('_', ' ')}")
    count = many(100, 300, 20_000)
    for _, rng in generators(f"qlog {write.__name__}", count):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(data))
            kind = rng.randrange(3)
            if kind == 0:
                data[place] = rng.randrange(256)
            elif kind == 1:
                del data[place : place + rng.randint(1, 20)]
            else:
                data[place:place] = rng.choice([b"[", b"{", b'"', b"-1", b"1e999", b"null", b"\x1e", b"\n"])
            if not data:
                break
        path.write_bytes(data)
        try:
            loaded = qlog.load([path])
            tally.add("read")
            assert set(loaded.samples.columns) >= {"time_s", "series", "value"}
        except UsageError as error:
            assert str(error).startswith(str(path)), error
            assert "accepted" in str(error) and "\n" not in str(error)
            tally.add("refused")
    assert min(tally.outcomes.values()) > count / 30 and len(tally.outcomes) == 2
    tally.close()


# Out


def test_option_passes_file(tmp_path):
    """The events of a single run go to the named file, and the command reports this."""
    file = tmp_path / "run.sqlog"
    result = ran(call("compare", *BRIEF, "bbr", "cubic", "--qlog", file, "--pcap", tmp_path / "p"))
    assert file.read_text().startswith('\x1e{"description":"The senders')
    assert f"events are in {file}" in result.stderr and "packets are in" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--qlog", "{}/a", "--repeat", "3"], "--qlog: the file holds one run, not 3; accepted: a single value"),
        (["--qlog", "{}"], "is a folder; accepted: a file in a writable folder"),
        (["--qlog", "{}/none/a"], "there is no folder {}/none; accepted: a file in a writable folder"),
        (["--qlog", "{}/a", "--pcap", "{}/a"], "--pcap, --qlog: both write {}/a; accepted: two files"),
        (["--qlog", "{}/a", "--pcap", "{0}/../{0.name}/./a"], "--pcap, --qlog: both write {}/a; accepted: two files"),
        (["--qlog", "{}/hard", "--pcap", "{}/file"], "--pcap, --qlog: both write {}/hard; accepted: two files"),
        (["--qlog", "{}/parent/a", "--pcap", "{}/a"], "--pcap, --qlog: both write {}/parent/a; accepted: two files"),
        (["--qlog", "{}/a", "--explain"], "--explain, --qlog: --explain runs nothing; accepted: one of them"),
    ],
)
def test_option_is_refused_where_it_cannot_be(tmp_path, arguments, message):
    """The option is refused for several runs, for unsuitable files, and with `--explain`."""
    (tmp_path / "file").write_text("")
    (tmp_path / "hard").hardlink_to(tmp_path / "file")
    (tmp_path / "parent").symlink_to(tmp_path)
    result = call("compare", *BRIEF, "bbr", "cubic", *(part.format(tmp_path) for part in arguments))
    assert result.exit_code == 2
    assert message.format(tmp_path) in " ".join(result.stderr.split())


@pytest.mark.slow
def test_own_file_shows_the_run(tmp_path):
    """A run's file is a sequence of JSON texts, and what is read from it agrees with the result."""
    arguments = ["bbr", "cubic", "--rate", "20mbit", "--duration", "6s", "--json", "--set", "network.loss=0.1%"]
    done = ran(narrows_in(tmp_path, "compare", *arguments, "--qlog", "run.sqlog"))
    result = json.loads(done.stdout)
    records = (tmp_path / "run.sqlog").read_bytes().split(b"\x1e")
    assert records[0] == b"" and all(record.endswith(b"\n") for record in records[1:])
    names = {json.loads(record).get("name") for record in records[2:]}
    assert names == {
        "simulation:scenario", "quic:packet_sent", "quic:packet_received", "quic:packet_lost",
        "quic:recovery_metrics_updated", "quic:recovery_parameters_set", "quic:congestion_state_updated",
    }  # fmt: skip
    loaded = qlog.load([tmp_path / "run.sqlog"])
    for own, flow in zip(loaded.flows.iter_rows(named=True), result["flows"], strict=True):
        assert own["scheme"] == flow["scheme"]
        assert own["rtt_base_ms"] == flow["rtt_base_ms"] <= own["rtt_min_ms"]
        # The result leaves out the warm-up, and counts arrived instead of acknowledged packets.
        assert own["throughput_mbit_s"] == pytest.approx(flow["throughput_mbit_s"], rel=0.25)
    ran(narrows_in(tmp_path, "plot", "run.sqlog"))
    assert (tmp_path / "run.png").stat().st_size > 10_000


def test_full_disk_ends_the_run_with_one_sentence(tmp_path):
    """A full disk ends the run with one sentence that names the file."""
    done = narrows_in(tmp_path, "compare", "bbr", "--duration", "2s", "--qlog", "/dev/full")
    assert done.returncode == 1
    assert "/dev/full: No space left on device" in done.stderr and "Traceback" not in done.stderr
