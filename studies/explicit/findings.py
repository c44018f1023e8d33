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
    """A figure as it is spoken of: so many digits, of which a figure below 1 has one behind the point at the most."""
    if value is None:
        return "–"
    before = max(1, len(str(int(abs(value)))))
    return f"{value:.{max(0, digits - before)}f}"


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
        f"explicit scheme is ever short of more than {number(obeyed[most])} % of what is due ({most}). The best of "
        f"the others in its worst place is short of {number(obeyed[least])} % ({least}).",
        obeyed[most] < obeyed[least],
    )
    beaten = [
        part
        for part in FOREIGN
        if min(worst(data.shortfall[part], who) for who in OTHERS)
        < min(worst(data.shortfall[part], who) for who in EXPLICIT)
    ]
    yield Finding(
        f"Where the network is not what they believe, in {len(beaten)} of {len(FOREIGN)} parts a scheme whose rate "
        f"nobody names does better than all explicit ones: {', '.join(beaten)}.",
        len(beaten) > 0,
    )
    failing = {who: max((worst(data.shortfall[part], who), part) for part in FOREIGN) for who in EXPLICIT}
    yield Finding(
        "But each explicit scheme fails in one of them: "
        + ", ".join(f"{who} is short of {number(short)} % in {part}" for who, (short, part) in failing.items())
        + ".",
        min(short for short, _ in failing.values()) > 20,
    )
    queues = {who: max(_value(data.queue[part][who][""]) for part in ("capacity", "partial-half")) for who in EXPLICIT}
    longest = max(EXPLICIT, key=queues.__getitem__)
    yield Finding(
        f"Then the queues are full too: what an explicit scheme sends does not depend on what it meets. {longest} has "
        f"{number(queues[longest])} ms there, and {number(_value(data.queue['radio'][longest]['']))} ms on the 5G "
        "path.",
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
        "of most, which adds a segment per round trip. Explicit schemes are short of "
        f"{spread(rtt, EXPLICIT, '300ms')} %.",
        most(rtt, EXPLICIT, "300ms") < least(rtt, OTHERS, "300ms")
        and most(rtt, OTHERS, "300ms") == rtt["Prague"]["300ms"],
    )
    yield Finding(
        "What a lone explicit flow is short of is the header that its scheme adds to every packet: "
        f"{each(flows, EXPLICIT, '1')} %. Advice in padding, or in messages of its own, costs next to nothing here.",
        most(flows, EXPLICIT, "1") < 2.0,
    )
    drops, queue = data.dropped["flows"], data.queue["flows"]
    paced = ("BRF", "Nodectl", "RCP")
    yield Finding(
        "A thousand flows have a third of a packet per round trip each. Senders that pace at a rate do without a "
        f"drop ({' and '.join(paced)}). A window cannot be less than a packet: XCP drops "
        f"{number(drops['XCP']['1000'])} %, CUBIC {number(drops['CUBIC']['1000'])} %, Prague "
        f"{number(drops['Prague']['1000'])} %, BBR v3 {number(drops['BBR v3']['1000'])} %.",
        most(drops, paced, "1000") == 0.0 and _value(drops["XCP"]["1000"]) > 1.0,
    )
    yield Finding(
        f"Only RCP drains what the thousand joins have left in the queue ({number(queue['RCP']['1000'])} ms): its law "
        f"knows the queue. BRF and Nodectl hand out the whole link and keep {number(queue['BRF']['1000'])} and "
        f"{number(queue['Nodectl']['1000'])} ms.",
        min(_value(queue[who]["1000"]) for who in ("BRF", "Nodectl")) > 2 * _value(queue["RCP"]["1000"]),
    )
    yield Finding(
        "Nobody who is told a rate loses by being far away: shortfalls with unequal round-trip times are "
        f"{spread(unequal, EXPLICIT, '')} %, those of the others {spread(unequal, OTHERS, '')} %.",
        most(unequal, EXPLICIT, "") < least(unequal, OTHERS, ""),
    )


