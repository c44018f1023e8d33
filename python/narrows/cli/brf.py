"""`narrows brf`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from narrows import engine
from narrows.cli.outcome import FAILURE, fail, guarded, print_table
from narrows.errors import UsageError
from narrows.quantities import quantity

app = typer.Typer(
    name="brf",
    help="Let switches of the network set the rates of this host's connections (BRF).",
    no_args_is_help=True,
)


def _mbit(text: str | None) -> float | None:
    if text is None:
        return None
    value, unit = quantity(text) or (0.0, "")
    if unit != "Mbit/s" or value <= 0:
        raise UsageError(f"--limit: `{text}` is no rate; accepted: a rate such as 20mbit")
    return value


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
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter of the scheme (repeatable)."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check, print what would be done, and do nothing.")] = False,
) -> None:
    """Attach BRF to this host as root: senders obey the rates in acknowledgements, receivers make room for them.

    It stays until `detach` or a restart. Servers that listened before answer offers only after they listen again.
    """
    values = []
    for text in sets or []:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set: `{text}` sets nothing; accepted: KEY=VALUE")
        values.append((key.strip(), value.strip()))
    try:
        done = engine.attach_brf(cgroup, adopt, _mbit(limit), values, dry_run)
    except engine.KernelFailed as error:
        fail(str(error), FAILURE)
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
    """Detach BRF from this host as root. Open connections go on without rates, as CUBIC does."""
    try:
        lines = engine.detach_brf(cgroup)
    except engine.KernelFailed as error:
        fail(str(error), FAILURE)
    for line in lines:
        print(line)
    if not lines:
        print("nothing is attached")


#: Counters of `engine.brf_status`, and their meaning.
COUNTERS = {
    "sockets": "connections that use the scheme now",
    "opened": "connections that ever did",
    "adopted": "of these, given the scheme by `attach`",
    "offered": "SYNs that offered to obey",
    "accepted": "connections of receivers whose SYN did",
    "written": "SYN-ACKs and acknowledgements with room for a rate",
    "crowded": "acknowledgements whose SACK blocks left no room",
    "read": "rates read",
    "unlimited": "acknowledgements that no switch wrote into",
    "advised": "rates followed",
    "invalid": "rates of zero or above the line rate, ignored",
    "stale": "rates in overtaken acknowledgements, ignored",
    "fallbacks": "times that a connection became CUBIC for want of rates",
    "errors": "steps that the kernel refused",
}


@app.command()
@guarded
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object, and nothing else.")] = False,
) -> None:
    """Show where BRF is attached on this host, and what it did since."""
    try:
        found = engine.brf_status()
    except engine.KernelFailed as error:
        fail(str(error), FAILURE)
    if as_json:
        print(json.dumps(found))
        return
    if not found["loaded"]:
        print("nothing is attached")
        return
    for own in found["attachments"]:
        place = own["cgroup"] or f"cgroup {own['id']}, which was removed"
        print(f"attached to {place}{' for all connections that begin there' if own['adopts'] else ''}")
    if not found["attachments"]:
        print("the scheme is loaded (`narrows kernel load`), and attached nowhere")
    from rich.table import Table

    table = Table("counter", "value", "", box=None, pad_edge=False, header_style="bold")
    table.columns[1].justify = "right"
    for name, meaning in COUNTERS.items():
        table.add_row(name, str(found[name]), meaning)
    print_table(table)
