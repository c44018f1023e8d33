"""`narrows perf`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.numbers import whole
from narrows.cli.outcome import guarded
from narrows.errors import UsageError
from narrows.files import contents

PEM_BYTES = 1 << 20
"""The largest file of certificates or of a key."""

app = typer.Typer(name="perf", help="Measure QUIC between hosts, with any scheme.", no_args_is_help=True)

SCHEME = "bbr-gc"
"""The default scheme."""

Scheme = Annotated[
    str,
    typer.Option(
        "--scheme", metavar="NAME[:KEY=VALUE,...]",
        help="Select the scheme of what this end sends; noq:NAME selects noq's own cubic, newreno or bbr3.",
    ),
]  # fmt: skip
ClientScheme = Annotated[
    str | None,
    typer.Option(
        "--scheme", metavar="NAME[:KEY=VALUE,...]",
        help=f"Select the scheme of what this end sends, by default {SCHEME}, as for the server. Not with --reverse.",
    ),
]  # fmt: skip
Interval = Annotated[str, typer.Option(metavar="TIME", help="Report at this interval.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per test, in the layout of iperf3.")]


def _pem(path: Path | None, flag: str) -> Path | None:
    """Return the path of a PEM file. It must be a regular file: the engine would block on a pipe or device.

    Raises:
        UsageError: The file is not regular, is too large, or cannot be read.
    """
    if path is None:
        return None
    try:
        contents(path, PEM_BYTES)
    except OSError as error:
        raise UsageError(f"{flag}: {path}: {error.strerror}; accepted: a PEM file") from None
    except ValueError as error:
        raise UsageError(f"{flag}: {path} {error}") from None
    return path


@app.command()
@guarded
def server(
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Listen at this address; [::]:6512 takes IPv6 and IPv4.")
    ] = "0.0.0.0:6512",
    scheme: Scheme = SCHEME,
    certificate: Annotated[
        Path | None,
        typer.Option("--cert", metavar="FILE", help="Show this certificate (PEM); by default a self-made one."),
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Read its key here (PEM).")] = None,
    once: Annotated[bool, typer.Option("--once", help="Serve one test, then exit.")] = False,
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after this time; by default on Ctrl-C.")
    ] = None,
    connections: Annotated[
        int, whole("--connections", 1, 1000, help="Serve up to N tests at a time; refuse others.")
    ] = 8,
    per_address: Annotated[
        int | None,
        whole("--per-address", 1, 1000, help="Accept N connections of an address; by default half of --connections."),
    ] = None,
    longest: Annotated[
        str, typer.Option(metavar="TIME", help="Accept tests up to this time, a day at most.")
    ] = "3600s",
    interval: Interval = "1s",
    as_json: AsJson = False,
) -> None:
    """Wait for tests."""
    from narrows import perf

    session = perf.Session(scheme=scheme, interval=interval, as_json=as_json)
    session.serve(
        listen,
        certificate=_pem(certificate, "--cert"),
        key=_pem(key, "--key"),
        once=once,
        duration=duration,
        connections=connections,
        per_address=per_address,
        longest=longest,
    )


@app.command()
@guarded
def client(
    host: Annotated[str, typer.Argument(metavar="HOST[:PORT]", help="Test against the server on this host.")],
    scheme: ClientScheme = None,
    duration: Annotated[str, typer.Option(metavar="TIME", help="Send for this time, a day at most.")] = "10s",
    streams: Annotated[int, whole("--streams", 1, 128, help="Send over N streams in parallel.")] = 1,
    reverse: Annotated[bool, typer.Option("--reverse", "-R", help="Let the server send, with its own scheme.")] = False,
    fingerprint: Annotated[
        str | None,
        typer.Option(
            metavar="DIGITS", help="Accept the self-made certificate with this SHA-256, as the server prints."
        ),
    ] = None,
    ca: Annotated[
        Path | None, typer.Option("--ca", metavar="FILE", help="Accept certificates of these authorities (PEM).")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept any certificate.")] = False,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Expect this name in the certificate; by default the host's.")
    ] = None,
    interval: Interval = "1s",
    as_json: AsJson = False,
) -> None:
    """Run one test. Without --fingerprint, --ca or --insecure, the system's authorities decide."""
    from narrows import perf

    chosen = {
        "--fingerprint": None if fingerprint is None else f"fingerprint:{fingerprint}",
        "--ca": None if ca is None else f"ca:{_pem(ca, '--ca')}",
        "--insecure": "any" if insecure else None,
    }
    given = {flag: value for flag, value in chosen.items() if value}
    if len(given) > 1:
        raise UsageError(f"{', '.join(given)}: these exclude each other; accepted: one of them, or none")
    if reverse and scheme is not None:
        raise UsageError(
            "--scheme, --reverse: the server sends, with its own scheme; accepted: --scheme at the server, or not both"
        )
    session = perf.Session(scheme=SCHEME if scheme is None else scheme, interval=interval, as_json=as_json)
    session.test(
        host, duration=duration, streams=streams, reverse=reverse, name=name,
        trust=next(iter(given.values()), "system"),
    )  # fmt: skip
