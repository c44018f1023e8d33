"""What was found, in sentences. Their numbers come from the results, and each says under which condition it is true."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from contestants import ALL
from data import Data, Figures

EXPLICIT = tuple(who.name for who in ALL if who.explicit)
OTHERS = tuple(who.name for who in ALL if not who.explicit)

OBEYING = ("rtt", "flows", "unequal", "join", "moving")
"""Parts in which allocators know the links, and everybody listens."""
FOREIGN = ("capacity", "radio", "partial-half", "coexist", "deaf", "dies")
"""Parts in which the network is not what allocators believe."""


class Finding(NamedTuple):
    """A sentence, and whether it is true."""

    text: str
    holds: bool


def number(value: float | None, digits: int = 2) -> str:
    """A figure as it is spoken of: so many digits, or whole if it is large."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits - 1}f}"


def of(data: Data) -> dict[str, list[Finding]]:
    """All findings, by the section of the page."""
    sections: dict[str, Callable[[Data], Iterable[Finding]]] = {
        "glance": glance,
        "grid": grid,
        "convergence": convergence,
        "files": files,
        "limited": limited,
        "loss": loss,
        "moving": moving,
        "neighbours": neighbours,
        "dead": dead,
        "aqm": aqm,
    }
    return {name: list(section(data)) for name, section in sections.items()}


def _value(value: float | None) -> float:
    assert value is not None
    return value


def worst(figures: Figures, who: str) -> float:
    """The greatest of a contestant's figures."""
    return max(_value(value) for value in figures[who].values())


def glance(data: Data) -> Iterable[Finding]:
    """The overviews."""
    obeyed = {who: max(worst(data.shortfall[part], who) for part in OBEYING) for who in (*EXPLICIT, *OTHERS)}
    most = max(EXPLICIT, key=obeyed.__getitem__)
    least = min(OTHERS, key=obeyed.__getitem__)
    yield Finding(
        "Where allocators know the links and everybody listens (all of rtt, flows, unequal, join and moving), no "
        "explicit "
        f"scheme is ever short of more than {number(obeyed[most])} % of what is due ({most}). The best of the others "
        "in its "
        f"worst place is short of {number(obeyed[least])} % ({least}).",
        obeyed[most] < obeyed[least],
    )
    beaten = [
        part
        for part in FOREIGN
        if min(worst(data.shortfall[part], who) for who in OTHERS)
        < min(worst(data.shortfall[part], who) for who in EXPLICIT)
    ]
    yield Finding(
        f"Where the network is not what they believe, in {len(beaten)} of {len(FOREIGN)} parts a scheme that is told "
        "nothing does "
        f"better than all explicit ones: {', '.join(beaten)}.",
        len(beaten) > 0,
    )
    queues = {who: max(_value(data.queue[part][who][""]) for part in ("capacity", "partial-half")) for who in EXPLICIT}
    longest = max(EXPLICIT, key=queues.__getitem__)
    yield Finding(
        "Then the queues are full too: what an explicit scheme sends does not depend on what it meets. "
        f"{longest} has {number(queues[longest])} ms there, and {number(_value(data.queue['radio'][longest]['']))} ms "
        "on "
        "the 5G path.",
        queues[longest] > 30,
    )


def most(figures: Figures, names: Iterable[str], where: str) -> float:
    """The greatest figure at a place."""
    return max(_value(figures[who][where]) for who in names)


def least(figures: Figures, names: Iterable[str], where: str) -> float:
    """The least figure at a place."""
    return min(_value(figures[who][where]) for who in names)


def spread(figures: Figures, names: Iterable[str], where: str, digits: int = 2) -> str:
    """From the least to the greatest figure at a place."""
    names = tuple(names)
    low, high = (number(edge(figures, names, where), digits) for edge in (least, most))
    return low if low == high else f"{low} to {high}"


def each(figures: Figures, names: Iterable[str], where: str, digits: int = 2) -> str:
    """The figures at a place, with their names."""
    return ", ".join(f"{who} {number(figures[who][where], digits)}" for who in names)


