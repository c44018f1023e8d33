"""The stand-in's part for hosts: sockets, programs of the kernel, BRF and Nodectl.

The functions check types as the compiled ones do, call back as they do, and return invented reports at once.
"""

import json
import socket
from collections import Counter
from pathlib import Path

LiveFailed, KernelFailed, KernelUnable = (
    type(name, (Exception,), {}) for name in ("LiveFailed", "KernelFailed", "KernelUnable")
)
reached = Counter()
"""Calls by function: commands whose arguments passed Python's checks."""
PORT = 6510
PROGRAM = {"name": "fake_bbr", "scheme": "bbr", "summary": "does what bbr does", "registered": True}
TEXT, FLAG, REAL = (str,), (bool,), (int, float)
PAIRS = [(TEXT, TEXT)]


def whole(least, most):
    """Return the kind of a whole number with limits."""
    return range(least, most + 1)


def maybe(kind):
    return {None: kind}


U16, U32, U64 = (whole(0, 2**bits - 1) for bits in (16, 32, 64))


def fits(value, kind):
    """Whether a value has a kind: types, a range, an optional one, a list of one, or a tuple of several."""
    if isinstance(kind, dict):
        return value is None or fits(value, kind[None])
    if isinstance(kind, range):
        return isinstance(value, int) and not isinstance(value, bool) and value in kind
    if isinstance(kind, list):
        return isinstance(value, list | tuple) and all(fits(item, kind[0]) for item in value)
    if not isinstance(kind[0], type):
        return isinstance(value, list | tuple) and len(value) == len(kind) and all(map(fits, value, kind))
    if isinstance(value, bool) and bool not in kind:
        return False
    if isinstance(value, str):
        value.encode()
    return isinstance(value, kind)


def check(function, *given):
    """Refuse values of other kinds, as the compiled engine does with types, and count the call."""
    for place, (value, kind) in enumerate(given):
        if not fits(value, kind):
            raise TypeError(f"{function}: argument {place}: {value!r}")
    reached[function] += 1


def check_table(function, text, kinds):
    """Refuse settings in JSON of other names or kinds, and count the call."""
    settings = json.loads(text)
    if set(settings) != set(kinds):
        raise TypeError(f"{function}: settings {sorted(settings)}")
    check(function, *((settings[name], kind) for name, kind in kinds.items()))
    return settings


def check_address(address):
    """Refuse what is no address with a port."""
    host, _, port = address.rpartition(":")
    if not 0 <= int(port) <= 65_535:
        raise TypeError(address)
    inner = host.removeprefix("[").removesuffix("]").partition("%")[0]
    socket.inet_pton(socket.AF_INET6 if host.startswith("[") else socket.AF_INET, inner)


def check_regular(path):
    """Refuse what the engine would wait for."""
    if not Path(path).is_file():
        raise TypeError(f"{path} is no regular file")


def live(text, sender, address, duration_s, timeout_s, once, connections, capture, handle, on_event):
    check("live", (text, TEXT), (sender, FLAG), (address, TEXT), (duration_s, maybe(REAL)), (timeout_s, REAL),
          (once, FLAG), (connections, U32), (capture, maybe(TEXT)))  # fmt: skip
    check_address(address)
    row = {
        "role": "sender" if sender else "receiver", "remote": address, "ccid": 2, "end": "closed", "duration_s": 1.0,
        "datagrams": 250, "bytes": 250_000, "throughput_mbit_s": 2.0, "lost": 1, "loss_percent": 0.4, "rtt_ms": 1.0,
        "unreported": 1, "marked": 0, "queue_drops": 0, "timeouts": 0, "duplicates": 1, "reset_name": "", "reset_code": 0,
        "delay": dict.fromkeys(("min_ms", "mean_ms", "p50_ms", "p95_ms", "p99_ms"), 1.0),
    }  # fmt: skip
    if capture is not None and not Path(capture).is_fifo():
        Path(capture).write_text("packets")
    if not sender:
        on_event("listening", json.dumps(address))
    on_event("progress", json.dumps(row))
    on_event("warning", json.dumps("a warning"))
    on_event("ended", json.dumps(row))


