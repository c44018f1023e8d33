"""The lock file, the list of components, the policy for dependencies, and its check."""

import os
import re
import shutil
import subprocess
import sys
import tomllib

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests"))
import pytest
import sbom


def test_lock_pins_every_dependency_with_hashes():
    """Every stated Python dependency is pinned, and every pin has hashes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    pinned = {row["name"]: row for row in sbom.packages((ROOT / "requirements.lock").read_text())}
    assert {re.split(r"[<>=!~\[]", text)[0].lower() for text in stated} <= set(pinned)
    assert all(row["hashes"] for row in pinned.values())


def test_extras_lock_pins_what_extras_bring():
    """Every package of the extras is pinned with hashes, none in another version than in the main lock file."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    stated = {re.split(r"[<>=!~\[]", text)[0].lower() for name in set(extras) - {"dev"} for text in extras[name]}
    pinned = {row["name"]: row for row in sbom.packages((ROOT / "requirements-extras.lock").read_text())}
    assert stated and stated <= set(pinned)
    assert all(row["hashes"] for row in pinned.values())
    main = {row["name"]: row["version"] for row in sbom.packages((ROOT / "requirements.lock").read_text())}
    assert {name: row["version"] for name, row in pinned.items() if name in main} == {
        name: version for name, version in main.items() if name in pinned
    }
    assert set(pinned) - set(main), "the extras bring packages of their own"


def test_sbom_marks_packages_of_extras_optional():
    """Packages that only the extras bring are optional, all others are not."""
    optional = {row["name"] for row in sbom.document()["components"] if row.get("scope") == "optional"}
    main, extras = (
        {row["name"] for row in sbom.packages((ROOT / name).read_text())}
        for name in ("requirements.lock", "requirements-extras.lock")
    )
    assert optional == extras - main >= {"ray", "os-ken"}


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
    assert policy["bans"]["wildcards"] == policy["bans"]["multiple-versions"] == "deny"
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    for skipped in policy["bans"]["skip"]:
        name, _, version = skipped["crate"].partition("@")
        assert any(row["name"] == name and f"{row['version']}.".startswith(f"{version}.") for row in lock), skipped


TOOLS = {
    "cargo-deny": "exit 0",
    "cargo": 'echo "cargo $*"; test "$FINDS" != "$2" -a "$FINDS" != "$3"',
    "python": 'echo "python $*"; test "$FINDS" != "$2" -a "$LACKS" != "$2"',
}


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("finds", ["check", "--offline", "pip", "pip_audit", ""])
def test_audit_fails_over_what_a_tool_finds(tmp_path, finds):
    """A violation that cargo-deny, pip or pip-audit finds fails `make audit`, and is not called skipped."""
    (tmp_path / "advisory-dbs/db").mkdir(parents=True)
    done = audit(tmp_path, TOOLS, FINDS=finds)
    assert (done.returncode != 0) == bool(finds), done.stdout + done.stderr
    assert "skipped" not in done.stdout
    if not finds:
        assert "cargo deny check bans licenses sources" in done.stdout
        assert "cargo deny --offline check advisories" in done.stdout
        assert "python -m pip_audit -r requirements.lock -r requirements-extras.lock" in done.stdout


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_audit_names_what_it_skips(tmp_path):
    """Without cargo-deny, its database and pip-audit, `make audit` names the skipped checks and passes."""
    done = audit(tmp_path, {key: text for key, text in TOOLS.items() if key != "cargo-deny"}, LACKS="import pip_audit")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("skipped: ") == 3 and "cargo deny check" not in done.stdout


def audit(folder, tools, **env):
    """Run `make audit` with stand-ins for its tools."""
    for name, text in tools.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return subprocess.run(
        [shutil.which("make"), "-s", "audit", f"BIN={folder}"], cwd=ROOT, capture_output=True, text=True, check=False,
        env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": os.environ["HOME"], "CARGO_HOME": str(folder), **env},
    )  # fmt: skip