def convergence(data: Data) -> Iterable[Finding]:
    """Joins and leaves."""
    rows = data.convergence
    told = [value for who in EXPLICIT for value in rows[who].values()]
    others = [value for who in OTHERS for value in rows[who].values()]
    yield Finding(
        "Every join and leave is settled for every explicit scheme, the slowest after "
        f"{number(max(value for value in told if value is not None), 1)} round trips. Of the {len(others)} changes "
        f"that the others were given 5 s for, {sum(value is None for value in others)} were not settled.",
        all(value is not None for value in told) and any(value is None for value in others),
    )
    quick = ("BRF", "RCP")
    joins = [value for who in quick for key, value in rows[who].items() if not key.startswith("back")]
    yield Finding(
        "BRF and RCP put the first rate into the handshake: shares are fair after "
        f"{number(max(map(_value, joins)), 1)} round trip. Nodectl asks when the handshake is over, and needs one "
        "more. XCP changes windows by degrees.",
        {round(_value(value)) for value in joins} == {1}
        and {round(_value(value)) for key, value in rows["Nodectl"].items() if not key.startswith("back")} == {2},
    )
    dropped = data.dropped["join"]
    yield Finding(
        "RCP gives a newcomer the common rate before anybody else gives way. The queue takes what is too much, or "
        f"drops it: {number(dropped['RCP'][''])} % of all packets here. BRF and Nodectl, which know how many there "
        "are, drop none.",
        _value(dropped["RCP"][""]) > 0.0 and dropped["Nodectl"][""] == 0.0 and dropped["BRF"][""] == 0.0,
    )


def files(data: Data) -> Iterable[Finding]:
    """Files."""
    alone, load, mice = data.alone, data.arrivals, data.mice
    yield Finding(
        f"Asking before sending costs Nodectl a round trip: a file of 1 kB takes {number(alone['Nodectl']['1kB'])} "
        f"round trips, with all others {number(alone['CUBIC']['1kB'])}. BRF and RCP ask with the SYN, and lose "
        "nothing.",
        _value(alone["Nodectl"]["1kB"]) - _value(alone["CUBIC"]["1kB"]) > 0.9
        and _value(alone["BRF"]["1kB"]) - _value(alone["CUBIC"]["1kB"]) < 0.1,
    )
    yield Finding(
        "From about 100 kB on Nodectl has gained that back, for the others are still in slow start: 1 MB takes "
        f"{each(alone, EXPLICIT, '1MB')}; {each(alone, OTHERS, '1MB')} round trips.",
        _value(alone["Nodectl"]["100kB"]) < least(alone, OTHERS, "100kB")
        and most(alone, EXPLICIT, "1MB") < least(alone, OTHERS, "1MB"),
    )
    head = "60 %, mean"
    yield Finding(
        f"At 60 % load RCP and BRF need {number(load['RCP'][head], 3)} and {number(load['BRF'][head], 3)} times the "
        f"least possible in the mean, XCP {number(load['XCP'][head], 3)}, CUBIC {number(load['CUBIC'][head], 3)}, "
        f"Nodectl {number(load['Nodectl'][head], 3)}. At 90 % Nodectl needs "
        f"{number(load['Nodectl']['90 %, mean'], 3)}: it sets a share aside for a file from the request on until the "
        "end, and most files end before they have used it.",
        max(_value(load[who][head]) for who in ("RCP", "BRF")) < _value(load["CUBIC"][head])
        and _value(load["CUBIC"][head]) < _value(load["Nodectl"][head]),
    )
    yield Finding(
        f"The elephants pay for shares that mice do not use: they have {each(mice, EXPLICIT, 'elephants, Mbit/s')} "
        f"Mbit/s, beside {each(mice, OTHERS, 'elephants, Mbit/s')}. What the mice gain is "
        f"{number(mice['BRF']['mice, mean ms'])} ms with BRF instead of {number(mice['CUBIC']['mice, mean ms'])} with "
        "CUBIC.",
        least(mice, EXPLICIT, "elephants, Mbit/s") < least(mice, OTHERS, "elephants, Mbit/s")
        and _value(mice["BRF"]["mice, mean ms"]) < least(mice, OTHERS, "mice, mean ms"),
    )
    predicted = data.predicted
    mouse, elephant = "mice, mean ms", "elephants, Mbit/s"
    none, before = predicted["no prediction"], predicted["learned before"]
    yield Finding(
        f"Predicting first rates changes little: mice take {number(none[mouse], 3)} ms without and "
        f"{number(before[mouse], 3)} with what was learned before, and the elephants have {number(none[elephant], 3)} "
        f"and {number(before[elephant], 3)} Mbit/s. Without a prediction a flow begins with its equal share, and two "
        "round trips later it has been measured anyway.",
        abs(_value(none[mouse]) / _value(before[mouse]) - 1) < 0.05
        and abs(_value(none[elephant]) / _value(before[elephant]) - 1) < 0.05,
    )