def grid(data: Data) -> Iterable[Finding]:
    """Distance and numbers."""
    rtt, flows, unequal = data.shortfall["rtt"], data.shortfall["flows"], data.shortfall["unequal"]
    yield Finding(
        f"With distance the others fall behind: at 300 ms they are short of {spread(rtt, OTHERS, '300ms')} %, Prague "
        "of most, "
        f"which adds a segment per round trip. Explicit schemes are short of {spread(rtt, EXPLICIT, '300ms')} %.",
        most(rtt, EXPLICIT, "300ms") < least(rtt, OTHERS, "300ms")
        and most(rtt, OTHERS, "300ms") == rtt["Prague"]["300ms"],
    )
    yield Finding(
        "What a lone explicit flow is short of is the header that its scheme adds to every packet: "
        f"{each(flows, EXPLICIT, '1')} %. Advice that travels in acknowledgements or in messages of its own costs "
        "nothing here.",
        most(flows, EXPLICIT, "1") < 2.0,
    )
    drops, queue = data.dropped["flows"], data.queue["flows"]
    yield Finding(
        "A thousand flows have a third of a packet per round trip each. Senders that pace at a rate do not notice: "
        "RCP drops "
        f"{number(drops['RCP']['1000'], 1)} %, Nodectl {number(drops['Nodectl']['1000'], 1)} %. A window cannot be "
        "less than a "
        f"packet: XCP fills the buffer ({number(queue['XCP']['1000'])} ms) and drops {number(drops['XCP']['1000'])} "
        "%, CUBIC "
        f"drops {number(drops['CUBIC']['1000'])} %, Prague {number(drops['Prague']['1000'])} %, BBR v3 "
        f"{number(drops['BBR v3']['1000'])} %.",
        max(_value(drops[who]["1000"]) for who in ("RCP", "Nodectl")) == 0.0 and _value(drops["XCP"]["1000"]) > 1.0,
    )
    yield Finding(
        "Nobody who is told a rate loses by being far away: shortfalls with unequal round-trip times are "
        f"{spread(unequal, EXPLICIT, '')} %, those of the others {spread(unequal, OTHERS, '')} %.",
        most(unequal, EXPLICIT, "") < least(unequal, OTHERS, ""),
    )


def times(row: dict[str, float | None], word: str) -> str:
    """The figures of a row whose names begin with a word, as a list."""
    return ", ".join(number(value, 1) for key, value in row.items() if key.startswith(word) == (word == "back"))


def convergence(data: Data) -> Iterable[Finding]:
    """Joins and leaves."""
    rows = data.convergence
    told = [value for who in EXPLICIT for value in rows[who].values()]
    others = [value for who in OTHERS for value in rows[who].values()]
    yield Finding(
        "Every join and leave is settled for every explicit scheme, the slowest after "
        f"{number(max(value for value in told if value is not None), 1)} round trips. Of the {len(others)} changes "
        "that the "
        f"others were given 5 s for, {sum(value is None for value in others)} were not settled.",
        all(value is not None for value in told) and any(value is None for value in others),
    )
    joins = {who: [value for key, value in rows[who].items() if not key.startswith("back")] for who in EXPLICIT}
    yield Finding(
        "After a join: "
        + "; ".join(f"{who} {', '.join(number(value, 1) for value in joins[who])}" for who in EXPLICIT)
        + " round trips.",
        True,
    )
    dropped = data.dropped["join"]
    yield Finding(
        "RCP is fast because a newcomer is given the common rate before anybody gives way; the queue takes what is "
        "too much, "
        f"or drops it ({number(dropped['RCP'][''])} % of all packets here). Nodectl tells the others to reduce before "
        "it answers, "
        f"and drops {number(dropped['Nodectl'][''], 1)}.",
        _value(dropped["RCP"][""]) > 0.0 and dropped["Nodectl"][""] == 0.0,
    )


