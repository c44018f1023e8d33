"""The fenced blocks of the documents: what each kind means, and how a document is run.

| fence | what becomes of it |
|---|---|
| `console` | a line after `$ ` is a command; the lines after it must be what it prints |
| `sh` | every line is a command that must succeed |
| `toml` | a scenario in the file that its first line names in a comment |
| `python` | a cell of a notebook; all cells of a document share one interpreter |
| `text` right after `python` | what the cell prints, then the value of its last line |

In what is printed, `…` stands for anything: on a line of its own for any lines, within a line for any characters.
A document runs from top to bottom in an empty folder that holds copies of `scenarios` and `papers`.
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
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
KINDS = ("console", "sh", "toml", "python", "text")
TIMEOUT_S = 600

SHORTER = {
    "make reproduce": "narrows reproduce nodectl tab3 --quick",
    "narrows reproduce --full": "narrows reproduce nodectl tab3 --quick",
    "narrows bench": "narrows bench cubic-10 --repeats 1 --no-ns3",
}
"""Commands that take minutes, and what is run in their place."""


class Wrong(Exception):  # noqa: N818 (it is the document's, not an error of the program)
    """A block of a document does not do what the document says."""


@dataclass
class Block:
    """A fenced block."""

    kind: str
    body: str
    line: int
    """Line of the document on which its body begins."""
    span: tuple[int, int]
    """Where its body is in the text."""


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a document, in order."""
    return [
        Block(match[1].strip(), match[2], text.count("\n", 0, match.start(2)) + 1, match.span(2))
        for match in FENCE.finditer(text)
    ]


@dataclass
class Document:
    """A document being run."""

    path: Path
    folder: Path
    """Where its commands run."""
    commands: list[str] = field(default_factory=list)
    """Those that were run, as the document shows them."""
    _status: int = 0

    def run(self) -> str:
        """Run it and return its text with the outputs that were printed now.

        Raises:
            Wrong: A block is of no known kind, a command fails where the document does not say so, or a cell raises.
        """
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
            elif block.kind == "sh":
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

    def _wrong(self, line: int, what: str) -> Wrong:
        return Wrong(f"{self.path.name}, line {line}: {what}")

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
        """What a command prints."""
        command = re.sub(r"\s+", " ", command)
        self.commands.append(command)
        real = SHORTER.get(command, command)
        if real.startswith("make "):  # targets build the tree and run everything: it is enough that they are there
            real = f"make --dry-run -C {shlex.quote(str(ROOT))} {real.removeprefix('make ')}"
        done = subprocess.run(
            ["bash", "-c", f"(exit {self._status}); {real}"], cwd=self.folder, env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        self._status = done.returncode
        return done.stdout

    def _cells(self, cells: list[Block]) -> list[str]:
        """What each cell prints."""
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


def environment() -> dict[str, str]:
    """Where commands find `narrows`, and a terminal of 80 columns without colours."""
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR", "PYTHONPATH")}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "NO_COLOR": "1",
        "MPLBACKEND": "agg",
    }


def current(shown: str, printed: str) -> str:
    """The output a document should show: the one it shows, if that fits, else what was printed."""
    text = "".join(line.rstrip() + "\n" for line in printed.strip("\n").splitlines())
    return shown if fits(shown, text) else text


def fits(shown: str, printed: str) -> bool:
    """Whether an output is as shown."""
    pattern = ""
    for line in shown.splitlines():
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += re.escape(line.rstrip()).replace("…", "[^\\n]*") + "\n"
    return re.fullmatch(pattern, printed) is not None
