"""Measures the cost of a scheme per acknowledgement in this kernel, for docs/deploy.md.

    sudo python studies/kernel/cost.py           loads our programs and measures; 8 minutes
    python studies/kernel/cost.py --print        writes the table from the stored runs

It needs `perf`, `ip`, `clang`, `bpftool` and the headers of libbpf.

A connection over loopback in a new network namespace sends as fast as one processor allows, two segments per packet, so
that nearly every packet is acknowledged. Two methods, one after the other:

* The kernel's run statistics of BPF: the time of the function that processes an acknowledgement. The kernel's own BBR
  has no run statistics, so programs that only call it are measured (`bbr_called.bpf.c`); its time includes this call.
  All times include reading the clock.
* `perf` samples the processors: all functions of a scheme, and the kernel's code that enters a program. Time in helpers
  that other code also uses (the maps of BPF, `ktime_get`) is not counted. Every sample is an interrupt that leaves the
  caches colder.

The time of a program differs between loads, which put it at different addresses in memory. So every run loads all
programs again, each time with another program first. Measure on an idle machine.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
DATA = HERE / "cost.jsonl"
PAGE = HERE.parents[1] / "docs" / "deploy.md"
OURS = ("bbr_plain", "bbr_gc", "bbr_cws", "bbr3")
"""Our programs, by their names in Linux; `narrows kernel` also accepts these."""
KERNEL, CALLED = "bbr", "bbr_called"
"""The kernel's own scheme, and programs that call it."""
SECONDS, SAMPLED_SECONDS = 2.5, 4.0
HERTZ = 4000
RUNS = 8
"""Each program runs twice in each position of the order."""
CLONE_NEWNET = 0x4000_0000
STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
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


class Connection:
    """A sending connection; entering the context waits until its first second is over."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self.ready, self.over, self.counted = multiprocessing.Event(), multiprocessing.Event(), multiprocessing.Queue()
        self.sender = multiprocessing.Process(target=send, args=(scheme, self.ready, self.over, self.counted))

    def __enter__(self) -> Connection:
        self.sender.start()
        if not self.ready.wait(10):
            self.sender.kill()
            raise SystemExit(f"{self.scheme}: the connection did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.sender.join(10)
        self.sender.kill()


def sampled(scheme: str) -> dict[str, Any]:
    """Return the time per acknowledgement in ns by `perf`, the number of acknowledgements, and samples by function."""
    with Connection(scheme) as connection, tempfile.TemporaryDirectory() as folder:
        recording = f"{folder}/perf.data"
        start = time.monotonic()
        command = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", str(HERTZ), "-o", recording]
        subprocess.run([*command, "--", "sleep", str(SAMPLED_SECONDS)], check=True, stderr=subprocess.DEVNULL)
        seconds = time.monotonic() - start
        connection.over.set()
        acks = connection.counted.get(timeout=10)
        script = ["perf", "script", "-i", recording, "-F", "ip,sym"]
        lines = subprocess.run(script, check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = Counter(fields[1] for line in lines if len(fields := line.split()) > 1)
    pattern = KERNEL_SYMBOL if scheme == KERNEL else PROGRAM_SYMBOL
    inside = {name: count for name, count in sorted(symbols.items()) if pattern.match(name)}
    # `perf` runs a little longer than it samples; the number of samples gives the sampled time.
    acks_sampled = acks * len(lines) / HERTZ / (os.cpu_count() or 1) / seconds
    ns = sum(inside.values()) / HERTZ * 1e9 / acks_sampled
    return {"sampled_ns": ns, "acks": round(acks_sampled), "symbols": inside}


def runs() -> Counter[str]:
    """Return the calls of functions that process acknowledgements, and their time in ns, of all programs."""
    show = subprocess.run(["bpftool", "prog", "show", "--json"], check=True, capture_output=True, text=True).stdout
    sums: Counter[str] = Counter()
    for program in json.loads(show):
        if program.get("type") == "struct_ops" and program["name"].endswith("cong_control"):
            sums["calls"] += program.get("run_cnt", 0)
            sums["ns"] += program.get("run_time_ns", 0)
    return sums


def statistics(scheme: str) -> float:
    """Return the time per acknowledgement by the kernel's run statistics, in ns."""
    counted = STATISTICS.read_text(encoding="ascii")
    with Connection(scheme):
        STATISTICS.write_text("1", encoding="ascii")
        try:
            before = runs()
            time.sleep(SECONDS)
            after = runs()
        finally:
            STATISTICS.write_text(counted, encoding="ascii")
    if after["calls"] == before["calls"]:
        raise SystemExit(f"{scheme}: bpftool shows no call of a function that ends in `cong_control`")
    return (after["ns"] - before["ns"]) / (after["calls"] - before["calls"])


