"""Measures what a scheme costs per acknowledgement in this kernel, for docs/deploy.md and docs/results.md.

    sudo python studies/kernel/cost.py           loads our programs and measures; 4 minutes; needs `perf` and `ip`
    python studies/kernel/cost.py --print        writes the table from the stored runs

A connection over the loopback device of a network namespace of its own sends as fast as one processor allows, two
segments per packet, so that nearly every packet is acknowledged. `perf` samples all processors meanwhile. A scheme's
cost is the share of samples in its functions, times the time, over the acknowledgements: no probe is in its way, and
the kernel's own scheme is measured as ours are. Time in helpers that others use too (the maps of BPF, `ktime_get`) is
not seen; the kernel's run statistics of BPF, which `narrows kernel status` reads, include it, and their own cost.
The kernel's own scheme and ours take turns.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
DATA = HERE / "cost.jsonl"
PAGES = [HERE.parents[1] / "docs" / name for name in ("deploy.md", "results.md")]
OURS = {"bbr_plain": "bbr", "bbr_gc": "bbr-gc", "bbr_cws": "bbr-cws", "bbr3": "bbr3"}
"""Programs and their schemes."""
KERNEL = "bbr"
SECONDS = 5.0
HERTZ = 20_000
HOOKS = re.compile(r"(ssthresh|set_state|cwnd_event|min_tso_segs|undo_cwnd|sndbuf_expand|init|release|get_info)$")
"""Functions of a scheme that process no acknowledgement."""
ENTRY = re.compile(r"^(__bpf_prog_(enter|exit)\w*|bpf_trampoline_\w+)$")
"""What the kernel does around each call of a program."""
RUNS = 3
CLONE_NEWNET = 0x4000_0000
KERNEL_SYMBOL = re.compile(r"^(bbr_\w+|minmax_running_max)$")
PROGRAM_SYMBOL = re.compile(
    r"^(bpf_prog_[0-9a-f]+_\w+|__bpf_prog_(enter|exit)\w*|bpf_trampoline_\w+|bpf_sk_storage_\w+)$"
)

Row = dict[str, Any]


def acknowledgements() -> int:
    """Return the acknowledgements without data that this namespace has received."""
    lines = Path("/proc/thread-self/net/netstat").read_text(encoding="ascii").splitlines()
    names, values = (line.split()[1:] for line in lines[:2])
    counts = dict(zip(names, map(int, values), strict=True))
    return counts["TCPPureAcks"] + counts["TCPHPAcks"]


def sink(listener: socket.socket) -> None:
    """Read from one connection to its end."""
    connection, _ = listener.accept()
    while connection.recv(1 << 20, socket.MSG_TRUNC):
        pass


def send(scheme: str, ready: Any, over: Any, counted: Any) -> None:
    """Send over loopback in a new namespace, and count acknowledgements between the two events."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot create a network namespace")
    link = ["ip", "link", "set", "lo", "mtu", "1500", "gso_max_segs", "2", "up"]
    subprocess.run(link, check=True)
    listener = socket.create_server(("127.0.0.1", 0))
    reader = multiprocessing.Process(target=sink, args=(listener,), daemon=True)
    reader.start()
    with socket.socket() as sender:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, scheme.encode())
        sender.connect(listener.getsockname())
        data = memoryview(bytes(1 << 20))
        until, before = time.monotonic() + 1, None
        while not over.is_set():
            sender.send(data)
            if before is None and time.monotonic() > until:
                before = acknowledgements()
                ready.set()
        counted.put(acknowledgements() - (before or 0))
    reader.join(5)
    reader.kill()


