"""Writes qlog files for tests."""

import json

import polars as pl

SEQUENCE = {
    "file_schema": "urn:ietf:params:qlog:file:sequential",
    "serialization_format": "application/qlog+json-seq",
    "trace": {"event_schemas": ["urn:ietf:params:qlog:events:quic-13"], "vantage_point": {"type": "server"}},
}
OLD_SEQUENCE = {"qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": {"vantage_point": {"type": "client"}}}


def sequence(path, *records, separator="\x1e", end="\n"):
    """Write records as a JSON text sequence."""
    path.write_text("".join(f"{separator}{json.dumps(record)}{end}" for record in records))
    return path


def contained(path, trace, **head):
    """Write a file with one trace, pretty-printed."""
    path.write_text(json.dumps({"qlog_version": "0.3", **head, "traces": [trace]}, indent=1))
    return path


def points(results, series):
    """Return times and values of a series of the first flow."""
    rows = results.samples.filter((pl.col("series") == series) & (pl.col("index") == 0))
    return list(zip(rows["time_s"], rows["value"], strict=True))


def event(time, name, **data):
    return {"time": time, "name": name, "data": data}


def sent(number, size=1200, kind="1RTT"):
    return {"header": {"packet_type": kind, "packet_number": number}, "raw": {"length": size}}


def ack(*ranges, kind="1RTT"):
    return {"header": {"packet_type": kind}, "frames": [{"frame_type": "ack", "acked_ranges": [*ranges]}]}