@contextmanager
def loaded(order: Sequence[str]) -> Iterator[None]:
    """Load these programs in this order, and unload them at the end."""
    narrows = Path(sys.executable).with_name("narrows")
    try:
        for name in order:
            subprocess.run([narrows, "kernel", "load", name], check=True, stdout=subprocess.DEVNULL)
        yield
    finally:
        for name in order:
            subprocess.run([narrows, "kernel", "unload", name], check=False, stdout=subprocess.DEVNULL)


@contextmanager
def called() -> Iterator[None]:
    """Load the programs that call the kernel's own scheme, and unload them at the end."""
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/{CALLED}.o"
        compiler = ["clang", "-g", "-O2", "-Wall", "-Werror", "-Wno-unused-function", "-target", "bpf", "-mcpu=v3"]
        source = HERE / f"{CALLED}.bpf.c"
        subprocess.run([*compiler, "-I", str(HERE.parents[1] / "bpf"), "-c", source, "-o", program], check=True)
        subprocess.run(["bpftool", "struct_ops", "register", program], check=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        command = ["bpftool", "struct_ops", "unregister", "name", CALLED]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def main() -> None:
    """Measure, or print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--print", action="store_true", help="write the table from the stored runs")
    if not parser.parse_args().print:
        rows: list[Row] = []
        with called():
            for run in range(RUNS):
                order = [*OURS[run % len(OURS) :], *OURS[: run % len(OURS)]]
                with loaded(order):
                    for scheme in (KERNEL, *order):
                        row = {"scheme": scheme, "run": run, "kernel": platform.release(), "load": os.getloadavg()[0]}
                        row["statistics_ns"] = statistics(CALLED if scheme == KERNEL else scheme)
                        rows.append(row | sampled(scheme))
                        print(f"{run} {scheme}: {row['statistics_ns']:.0f} ns", flush=True)
        DATA.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    write()


def write() -> None:
    """Write the table."""
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    own = {row["run"]: row for row in rows if row["scheme"] == KERNEL}
    heads = ["run statistics, ns/ACK", "to the kernel's", "all calls by `perf`, ns/ACK", "to the kernel's"]
    lines = [f"| scheme | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for scheme in (KERNEL, *OURS):
        of = [row for row in rows if row["scheme"] == scheme]
        fields = ["the kernel's own `bbr`" if scheme == KERNEL else f"`{scheme}`"]
        for key in ("statistics_ns", "sampled_ns"):
            for values, digits in (
                ([row[key] for row in of], 0), ([row[key] / own[row["run"]][key] for row in of], 2)
            ):  # fmt: skip
                least, most = (f"{value:.{digits}f}" for value in (min(values), max(values)))
                fields.append(f"{median(values):.{digits}f}" + (f" ({least} to {most})" if least != most else ""))
        lines.append(f"| {' | '.join(fields)} |")
    print("\n".join(lines))
    pattern = re.compile(r"(<!-- cost -->\n).*?(<!-- /cost -->)", re.DOTALL)
    page, regions = pattern.subn(
        lambda match: "\n".join([match[1] + lines[0], *lines[1:], match[2]]), PAGE.read_text(encoding="utf-8")
    )
    if regions != 1:
        raise SystemExit(f"{PAGE} has no region `cost`")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