def limited(data: Data) -> Iterable[Finding]:
    """Senders that want less."""
    rows, due = data.limited, data.limited["due"]
    bulk, on_off, delay = "bulk, Mbit/s", "on-off, Mbit/s", "steady, RTT p95, ms"
    yield Finding(
        f"Without advice a flow that wakes up finds its share gone: of {number(due[on_off])} Mbit/s the on-off flows "
        f"have {each(rows, OTHERS, on_off)}; with advice {each(rows, EXPLICIT, on_off)}.",
        most(rows, OTHERS, on_off) < least(rows, EXPLICIT, on_off),
    )
    yield Finding(
        "RCP hands out the idle rest by raising the one rate of all, so that the on-off flows wake up with too much: "
        f"the steady flows see {number(rows['RCP'][delay])} ms, and {number(rows['RCP']['dropped, %'])} % of the "
        "packets are dropped. XCP, which allots changes to packets that are there, leaves them "
        f"{number(rows['XCP'][delay])} ms, BRF and Nodectl {number(rows['BRF'][delay])}.",
        _value(rows["RCP"][delay]) > _value(rows["XCP"][delay]) > _value(rows["BRF"][delay]),
    )
    yield Finding(
        "BRF measures who falls silent and gives the share away at once: the bulk flows have "
        f"{number(rows['BRF'][bulk])} of {number(due[bulk])} Mbit/s. With Nodectl it is the sender that has to ask "
        f"for less, and it waits before it does: {number(rows['Nodectl'][bulk])}.",
        _value(rows["Nodectl"][bulk]) < 0.9 * _value(rows["BRF"][bulk]),
    )


def loss(data: Data) -> Iterable[Finding]:
    """Loss of data, and of feedback."""
    rows, before, acks = data.shortfall["loss"], data.shortfall["loss-before"], data.shortfall["feedback"]
    paced = ("BRF", "Nodectl", "RCP")
    yield Finding(
        f"A scheme that does not need loss as a signal may ignore it: with 10 % behind the queue {', '.join(paced)} "
        f"are short of {spread(rows, paced, '10%')} % of what passes. XCP halves its window as TCP does and is given "
        f"it back within a few intervals: {number(rows['XCP']['10%'])} %. BBR v3 holds until 1 % "
        f"({number(rows['BBR v3']['1%'])}) and is as lost as CUBIC at 10 ({number(rows['BBR v3']['10%'])} and "
        f"{number(rows['CUBIC']['10%'])}).",
        most(rows, paced, "10%") < 5 < _value(rows["XCP"]["10%"]) < _value(rows["BBR v3"]["10%"]),
    )
    yield Finding(
        "What is lost before the queue leaves room in it. RCP, whose rate follows what arrives, fills it again and "
        f"is short of {number(before['RCP']['10%'])} %; BRF and Nodectl give it to nobody "
        f"({number(before['BRF']['10%'])} and {number(before['Nodectl']['10%'])} %).",
        _value(before["RCP"]["10%"]) < 5 < min(_value(before["BRF"]["10%"]), _value(before["Nodectl"]["10%"])),
    )
    yield Finding(
        "Lost feedback hardly matters, because there is more of it soon, or it is asked for again: with 30 % of the "
        f"acknowledgements lost explicit schemes are short of {spread(acks, EXPLICIT, '30%')} % instead of "
        f"{spread(acks, EXPLICIT, '0%')}, some of it in handshakes.",
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
        "what they send. Goodput does not suffer, for losses are repaired and nobody else is there; whoever shared "
        "that queue would.",
        least(rows, deaf, "unknown: dropped, %") > 10,
    )
    yield Finding(
        "On the 5G path BBR v3, which measures what it gets, is short of "
        f"{number(rows['BBR v3']['5G: shortfall, %'])} %, explicit schemes of "
        f"{spread(rows, EXPLICIT, '5G: shortfall, %')} % with queues of {spread(rows, EXPLICIT, '5G: queue, ms')} ms.",
        _value(rows["BBR v3"]["5G: shortfall, %"]) < least(rows, EXPLICIT, "5G: shortfall, %"),
    )
    believers = ("BRF", "Nodectl", "RCP")
    yield Finding(
        f"One link that does not take part undoes it all, if it is the narrow one: {', '.join(believers)} send twice "
        f"its rate and lose {spread(rows, believers, 'half deployed: dropped, %')} % of their packets, for ever. XCP, "
        f"which still halves on loss, loses {number(rows['XCP']['half deployed: dropped, %'])} %, CUBIC "
        f"{number(rows['CUBIC']['half deployed: dropped, %'])} %.",
        least(rows, believers, "half deployed: dropped, %") > 40,
    )