def files(data: Data) -> Iterable[Finding]:
    """Files."""
    alone, load, mice = data.alone, data.arrivals, data.mice
    yield Finding(
        f"Asking before sending costs Nodectl a round trip: a file of 1 kB takes {number(alone['Nodectl']['1kB'])} "
        "round trips, "
        f"with all others {number(alone['CUBIC']['1kB'])}. RCP asks with the SYN, and loses nothing.",
        _value(alone["Nodectl"]["1kB"]) - _value(alone["CUBIC"]["1kB"]) > 0.9,
    )
    yield Finding(
        "It gains that back from about 100 kB on, when others are still in slow start: 1 MB takes "
        f"{each(alone, EXPLICIT, '1MB')}, "
        f"and {each(alone, OTHERS, '1MB')} round trips.",
        most(alone, EXPLICIT, "1MB") < least(alone, OTHERS, "1MB"),
    )
    yield Finding(
        f"At 60 % load RCP needs {number(load['RCP']['60 %, mean'], 3)} times the least possible in the mean, CUBIC "
        f"{number(load['CUBIC']['60 %, mean'], 3)}, Nodectl {number(load['Nodectl']['60 %, mean'], 3)}. At 90 % "
        "Nodectl needs "
        f"{number(load['Nodectl']['90 %, mean'], 3)}: it sets a share aside for a file from the request on until it "
        "ends, and most "
        "files end before they have used it.",
        _value(load["RCP"]["60 %, mean"]) < _value(load["CUBIC"]["60 %, mean"]) < _value(load["Nodectl"]["60 %, mean"]),
    )
    yield Finding(
        "The elephants pay for shares that mice do not use: they have "
        f"{each(mice, EXPLICIT, 'elephants, Mbit/s')} Mbit/s, beside {each(mice, OTHERS, 'elephants, Mbit/s')}.",
        least(mice, EXPLICIT, "elephants, Mbit/s") < least(mice, OTHERS, "elephants, Mbit/s"),
    )


def limited(data: Data) -> Iterable[Finding]:
    """Senders that want less."""
    rows, due = data.limited, data.limited["due"]
    bulk, on_off, delay = "bulk, Mbit/s", "on-off, Mbit/s", "steady, RTT p95, ms"
    yield Finding(
        "Nodectl does not take back what is not used: the two bulk flows have "
        f"{number(rows['Nodectl'][bulk])} of {number(due[bulk])} Mbit/s, and "
        f"{number(rows['Nodectl']['bulk if told, Mbit/s'])} if the "
        "steady senders say what they want.",
        _value(rows["Nodectl"][bulk]) < 0.6 * _value(due[bulk]),
    )
    yield Finding(
        "RCP hands out the idle rest by raising the one rate of all, so that the on-off flows wake up with too much: "
        "the steady "
        f"flows see {number(rows['RCP'][delay])} ms, and {number(rows['RCP']['dropped, %'])} % of the packets are "
        "dropped. XCP, which "
        f"allots changes to packets that are there, leaves them {number(rows['XCP'][delay])} ms.",
        _value(rows["RCP"][delay]) > _value(rows["XCP"][delay]),
    )
    yield Finding(
        f"Without advice a flow that wakes up finds its share gone: of {number(due[on_off])} Mbit/s the on-off flows "
        "have "
        f"{each(rows, OTHERS, on_off)}; with it {each(rows, EXPLICIT, on_off)}.",
        most(rows, OTHERS, on_off) < least(rows, EXPLICIT, on_off),
    )


def loss(data: Data) -> Iterable[Finding]:
    """Loss of data, and of feedback."""
    rows, acks = data.shortfall["loss"], data.shortfall["feedback"]
    yield Finding(
        "A scheme that does not need loss as a signal may ignore it: at 10 % RCP and Nodectl are short of "
        f"{number(rows['RCP']['10%'])} and {number(rows['Nodectl']['10%'])} % of what passes. XCP halves its window "
        "as TCP does and is "
        f"given it back within a few intervals: {number(rows['XCP']['10%'])} %. BBR v3 holds until 1 % "
        f"({number(rows['BBR v3']['1%'])}) "
        f"and is as lost as CUBIC at 10 ({number(rows['BBR v3']['10%'])} and {number(rows['CUBIC']['10%'])}).",
        max(_value(rows[who]["10%"]) for who in ("RCP", "Nodectl"))
        < 5
        < _value(rows["XCP"]["10%"])
        < _value(rows["BBR v3"]["10%"]),
    )
    yield Finding(
        "Lost feedback hardly matters, because there is more of it soon: with 30 % of the acknowledgements lost "
        "explicit schemes are "
        f"short of {spread(acks, EXPLICIT, '30%')} % instead of {spread(acks, EXPLICIT, '0%')}.",
        most(acks, EXPLICIT, "30%") < 10,
    )


