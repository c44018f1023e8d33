"""A stand-in for the compiled engine: the same functions, invented but plausible numbers, no simulation.

Runs on the kernel need `FAKE_ENGINE_KERNEL=1` and give the simulator's numbers with a host.

A least timeout of 1 s raises every goodput by 20 Mbit/s, so that worlds differ.

Runs take `FAKE_ENGINE_RUN_S` seconds each (default 0). The scheme `broken` fails in `run`, `guess` is a
reconstruction.
"""

import copy
import functools
import hashlib
import itertools
import json
import os
import pathlib
import platform
import random
import re
import threading
import time
import tomllib

from fake_hosts import *  # noqa: F403 (the engine is one module)
from fake_hosts import KernelUnable

ROUTER = "router"  # as `narrows.engine` spells it

KNOWN = {
    "": {"name", "duration", "seed", "repeat", "warmup", "network", "tcp", "flows", "sweep", "trace"},
    "network": {"rate", "buffer", "queue", "loss", "access_rate", ROUTER, "access_delay", "loss_at", "jitter"},
    "tcp": {
        "segment_bytes",
        "header_bytes",
        "ack_every",
        "rack",
        "sack",
        "tlp",
        "min_rto",
        "max_rto",
        "initial_rto",
        "ack_delay",
        "max_burst",
        "initial_window",
        "ecn",
        "receive_window",
        "receive_autotuning",
    },
    "flows": {"scheme", "rtt", "start", "stop", "count", "spread"},
    "trace": {"samples", "packets"},
}
SCHEMES = ("fixed", "newreno", "cubic", "bbr", "broken", "guess")
PAPERS = pathlib.Path(__file__).resolve().parents[2] / "papers"

TIME = re.compile(r"([\d.]+)(ms|s)")
calls = {"run": 0}


class ScenarioError(ValueError):
    def __init__(self, source, line, key, message, accepted):
        self.source, self.line, self.column, self.key = source, line, None, key
        self.message, self.accepted = message, accepted
        super().__init__(f"{source}{f':{line}' if line else ''}: {key}: {message}\n  accepted: {accepted}")


class Cancelled(Exception):
    pass


def datagram_scheme():
    return "newreno"


class Handle:
    def __init__(self):
        self.stopped = threading.Event()
        self.share = 0.0

    def progress(self):
        return self.share

    def cancel(self):
        self.stopped.set()


def version():
    return "0.1.0-fake"


@functools.cache
def _claimed():
    """Return the schemes in the papers' claims that the stand-in lacks; the real engine has them."""
    from narrows import claims  # this module needs no engine

    paths = sorted(PAPERS.glob("*/*.claims.toml"))
    heads = {path.parent: claims.read_toml(path.parent / "paper.toml", "paper.toml") for path in paths}
    sheets = [claims.read(path, claims.shared(path, heads[path.parent])) for path in paths]
    names = {name for sheet in sheets for claim in sheet.claims for name in claim.keys.get("schemes", [])}
    return sorted(names - set(SCHEMES))


def schemes():
    param = {
        "name": "cwnd_gain",
        "kind": "number",
        "default": 2.0,
        "min": 1.0,
        "max": 10.0,
        "unit": "",
        "help": "cwnd over the BDP.",
    }
    flag = {
        "name": "paced",
        "kind": "flag",
        "default": False,
        "min": None,
        "max": None,
        "unit": "",
        "help": "Pace.",
    }
    choice = {
        "name": "rtt",
        "kind": "choice",
        "default": "newest",
        "choices": ["newest", "least"],
        "unit": "",
        "help": "Sample.",
    }
    return json.dumps(
        [
            {
                "name": name,
                "aliases": ["reno"] if name == "newreno" else [],
                "summary": f"does what {name} does",
                "provenance": {"fixed": "tool", "guess": "reconstruction"}.get(name, "verified"),
                "recovery": "prr",
                "params": [param, flag, choice] if name == "bbr" else [],
                "page": f"# {name}\n\nIts control law.",
            }
            for name in [*SCHEMES, *_claimed()]
        ]
    )


