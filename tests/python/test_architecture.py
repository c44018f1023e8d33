"""The tables of ARCHITECTURE.md list every crate and every module of the Python front, each below those it uses."""

import ast
import re
import tomllib
from collections import Counter
from graphlib import TopologicalSorter

from conftest import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
FRONT = ROOT / "python" / "narrows"


def lines_of(heading, pattern):
    """Return the line number of each path in the first column of the table below a heading."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    places = [(place, line) for line, cell in enumerate(cells) for place in re.findall(pattern, cell)]
    assert [place for place, count in Counter(place for place, _ in places).items() if count > 1] == []
    return dict(places)


def above(uses, lines):
    """Return uses of entries on later lines; fail if an entry uses itself through others."""
    list(TopologicalSorter(uses).static_order())
    return [f"{user} uses {used}" for user, all_used in uses.items() for used in all_used if lines[used] > lines[user]]


def imports(path):
    """Yield the modules of the front that a file imports, also within functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("narrows."))
        elif isinstance(node, ast.ImportFrom) and node.module == "narrows":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("narrows."):
            yield node.module.split(".")[1]
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: a relative import"


def test_crates_are_listed_from_the_bottom_up():
    """The code map lists every crate below its dependencies, which form no cycle."""
    manifests = {path.parent.name: tomllib.loads(path.read_text()) for path in ROOT.glob("crates/*/Cargo.toml")}
    lines = lines_of("Code map", r"`crates/([\w-]+)`")
    assert {*lines} == {*manifests}
    uses = {
        name: {used.removeprefix("narrows-") for used in manifest.get("dependencies", {}) if "narrows-" in used}
        for name, manifest in manifests.items()
    }
    assert above(uses, lines) == []


def test_front_modules_are_listed_from_the_bottom_up():
    """The table of the Python front lists all modules; none imports a module of a later line, and there is no cycle."""
    folders = {path.parent.name + "/": [*path.parent.glob("*.py")] for path in FRONT.glob("*/__init__.py")}
    files = {path.name: [path] for path in FRONT.glob("*.py")}
    lines = lines_of("The Python front (`python/narrows`)", r"`([\w/.]+)`")
    assert {*lines} == {*folders, *files}
    modules = {place.removesuffix(".py").removesuffix("/"): place for place in lines}
    uses = {
        place: {modules[name] for path in paths for name in imports(path) if name in modules} - {place}
        for place, paths in {**folders, **files}.items()
    }
    assert above(uses, lines) == []


def test_architecture_has_at_most_2000_words():
    """The overview is short: details belong to the documentation of modules."""
    assert len(TEXT.split()) <= 2000


def test_first_pages_are_short():
    """README and the overview of results are read in one sitting."""
    assert len((ROOT / "README.md").read_text().split()) <= 900
    assert len((ROOT / "docs/results.md").read_text().splitlines()) <= 250


def test_dependencies_are_named_with_a_reason():
    """The table of dependencies names every crate and package that the manifests name."""
    table = TEXT.partition("\n## Dependencies and why\n")[2]
    named = {name for cell in re.findall(r"^\| (.*?) \|", table, re.MULTILINE) for name in cell.split(", ")}
    crates = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [project["project"]["dependencies"], *project["project"]["optional-dependencies"].values()]
    packages = [text for group in [*groups, project["build-system"]["requires"]] for text in group]
    used = {name for name in crates if not name.startswith("narrows-")} | {
        re.match(r"[\w-]+", text)[0] for text in packages
    }
    assert used == named - {"crate or package", "none for pcapng"}