def moving(data: Data) -> Iterable[Finding]:
    """Capacity."""
    rows = data.moving
    yield Finding(
        "A bottleneck that moves between links that are known is no difficulty: shortfalls are "
        f"{spread(rows, EXPLICIT, 'moves: shortfall, %')} %, those of the others "
        f"{spread(rows, OTHERS, 'moves: shortfall, %')} %.",
        most(rows, EXPLICIT, "moves: shortfall, %") < least(rows, OTHERS, "moves: shortfall, %"),
    )
    deaf = ("Nodectl", "RCP")
    yield Finding(
        "A capacity that is not known is: told the mean, twice what there is, RCP and Nodectl keep the queue full "
        f"({spread(rows, deaf, 'unknown: queue, ms')} ms) and lose {spread(rows, deaf, 'unknown: dropped, %')} % of "
        "what they send. Goodput does "
        "not suffer, for losses are repaired and nobody else is there; whoever shared that queue would.",
        least(rows, deaf, "unknown: dropped, %") > 10,
    )
    yield Finding(
        "On the 5G path BBR v3, which measures what it gets, is short of "
        f"{number(rows['BBR v3']['5G: shortfall, %'])} %, explicit "
        f"schemes of {spread(rows, EXPLICIT, '5G: shortfall, %')} % with queues of "
        f"{spread(rows, EXPLICIT, '5G: queue, ms')} ms.",
        _value(rows["BBR v3"]["5G: shortfall, %"]) < least(rows, EXPLICIT, "5G: shortfall, %"),
    )
    yield Finding(
        "One link that does not take part undoes it all, if it is the narrow one: RCP and Nodectl send twice its rate "
        "and lose "
        f"{spread(rows, deaf, 'half deployed: dropped, %')} % of their packets, for ever. XCP, which still halves on "
        "loss, loses "
        f"{number(rows['XCP']['half deployed: dropped, %'])} %, CUBIC "
        f"{number(rows['CUBIC']['half deployed: dropped, %'])} %.",
        least(rows, deaf, "half deployed: dropped, %") > 40,
    )


def neighbours(data: Data) -> Iterable[Finding]:
    """CUBIC, and a deaf flow."""
    panels = list(data.neighbours().values())
    (beside, due), (deaf, owed) = panels
    yield Finding(
        f"Of {number(due)} Mbit/s that two flows are due beside two of CUBIC, RCP has "
        f"{number(beside['RCP']['the scheme'], 1)} and XCP "
        f"{number(beside['XCP']['the scheme'], 1)}: they give way to a queue that CUBIC fills. Nodectl has "
        f"{number(beside['Nodectl']['the scheme'], 1)}: it gives away what CUBIC has, and does not answer loss.",
        _value(beside["XCP"]["the scheme"]) < 0.2 * due and _value(beside["Nodectl"]["the scheme"]) > 1.8 * due,
    )
    yield Finding(
        "Beside a flow that ignores advice RCP and XCP leave it everything it takes: three flows have "
        f"{number(deaf['RCP']['the scheme'])} and {number(deaf['XCP']['the scheme'])} of {number(owed)} Mbit/s, "
        "without a queue or nearly. "
        f"Nodectl, as deaf as its neighbour, has {number(deaf['Nodectl']['the scheme'])}, and all lose "
        f"{number(data.dropped['deaf']['Nodectl'][''])} % of their packets.",
        _value(deaf["Nodectl"]["the scheme"]) > _value(deaf["RCP"]["the scheme"]),
    )


def dead(data: Data) -> Iterable[Finding]:
    """A switch that dies."""
    rows, due = data.dead, data.dead["due"]
    yield Finding(
        "Who was there keeps what it had, and who comes later finds nothing: of "
        f"{number(due['flow 3'])} Mbit/s that the third flow is due it has {each(rows, EXPLICIT, 'flow 3')}. RCP and "
        "XCP never learn that "
        "there is no router; Nodectl asks in vain and becomes CUBIC, beside flows that do not answer loss.",
        max(_value(rows[who]["flow 3"]) for who in ("Nodectl", "RCP", "XCP")) < 0.5 * _value(due["flow 3"]),
    )


def aqm(data: Data) -> Iterable[Finding]:
    """One bit."""
    rows = data.aqm
    queue = "queue p95, ms"
    marking = [name for name in rows if "drop-tail" not in name]
    yield Finding(
        f"One bit is enough to take the queue from {number(rows['CUBIC, drop-tail'][queue])} ms to "
        f"{spread(rows, marking, queue)} ms with {spread(rows, marking, 'used, %', 3)} % of the link in use; Prague "
        "with DualPI2 has the "
        f"shortest ({number(rows['Prague, DualPI2'][queue])} ms).",
        _value(rows["Prague, DualPI2"][queue]) == least(rows, marking, queue),
    )
