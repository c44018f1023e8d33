"""The fenced blocks of the documents: the meaning of each kind, and how a document runs.

| fence | meaning |
|---|---|
| `console` | a line after `$ ` is a command; the lines after it are its expected output |
| `sh` | every line is a command that must succeed |
| `sh root` | the same as root on a kernel that takes programs; skipped, with a note, where there is none |
| `toml` | a scenario; a comment in its first line names the file |
| `python` | a cell of a notebook; all cells of a document share one interpreter |
| `text` right after `python` | the expected output of the cell, then the value of its last line |
| `rust` | a scheme or its line of the registry; not run here, `tests/python/test_new_study.py` compiles it |

In expected output `…` matches anything: alone on a line any lines, within a line any characters. A document runs from
top to bottom in an empty folder with copies of `scenarios` and `papers`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
KINDS = ("console", "sh", "sh root", "toml", "python", "text", "rust")
TIMEOUT_S = 600

SHORTER = {
    "make reproduce": "narrows reproduce nodectl tab3 --quick",
    "narrows reproduce --full": "narrows reproduce nodectl tab3 --quick",
    "narrows bench": "narrows bench cubic-10 --repeats 1 --no-ns3",
}
"""Commands that take minutes, and shorter ones that run in their place."""

TOOLS = ("ip ", "iperf3 ", "sysctl ")
"""Tools that blocks for root may need."""

DEFAULT_SCHEME = Path("/proc/sys/net/ipv4/tcp_congestion_control")
"""Settings of this machine that blocks for root may change, restored after the document."""

MEASURED = (ROOT / "docs" / "results.md",)
"""Documents whose commands take hours; `docs/results.py` stores their output."""


def documents() -> list[Path]:
    """Every document whose blocks run: README and all hand-written pages that have blocks."""
    pages = [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "topics").glob("*.md")),
    ]
    return [page for page in pages if page not in MEASURED and FENCE.search(page.read_text(encoding="utf-8"))]


class Wrong(Exception):  # noqa: N818 (the document is wrong, not the program)
    """A block contradicts its document."""


@dataclass
class Block:
    """A fenced block."""

    kind: str
    body: str
    line: int
    """First line of its body in the document."""
    span: tuple[int, int]
    """Position of its body in the text."""


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a document, in order."""
    return [
        Block(match[1].strip(), match[2], text.count("\n", 0, match.start(2)) + 1, match.span(2))
        for match in FENCE.finditer(text)
    ]


