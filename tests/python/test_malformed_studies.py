"""Study folders with slips: refused with a message, or run, on the built engine."""

import json
import re

import pytest

from attempts import Tally, generators, many

from conftest import python  # isort: skip


VALUES = [
    "1", "-1", "1.5", "nan", "true", "''", "'x'", "[]", "[1]", "['x']", "[[]]", "{}", "{ a = 1 }", "1979-05-27", "'{x}'",
    "'{'", "'\\u0000'", '"\\u0000"', "'../../x'", "9223372036854775808", "[{ }]", "'SELECT'", "inf", "07:32:00",
    "[" * 500 + "]" * 500,
]  # fmt: skip


def replaced(text, draw):
    """Give a key of a file another value."""
    keys = list(re.finditer(r"^([\w.\"-]+) *= *(.+)$", text, re.MULTILINE))
    found = draw.choice(keys)
    return text[: found.start(2)] + draw.choice(VALUES) + text[found.end(2) :]


def renamed(text, draw):
    keys = list(re.finditer(r"^([\w-]+) *=", text, re.MULTILINE))
    found = draw.choice(keys)
    return (
        text[: found.start(1)] + draw.choice(["x", "sql", "paper", "id", '""', "rows", "query"]) + text[found.end(1) :]
    )


def added(text, draw):
    lines = text.splitlines()
    key = draw.choice(["rows", "header", "query", "alternative", "scenario", "plot", "trace", "quick", "order", "cases",
                       "names", "world", "schemes", "points", "axes", "kind", "set", "claim", "defaults", "sql"])  # fmt: skip
    lines.insert(draw.randrange(len(lines) + 1), f"{key} = {draw.choice(VALUES)}")
    return "\n".join(lines)


def headed(text, draw):
    """Turn a table into a list of tables or the reverse, or add a table."""
    choices = ["[figure]", "[[figure]]", "[claim]", "[[claim]]", "[query]", "[cases.a]", "[names]", "[world]", "[plot]"]
    return text + f"\n{draw.choice(choices)}\n{draw.choice(['a', 'id', 'sql', 'x'])} = {draw.choice(VALUES)}\n"


def shortened(text, draw):
    lines = text.splitlines()
    del lines[draw.randrange(len(lines))]
    return "\n".join(lines)


def torn(text, draw):
    at = draw.randrange(len(text))
    return (
        text[:at]
        + draw.choice(["\x00", "\ud800", '"', "'", "[", "]", "{", "}", "=", "#", "\\", "'''"])
        + text[at + 1 :]
    )


def doubling(text, draw):
    """Let texts double each other, which could fill the memory."""
    names = "\n".join(f"t{n} = '{{t{n + 1}}}{{t{n + 1}}}'" for n in range(60))
    return text.replace("[[claim]]", f"[[claim]]\n{names}\nt60 = 'x'", 1).replace('text = "', 'text = "{t0} ', 1)


MANGLERS = [replaced, replaced, replaced, renamed, added, added, headed, shortened, torn, doubling]


REPRODUCE = """
import json, sys
from typer.testing import CliRunner
from narrows.cli import app
for folder in sys.argv[2:]:
    done = CliRunner().invoke(app, ["reproduce", folder, "--quick", "-o", sys.argv[1], "--jobs", "1"])
    raised = None if done.exception is None or isinstance(done.exception, SystemExit) else repr(done.exc_info)
    print(json.dumps([folder, done.exit_code, raised, done.stderr[-2000:]]), flush=True)
"""
"""Reproduces folders into one report, on the built engine."""


def mangled(texts, draw):
    """Return the texts of a study, one of them with mistakes."""
    slipped = draw.choice(["paper.toml", "fig1.toml", "fig1.claims.toml", "fig1.claims.toml", "findings.md"])
    text = texts[slipped]
    for _ in range(draw.randrange(1, 4)):
        text = draw.choice(MANGLERS)(text, draw) if text and slipped.endswith("toml") else torn(text or "x", draw)
    return {**texts, slipped: text}


@pytest.mark.slow
@pytest.mark.attempts
def test_malformed_studies_give_no_traceback(study, tmp_path):
    """Malformed study folders are refused with a message, or run; no exception of Python, no crash, no endless work."""
    tally = Tally("malformed study folders")
    texts = {path.name: path.read_text() for path in study.iterdir() if path.is_file()}
    # Short runs: one process handles all folders of a batch in turn.
    texts["fig1.toml"] = re.sub(r'duration = "20s".*', 'duration = "1s"', texts["fig1.toml"])
    count = many(20, 200, 1000)
    studies = [texts, *(mangled(texts, draw) for _, draw in generators("studies", count))]
    folders = [tmp_path / f"study-{number}" for number in range(len(studies))]
    for folder, files in zip(folders, studies, strict=True):
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_bytes(text.encode("utf-8", "surrogatepass"))
    ended = []
    for batch in (folders[at : at + 50] for at in range(0, len(folders), 50)):
        done = python("-c", REPRODUCE, tmp_path / "report", *batch, timeout=900)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(rows) == len(batch), (batch[len(rows)], done.returncode, done.stderr[-2000:])
        ended += rows
    for folder, status, raised, said in ended:
        assert raised is None and status in (0, 1, 2) and "Traceback" not in said, (folder, raised, said)
        assert status == 0 or said.strip(), folder
        tally.add({0: "ran", 1: "failed with a message", 2: "refused with a message"}[status])
    tally.close()
    assert ended[0][1] == 0, ended[0]  # the study without slips
    assert tally.outcomes["ran"] > count / 20 and tally.outcomes["refused with a message"] > count / 4