def sources():
    backends = dict.fromkeys(("sim", "kernel", "quic"), "fake")
    return json.dumps({"build": "fake", "backends": backends, "schemes": {name: name for name in SCHEMES}})


def schema():
    return json.dumps({"type": "object"})


def _line(text, key):
    last = key.rpartition(".")[2]
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip().startswith(last):
            return number
    return None


def _check(data, text, source, overridden):
    def bad(key, message, accepted):
        if key in overridden or re.sub(r"\.\d+", "", key) in overridden:
            raise ScenarioError("command line", None, key, message, accepted)
        raise ScenarioError(source, _line(text, key), key, message, accepted)

    def keys(table, name, path):
        for key in table:
            if key not in KNOWN[name]:
                bad(f"{path}{key}", f"unknown key {key!r}", ", ".join(sorted(KNOWN[name])))

    keys(data, "", "")
    for name in ("network", "tcp", "trace"):
        keys(data.get(name, {}), name, f"{name}.")
    if str(data.get("network", {}).get("rate", "1mbit")).startswith("-"):
        bad("network.rate", "a negative rate", "a rate above zero, such as 100mbit")
    if not data.get("flows"):
        bad("flows", "no flows", "one or more [[flows]]")
    for i, flow in enumerate(data["flows"]):
        keys(flow, "flows", f"flows.{i}.")
        name = flow["scheme"].partition(":")[0]
        if name not in SCHEMES and name != "reno":
            bad(f"flows.{i}.scheme", f"there is no scheme {name!r}", ", ".join(SCHEMES))
        if not TIME.fullmatch(flow.get("rtt", "40ms")):
            bad(f"flows.{i}.rtt", f"{flow['rtt']!r} is not a time", "a number with ns, us, ms or s")


def _set(data, key, value):
    *path, last = key.split(".")
    if path == ["flows"]:
        for flow in data["flows"]:
            flow[last] = value
        return
    for part in path:
        data = data[int(part)] if isinstance(data, list) else data.setdefault(part, {})
    data[last] = value


def plan(text, source, directory, overrides, outside=None):
    try:
        return _plan(text, source, overrides)
    except (TypeError, KeyError, AttributeError, IndexError, UnicodeError) as error:
        raise ScenarioError(source, None, None, f"unsuitable: {error}", "a scenario") from None


def _plan(text, source, overrides):
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ScenarioError(source, 1, None, str(error), "TOML") from None
    grid = dict(data.pop("sweep", {}))
    cases = grid.pop("cases", [None])
    for key, value in overrides:
        if "," in value:
            grid[key] = value.split(",")
        else:
            _set(data, key, int(value) if value.isdigit() else value)
            grid.pop(key, None)
    first, repeat = int(data.get("seed", 1)), int(data.get("repeat", 1))
    planned = []
    for case in cases:
        for combination in itertools.product(*grid.values()):
            point = dict(zip(grid, combination, strict=True))
            scenario = copy.deepcopy(data)
            for key, value in {**(case or {}), **point}.items():
                if key != "label":
                    _set(scenario, key, value)
            point = {"case": case["label"], **point} if case else point
            _check(scenario, text, source, dict(overrides))
            for seed in range(first, first + repeat):
                row = {
                    "point": point,
                    "seed": seed,
                    "scenario": scenario,
                    "flows": len(scenario["flows"]),
                }
                row["id"] = hashlib.sha256(json.dumps([row, 1], sort_keys=True).encode()).hexdigest()[:16]
                planned.append(json.dumps(row))
    return planned