def neighbours(data: Data) -> Iterable[Finding]:
    """CUBIC, and a deaf flow."""
    (beside, due), (deaf, owed) = data.neighbours().values()
    own = "the scheme"
    yield Finding(
        f"Of {number(due)} Mbit/s that two flows are due beside two of CUBIC, RCP has {number(beside['RCP'][own], 1)} "
        f"and XCP {number(beside['XCP'][own], 1)}: they give way to a queue that CUBIC fills. Nodectl has "
        f"{number(beside['Nodectl'][own], 1)}: it gives away what CUBIC has, and does not answer loss. BRF, which "
        f"keeps the two kinds in classes of their own, has {number(beside['BRF'][own], 1)}.",
        _value(beside["XCP"][own]) < 0.2 * due
        and _value(beside["Nodectl"][own]) > 1.8 * due
        and abs(_value(beside["BRF"][own]) - due) < 0.05 * due,
    )
    drops, queue = data.dropped["deaf"], data.queue["deaf"]
    yield Finding(
        "Beside a flow that ignores advice RCP and XCP leave it what it takes: three flows have "
        f"{number(deaf['RCP'][own])} and {number(deaf['XCP'][own])} of {number(owed)} Mbit/s, with queues of "
        f"{number(queue['RCP'][''])} and {number(queue['XCP'][''])} ms. Nodectl, as deaf as its neighbour, has "
        f"{number(deaf['Nodectl'][own])}, and all lose {number(drops['Nodectl'][''])} % of their packets. BRF has "
        f"{number(deaf['BRF'][own])}: the deaf flow fills and overruns the queue of its own class.",
        _value(deaf["BRF"][own]) > 0.97 * owed > _value(deaf["Nodectl"][own]) > _value(deaf["RCP"][own]),
    )


def dead(data: Data) -> Iterable[Finding]:
    """A switch that dies."""
    rows, due = data.dead, data.dead["due"]
    lost = ("RCP", "XCP")
    yield Finding(
        "With RCP and XCP who was there keeps what it had, and who comes later finds nothing: of "
        f"{number(due['flow 3'])} Mbit/s that the third flow is due it has {each(rows, lost, 'flow 3')}. They never "
        "learn "
        "that there is no router.",
        most(rows, lost, "flow 3") < 0.2 * _value(due["flow 3"]),
    )
    short = "shortfall, %"
    yield Finding(
        "BRF's senders notice after a second without a share, Nodectl's when after a longer silence nobody answers "
        "what "
        "they ask. Both go on as CUBIC, BRF's paced and from the rate they had, Nodectl's from an initial window: the "
        "third and "
        f"the fourth flow have {number(rows['BRF']['flow 3'])} and {number(rows['BRF']['flow 4'])} Mbit/s, "
        f"{number(rows['Nodectl']['flow 3'])} and {number(rows['Nodectl']['flow 4'])} with Nodectl; all together are "
        "short "
        f"of {number(rows['BRF'][short])} and {number(rows['Nodectl'][short])} %.",
        _value(rows["BRF"][short]) < _value(rows["Nodectl"][short]) < least(rows, lost, short),
    )


def aqm(data: Data) -> Iterable[Finding]:
    """One bit."""
    rows = data.aqm
    queue = "queue p95, ms"
    marking = [name for name in rows if "drop-tail" not in name]
    yield Finding(
        f"One bit is enough to take the queue from {number(rows['CUBIC, drop-tail'][queue])} ms to "
        f"{spread(rows, marking, queue)} ms with {spread(rows, marking, 'used, %', 3)} % of the link in use; Prague "
        f"with DualPI2 has the shortest ({number(rows['Prague, DualPI2'][queue])} ms).",
        _value(rows["Prague, DualPI2"][queue]) == least(rows, marking, queue),
    )
