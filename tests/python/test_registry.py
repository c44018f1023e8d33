"""A new scheme or router algorithm needs no change of the Python front: no source of it names one."""

import ast
import re

import pytest

from conftest import ROOT, built  # isort: skip

SOURCES = ROOT / "python" / "narrows"
DATA = {SOURCES / "papers"}
"""Folders of data files, which name schemes by design."""
SUFFIXES = {".py", ".pyi", ".html", ".lua"}
WORDS = {"compound", "fast", "fixed"}
"""Names that are English words: prose may use them, code may not."""
DEPLOYED = "the deployment of one protocol on hosts names it"
EXAMPLES = {
    "__init__.py": ({"bbr", "cubic"}, "the docstring shows a first session"),
    "api.py": ({"bbr", "cubic"}, "the docstrings of `run` and `compare` show calls"),
    "results.py": ({"bbr", "cubic"}, "the docstring of `Results` shows a session and the form of `spec`"),
    "cli/simulate.py": ({"bbr"}, "the help of SCHEME shows the form of parameters"),
    "cli/perf.py": ({"bbr-gc", "bbr3", "cubic", "newreno"}, "the help of --scheme shows names of both libraries"),
    "_engine.pyi": ({"brf"}, DEPLOYED),
    "cli/__init__.py": ({"brf", "nodectl"}, DEPLOYED),
    "cli/brf.py": ({"brf", "cubic"}, DEPLOYED),
    "cli/nodectl.py": ({"nodectl"}, DEPLOYED),
    "hosts.py": ({"brf"}, DEPLOYED),
    "negotiation.py": ({"nodectl"}, DEPLOYED),
    "records.py": ({"brf"}, DEPLOYED),
    "sdn.py": ({"brf"}, DEPLOYED),
    "segment.py": ({"brf"}, DEPLOYED),
}
"""Prose that may name schemes: the file, the names, and the reason."""


@pytest.fixture(scope="module")
def names():
    """The names and aliases of all schemes and router algorithms."""
    schemes = "[name for scheme in engine.schemes() for name in (scheme.name, *scheme.aliases)]"
    return set(built(f"{schemes} + [router.name for router in engine.routers()]"))


def sources():
    """Yield the name and the text of every source file of the front."""
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix in SUFFIXES and DATA.isdisjoint(path.parents):
            yield str(path.relative_to(SOURCES)), path.read_text(encoding="utf-8")


def literals(source):
    """Yield line and text of every string except docstrings."""
    tree = ast.parse(source)
    idle = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in idle:
            yield node.lineno, node.value


def mentions(source, names):
    """Yield line and name of every name in a text, in code, comments and prose alike."""
    for number, line in enumerate(source.splitlines(), 1):
        for word in re.findall(r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*", line):
            if word.lower() in names:
                yield number, word.lower()


def test_front_code_names_no_algorithm(names):
    """No string of the code is the name of a scheme or router algorithm, with or without parameters."""
    assert {"cubic", "rcp", "nodectl"} <= names
    offences = [
        f"{file}:{line} names `{text}`"
        for file, source in sources()
        if file.endswith(".py")
        for line, text in literals(source)
        if text.split(":")[0].strip() in names - allowed(file)
    ]
    assert not offences, "\n".join(offences)


def test_front_prose_names_no_algorithm(names):
    """Comments, docstrings, help texts and templates name no algorithm either, except the listed examples."""
    files = dict(sources())
    assert {"cli/simulate.py", "plots/charts.py", "templates/papers.html", "_engine.pyi"} <= files.keys()
    found = {(file, line, name) for file, source in files.items() for line, name in mentions(source, names - WORDS)}
    offences = [f"{file}:{line} names `{name}`" for file, line, name in found if name not in allowed(file)]
    assert not offences, "\n".join(sorted(offences))


def test_front_examples_are_needed(names):
    """Every exemption is used, so that the list of exemptions stays short."""
    files = dict(sources())
    for file in EXAMPLES:
        assert {name for _, name in mentions(files[file], names)} - WORDS == allowed(file), file


def allowed(file):
    """Return the names that the examples of a file may use."""
    return EXAMPLES.get(file, (set(), ""))[0]


def test_literals_exclude_docstrings():
    """The scan of code skips docstrings and comments."""
    source = '"""cubic"""\n\n\ndef f():\n    """bbr"""\n    return ["vegas"]  # "fixed"\n'
    assert list(literals(source)) == [(6, "vegas")]


def test_mentions_include_comments_and_prose():
    """The scan of prose finds whole names in any case, and no parts of words."""
    source = '"""CUBIC."""\nx = "bbr:gain=2"  # as bbr-gc\nnarrowsrcp = rcp\n'
    assert list(mentions(source, {"cubic", "bbr", "rcp"})) == [(1, "cubic"), (2, "bbr"), (3, "rcp")]
    assert list(mentions("my-bbr, bbr2, narrowbbr, x_bbr", {"bbr"})) == [(1, "bbr")]