def _perf(function, address, scheme, params, interval_s, sends, on_event):
    check_address(address)
    if scheme.startswith("nosuch"):
        raise KernelUnable(f"there is no scheme {scheme!r}")
    client = function == "perf_client"
    begun = {
        "test": 0, "local": "127.0.0.1:1", "peer": address, "client": client, "sends": sends, "scheme": scheme,
        "streams": 1, "duration_s": 1.0,
    }  # fmt: skip
    span = {
        "test": 0, "peer": address, "start_s": 0.0, "end_s": 1.0, "bytes": 1000, "streams": [1000], "mbit_s": 0.008,
        "packets": 10, "lost": 1, "rtt_ms": 1.0, "cwnd_bytes": 5000, "pacing_mbit_s": 8.0, "mtu_bytes": 1452,
        "state": "startup", "sends": sends, "silent_s": 0.0,
    }  # fmt: skip
    on_event(json.dumps({"event": "warning", "text": "a warning"}))
    on_event(json.dumps({"event": "begun", **begun}))
    on_event(json.dumps({"event": "interval", **span}))
    on_event(json.dumps({
        "event": "ended", **begun, "total": span, "sent": {"seconds": 1.0, "streams": [1000], "lost": 1},
        "received": {"seconds": 1.0, "streams": [900], "lost": None}, "complete": True, "failure": None,
    }))  # fmt: skip


def perf_server(
    address, scheme, params, interval_s, identity, once, duration_s, connections, per_address, longest_s, handle,
    on_event,
):  # fmt: skip
    check("perf_server", (address, TEXT), (scheme, TEXT), (params, PAIRS), (interval_s, REAL),
          (identity, maybe((TEXT, TEXT))), (once, FLAG), (duration_s, maybe(REAL)), (connections, U32),
          (per_address, U32), (longest_s, REAL))  # fmt: skip
    for path in identity or ():
        check_regular(path)
    on_event(json.dumps({"event": "listening", "address": address, "fingerprint": "00"}))
    _perf("perf_server", address, scheme, params, interval_s, True, on_event)


def perf_client(
    address, scheme, params, interval_s, duration_s, streams, reverse, name, trust, handle, on_event
):  # fmt: skip
    check("perf_client", (address, TEXT), (scheme, TEXT), (params, PAIRS), (interval_s, REAL), (duration_s, REAL),
          (streams, U32), (reverse, FLAG), (name, TEXT), (trust, TEXT))  # fmt: skip
    kind, _, value = trust.partition(":")
    if kind not in ("system", "any", "ca", "fingerprint"):
        raise TypeError(trust)
    if kind == "ca":
        check_regular(value)
    _perf("perf_client", address, scheme, params, interval_s, not reverse, on_event)


def negotiation_port():
    return PORT


NEGOTIATORS = {
    "node": {
        "listen": TEXT, "rate_mbit_s": REAL, "next": [(TEXT, whole(0, 32), TEXT)], "responder_port": U16,
        "params": PAIRS, "messages_per_s": U32,
    },
    "server": {
        "listen": TEXT, "via": maybe(TEXT), "max_mbit_s": REAL, "connections": U32, "program": FLAG,
    },
    "client": {
        "server": TEXT, "local": maybe(TEXT), "content": U32, "subflows": U32, "max_mbit_s": REAL, "min_mbit_s": REAL,
        "limit_mbit_s": REAL, "size": U64, "duration_s": maybe(REAL), "responder_port": U16, "timeout_s": REAL,
    },
}  # fmt: skip


def negotiate(role, settings, handle, on_event):
    found = check_table(f"negotiate {role}", settings, NEGOTIATORS[role])
    check_address(found["server" if role == "client" else "listen"])
    for address in [found["via"]] if found.get("via") else [to for _, _, to in found.get("next", ())]:
        check_address(address)
    if any(key == "nosuch" for key, _ in found.get("params", ())):
        raise ValueError("there is no parameter `nosuch`")
    on_event("listening", found.get("listen", "127.0.0.1:1"))
    on_event("log", "a line")
    reports = {
        "node": dict.fromkeys(("received", "sent", "unreadable", "foreign", "limited"), 1),
        "server": dict.fromkeys(("served", "failed", "refused", "bytes"), 1),
        "client": {
            "complete": True, "bytes": found.get("size"), "seconds": 1.0, "goodput_mbit_s": 1.0, "wait_s": 0.1
        },
    }  # fmt: skip
    return json.dumps(reports[role])