def measure(scheme: str) -> Row:
    """Sample one connection."""
    ready, over, counted = multiprocessing.Event(), multiprocessing.Event(), multiprocessing.Queue()
    sender = multiprocessing.Process(target=send, args=(scheme, ready, over, counted))
    sender.start()
    if not ready.wait(10):
        sender.kill()
        raise SystemExit(f"{scheme}: the connection did not start")
    with tempfile.TemporaryDirectory() as folder:
        recording = f"{folder}/perf.data"
        start = time.monotonic()
        command = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", str(HERTZ), "-o", recording]
        subprocess.run([*command, "--", "sleep", str(SECONDS)], check=True, stderr=subprocess.DEVNULL)
        seconds = time.monotonic() - start
        over.set()
        acks = counted.get(timeout=10)
        sender.join(10)
        script = ["perf", "script", "-i", recording, "-F", "ip,sym"]
        lines = subprocess.run(script, check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = Counter(fields[1] for line in lines if len(fields := line.split()) > 1)
    pattern = KERNEL_SYMBOL if scheme == KERNEL else PROGRAM_SYMBOL
    inside = {name: count for name, count in symbols.items() if pattern.match(name)}
    # `perf` runs a little longer than it samples; the rate of samples tells the time.
    sampled = len(lines) / HERTZ / (os.cpu_count() or 1)
    acks_sampled = acks * sampled / seconds
    return {
        "scheme": scheme, "acks": round(acks_sampled), "samples": sum(inside.values()), "sampled_s": round(sampled, 2),
        "ns_per_ack": sum(inside.values()) / HERTZ * 1e9 / acks_sampled, "symbols": dict(sorted(inside.items())),
    }  # fmt: skip


def statistics(scheme: str) -> float | None:
    """Return the time per acknowledgement that the kernel's run statistics show."""
    from narrows import hosts

    ready, over, counted = multiprocessing.Event(), multiprocessing.Event(), multiprocessing.Queue()
    sender = multiprocessing.Process(target=send, args=(scheme, ready, over, counted))
    sender.start()
    ready.wait(10)
    rows = hosts.program_status(SECONDS / 2)
    over.set()
    counted.get(timeout=10)
    sender.join(10)
    return next(row["ns_per_ack"] for row in rows if row["name"] == scheme)


def main() -> None:
    """Measure, or print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--print", action="store_true", help="write the table from the stored runs")
    if not parser.parse_args().print:
        narrows = Path(sys.executable).with_name("narrows")
        rows = []
        for name in OURS:
            subprocess.run([narrows, "kernel", "load", name], check=True)
        try:
            for run in range(RUNS):
                for scheme in (KERNEL, *OURS):
                    row = measure(scheme) | {"run": run, "kernel": platform.release(), "load": os.getloadavg()[0]}
                    row["run_statistics_ns"] = None if scheme == KERNEL else statistics(scheme)
                    rows.append(row)
                    print(f"{scheme}: {row['ns_per_ack']:.0f} ns, {row['acks']} acknowledgements", flush=True)
        finally:
            for name in OURS:
                subprocess.run([narrows, "kernel", "unload", name], check=False)
        DATA.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    write()


def processing(row: Row) -> float:
    """Return the time per acknowledgement in the functions that process it, in ns."""
    inside = sum(count for name, count in row["symbols"].items() if not HOOKS.search(name) and not ENTRY.match(name))
    return row["ns_per_ack"] * inside / row["samples"]


def write() -> None:
    """Write the table."""
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    own = {row["run"]: row for row in rows if row["scheme"] == KERNEL}
    heads = ["processing, ns/ACK", "of the kernel's", "all calls, ns/ACK", "of the kernel's"]
    heads += ["run statistics, ns/ACK", "of the kernel's processing"]
    lines = [f"| scheme | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for scheme in (KERNEL, *OURS):
        of = [row for row in rows if row["scheme"] == scheme]
        fields = ["the kernel's own `bbr`" if scheme == KERNEL else f"`{scheme}`"]
        for cost in (processing, lambda row: row["ns_per_ack"]):
            fields.append(f"{median(map(cost, of)):.0f}")
            fields.append(f"{median(cost(row) / cost(own[row['run']]) for row in of):.2f}")
        counted = {row["run"]: row["run_statistics_ns"] for row in of if row["run_statistics_ns"]}
        fields.append(f"{median(counted.values()):.0f}" if counted else "–")
        ratios = [ns / processing(own[run]) for run, ns in counted.items()]
        fields.append(f"{median(ratios):.2f}" if ratios else "–")
        lines.append(f"| {' | '.join(fields)} |")
    print("\n".join(lines))
    pattern = re.compile(r"(<!-- cost -->\n).*?(<!-- /cost -->)", re.DOTALL)
    for path in PAGES:
        page, regions = pattern.subn(
            lambda match: "\n".join([match[1] + lines[0], *lines[1:], match[2]]), path.read_text(encoding="utf-8")
        )
        if regions != 1:
            raise SystemExit(f"{path} has no region `cost`")
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
