"""Scenarios drawn at random from the keys of a scenario: combinations beyond the listed ones."""

from __future__ import annotations

import random
from collections.abc import Iterator

QUEUES = (
    '"droptail"', '"codel"', '"fq-codel"', '"pie"', '"red"', '"step"', '"dualpi2"',
    '{ kind = "codel", ecn = true }', '{ kind = "fq-codel", queues = 3, quantum = "500B", ecn = true }',
    '{ kind = "pie", ecn = true, target = "3ms" }', '{ kind = "red", min = "4pkt", max = "12pkt", ecn = true }',
    '{ kind = "dualpi2", shift = "5ms" }',
    '{ kind = "htb", default = "a", classes = [{ name = "a", rate = "1mbit" }, '
    '{ name = "b", rate = "1mbit", priority = 1, schemes = ["bbr", "cubic", "ccid3"] }] }',
)  # fmt: skip
BUFFERS = ("1bdp", "0.2bdp", "4bdp", "2bdp@30ms", "3pkt", "25pkt", "300pkt", "70kB", "2ms", "80ms")
FAULTS = (
    'loss = "0.3%"', 'loss = "4%"\nloss_at = "ingress"', 'loss = { kind = "periodic", every = 60 }',
    'loss = { kind = "gilbert-elliott", to_bad = "1%", to_good = "25%" }', 'jitter = "3ms"',
    'jitter = { max = "12ms", reorder = true }', 'reorder = { probability = "2%", delay = "15ms" }',
    'policer = { rate = "3mbit", burst = "30kB" }', 'loss_trace = "burst.loss"', 'delay_trace = "steps.delay"',
)  # fmt: skip
ACCESS = (
    'access_rate = "9mbit"', 'access_rate = "60mbit"\naccess_delay = "2ms"\naccess_buffer = "12pkt"',
    'access_rate = "20mbit"\nreceiver_access = false',
)  # fmt: skip
TCP = (
    "sack = false", "rack = false", "tlp = false", "ecn = true", "ecn = true\necn_precise = true", "ack_every = 1",
    'ack_every = 5\nack_delay = "100ms"', "initial_window = 2", "initial_window = 30", 'max_burst = "5pkt"',
    'receive_window = "25kB"', 'min_rto = "20ms"\ninitial_rto = "200ms"', "segment_bytes = 600",
)  # fmt: skip
APPS = (
    'app = { kind = "on-off", on = "100ms", off = "200ms", random = true }', 'app = { kind = "cbr", rate = "700kbit" }',
    'app = { kind = "video", rate = "2mbit" }', 'size = "150kB"', 'arrivals = { rate = "6/s", size = "15kB" }',
    'count = 3\nstagger = "200ms"', 'arrivals = { rate = "3/s", size = { kind = "pareto", mean = "40kB" } }',
)  # fmt: skip
SHAPES = {
    "": ("",),
    'kind = "parking-lot"\nhops = 3\ndelay = "3ms"': (
        'from = "r0"\nto = "r3"', 'from = "r1"\nto = "r2"', 'from = "r2"\nto = "r0"',
    ),
    'kind = "graph"\ndelay = "4ms"': (
        'from = "a"\nto = "d"', 'route = ["a", "b", "d"]\nreverse_route = ["d", "c", "a"]', 'from = "d"\nto = "b"',
        'route = ["a", "c", "d"]',
    ),
}  # fmt: skip
LINKS = "".join(f'[[links]]\nfrom = "{a}"\nto = "{b}"\n' for a, b in ("ab", "bd", "ac", "cd"))


def scenario(number: int, schemes: list[str], routers: list[str]) -> str:
    """The text of one scenario; the same number gives the same text."""
    draw = random.Random(f"scenario {number}")

    def some(texts: tuple[str, ...], chance: float) -> str:
        return draw.choice(texts) + "\n" if draw.random() < chance else ""

    shape, paths = draw.choice([*SHAPES.items()])
    text = f'duration = "3s"\nwarmup = "{draw.choice(["0%", "10%", "1s"])}"\nseed = {draw.randrange(1000)}\n'
    text += "[tcp]\n" + some(TCP, 0.5) + "[network]\n" + shape + "\n"
    capacity = [f'rate = "{draw.choice([2, 5, 12, 30])}mbit"', 'capacity_trace = "cell.trace"']
    text += draw.choices(capacity, (5, 1))[0] + f'\nbuffer = "{draw.choice(BUFFERS)}"\n'
    text += "queue = " + draw.choice(QUEUES) + "\n" + some(FAULTS, 0.6) + some(ACCESS, 0.3)
    if draw.random() < 0.4:
        text += f'router = "{draw.choice(routers)}"\n'
    if "graph" in shape:
        text += LINKS
    for _ in range(draw.randrange(1, 5)):
        path = draw.choice(paths)
        text += f'[[flows]]\nscheme = "{draw.choice(schemes)}"\n' + (path + "\n" if path else "")
        text += f'rtt = "{draw.choice([30, 45, 80])}ms"\nstart = "{draw.randrange(0, 1500)}ms"\n' + some(APPS, 0.5)
        text += some(('protocol = "dccp"', 'protocol = "udp"', "subflows = 2", "subflows = 3"), 0.25)
    return text


def of_everything(schemes: list[str], routers: list[str], count: int) -> Iterator[tuple[str, str, bool]]:
    """Name and text of the runs. A build refuses those that combine incompatible keys."""
    for number in range(count):
        yield f"drawn {number}", scenario(number, schemes, routers), True
