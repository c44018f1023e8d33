"""The command reference, from the typer application: commands, arguments, options, defaults and help texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

SHARED = ("run", "compare", "sweep")
"""Commands whose shared options have a table of their own."""
HEADER = ["| option | value | default | meaning |", "|---|---|---|---|"]


def region() -> str:
    """The generated region of `docs/commands.md`."""
    import typer.main

    from narrows.cli import app

    group: Any = typer.main.get_command(app)
    commands = dict(leaves("", group))
    shared = common([commands[name] for name in SHARED])
    out = ["| command | purpose |", "|---|---|"]
    out += [f"| [`narrows {name}`](#{anchor(name)}) | {summary(command)} |" for name, command in commands.items()]
    out += ["", "`narrows --version` prints the version, `-h` or `--help` the help of any command.", ""]
    for name, command in commands.items():
        out += section(name, command, shared if name in SHARED else [])
        if name == SHARED[-1]:
            out += shared_section(shared)
    return "\n".join(out).rstrip() + "\n"


def leaves(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
    """Every command below a group, by the words that call it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(f"{prefix}{name} ", command)
        else:
            yield f"{prefix}{name}", command


def common(commands: Sequence[Any]) -> list[Any]:
    """The options that all of these commands have, with the same help."""
    first, *others = [{described(row): row for row in command.params} for command in commands]
    return [row for key, row in first.items() if all(key in rows for rows in others)]


def described(param: Any) -> tuple[Any, ...]:
    """A parameter's values on the page."""
    return (*param.opts, *param.secondary_opts, value(param), default(param), param.help)


def section(name: str, command: Any, shared: Sequence[Any]) -> Iterator[str]:
    """One command: usage, purpose, arguments and options."""
    hidden = {described(row) for row in shared}
    arguments = [row for row in command.params if is_argument(row)]
    options = [row for row in command.params if not is_argument(row) and described(row) not in hidden]
    words = [f"narrows {name}", *(usage(row) for row in arguments)]
    words += [f"{row.opts[0]} {row.metavar}" for row in options if row.required]
    if shared or any(not row.required for row in options):
        words.append("[OPTIONS]")
    head, _, detail = (command.help or "").partition("\n\n")
    yield from (f'<a id="{anchor(name)}"></a>', f"## `narrows {name}`", "", f"`{' '.join(words)}`", "")
    yield from (" ".join(head.split()), "")
    if detail.rstrip().endswith("."):
        yield from (" ".join(detail.split()), "")
    elif detail:  # a command
        yield from (*(f"    {line.strip()}" for line in detail.strip().splitlines()), "")
    if arguments:
        yield from ("| argument | | meaning |", "|---|---|---|")
        yield from (f"| `{cell(row.metavar)}` | {number(row)} | {cell(row.help)} |" for row in arguments)
        yield ""
    if options:
        yield from (*HEADER, *map(option, options), "")
    if shared:
        yield from ("It also takes the [shared options](#shared-options).", "")


def shared_section(shared: Sequence[Any]) -> Iterator[str]:
    """The options that several commands share."""
    names = [f"`{name}`" for name in SHARED]
    yield from ("## Shared options", "", f"Options of {', '.join(names[:-1])} and {names[-1]}.", "")
    yield from (*HEADER, *map(option, shared), "")


def anchor(name: str) -> str:
    """The anchor of a command."""
    return f"narrows-{name.replace(' ', '-')}"


def summary(command: Any) -> str:
    """The first sentence of a command's help."""
    return cell((command.help or "").partition("\n\n")[0])


def is_argument(param: Any) -> bool:
    """Whether a parameter is an argument: its name has no dashes."""
    return not param.opts[0].startswith("-")


def usage(param: Any) -> str:
    """An argument as a usage line shows it."""
    text = f"{param.metavar}..." if param.nargs == -1 else str(param.metavar)
    return text if param.required else f"[{text}]"


def number(param: Any) -> str:
    """How many values an argument takes."""
    if param.nargs == -1:
        return "one or more" if param.required else "any number"
    return "required" if param.required else "optional"


def option(param: Any) -> str:
    """The row of an option."""
    names = " ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    return f"| {names} | {value(param)} | {default(param)} | {cell(param.help)} |"


def value(param: Any) -> str:
    """The placeholder of an option's value; a dash for a flag."""
    return "–" if param.metavar is None else f"`{cell(param.metavar)}`"


def default(param: Any) -> str:
    """The default of an option."""
    if param.required:
        return "required"
    if isinstance(param.default, bool):
        on, off = param.opts[0], next(iter(param.secondary_opts), None)
        return "–" if off is None else f"`{on if param.default else off}`"
    return "–" if param.default is None or callable(param.default) else f"`{param.default}`"


def cell(text: str | None) -> str:
    """A text within a table."""
    return " ".join((text or "").split()).replace("|", "\\|")
