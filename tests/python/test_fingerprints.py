"""The fingerprints of the extension module's build script: which changes of sources repeat which saved runs."""

import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT

pytestmark = pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
SCRIPT = ROOT / "crates" / "python" / "build.rs"


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """Compile the build script, which has no dependencies."""
    program = tmp_path_factory.mktemp("script") / "build"
    subprocess.run(["rustc", "--edition", "2024", SCRIPT, "-o", program], check=True)
    return program


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Copy the sources of the workspace."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy(ROOT / name, tree)
    for folder in ("crates", "bpf"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("target", "tests", "benches"))
    return tree


@pytest.fixture
def fingerprints(script, tree, tmp_path):
    """Return a function that computes the fingerprints, with a line added to a file of the tree if one is named."""

    def compute(changed=None):
        path = None if changed is None else tree / changed
        text = "" if path is None else path.read_text()
        if path is not None:
            path.write_text(f"{text}\n// A comment.\n")
        env = {**os.environ, "CARGO_MANIFEST_DIR": str(tree / "crates" / "python"), "OUT_DIR": str(tmp_path)}
        subprocess.run([script], env=env, stdout=subprocess.DEVNULL, check=True)
        if path is not None:
            path.write_text(text)
        return json.loads((tmp_path / "sources.json").read_text())

    return compute


def differing(before, after, kind):
    return {name for name, value in before[kind].items() if after[kind][name] != value}


def closures():
    """Return the crates that decide a run on each backend: dependencies, by cargo, of the roots in the build script."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    used = {
        package["name"]: {row["name"] for row in package["dependencies"] if row["kind"] != "dev"}
        for package in json.loads(done.stdout)["packages"]
    }
    found = {}
    for backend, roots in re.findall(r'\("(\w+)", &\[(.*?)\]\)', SCRIPT.read_text()):
        found[backend], todo = set(), re.findall(r'"(.*?)"', roots)
        while todo:
            name = todo.pop()
            if name not in found[backend]:
                found[backend].add(name)
                todo += used[name] & used.keys()
    return found, used.keys()


@pytest.mark.slow
def test_change_of_a_crate_repeats_the_runs_that_depend_on_it(fingerprints, tree):
    """Each crate decides the runs of the backends whose crates depend on it, and no others."""
    before = fingerprints()
    decide, crates = closures()
    assert set(decide) == set(before["backends"]) == {"sim", "kernel", "quic"}
    for manifest in sorted(tree.glob("crates/*/Cargo.toml")):
        name = re.search(r'^name = "(.*)"', manifest.read_text(), re.MULTILINE).group(1)
        assert name in crates
        after = fingerprints(manifest.parent / "src" / "lib.rs")
        assert differing(before, after, "backends") == {key for key, names in decide.items() if name in names}, name
        assert (before["schemes"], before["build"]) == (after["schemes"], after["build"])
    assert fingerprints() == before


@pytest.mark.parametrize(
    ("pattern", "backends"),
    [
        ("crates/**/awake.rs", {"kernel", "quic"}),
        ("crates/**/negotiation*/**/*.rs", {"kernel"}),
        ("bpf/*.bpf.c", {"kernel"}),
        ("bpf/*.h", {"kernel"}),
    ],
)
def test_change_of_what_joins_hosts_repeats_runs_in_real_time(pattern, backends, fingerprints, tree):
    """Waiting, negotiation and programs of the kernel are part of the backends that use them."""
    file = next(tree.glob(pattern))
    assert backends <= differing(fingerprints(), fingerprints(file), "backends") <= {"kernel", "quic"}


def test_change_of_a_scheme_repeats_runs_of_those_that_use_it(fingerprints):
    """A scheme's file decides its runs and those of schemes built on it; the list of schemes decides all runs."""
    before = fingerprints()
    folder = "crates/cc/src/schemes"
    for file, some, others in (("bbr_gc.rs", {"bbr-gc"}, {"bbr", "cubic"}), ("cubic.rs", {"cubic"}, {"bbr-gc"})):
        after = fingerprints(f"{folder}/{file}")
        assert after["backends"] == before["backends"]
        changed = differing(before, after, "schemes")
        assert some <= changed
        assert not others & changed
    after = fingerprints(f"{folder}/mod.rs")
    assert differing(before, after, "backends") == {"sim", "kernel", "quic"}
    assert after["schemes"] == before["schemes"]


def test_change_of_dependencies_repeats_all_runs(fingerprints):
    """The locked versions of dependencies decide every run."""
    before, after = fingerprints(), fingerprints("Cargo.lock")
    assert before["build"] != after["build"]
    assert before["backends"] == after["backends"]