def explain(text, source, directory, overrides, outside=None):
    """Explain every point with one option per table: stated in the file, by an option, by the profile."""
    rows = {"tcp.ack_every": "[tcp]", "tcp.profile": "[tcp]"}
    points = []
    for planned in map(json.loads, plan(text, source, directory, overrides)):
        data, keys = planned["scenario"], dict(overrides)

        def row(key, value, where, keys=keys):
            written = any(key in (name, name.removeprefix("tcp."), name.split(".")[-1]) for name in keys)
            return {"key": key, "value": value, **({"from": "command line"} if written else where)}

        tcp = [row(key.split(".")[1], 2, {"from": where, "line": 4}) for key, where in rows.items()]
        flows = [
            {
                "flow": flow["scheme"].partition(":")[0],
                "scheme": flow["scheme"].partition(":")[0],
                "protocol": "tcp",
                "options": [row("scheme", flow["scheme"], {"from": "[[flows]]", "line": 7})],
                "transport": [*tcp, {"key": "min_rto", "value": "200ms", "from": "profile linux"}],
                "params": [{"key": "abc", "value": True, "from": "default"}],
            }
            for flow in data["flows"]
        ]
        rate = {"key": "rate", "value": data["network"]["rate"], "from": "[network]", "line": 2}
        buffer = {"key": "buffer", "value": "1bdp", "resolved": "500000B", "from": "default"}
        points.append(
            {
                "scenario": data.get("name", "command line"),
                "point": planned["point"],
                "run": [row("seed", planned["seed"], {"from": "default"})],
                "network": [rate, buffer],
                "flows": flows,
            }
        )
    return [json.dumps(point) for point in points]


def profiles():
    setting = {"key": "min_rto", "value": "200ms", "follows": "TCP_RTO_MIN"}
    return json.dumps([{"name": "linux", "summary": "Linux.", "tcp": [setting], "params": [], "lacks": []}])


def seconds(text):
    value, unit = (TIME.fullmatch(text) or TIME.fullmatch("0s")).groups()
    return float(value) * {"ms": 1e-3, "s": 1.0}[unit]


def radio_trace(text, source):
    keys = json.loads(text)
    if keys["kind"] != "5g":
        raise ScenarioError(source, None, "kind", f"unknown variant `{keys['kind']}`", "5g")
    ms = int(seconds(keys["period"]) * 1000)
    if ms < 1000:
        raise ScenarioError(source, None, "period", "the path is too short or too long", "a time from 1s")
    drawn = random.Random(keys.get("seed", 1))
    capacity = sorted(drawn.randrange(ms) for _ in range(100))
    return "".join(f"{at}\n" for at in [*capacity, ms]), "10 60 0.5\n", "0 2.5\n"


def check_place(planned_json, directory, on="kernel", outside=None):
    offered = os.environ.get("FAKE_ENGINE_KERNEL", "")  # the schemes it has; 1 for all
    schemes = {flow["scheme"] for flow in json.loads(planned_json)["scenario"]["flows"]}
    if not offered:
        raise KernelUnable("the fake kernel runs nothing")
    if offered != "1" and not schemes <= set(offered.split(",")):
        raise KernelUnable(f"the fake kernel lacks one of {', '.join(sorted(schemes))}")


