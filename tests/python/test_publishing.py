"""The contents of the published crates that narrows-quic needs."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CRATES = ["narrows-cc", "narrows-quic", "narrows-units"]
LICENSES = {"LICENSE-APACHE", "LICENSE-MIT"}


def _cargo(*arguments: str) -> str:
    """Output of a cargo command that needs no network."""
    command = ["cargo", *arguments, "--offline"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _published() -> dict[str, list[dict[str, Any]]]:
    """The crates of the workspace that narrows-quic needs, itself included, each with its dependencies among them."""
    metadata = json.loads(_cargo("metadata", "--no-deps", "--format-version", "1"))
    packages = {package["name"]: package for package in metadata["packages"]}
    found: dict[str, list[dict[str, Any]]] = {}
    waiting = ["narrows-quic"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            needed = [d for d in packages[name]["dependencies"] if d["kind"] != "dev" and "path" in d]
            found[name] = needed
            waiting += [dependency["name"] for dependency in needed]
    return found


def test_path_dependencies_of_quic_have_versions():
    """A published crate finds its dependencies by version."""
    published = _published()
    assert sorted(published) == CRATES
    for name, dependencies in published.items():
        for dependency in dependencies:
            assert dependency["req"] != "*", f"{name} needs {dependency['name']} without a version"


@pytest.mark.parametrize("name", CRATES)
def test_packages_hold_licenses_and_no_links_but_those(name: str):
    """A package holds both licenses and a README; none of its other files is a link out of the crate."""
    files = set(_cargo("package", "--list", "--allow-dirty", "-p", name).split())
    assert LICENSES | {"README.md", "Cargo.toml", "src/lib.rs"} <= files
    folder = ROOT / "crates" / name.removeprefix("narrows-")
    for license_name in LICENSES:
        assert (folder / license_name).read_bytes() == (ROOT / license_name).read_bytes()
    assert [file for file in files - LICENSES if (folder / file).is_symlink()] == []