@dataclass
class Document:
    """A document that runs its blocks."""

    path: Path
    folder: Path
    """Working folder of its commands."""
    commands: list[str] = field(default_factory=list)
    """Commands that ran, as the document shows them."""
    _status: int = 0

    def run(self) -> str:
        """Run all blocks and return the text with the output printed now.

        Raises:
            Wrong: A block has an unknown kind, a command fails unexpectedly, or a cell raises.
        """
        with default_scheme_kept():
            return self._run()

    def _run(self) -> str:
        text = self.path.read_text(encoding="utf-8")
        for name in ("scenarios", "papers"):
            shutil.copytree(ROOT / name, self.folder / name)
        found = blocks(text)
        cells = [block for block in found if block.kind == "python"]
        printed = self._cells(cells) if cells else []
        replaced: list[tuple[tuple[int, int], str]] = []
        for i, block in enumerate(found):
            if block.kind not in KINDS:
                raise self._wrong(block.line, f"a block of kind {block.kind!r}; accepted: {', '.join(KINDS)}")
            if block.kind == "console":
                replaced.append((block.span, self._console(block)))
            elif block.kind == "sh" or (block.kind == "sh root" and not self._skips(block)):
                for command in self._lines(block):
                    self._succeed(block.line, command)
            elif block.kind == "toml":
                name = re.match(r"# (\S+\.toml)\b", block.body)
                if name is None:
                    raise self._wrong(block.line, "a toml block begins with a comment that names its file")
                target = self.folder / name[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(block.body, encoding="utf-8")
            elif block.kind == "python":
                output = printed[cells.index(block)]
                following = found[i + 1] if i + 1 < len(found) else None
                if following is not None and following.kind == "text":
                    replaced.append((following.span, current(following.body, output)))
        for (start, end), body in reversed(replaced):
            text = text[:start] + body + text[end:]
        if self._status:
            raise self._wrong(0, f"the last command ends with status {self._status}")
        return text

    def _skips(self, block: Block) -> bool:
        """Whether this machine lacks a tool or right that the block needs; the lack is reported."""
        needs = [tool for tool in TOOLS if tool in block.body and shutil.which(tool.strip()) is None]
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            needs.append("root")
        elif "has no programs" in subprocess.run(
            [sys.executable, "-m", "narrows", "kernel", "status", "--seconds", "0.1"], env=environment(),
            capture_output=True, text=True, check=False,
        ).stderr:  # fmt: skip
            needs.append("a build with BPF")
        if needs:
            print(f"skipped: needs {', '.join(needs)}: {self.path.name}, line {block.line}", file=sys.stderr)
        return bool(needs)

    def _wrong(self, line: int, problem: str) -> Wrong:
        return Wrong(f"{self.path.name}, line {line}: {problem}")

    def _lines(self, block: Block) -> Iterator[str]:
        for line in block.body.replace("\\\n", " ").splitlines():
            command = line.partition("  #")[0].strip()
            if command and not command.startswith("#"):
                yield command

    def _console(self, block: Block) -> str:
        out = []
        for part in re.split(r"^(?=\$ )", block.body, flags=re.MULTILINE):
            if not part.startswith("$ "):
                if part:
                    raise self._wrong(block.line, "a console block begins with `$ ` and a command")
                continue
            head, _, shown = part.partition("\n")
            while head.endswith("\\"):
                line, _, shown = shown.partition("\n")
                head += "\n" + line
            command = head[2:].replace("\\\n", " ")
            if self._status and not command.startswith("echo $?"):
                raise self._wrong(block.line, f"the command before `{command}` ends with status {self._status}")
            out.append(f"{head}\n{current(shown, self._shell(command))}")
        return "".join(out)

    def _succeed(self, line: int, command: str) -> None:
        output = self._shell(command)
        if self._status:
            raise self._wrong(line, f"`{command}` ends with status {self._status}:\n{output}")

    def _shell(self, command: str) -> str:
        """The output of a command."""
        command = re.sub(r"\s+", " ", command)
        self.commands.append(command)
        real = SHORTER.get(command, command)
        if real.startswith("make "):  # a target builds the tree or runs everything: only check that it exists
            real = f"make --dry-run -C {shlex.quote(str(ROOT))} {real.removeprefix('make ')}"
        done = subprocess.run(
            ["bash", "-c", f"(exit {self._status}); {real}"], cwd=self.folder, env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        self._status = done.returncode
        return done.stdout

    def _cells(self, cells: list[Block]) -> list[str]:
        """The output of each cell."""
        work = [{"source": "\n" * (cell.line - 1) + cell.body, "name": self.path.name} for cell in cells]
        done = subprocess.run(
            [sys.executable, "-c", RUN_CELLS], cwd=self.folder, env=environment(), input=json.dumps(work),
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode:
            raise Wrong(f"{self.path.name}: a cell fails:\n{done.stderr}")
        return list(json.loads(done.stdout))


RUN_CELLS = """
import ast, contextlib, io, json, sys
space, printed = {"__name__": "__main__"}, []
for cell in json.load(sys.stdin):
    tree = ast.parse(cell["source"], cell["name"])
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(tree, cell["name"], "exec"), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), cell["name"], "eval"), space)
            if value is not None:
                print(repr(value))
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


@contextmanager
def default_scheme_kept() -> Iterator[None]:
    """Restore the kernel's default scheme, also if a command in between fails."""
    may = hasattr(os, "geteuid") and os.geteuid() == 0 and DEFAULT_SCHEME.exists()
    before = DEFAULT_SCHEME.read_text() if may else ""
    try:
        yield
    finally:
        if may and DEFAULT_SCHEME.read_text() != before:
            DEFAULT_SCHEME.write_text(before)


def environment() -> dict[str, str]:
    """The environment of commands: `narrows` in the path, and a terminal of 80 columns without colours."""
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR", "PYTHONPATH")}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "NO_COLOR": "1",
        "MPLBACKEND": "agg",
    }


def current(shown: str, printed: str) -> str:
    """Return the output that a document should show: its own text if that matches, else the printed text."""
    text = "".join(line.rstrip() + "\n" for line in printed.strip("\n").splitlines())
    return shown if fits(shown, text) else text


def fits(shown: str, printed: str) -> bool:
    """Whether printed output matches the shown one."""
    pattern = ""
    for line in shown.splitlines():
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += re.escape(line.rstrip()).replace("…", "[^\\n]*") + "\n"
    return re.fullmatch(pattern, printed) is not None