def run(planned_json, directory, trace_dir, handle, capture, on="sim", outside=None, qlog=None):
    calls["run"] += 1
    files = {} if capture is None else {capture[0]: f"{capture[1]} {capture[2]}"}
    for file, text in (files if qlog is None else {**files, qlog: "events of the run"}).items():
        pathlib.Path(file).write_text(text)
    scenario = (planned := json.loads(planned_json))["scenario"]
    rng = random.Random(planned["id"])
    begin, length = time.monotonic(), float(os.environ.get("FAKE_ENGINE_RUN_S", "0"))
    while (passed := time.monotonic() - begin) < length:
        if handle is not None:
            if handle.stopped.is_set():
                raise Cancelled("cancelled")
            handle.share = passed / length
        time.sleep(0.01)
    flows = []
    base = 60 if scenario.get("tcp", {}).get("min_rto") == "1s" else 40
    for spec in scenario["flows"]:
        if spec["scheme"] == "broken":
            raise RuntimeError("the scheme broke")
        for _ in range(int(spec.get("count", 1))):
            rtt = seconds(spec.get("rtt", "40ms")) * 1000
            flows.append({
                "flow": len(flows), "label": f"{spec['scheme']} {len(flows) + 1}", "scheme": spec["scheme"].partition(":")[0],
                "rtt_base_ms": rtt, "goodput_mbit_s": base + rng.random(), "throughput_mbit_s": 42 + rng.random(),
                "retransmit_percent": rng.random(), "loss_percent": rng.random(), "rtt_min_ms": rtt,
                "rtt_mean_ms": rtt * 1.5, "rtt_p50_ms": rtt * 1.4, "rtt_p95_ms": rtt * 1.9, "rtt_p99_ms": rtt * 2,
                "fill_time_ms": rtt * (6 + rng.random()), "completion_s": None, "packets_sent": 1000,
                "params": spec["scheme"].partition(":")[2],
            })  # fmt: skip
    duration = seconds(scenario.get("duration", "60s"))
    link = {"link": "bottleneck", "utilization": 0.97, "queue_delay_mean_ms": 10.0, "queue_delay_p95_ms": 20.0,
            "queue_mean_pkt": 80.0, "drops": 12, "drop_percent": 0.1}  # fmt: skip
    router = scenario.get("network", {}).get(ROUTER)
    if router is not None:
        link[ROUTER] = {
            "kind": router,
            "readings": {"rate_mbit_s": 50.0, "mean_rtt_ms": 40.0, "state": "measurement"},
        }
    result = {
        "event_hash": "00ff", "id": planned["id"], "point": planned["point"], "warmup_s": duration / 10,
        "version": version(), "scenario": scenario.get("name", "unnamed"), "seed": planned["seed"],
        "duration_s": duration, "wall_s": 0.01, "events": 1000, "data_packets": 400, "jain": 0.9 + rng.random() / 10,
        "convergence_s": None, "peak_flow_bytes": 4096, "counters": {"sack_blocks": 3}, "flows": flows,
        "links": [link],
    }  # fmt: skip
    if on == "kernel":
        result |= {"id": f"{planned['id']}-kernel", "host": _host(planned["seed"])}
    if trace_dir is not None:
        _trace(trace_dir, duration, len(flows), router is not None)
    return json.dumps(result)


def _host(seed):
    """Return the host of a run in real time; the runs of the seeds in `FAKE_ENGINE_DISTURBED` are disturbed."""
    disturbed = str(seed) in os.environ.get("FAKE_ENGINE_DISTURBED", "").split(",")
    lateness = {"mean_us": 20.0 + seed, "p99_us": 90.0, "longest_ms": 6.0, "stalls": 1}
    return {
        "on": "kernel", "kernel": platform.release(), "schemes": [], "sysctls": {}, "offload": False, "real_time": True,
        "lateness": lateness, "cpu_us_per_packet": 20.0, "load": 0.5 * seed, "attempts": 3 if disturbed else 1,
        "disturbed": disturbed,
    }  # fmt: skip


