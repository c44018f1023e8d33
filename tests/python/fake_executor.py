"""A small executor in place of the engine's, with control over numbers, time, failures and the kernel.

It invents results immediately. A minimum RTO of 1 s raises every goodput by 20 Mbit/s, so that worlds differ.
`FAKE_RUN_S` sets the duration of each run in seconds, `FAKE_BROKEN` names a scheme whose runs fail. `FAKE_KERNEL` lists
the schemes that the kernel offers (`1`: all). Kernel runs have a `host`; those with a seed in `FAKE_DISTURBED` are
disturbed.
"""

import importlib
import json
import os
import platform
import random
import re
import threading
from pathlib import Path

import pyarrow as pa

from narrows import engine, runner

ENGINE = importlib.import_module("narrows._engine")
"""The compiled module."""


class Handle:
    """A handle with an event that ends a wait."""

    def __init__(self):
        self.stopped = threading.Event()

    def progress(self):
        return 0.0

    def cancel(self):
        self.stopped.set()


def schemes(planned):
    return {flow["scheme"].partition(":")[0] for flow in json.loads(planned)["scenario"]["flows"]}


def check_place(planned, directory, on, outside=None):
    """Refuse runs with schemes that `FAKE_KERNEL` does not list."""
    offered = os.environ.get("FAKE_KERNEL", "")
    if not offered:
        raise ENGINE.HostUnable("the fake kernel runs nothing")
    if offered != "1" and not schemes(planned) <= set(offered.split(",")):
        raise ENGINE.HostUnable(f"the fake kernel lacks one of {', '.join(sorted(schemes(planned)))}")


def seconds(text):
    value, unit = re.fullmatch(r"([\d.]+)(ms|s)", text).groups()
    return float(value) * {"ms": 1e-3, "s": 1.0}[unit]


def run(planned, directory, trace_dir, handle, capture, on="sim", outside=None, qlog=None):
    """Invent the result of a run, and its trace."""
    if handle is not None and handle.stopped.wait(float(os.environ.get("FAKE_RUN_S", "0"))):
        raise ENGINE.Cancelled("cancelled")
    if os.environ.get("FAKE_BROKEN") in schemes(planned):
        raise RuntimeError("the scheme broke")
    row = json.loads(planned)
    scenario, rng, flows = row["scenario"], random.Random(row["id"]), []
    base = 60 if scenario["tcp"].get("min_rto") == "1s" else 40
    for spec in scenario["flows"]:
        name, _, params = spec["scheme"].partition(":")
        rtt = 1000 * seconds(spec["rtt"])
        for _ in range(spec.get("count", 1)):
            flows.append({
                "flow": len(flows), "label": f"{spec['scheme']} {len(flows) + 1}", "scheme": name, "params": params,
                "rtt_base_ms": rtt, "goodput_mbit_s": base + rng.random(), "throughput_mbit_s": 42 + rng.random(),
                "retransmit_percent": rng.random(), "loss_percent": rng.random(), "rtt_min_ms": rtt,
                "rtt_mean_ms": rtt * 1.5, "rtt_p50_ms": rtt * 1.4, "rtt_p95_ms": rtt * 1.9, "rtt_p99_ms": rtt * 2,
                "fill_time_ms": rtt * (6 + rng.random()), "completion_s": None, "packets_sent": 1000,
            })  # fmt: skip
    link = {"link": "bottleneck", "utilization": 0.97, "queue_delay_mean_ms": 10.0, "queue_delay_p95_ms": 20.0,
            "queue_mean_pkt": 80.0, "drops": 12, "drop_percent": 0.1}  # fmt: skip
    router = scenario["network"].get(engine.ROUTER)
    if router is not None:
        readings = {"rate_mbit_s": 50.0, "mean_rtt_ms": 40.0, "state": "measurement"}
        link[engine.ROUTER] = {"kind": router, "readings": readings}
    duration = seconds(scenario["duration"])
    if trace_dir is not None:
        trace(trace_dir, duration, len(flows), router is not None)
    return {
        "event_hash": "00ff", "id": row["id"], "point": row["point"], "warmup_s": duration / 10,
        "version": ENGINE.version(), "scenario": scenario["name"], "seed": row["seed"], "duration_s": duration,
        "wall_s": 0.01, "events": 1000, "data_packets": 400, "jain": 0.9 + rng.random() / 10, "convergence_s": None,
        "peak_flow_bytes": 4096, "counters": {"sack_blocks": 3}, "flows": flows, "links": [link],
    } | ({} if on == "sim" else {"host": host(row["seed"])})  # fmt: skip


def trace(folder, duration, flows, router):
    """Write a trace of three batches with ten samples each."""
    schema = pa.schema([
        ("time_s", pa.float64()), ("kind", pa.dictionary(pa.int32(), pa.utf8())), ("index", pa.uint32()),
        ("series", pa.dictionary(pa.int32(), pa.utf8())), ("value", pa.float64()), ("text", pa.utf8()),
    ])  # fmt: skip
    series = ("cwnd_bytes", "inflight_bytes", "pacing_rate_mbit_s", "rtt_sample_ms", "rtt_ms", "goodput_mbit_s")
    with (Path(folder) / "samples.arrow").open("wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for step in range(3):
            rows = []
            for i in range(10):
                time_s = (step * 10 + i) * duration / 30
                for flow in range(flows):
                    rows += [(time_s, "flow", flow, name, 1.0 + i + flow, None) for name in series]
                    rows.append((time_s, "flow", flow, "state", None, "startup" if step == 0 else "probe_bw"))
                queue = ("queue_pkt", "queue_delay_ms", "drops", "utilization")
                rows += [(time_s, "link", 0, name, float(i), None) for name in queue]
                if router:
                    state = "measurement" if step else "flow_table"
                    readings = (
                        ("rate_mbit_s", 50.0 - i, None),
                        ("free_mbit_s", float(i), None),
                        ("state", None, state),
                    )
                    rows += [(time_s, "link", 0, f"{engine.ROUTER}_{name}", *read) for name, *read in readings]
            columns = [pa.array(list(column)).cast(field.type) for column, field in zip(zip(*rows), schema)]  # noqa: B905
            writer.write_batch(pa.record_batch(columns, schema=schema))


def host(seed):
    """Return the host of a run in real time."""
    disturbed = str(seed) in os.environ.get("FAKE_DISTURBED", "").split(",")
    lateness = {"mean_us": 20.0 + seed, "p99_us": 90.0, "longest_ms": 6.0, "stalls": 1}
    return {
        "on": "kernel", "kernel": platform.release(), "schemes": [], "sysctls": {}, "offload": False, "real_time": True,
        "lateness": lateness, "cpu_us_per_packet": 20.0, "load": 0.5 * seed, "attempts": 3 if disturbed else 1,
        "disturbed": disturbed,
    }  # fmt: skip


def install(set_attribute=setattr):
    """Replace the engine's executor."""
    set_attribute(ENGINE, "run", run)
    set_attribute(ENGINE, "check_place", check_place)
    for module in (engine, runner):
        set_attribute(module, "Handle", Handle)
