"""Fakes of the engine's functions for hosts: arguments are checked against the stub file, and reports are invented."""

import collections.abc
import copy
import types
import typing
from collections import Counter
from pathlib import Path

from fake_executor import ENGINE
from narrows import engine, hosts

reached = Counter()
"""Calls by function: commands whose arguments passed Python's checks."""
STUB = Path(ENGINE.__file__).with_name("_engine.pyi")
PROGRAM = {"name": "fake_bbr", "scheme": "bbr", "summary": "does what bbr does", "registered": True}
STATUS = {
    "name": "fake_bbr", "sockets": 1, "opened": 2, "acks": 3, "timeouts": 0, "errors": 0, "calls": 5000,
    "ns_per_call": 400.0, "ns_per_ack": None, "cpu_percent": 0.1, "observed_s": 2.0, "parameters": [["cwnd_gain", 2.0]],
}  # fmt: skip
COUNTS = (
    "sockets", "opened", "adopted", "offered", "accepted", "written", "read", "unlimited", "advised", "invalid", "stale",
    "fallbacks", "errors",
)  # fmt: skip
DATAGRAMS = {
    "role": "receiver", "remote": "127.0.0.1:1", "ccid": 2, "end": "closed", "duration_s": 1.0, "datagrams": 250,
    "bytes": 250_000, "throughput_mbit_s": 2.0, "lost": 1, "loss_percent": 0.4, "rtt_ms": 1.0, "unreported": 1,
    "marked": 0, "queue_drops": 0, "timeouts": 0, "duplicates": 1, "reset_name": "", "reset_code": 0, "delay": None,
}  # fmt: skip
BEGUN = {
    "test": 0, "local": "127.0.0.1:1", "peer": "127.0.0.1:2", "client": True, "sends": True, "scheme": "bbr",
    "streams": 1, "duration_s": 1.0,
}  # fmt: skip
SPAN = {
    "test": 0, "peer": "127.0.0.1:2", "start_s": 0.0, "end_s": 1.0, "bytes": 1000, "streams": [1000], "mbit_s": 0.008,
    "packets": 10, "lost": 1, "rtt_ms": 1.0, "cwnd_bytes": 5000, "pacing_mbit_s": 8.0, "mtu_bytes": 1452,
    "state": "startup", "sends": True, "silent_s": 0.0,
}  # fmt: skip
TALLY = {"seconds": 1.0, "streams": [1000], "lost": 1}
ENDED = {**BEGUN, "total": SPAN, "sent": TALLY, "received": TALLY, "complete": True, "failure": None}
PERF = [
    ({"event": "listening", "address": "127.0.0.1:1", "fingerprint": "00"},),
    ({"event": "warning", "text": "a warning"},), ({"event": "begun", **BEGUN},), ({"event": "interval", **SPAN},),
    ({"event": "ended", **ENDED},),
]  # fmt: skip
EVENTS = {
    "live": [("listening", "127.0.0.1:1"), ("progress", DATAGRAMS), ("warning", "a warning"), ("ended", DATAGRAMS)],
    "perf_server": PERF, "perf_client": PERF[1:], "negotiate": [("listening", "127.0.0.1:1"), ("log", "a line")],
    "run_brf_switch": [("attached",)],
}  # fmt: skip
NEGOTIATED = {
    "node": dict.fromkeys(("received", "sent", "unreadable", "foreign", "limited"), 1),
    "server": dict.fromkeys(("served", "failed", "refused", "bytes"), 1),
    "client": {"complete": True, "bytes": 1, "seconds": 1.0, "goodput_mbit_s": 1.0, "wait_s": 0.1},
}
RETURNS = {
    "live": None, "perf_server": None, "perf_client": None, "negotiate": None, "kernel_programs": [PROGRAM],
    "load_program": "fake_bbr", "unload_program": ("fake_bbr", 2), "program_status": [STATUS],
    "attach_brf": {"cgroup": "/c", "link": "/l", "scheme": "brf", "loads": True, "adopts": True},
    "detach_brf": ["detached"], "brf_status": {"loaded": True, "attachments": [], **dict.fromkeys(COUNTS, 0)},
    "plan_brf_switch": ["would attach"], "run_brf_switch": None, "clean_brf_switches": ["a"],
    "brf_switches": [{"process": 1, "ports": ["a"], "runs": True, "report": None}],
}  # fmt: skip


def fits(value, hint):
    """Whether a value has the type of a hint; whole numbers are unsigned 64-bit integers."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return any(fits(value, one) for one in inner)
    if origin is tuple:
        return isinstance(value, tuple | list) and len(value) == len(inner) and all(map(fits, value, inner))
    if origin in (list, collections.abc.Sequence):
        return isinstance(value, list | tuple) and all(fits(item, inner[0]) for item in value)
    if (
        hint is typing.Any
        or getattr(hint, "__name__", "") == "Handle"
        or origin in (collections.abc.Callable, collections.abc.Mapping)
    ):
        return True
    if typing.is_typeddict(hint):
        hints = typing.get_type_hints(hint)
        return value.keys() == hints.keys() and all(fits(value[key], kind) for key, kind in hints.items())
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint is bool
    if hint is int:
        return isinstance(value, int) and 0 <= value < 1 << 64
    if isinstance(value, str):
        value.encode()
    return isinstance(value, int | float if hint is float else hint)


def install(set_attribute):
    """Replace the engine's functions for hosts."""
    stub = types.ModuleType("stub")
    exec(f"from __future__ import annotations\n{STUB.read_text()}", stub.__dict__)

    def fake(name):
        hints = {key: hint for key, hint in typing.get_type_hints(getattr(stub, name)).items() if key != "return"}

        def function(*given):
            for (key, hint), value in zip(hints.items(), given, strict=True):
                if not fits(value, hint):
                    raise TypeError(f"{name}: {key}: {value!r}")
            reached[f"{name} {given[0]}" if name == "negotiate" else name] += 1
            for event in EVENTS.get(name, ()):
                given[-1](*copy.deepcopy(event))
            return NEGOTIATED[given[0]] if name == "negotiate" else RETURNS[name]

        return function

    for name in RETURNS:
        set_attribute({"live": engine, "perf_server": hosts, "perf_client": hosts}.get(name, ENGINE), name, fake(name))
    judge = ENGINE.PortJudge
    set_attribute(ENGINE, "PortJudge", lambda *given: reached.update(["PortJudge"]) or judge(*given))