def _trace(trace_dir, duration, flows, router):
    import pyarrow as pa

    schema = pa.schema([
        ("time_s", pa.float64()), ("kind", pa.dictionary(pa.int32(), pa.utf8())), ("index", pa.uint32()),
        ("series", pa.dictionary(pa.int32(), pa.utf8())), ("value", pa.float64()), ("text", pa.utf8()),
    ])  # fmt: skip
    with (pathlib.Path(trace_dir) / "samples.arrow").open("wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for step in range(3):
            rows = []
            for i in range(10):
                t = (step * 10 + i) * duration / 30
                for flow in range(flows):
                    for series in (
                        "cwnd_bytes",
                        "inflight_bytes",
                        "pacing_rate_mbit_s",
                        "rtt_sample_ms",
                        "rtt_ms",
                        "goodput_mbit_s",
                    ):
                        rows.append((t, "flow", flow, series, 1.0 + i + flow, None))
                    rows.append((t, "flow", flow, "state", None, "startup" if step == 0 else "probe_bw"))
                for series in ("queue_pkt", "queue_delay_ms", "drops", "utilization"):
                    rows.append((t, "link", 0, series, float(i), None))
                if router:
                    rows.append((t, "link", 0, f"{ROUTER}_rate_mbit_s", 50.0 - i, None))
                    rows.append((t, "link", 0, f"{ROUTER}_free_mbit_s", float(i), None))
                    rows.append((t, "link", 0, f"{ROUTER}_state", None, "measurement" if step else "flow_table"))
            columns = [
                pa.array([row[k] for row in rows], pa.utf8() if k in (1, 3, 5) else schema[k].type) for k in range(6)
            ]
            columns = [c.dictionary_encode() if k in (1, 3) else c for k, c in enumerate(columns)]
            writer.write_batch(pa.record_batch(columns, schema=schema))


BENCH = """
duration = "10s"
[network]
rate = "1gbit"
[[flows]]
scheme = "cubic"
rtt = "20ms"
count = 10
"""


def datagram_schemes():
    return json.dumps(["cubic"])


def bench_datagrams(scheme, path, duration_s):
    """Plain UDP takes 1 µs per datagram in batches and 3 µs by calls; DCCP takes 1 µs in memory and 2 µs on sockets."""
    each = {"batches": 1e-6, "calls": 3e-6, "memory": 1e-6, "loopback": 2e-6}[path]
    assert (scheme is None) == (path in ("batches", "calls"))
    return json.dumps({"datagrams": 1000, "wall_s": 1000 * each, "datagram_bytes": 1400})


def packetdrill(text, directory, lateness_ms=None):
    """The kernel skips what has the remark `kernel MS` of another lateness."""
    if lateness_ms is not None:
        if os.environ.get("FAKE_ENGINE_KERNEL") != "1":
            raise KernelUnable("the fake kernel runs nothing")
        text = text if f"// kernel {lateness_ms:g}" in text else "// skip"
    result = next((word for word in ("fail", "skip") if f"// {word}" in text), "pass")
    line, reason = (None, "") if result == "pass" else (2, f"the reason to {result}")
    return json.dumps({"unchecked": [], "result": result, "line": line, "reason": reason})


def bench_cases():
    names = ("cubic-10", "bbr-10")
    return json.dumps([{"name": name, "description": f"case {name}", "scenario": BENCH} for name in names])


def bench_schemes(repeats, names):
    chosen = list(dict.fromkeys([SCHEMES[0], *(names or SCHEMES)]))
    costs = {name: 10.0 + 5 * place for place, name in enumerate(SCHEMES)} | {"reno": 15.0}
    return json.dumps([
        {"scheme": name, "ns_per_ack": costs[name], "ratio": costs[name] / 10, "reference": SCHEMES[0], "acks": 1000,
         "ns_all": [costs[name]] * repeats}
        for name in chosen
    ])  # fmt: skip


ROUTERS = ("rcp", "xcp")


def routers():
    row = {"summary": "assigns rates", "provenance": "verified", "params": [], "page": "# A title\n\nText.\n"}
    return json.dumps([{"name": name, **row} for name in ROUTERS])


def bench_routers(repeats, names):
    for name in names:
        if name not in ROUTERS:
            raise ValueError(f"there is no router algorithm `{name}`; accepted: {', '.join(ROUTERS)}")
    return json.dumps([
        {ROUTER: name, "flows": flows, "opened": flows, "ns_per_packet": 10.0 * cost, "ratio": cost,
         "ns_per_wake": 50.0 * flows if place else None, "ns_per_wake_and_flow": 50.0 if place else None,
         "wakes": 7 * place, "packets": 20_000, "memory_bytes": 120 * place * flows, "bytes_per_flow": 120.0 * place,
         "ns_all": [10.0 * cost] * repeats}
        for flows in (1, 1000)
        for place, (name, cost) in enumerate(zip(("none", *(names or ROUTERS)), (1.0, 2.5, 3.0), strict=False))
    ])  # fmt: skip


def bench(name, repeats):
    failed = ["pacing never acted"] if name == "bbr-10" and os.environ.get("FAKE_ENGINE_BENCH_FAILS") else []
    return json.dumps({
        "case": name, "flows": 10, "data_packets": 2_000_000, "events": 9_000_000, "wall_s": 0.5, "packets_per_s": 4e6,
        "wall_all_s": [0.5] * repeats, "peak_flow_bytes": 5000, "failed": failed,
        "event_hash": os.environ.get("FAKE_ENGINE_BENCH_HASH", "00ff"),
        "counters": {"sack_blocks": 10, "recoveries": 2, "paced_waits": 7, "rate_samples": 9},
    })  # fmt: skip
