"""The findings, as sentences. Their numbers come from the results, and each has a condition for its truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from contestants import ALL
from data import FAIR, Data, Figures

EXPLICIT = tuple(who.name for who in ALL if who.explicit)
OTHERS = tuple(who.name for who in ALL if not who.explicit)

CONTROLLED = ("rtt", "flows", "unequal", "join", "moving")
"""Parts in which routers know the links, and all flows obey."""
UNCONTROLLED = ("capacity", "radio", "partial-half", "coexist", "deaf", "dies")
"""Parts in which the network differs from what routers assume."""


class Finding(NamedTuple):
    """A sentence, and whether it is true."""

    text: str
    holds: bool


def number(value: float | None, digits: int = 2) -> str:
    """Format a value to `digits` digits, with at most one decimal below 1."""
    if value is None:
        return "–"
    before = max(1, len(str(int(abs(value)))))
    return f"{value:.{max(0, digits - before)}f}"


def of(data: Data) -> dict[str, list[Finding]]:
    """Return all findings, by section of the page."""
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
    """Return the greatest value of a contestant."""
    return max(_value(value) for value in figures[who].values())


def glance(data: Data) -> Iterable[Finding]:
    """Yield the findings from the overviews."""
    controlled = {who: max(worst(data.deficit[part], who) for part in CONTROLLED) for who in (*EXPLICIT, *OTHERS)}
    most = max(EXPLICIT, key=controlled.__getitem__)
    least = min(OTHERS, key=controlled.__getitem__)
    yield Finding(
        "If routers know the links and all flows obey (rtt, flows, unequal, join and moving), the deficit of explicit "
        f"schemes never exceeds {number(controlled[most])} % ({most}). Of the other schemes, {least} has the smallest "
        f"worst deficit: {number(controlled[least])} %.",
        controlled[most] < controlled[least],
    )
    beaten = [
        part
        for part in UNCONTROLLED
        if min(worst(data.deficit[part], who) for who in OTHERS)
        < min(worst(data.deficit[part], who) for who in EXPLICIT)
    ]
    yield Finding(
        f"If the network differs from what routers assume, a scheme without assigned rates beats all explicit ones in "
        f"{len(beaten)} of {len(UNCONTROLLED)} parts: {', '.join(beaten)}.",
        len(beaten) > 0,
    )
    failing = {who: max((worst(data.deficit[part], who), part) for part in UNCONTROLLED) for who in EXPLICIT}
    yield Finding(
        "Each explicit scheme fails in one of these parts. The largest deficits are "
        + ", ".join(f"{number(short)} % ({who}, {part})" for who, (short, part) in failing.items())
        + ".",
        min(short for short, _ in failing.values()) > 20,
    )
    queues = {who: max(_value(data.queue[part][who][""]) for part in ("capacity", "partial-half")) for who in EXPLICIT}
    longest = max(EXPLICIT, key=queues.__getitem__)
    yield Finding(
        "Their queues fill as well, because an explicit scheme does not react to the path. The queueing delay of "
        f"{longest} reaches {number(queues[longest])} ms, and {number(_value(data.queue['radio'][longest]['']))} ms on "
        "the 5G path.",
        queues[longest] > 30,
    )


def most(figures: Figures, names: Iterable[str], where: str) -> float:
    """Return the greatest value at a point."""
    return max(_value(figures[who][where]) for who in names)


def least(figures: Figures, names: Iterable[str], where: str) -> float:
    """Return the least value at a point."""
    return min(_value(figures[who][where]) for who in names)


def spread(figures: Figures, names: Iterable[str], where: str, digits: int = 2) -> str:
    """Format the range of values at a point."""
    names = tuple(names)
    low, high = (number(edge(figures, names, where), digits) for edge in (least, most))
    return low if low == high else f"{low} to {high}"


def each(figures: Figures, names: Iterable[str], where: str, digits: int = 2) -> str:
    """Format the values at a point, with names."""
    return ", ".join(f"{who} {number(figures[who][where], digits)}" for who in names)


def grid(data: Data) -> Iterable[Finding]:
    """Yield the findings about distance and number of flows."""
    rtt, flows, unequal = data.deficit["rtt"], data.deficit["flows"], data.deficit["unequal"]
    yield Finding(
        f"Deficits of the other schemes grow with distance: at 300 ms they are {spread(rtt, OTHERS, '300ms')} %. "
        "Prague has the largest, since it adds one segment per round trip. Those of explicit schemes are "
        f"{spread(rtt, EXPLICIT, '300ms')} %.",
        most(rtt, EXPLICIT, "300ms") < least(rtt, OTHERS, "300ms")
        and most(rtt, OTHERS, "300ms") == rtt["Prague"]["300ms"],
    )
    yield Finding(
        "The deficit of a lone explicit flow is the header that its scheme adds to every packet: "
        f"{each(flows, EXPLICIT, '1')} %. Advice in padding or in separate messages costs almost nothing here.",
        most(flows, EXPLICIT, "1") < 2.0,
    )
    drops, queue = data.dropped["flows"], data.queue["flows"]
    paced = ("BRF", "Nodectl", "RCP")
    yield Finding(
        "Each of a thousand flows may send a third of a packet per round trip. Senders that pace at a rate cause no "
        f"drops ({', '.join(paced)}). A cwnd cannot fall below one packet: XCP drops {number(drops['XCP']['1000'])} %, "
        f"CUBIC {number(drops['CUBIC']['1000'])} %, Prague {number(drops['Prague']['1000'])} %, BBR v3 "
        f"{number(drops['BBR v3']['1000'])} %.",
        most(drops, paced, "1000") == 0.0 and _value(drops["XCP"]["1000"]) > 1.0,
    )
    yield Finding(
        f"Only RCP drains the queue that the thousand joins have built ({number(queue['RCP']['1000'])} ms), because "
        "its control law includes the queue length. BRF and Nodectl assign the whole link and keep "
        f"{number(queue['BRF']['1000'])} and {number(queue['Nodectl']['1000'])} ms.",
        min(_value(queue[who]["1000"]) for who in ("BRF", "Nodectl")) > 2 * _value(queue["RCP"]["1000"]),
    )
    yield Finding(
        "Assigned rates do not depend on distance: with unequal round-trip times the deficits of explicit schemes are "
        f"{spread(unequal, EXPLICIT, '')} %, those of the other schemes {spread(unequal, OTHERS, '')} %.",
        most(unequal, EXPLICIT, "") < least(unequal, OTHERS, ""),
    )


def convergence(data: Data) -> Iterable[Finding]:
    """Yield the findings about joins and leaves."""
    rows = data.convergence
    explicit = [value for who in EXPLICIT for value in rows[who].values()]
    others = [value for who in OTHERS for value in rows[who].values()]
    yield Finding(
        "Explicit schemes converge after every join and leave, within "
        f"{number(max(value for value in explicit if value is not None), 1)} round trips. Of the {len(others)} changes "
        f"of the other schemes, {sum(value is None for value in others)} did not converge in 5 s.",
        all(value is not None for value in explicit) and any(value is None for value in others),
    )
    quick = ("BRF", "RCP")
    joins = [value for who in quick for key, value in rows[who].items() if not key.startswith("back")]
    yield Finding(
        "BRF and RCP put the first rate into the handshake: shares are fair after "
        f"{number(max(map(_value, joins)), 1)} round trip. Nodectl requests a rate after the handshake, and needs one "
        "more. XCP changes each cwnd gradually.",
        {round(_value(value)) for value in joins} == {1}
        and {round(_value(value)) for key, value in rows["Nodectl"].items() if not key.startswith("back")} == {2},
    )
    dropped = data.dropped["join"]
    yield Finding(
        "RCP gives a new flow the common rate before the others slow down. The queue absorbs or drops the excess: "
        f"{number(dropped['RCP'][''])} % of all packets here. BRF and Nodectl know the number of flows and drop none.",
        _value(dropped["RCP"][""]) > 0.0 and dropped["Nodectl"][""] == 0.0 and dropped["BRF"][""] == 0.0,
    )


def files(data: Data) -> Iterable[Finding]:
    """Yield the findings about files."""
    alone, load, mice = data.alone, data.arrivals, data.mice
    yield Finding(
        f"Nodectl's request before the first data costs a round trip: a file of 1 kB takes "
        f"{number(alone['Nodectl']['1kB'])} round trips, with all others {number(alone['CUBIC']['1kB'])}. BRF and RCP "
        "request a rate with the SYN, at no cost.",
        _value(alone["Nodectl"]["1kB"]) - _value(alone["CUBIC"]["1kB"]) > 0.9
        and _value(alone["BRF"]["1kB"]) - _value(alone["CUBIC"]["1kB"]) < 0.1,
    )
    yield Finding(
        "From about 100 kB on Nodectl has recovered that cost, because the other schemes are still in slow start. In "
        f"round trips, 1 MB takes {each(alone, EXPLICIT, '1MB')}, and {each(alone, OTHERS, '1MB')}.",
        _value(alone["Nodectl"]["100kB"]) < least(alone, OTHERS, "100kB")
        and most(alone, EXPLICIT, "1MB") < least(alone, OTHERS, "1MB"),
    )
    head = "60 %, mean"
    yield Finding(
        f"At 60 % load the mean slowdown is {number(load['RCP'][head], 3)} with RCP, {number(load['BRF'][head], 3)} "
        f"with BRF, {number(load['XCP'][head], 3)} with XCP, {number(load['CUBIC'][head], 3)} with CUBIC and "
        f"{number(load['Nodectl'][head], 3)} with Nodectl. At 90 % load that of Nodectl is "
        f"{number(load['Nodectl']['90 %, mean'], 3)}: it reserves a share for a file from the request to the end, and "
        "most files end before they have used it.",
        max(_value(load[who][head]) for who in ("RCP", "BRF")) < _value(load["CUBIC"][head])
        and _value(load["CUBIC"][head]) < _value(load["Nodectl"][head]),
    )
    yield Finding(
        "Shares that mice reserve but do not use reduce the goodput of the elephants: in Mbit/s, it is "
        f"{each(mice, EXPLICIT, 'elephants, Mbit/s')}, and {each(mice, OTHERS, 'elephants, Mbit/s')}. In return, mice "
        f"take {number(mice['BRF']['mice, mean ms'])} ms with BRF, and {number(mice['CUBIC']['mice, mean ms'])} ms "
        "with CUBIC.",
        least(mice, EXPLICIT, "elephants, Mbit/s") < least(mice, OTHERS, "elephants, Mbit/s")
        and _value(mice["BRF"]["mice, mean ms"]) < least(mice, OTHERS, "mice, mean ms"),
    )
    predicted = data.predicted
    mouse, elephant = "mice, mean ms", "elephants, Mbit/s"
    none, before = predicted["no prediction"], predicted["learned before"]
    yield Finding(
        f"Predicted first rates change little: mice take {number(none[mouse], 3)} ms without prediction and "
        f"{number(before[mouse], 3)} ms with earlier learning, and the elephants have {number(none[elephant], 3)} and "
        f"{number(before[elephant], 3)} Mbit/s. Without a prediction a flow begins with an equal share, and two round "
        "trips later the router has measured it anyway.",
        abs(_value(none[mouse]) / _value(before[mouse]) - 1) < 0.05
        and abs(_value(none[elephant]) / _value(before[elephant]) - 1) < 0.05,
    )


def limited(data: Data) -> Iterable[Finding]:
    """Yield the findings about application-limited senders."""
    rows, fair = data.limited, data.limited[FAIR]
    bulk, on_off, delay = "bulk, Mbit/s", "on-off, Mbit/s", "steady, RTT p95, ms"
    yield Finding(
        f"Without advice a resuming flow has lost its share: of their fair {number(fair[on_off])} Mbit/s the on-off "
        f"flows have {each(rows, OTHERS, on_off)}; with advice {each(rows, EXPLICIT, on_off)}.",
        most(rows, OTHERS, on_off) < least(rows, EXPLICIT, on_off),
    )
    yield Finding(
        "RCP distributes idle capacity by raising the common rate, so the on-off flows resume too fast: the steady "
        f"flows see {number(rows['RCP'][delay])} ms, and {number(rows['RCP']['dropped, %'])} % of the packets are "
        "dropped. XCP assigns changes to present packets, and the steady flows see "
        f"{number(rows['XCP'][delay])} ms; with BRF and Nodectl {number(rows['BRF'][delay])} ms.",
        _value(rows["RCP"][delay]) > _value(rows["XCP"][delay]) > _value(rows["BRF"][delay]),
    )
    yield Finding(
        "BRF detects idle flows and reassigns their shares at once: the bulk flows have "
        f"{number(rows['BRF'][bulk])} of {number(fair[bulk])} Mbit/s. With Nodectl the sender requests less, after a "
        f"delay: {number(rows['Nodectl'][bulk])} Mbit/s.",
        _value(rows["Nodectl"][bulk]) < 0.9 * _value(rows["BRF"][bulk]),
    )


def loss(data: Data) -> Iterable[Finding]:
    """Yield the findings about loss of data and of feedback."""
    rows, before, acks = data.deficit["loss"], data.deficit["loss-before"], data.deficit["feedback"]
    paced = ("BRF", "Nodectl", "RCP")
    yield Finding(
        "Schemes that do not use loss as a signal can ignore it: with 10 % loss behind the queue the deficits of "
        f"{', '.join(paced)} are {spread(rows, paced, '10%')} %. XCP halves its cwnd as TCP does, and routers restore "
        f"it within a few intervals: {number(rows['XCP']['10%'])} %. BBR v3 withstands 1 % "
        f"({number(rows['BBR v3']['1%'])}), and fails like CUBIC at 10 % ({number(rows['BBR v3']['10%'])} and "
        f"{number(rows['CUBIC']['10%'])}).",
        most(rows, paced, "10%") < 5 < _value(rows["XCP"]["10%"]) < _value(rows["BBR v3"]["10%"]),
    )
    yield Finding(
        "Loss before the queue leaves capacity idle. RCP's rate follows the arrivals and uses it, with a deficit of "
        f"{number(before['RCP']['10%'])} %. BRF and Nodectl assign it to no flow "
        f"({number(before['BRF']['10%'])} and {number(before['Nodectl']['10%'])} %).",
        _value(before["RCP"]["10%"]) < 5 < min(_value(before["BRF"]["10%"]), _value(before["Nodectl"]["10%"])),
    )
    yield Finding(
        "Lost feedback has little effect, because more follows soon, or the sender requests it again: with 30 % of the "
        f"acknowledgements lost the deficits of explicit schemes are {spread(acks, EXPLICIT, '30%')} % instead of "
        f"{spread(acks, EXPLICIT, '0%')} %, some of it in handshakes.",
        most(acks, EXPLICIT, "30%") < 10,
    )


def moving(data: Data) -> Iterable[Finding]:
    """Yield the findings about changing capacity."""
    rows = data.moving
    deficit = {name: f"{name}: deficit, %" for name in ("moves", "5G")}
    yield Finding(
        "A bottleneck that moves between known links is no difficulty: deficits are "
        f"{spread(rows, EXPLICIT, deficit['moves'])} %, those of the other schemes "
        f"{spread(rows, OTHERS, deficit['moves'])} %.",
        most(rows, EXPLICIT, deficit["moves"]) < least(rows, OTHERS, deficit["moves"]),
    )
    unresponsive = ("Nodectl", "RCP")
    yield Finding(
        "An unknown capacity is one. Configured with the mean, twice the real capacity, RCP and Nodectl keep the queue "
        f"full ({spread(rows, unresponsive, 'unknown: queue, ms')} ms) and lose "
        f"{spread(rows, unresponsive, 'unknown: dropped, %')} % of their packets. Goodput does not suffer, since lost "
        "packets are retransmitted and no other flow shares the queue.",
        least(rows, unresponsive, "unknown: dropped, %") > 10,
    )
    yield Finding(
        f"On the 5G path BBR v3 measures its rate and has a deficit of {number(rows['BBR v3'][deficit['5G']])} %. "
        f"Explicit schemes have {spread(rows, EXPLICIT, deficit['5G'])} %, with queues of "
        f"{spread(rows, EXPLICIT, '5G: queue, ms')} ms.",
        _value(rows["BBR v3"][deficit["5G"]]) < least(rows, EXPLICIT, deficit["5G"]),
    )
    paced = ("BRF", "Nodectl", "RCP")
    yield Finding(
        f"A single bottleneck that does not participate is enough: {', '.join(paced)} send at twice its rate and lose "
        f"{spread(rows, paced, 'half deployed: dropped, %')} % of their packets permanently. XCP still halves its cwnd "
        f"on loss and loses {number(rows['XCP']['half deployed: dropped, %'])} %, CUBIC "
        f"{number(rows['CUBIC']['half deployed: dropped, %'])} %.",
        least(rows, paced, "half deployed: dropped, %") > 40,
    )


def neighbours(data: Data) -> Iterable[Finding]:
    """Yield the findings about competing CUBIC flows and an unresponsive flow."""
    (beside, fair), (unresponsive, fair_three) = data.neighbours().values()
    own = "the scheme"
    yield Finding(
        f"Beside two flows of CUBIC, two flows have a fair share of {number(fair)} Mbit/s. RCP has "
        f"{number(beside['RCP'][own], 1)} and XCP {number(beside['XCP'][own], 1)}: they yield to a queue that CUBIC "
        f"fills. Nodectl has {number(beside['Nodectl'][own], 1)}: it assigns the share of CUBIC too, and ignores loss. "
        f"BRF separates the two kinds by class and has {number(beside['BRF'][own], 1)}.",
        _value(beside["XCP"][own]) < 0.2 * fair
        and _value(beside["Nodectl"][own]) > 1.8 * fair
        and abs(_value(beside["BRF"][own]) - fair) < 0.05 * fair,
    )
    drops, queue = data.dropped["deaf"], data.queue["deaf"]
    yield Finding(
        "RCP and XCP yield to an unresponsive flow: three flows have "
        f"{number(unresponsive['RCP'][own])} and {number(unresponsive['XCP'][own])} of {number(fair_three)} Mbit/s, "
        f"with queues of {number(queue['RCP'][''])} and {number(queue['XCP'][''])} ms. Nodectl does not respond either "
        f"and has {number(unresponsive['Nodectl'][own])}, and all flows lose {number(drops['Nodectl'][''])} % of their "
        f"packets. BRF has {number(unresponsive['BRF'][own])}: the unresponsive flow overloads the queue of its own "
        "class only.",
        _value(unresponsive["BRF"][own])
        > 0.97 * fair_three
        > _value(unresponsive["Nodectl"][own])
        > _value(unresponsive["RCP"][own]),
    )


def dead(data: Data) -> Iterable[Finding]:
    """Yield the findings about a switch that fails."""
    rows, fair = data.dead, data.dead[FAIR]
    lost = ("RCP", "XCP")
    yield Finding(
        "With RCP and XCP present flows keep their rates, and later flows receive almost nothing: of its fair "
        f"{number(fair['flow 3'])} Mbit/s the third flow has {each(rows, lost, 'flow 3')}. Senders never detect that "
        "the router is gone.",
        most(rows, lost, "flow 3") < 0.2 * _value(fair["flow 3"]),
    )
    short = "deficit, %"
    yield Finding(
        "BRF's senders detect the failure after a second without a share. Nodectl's detect it when their requests stay "
        "unanswered, which takes longer. Both continue as CUBIC, BRF's paced and from their last rate, Nodectl's from "
        f"an initial window. The third and the fourth flow have {number(rows['BRF']['flow 3'])} and "
        f"{number(rows['BRF']['flow 4'])} Mbit/s with BRF, {number(rows['Nodectl']['flow 3'])} and "
        f"{number(rows['Nodectl']['flow 4'])} with Nodectl, and the deficits are {number(rows['BRF'][short])} and "
        f"{number(rows['Nodectl'][short])} %.",
        _value(rows["BRF"][short]) < _value(rows["Nodectl"][short]) < least(rows, lost, short),
    )


def aqm(data: Data) -> Iterable[Finding]:
    """Yield the findings about ECN, whose feedback is one bit."""
    rows = data.aqm
    queue = "queue p95, ms"
    marking = [name for name in rows if "drop-tail" not in name]
    yield Finding(
        f"One bit reduces the queue from {number(rows['CUBIC, drop-tail'][queue])} ms to "
        f"{spread(rows, marking, queue)} ms, with a utilisation of {spread(rows, marking, 'used, %', 3)} %. Prague "
        f"with DualPI2 has the shortest queue ({number(rows['Prague, DualPI2'][queue])} ms).",
        _value(rows["Prague, DualPI2"][queue]) == least(rows, marking, queue),
    )
