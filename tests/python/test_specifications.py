"""Tests read as specifications: a short name, a sentence, and no private names of other modules."""

import ast
import re

import pytest

from conftest import HERE  # isort: skip

FILES = sorted(HERE.glob("*.py"))


def specifications(tree):
    """Yield the test functions of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


def private_names(tree):
    """Yield line and name of private names: those with an underscore, on anything but `self`, except the engine's module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if re.match(r"_(?!_|engine$)", name))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_tests_have_short_names_and_docstrings(path):
    """Every test has a name of at most 60 characters and a sentence that states the requirement."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [node.name for node in specifications(tree) if len(node.name) > 60] == []
    assert [node.name for node in specifications(tree) if not (ast.get_docstring(node) or "").endswith(".")] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_tests_use_public_names_only(path):
    """No test reads a private name of another module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [f"{line}: {name}" for line, name in private_names(tree)] == []


def test_private_names_exclude_own_attributes():
    """The scan finds private attributes and imports, but neither `self._x` nor `__name__`."""
    source = "from a import _b, c\nself._x = a._y + a.__name__\n"
    assert list(private_names(ast.parse(source))) == [(1, "_b"), (2, "_y")]
