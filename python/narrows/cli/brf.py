"""`narrows brf`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from narrows import hosts, quantities
from narrows.arguments import pairs
from narrows.cli.numbers import parameters, whole
from narrows.cli.outcome import borderless, guarded, print_table
from narrows.errors import Stopped, UsageError
from narrows.records import Attached, BrfSwitch, SwitchSettings
from narrows.supervision import undivided

app = typer.Typer(
    name="brf",
    help="Let switches set the rates of connections (BRF): on hosts `attach`, on the bottleneck `switch`.",
    no_args_is_help=True,
)


@app.command()
@guarded
def attach(
    cgroup: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Select the connections of a cgroup (version 2). Default: all of this host."),
    ] = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt/--no-adopt",
            help="Give every connection that begins here the scheme, or only let connections choose it.",
        ),
    ] = True,
    limit: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Make receivers of this host ask for at most this rate, headers included."),
    ] = None,
    sets: Annotated[list[str] | None, parameters("scheme")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and print what would be done, and do nothing.")
    ] = False,
) -> None:
    """Attach BRF to this host as root: senders obey the rates in acknowledgements, receivers make room for them.

    It stays until `detach` or a restart. Servers that listened before answer offers only after they listen again.
    """
    values = pairs(sets or [])
    most = None if limit is None else quantities.rate(limit, "--limit")
    if most is not None and most * 125_000 < 1:
        raise UsageError(f"--limit: {limit!r} is less than a byte per second; accepted: 8bit or more")
    with undivided() as signals:
        done = hosts.attach_brf(cgroup, adopt, most, values, dry_run)
        if signals:
            undo = "" if dry_run else f"; brf is attached to {done['cgroup']}: undo with `narrows brf detach`"
            raise Stopped(f"stopped{undo}", signals[0])
        _print_attached(done, dry_run)


def _print_attached(done: Attached, dry_run: bool) -> None:
    """Print the outcome of `attach`, or its plan."""
    would = "would " if dry_run else ""
    if done["loads"]:
        print(f"{would}load{'' if dry_run else 'ed'} the scheme `{done['scheme']}`")
    print(f"{would}attach{'' if dry_run else 'ed'} to {done['cgroup']} (link {done['link']})")
    who = "connections that begin there" if done["adopts"] else "connections that choose it"
    print(f"{who} {'would ' if dry_run else ''}use the scheme; undo with `narrows brf detach`")


@app.command()
@guarded
def detach(
    cgroup: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Select the attachment of a cgroup. Default: all.")
    ] = None,
) -> None:
    """Detach BRF from this host as root, and remove what killed switches left on its ports.

    Open connections go on without rates, as CUBIC does. A switch that runs is ended with Ctrl-C in its terminal.
    """
    with undivided() as signals:
        lines = hosts.detach_brf(cgroup)
        if cgroup is None:
            lines += [f"removed what a killed switch left on {port}" for port in hosts.clean_brf_switches()]
        for line in lines:
            print(line)
        if not lines:
            print("nothing is attached")
        if signals:
            raise Stopped("stopped, after all of it was detached", signals[0])


#: Counters of `hosts.brf_status`, and their meaning.
COUNTERS = {
    "sockets": "connections that use the scheme now",
    "opened": "connections that ever did",
    "adopted": "of these, given the scheme by `attach`",
    "offered": "SYNs that offered to obey",
    "accepted": "connections of receivers whose SYN did",
    "written": "SYN-ACKs and acknowledgements with room for a rate",
    "read": "rates read",
    "unlimited": "acknowledgements that no switch wrote into",
    "advised": "rates followed",
    "invalid": "rates of zero, above the line rate, or beyond what the path carries, ignored",
    "stale": "rates in overtaken acknowledgements, ignored",
    "fallbacks": "times that a connection became CUBIC: no rates came, or the path did not carry them",
    "errors": "steps that the kernel refused",
}


@app.command()
@guarded
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object, and nothing else.")] = False,
) -> None:
    """Show where BRF is attached on this host, and what its switches and hosts did since."""
    found = hosts.brf_status()
    switches = hosts.brf_switches()
    if as_json:
        print(json.dumps(found | {"switches": switches}))
        return
    for switch in switches:
        _print_switch(switch)
    for own in found["attachments"]:
        place = own["cgroup"] or f"cgroup {own['id']}, which was removed"
        print(f"attached to {place}{' for all connections that begin there' if own['adopts'] else ''}")
    if not found["loaded"]:
        if found["attachments"]:
            print("the scheme is gone, so nothing is paced; accepted: `narrows brf detach`, then attach again")
        elif not switches:
            print("nothing is attached")
        return
    if not found["attachments"]:
        print("the scheme is loaded (`narrows kernel load`), and attached nowhere")
    table = borderless(("counter", "value", ""), left=("counter", ""))
    for name, meaning in COUNTERS.items():
        table.add_row(name, str(found[name]), meaning)
    print_table(table)


#: Names of a switch's counters whose keys are unclear.
SWITCH_COUNTERS = {"refused": "refused flows", "lost": "lost events", "acks": "reverse ACK bytes", "udp": "UDP packets"}


def _print_switch(switch: BrfSwitch) -> None:
    """Print the latest report of a switch: classes, flows and counters."""
    state = "runs" if switch["runs"] else "was killed (`narrows brf detach` removes it)"
    print(f"switch on {', '.join(switch['ports'])}: process {switch['process']} {state}")
    report = switch["report"]
    if report is None:
        return
    print(
        f"{report['rate_mbit_s']:g} Mbit/s, state {report['state']}, period {report['period_ms']:.1f} ms, queue "
        f"{report['queue_mean_ms']:.3f} ms in the last second (at most {report['queue_most_ms']:.1f} ms), "
        f"{report['reductions']} cuts"
    )
    table = borderless(("class", "Mbit/s", "packets", "waiting", "dropped"), left=("class",))
    for own in report["classes"]:
        counts = (str(own[key]) for key in ("sent_packets", "waiting", "drops"))
        table.add_row(own["name"], f"{own['rate_mbit_s']:.2f}", *counts)
    print_table(table)
    table = borderless(("flow", "share, Mbit/s", "RTT, ms", "MB", "rates"), left=("flow",))
    for flow in report["flows"]:
        share = "–" if flow["share_mbit_s"] is None else f"{flow['share_mbit_s']:.2f}"
        table.add_row(flow["flow"], share, f"{flow['rtt_ms']:.2f}", f"{flow['bytes'] / 1e6:.2f}", str(flow["written"]))
    print_table(table, 100)
    if report["flows_total"] > len(report["flows"]):
        print(f"… and {report['flows_total'] - len(report['flows'])} more flows")
    print(", ".join(f"{SWITCH_COUNTERS.get(name, name)} {count}" for name, count in report["counters"].items()))
    if full := report["flows_refused"] + report["counters"]["refused"]:
        print(f"table full: {full} flows found no room and get no rates; accepted: a larger --set flows=N")


def _ports(texts: list[str]) -> list[tuple[str, str]]:
    """Parse `IF`, `IF:bottleneck` and `IF:senders` into names and roles. A single port is the bottleneck."""
    ports = []
    for text in texts:
        name, colon, role = text.rpartition(":")
        if not colon:
            name, role = text, ""
        if not name or role not in ("", "bottleneck", "senders"):
            raise UsageError(
                f"--port {text}: accepted: IF, or IF:bottleneck for the port into the bottleneck, or IF:senders for a "
                "port of Open vSwitch towards senders"
            )
        ports.append((name, role or "acks"))
    if len(ports) == 1 and ports[0][1] == "acks":
        ports = [(ports[0][0], "bottleneck")]
    if sum(role == "bottleneck" for _, role in ports) != 1:
        raise UsageError("--port: accepted: one port as IF:bottleneck, and others where acknowledgements return as IF")
    return ports


def _line(text: str) -> None:
    print(text, flush=True)


@app.command()
@guarded
def switch(
    port: Annotated[
        list[str],
        typer.Option(
            metavar="IF[:ROLE]",
            help="Select a port (repeatable): IF:bottleneck leads into the bottleneck, at IF acknowledgements return. "
            "A single IF is the bottleneck. With Open vSwitch in user space, IF:senders leads to senders.",
        ),
    ],
    rate: Annotated[str, typer.Option(metavar="RATE", help="Set the capacity of the bottleneck, in IP packets.")],
    buffer: Annotated[
        int, whole("--buffer", 1, 1_000_000, metavar="PACKETS", help="Limit the queue of each class.")
    ] = 1000,
    period: Annotated[
        str, typer.Option(metavar="TIME", help="Allocate at most once in this time; else once per longest RTT.")
    ] = "5ms",
    patience: Annotated[
        str, typer.Option(metavar="TIME", help="Write no rates once the last decision is older than this.")
    ] = "500ms",
    controller: Annotated[
        str, typer.Option(metavar="KIND", help="Detect congestion here (self), or wait for `narrows brf controller`.")
    ] = "self",
    poll: Annotated[str, typer.Option(metavar="TIME", help="Let the own controller look this often.")] = "1s",
    control: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Listen for a controller at HOST:PORT (UDP) or unix:PATH.")
    ] = None,
    sets: Annotated[list[str] | None, parameters("router algorithm")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be attached, and do nothing.")] = False,
) -> None:
    """Make ports of this machine a BRF switch as root, until Ctrl-C, which detaches everything.

    Flows that announce themselves get a share of the bottleneck in their acknowledgements; the others share the rest.
    `narrows routers brf` lists the parameters of `--set`. A killed switch harms no flow; the next `narrows brf switch`
    or `narrows brf detach` removes it.
    """
    values = pairs(sets or [])
    if controller not in ("self", "external"):
        raise UsageError(f"--controller: `{controller}`; accepted: self, external (with --control)")
    if controller == "external" and control is None:
        raise UsageError("--controller external needs --control; accepted: HOST:PORT or unix:PATH")
    ports = _ports(port)
    settings: SwitchSettings = {
        "ports": ports,
        "rate_mbit": quantities.rate(rate, "--rate"),
        "buffer": buffer,
        "period_ms": quantities.seconds(period, "--period") * 1e3,
        "patience_ms": quantities.seconds(patience, "--patience") * 1e3,
        "poll_s": quantities.seconds(poll, "--poll") if controller == "self" else None,
        "control": control,
        "sets": values,
    }
    name = ports[0][0]
    if port == [name]:
        _line(f"{name}: the only port, so the bottleneck (as --port {name}:bottleneck)")
    if dry_run:
        for line in hosts.plan_brf_switch(settings):
            print(line)
        return
    from narrows import segment

    segment.run(settings, _line)


@app.command("controller")
@guarded
def run_controller(
    port: Annotated[str, typer.Option(metavar="NAME", help="Poll this port of Open vSwitch, the bottleneck.")],
    control: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Report to the switch that listens at HOST:PORT or unix:PATH.")
    ],
    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="Set the capacity of the bottleneck; by default the switch's.")
    ] = None,
    poll: Annotated[str, typer.Option(metavar="TIME", help="Poll once in this time.")] = "1s",
    listen: Annotated[
        int, whole("--listen", 1, 65_535, metavar="PORT", help="Wait for OpenFlow switches here.")
    ] = 6653,
    utilization: Annotated[
        float, typer.Option(min=0.1, max=1.0, help="Call a link busier than this congested (equation 5).")
    ] = 0.98,
    queue: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Call a queue fuller than this congested (equation 6).")
    ] = 0.1,
) -> None:
    """Detect congestion from counters of Open vSwitch (OpenFlow 1.3), and report it to a BRF switch, until Ctrl-C.

    It needs os-ken, which the extra `sdn` of this package brings, and a bridge with
    `ovs-vsctl set-controller BRIDGE tcp:HOST:6653`.
    """
    from narrows import sdn

    capacity = None if rate is None else int(quantities.rate(rate, "--rate") * 125_000)
    link = sdn.SwitchLink(control)
    try:
        watcher = sdn.Watcher(link, _line, utilization, queue, capacity)
        sdn.run(watcher, bridge_port=port, listen=listen, poll_s=quantities.seconds(poll, "--poll"), log=_line)
    finally:
        link.close()
