"""The lock file, the list of components and the policy for dependencies."""

import re
import sys
import tomllib

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests"))
import sbom


def test_lock_pins_every_dependency_with_hashes():
    """Every stated Python dependency is pinned, and every pin has hashes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    pinned = {row["name"]: row for row in sbom.packages((ROOT / "requirements.lock").read_text())}
    assert {re.split(r"[<>=!~\[]", text)[0].lower() for text in stated} <= set(pinned)
    assert all(row["hashes"] for row in pinned.values())


def test_sbom_lists_every_crate_and_package():
    """The list has every crate and package once, with the hash of each that comes from a registry."""
    listed = sbom.document()
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.5")
    names = [row["purl"] for row in listed["components"]]
    assert len(names) == len(set(names)) > 200
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    assert {f"pkg:cargo/{row['name']}@{row['version']}" for row in lock} <= set(names)
    bare = [row["name"] for row in listed["components"] if "hashes" not in row]
    assert all(name.startswith("narrows") for name in bare)


def test_policy_refuses_other_sources():
    """`deny.toml` refuses crates from anywhere but the registry."""
    policy = tomllib.loads((ROOT / "deny.toml").read_text())
    assert policy["sources"] == {"unknown-registry": "deny", "unknown-git": "deny"}
    assert policy["bans"]["wildcards"] == "deny"
