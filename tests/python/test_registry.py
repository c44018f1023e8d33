"""Adding a scheme needs no change of the front: outside docstrings, no Python source names one."""

import ast
import json
import os
import subprocess
import sys

import pytest

from conftest import ROOT  # isort: skip

SOURCES = ROOT / "python" / "narrows"
# In a process of its own, since the other tests use a stand-in for the engine.
LISTED = subprocess.run(
    [sys.executable, "-c", "import narrows._engine as engine; print(engine.schemes())"],
    env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, capture_output=True, text=True, check=False,
)  # fmt: skip


def literals(source):
    """Line and text of every string that is not a docstring or another statement of its own."""
    tree = ast.parse(source)
    idle = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in idle:
            yield node.lineno, node.value


@pytest.mark.skipif(LISTED.returncode != 0, reason="the engine is not built: maturin develop")
def test_no_python_source_names_a_scheme():
    known = {name for scheme in json.loads(LISTED.stdout) for name in (scheme["name"], *scheme["aliases"])}
    assert "cubic" in known
    files = sorted(SOURCES.rglob("*.py"))
    assert SOURCES / "cli.py" in files
    offences = [
        f"{path.relative_to(SOURCES)}:{line} names `{text}`"
        for path in files
        for line, text in literals(path.read_text())
        if text.split(":")[0].strip() in known
    ]
    assert not offences, "\n".join(offences)


def test_a_literal_is_told_from_a_docstring():
    source = '"""cubic"""\n\n\ndef f():\n    """bbr"""\n    return ["vegas"]  # "fixed"\n'
    assert list(literals(source)) == [(6, "vegas")]