def kernel_programs():
    reached["kernel_programs"] += 1
    return json.dumps([PROGRAM, {**PROGRAM, "name": "fake_cubic", "scheme": "cubic", "registered": False}])


def _program(name):
    if name not in ("fake_bbr", "fake_cubic", "bbr", "cubic"):
        raise KernelUnable(f"there is no program {name!r}")
    return PROGRAM["name"]


def load_program(name, values):
    check("load_program", (name, TEXT), (values, PAIRS))
    return _program(name)


def unload_program(name):
    check("unload_program", (name, TEXT))
    return _program(name), 2


def program_status(seconds):
    check("program_status", (seconds, REAL))
    row = {"sockets": 1, "opened": 2, "acks": 3, "cpu_percent": 0.1, "timeouts": 0, "errors": 0,
           "calls": 5000, "observed_s": 2.0}  # fmt: skip
    return json.dumps(
        [{"name": "fake_bbr", "ns_per_call": 400.0, "ns_per_ack": None, "parameters": [["cwnd_gain", 2.0]], **row}]
    )


def attach_brf(cgroup, adopts, limit_mbit, values, dry):
    check("attach_brf", (cgroup, maybe((str, Path))), (adopts, FLAG), (limit_mbit, maybe(REAL)), (values, PAIRS),
          (dry, FLAG))  # fmt: skip
    return json.dumps({"cgroup": str(cgroup), "link": 1, "scheme": "fake", "loads": True, "adopts": adopts})


def detach_brf(cgroup):
    check("detach_brf", (cgroup, maybe((str, Path))))
    return ["detached"]


COUNTS = (
    "sockets", "opened", "adopted", "offered", "accepted", "written", "read", "unlimited", "advised", "invalid", "stale",
    "fallbacks", "errors",
)  # fmt: skip


def brf_status():
    reached["brf_status"] += 1
    own = [{"cgroup": "/fake", "id": 1, "adopts": True}, {"cgroup": None, "id": 2, "adopts": False}]
    return json.dumps({"loaded": True, "attachments": own, **dict.fromkeys(COUNTS, 0)})


SWITCH = {
    "ports": [(TEXT, TEXT)], "rate_mbit": REAL, "buffer": U32, "period_ms": REAL, "patience_ms": REAL,
    "poll_s": maybe(REAL), "control": maybe(TEXT), "sets": PAIRS,
}  # fmt: skip


def plan_brf_switch(text):
    check_table("plan_brf_switch", text, SWITCH)
    return ["would attach"]


def run_brf_switch(text, handle, on_line):
    settings = check_table("run_brf_switch", text, SWITCH)
    if settings["ports"][0][0] == "nosuch":
        raise KernelUnable("there is no interface `nosuch`")
    on_line("attached")


def brf_switches():
    reached["brf_switches"] += 1
    flow = {"flow": "a", "share_mbit_s": None, "rtt_ms": 1.0, "bytes": 1, "written": 1}
    report = {
        "rate_mbit_s": 10.0, "state": "load", "period_ms": 5.0, "queue_mean_ms": 0.1, "queue_most_ms": 1.0,
        "reductions": 0, "classes": [{"name": "a", "rate_mbit_s": 1.0, "sent_packets": 1, "waiting": 0, "drops": 0}],
        "flows": [flow], "flows_total": 2, "flows_refused": 1, "counters": {"written": 1, "refused": 2},
    }  # fmt: skip
    return json.dumps([{"process": 1, "ports": ["a", "b"], "runs": True, "report": report}])


def clean_brf_switches():
    reached["clean_brf_switches"] += 1
    return ["a"]


class PortJudge:
    """Calls a port with anything in its queue congested."""

    def __init__(self, utilization, queue):
        check("PortJudge", (utilization, REAL), (queue, REAL))

    def judge(self, read_s, sent, waiting, room, capacity):
        for value in (sent, waiting, room, capacity):
            if not 0 <= value < 2**64:
                raise OverflowError("can't convert negative int to unsigned")
        check("judge", (read_s, REAL), *((value, U64) for value in (sent, waiting, room, capacity)))
        return ("queue", waiting) if waiting else None
