"""`narrows new study`: a folder that `narrows reproduce` runs, and what it refuses. The tutorial's scheme compiles."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from narrows import papers, studies

from conftest import ROOT, call, narrows_in, ran, refused  # isort: skip

TUTORIAL = ROOT / "docs" / "topics" / "sixth-paper.md"
CLAIMS = [("delay", "value"), ("shorter", "less"), ("used", "at_least")]


@pytest.mark.slow
def test_new_study_runs_from_folder_to_report(tmp_path):
    """A new study runs unchanged: claims with verdicts in both worlds, and a report with its plot."""
    made = ran(narrows_in(tmp_path, "new", "study", "mine/shallow-buffers"))
    assert made.stderr.splitlines()[-1] == "run it with: narrows reproduce mine/shallow-buffers"
    folder = tmp_path / "mine" / "shallow-buffers"
    assert sorted(path.name for path in folder.iterdir()) == sorted(studies.FILES)
    done = ran(narrows_in(tmp_path, "reproduce", "mine/shallow-buffers", "-o", "report"))
    assert "shallow-buffers fig1, as the paper ran it (ns-3)" in done.stdout
    assert "shallow-buffers fig1, today" in done.stdout
    assert len(re.findall(r"(?:✓ holds|\? open|≈ direction|✗ no) *$", done.stdout, re.MULTILINE)) == 2 * len(CLAIMS)
    rows = json.loads((tmp_path / "report" / "claims.json").read_text())
    assert [(row["id"], row["kind"]) for row in rows] == 2 * CLAIMS
    assert [row["world"] for row in rows] == ["paper"] * 3 + ["today"] * 3
    assert rows[0]["than"] is not None, "the value has an alternative"
    assert {row["ours"]["seeds"] for row in rows} <= {3, 5}
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Shallow buffers" in page
    assert page.count("data:image/png;base64,") == 1


@pytest.mark.slow
def test_study_runs_in_its_own_folder_and_by_figure(tmp_path):
    """A dot names the current folder; a figure may follow, as after the name of a paper."""
    folder = tmp_path / "queue"
    studies.create(folder)
    done = ran(narrows_in(folder, "reproduce", ".", "fig1", "--quick", "--json", "-o", tmp_path / "report"))
    assert {json.loads(line)["paper_id"] for line in done.stdout.splitlines()} == {"queue"}
    unknown = narrows_in(folder, "reproduce", ".", "fig2")
    refused(unknown, "FIGURE: the paper 'queue' has no figure 'fig2'; accepted: fig1")


def test_new_study_is_commented_and_short(tmp_path):
    """Every file explains itself, fits on a screen or two, and states the name of the study."""
    for path in studies.create(tmp_path / "two-rtts"):
        text = path.read_text()
        assert len(text.splitlines()) < 70
        assert "$" not in text
        if path.suffix == ".toml":
            tomllib.loads(text)
            assert text.startswith("# ")
            assert len(re.findall(r"(?:^|  )# ", text, re.MULTILINE)) >= 4
    assert 'title = "Two rtts"' in (tmp_path / "two-rtts" / "paper.toml").read_text()


@pytest.mark.parametrize("name", ["", ".", "..", "My-Study", "my study", "a_b", "a.toml", "-", "-a", "é", "a" * 65])
def test_invalid_name_of_study_is_refused(tmp_path, monkeypatch, name):
    """An invalid name of a study ends with status 2 and what is accepted; nothing is written."""
    monkeypatch.chdir(tmp_path)
    result = call("new", "study", "--", name)
    refused(result, "NAME: a study cannot be called")
    assert "accepted: up to 64 lower-case letters, digits and hyphens" in result.stderr
    assert not list(tmp_path.iterdir())


def test_existing_work_is_never_overwritten(tmp_path):
    """A folder with any file, even a hidden one, is refused, and so is a file; an empty folder is accepted."""
    folder = tmp_path / "mine"
    folder.mkdir()
    assert call("new", "study", folder).exit_code == 0
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for target, problem in ((folder, "is not empty"), (folder / "paper.toml", "cannot be called")):
        result = call("new", "study", target)
        refused(result, problem)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".git").touch()
    (tmp_path / "file").touch()
    for name, problem in (("hidden", "is not empty"), ("file", "is a file"), ("file/mine", "is a file, so")):
        refused(call("new", "study", tmp_path / name), f"NAME: {tmp_path / name.partition('/')[0]} {problem}")


def test_locate_prefers_folder_then_name(tmp_path, monkeypatch):
    """PAPER is a folder with a paper.toml, else a name; with --papers it is a name only."""
    monkeypatch.chdir(tmp_path)
    studies.create(tmp_path / "nodectl")
    assert papers.locate(None, "nodectl") == (Path(), "nodectl")
    assert papers.locate(None, "./nodectl/") == (Path(), "nodectl")
    assert papers.locate(None, str(tmp_path / "nodectl")) == (tmp_path, "nodectl")
    assert papers.locate(ROOT / "papers", "nodectl") == (ROOT / "papers", "nodectl")
    monkeypatch.chdir(tmp_path / "nodectl")
    assert papers.locate(None, ".") == (tmp_path, "nodectl")
    assert papers.locate(None, "bbr-gc")[1] == "bbr-gc"


def test_unknown_paper_names_both_ways(tmp_path):
    """The error for a path without a paper says that a folder is accepted."""
    refused(call("reproduce", tmp_path / "nothing"), "without --papers the path of a folder with a paper.toml")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_scheme_of_the_tutorial_compiles(tmp_path):
    """The scheme that the tutorial prints and its line of the registry compile in a copy of the tree, as formatted."""
    file, line = re.findall(r"^```rust\n(.*?)^```$", TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for name in ("Cargo.toml", "Cargo.lock", "rustfmt.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "crates", tmp_path / "crates")
    schemes = tmp_path / "crates" / "cc" / "src" / "schemes"
    (schemes / "gentle.rs").write_text(file)
    registry = (schemes / "mod.rs").read_text()
    listed, lists = re.subn(
        r"^registry! \{\n(?:    .*\n)+", lambda match: match[0] + line, registry, flags=re.MULTILINE
    )
    assert lists == 1
    (schemes / "mod.rs").write_text(listed)
    env = {**os.environ, "CARGO_TARGET_DIR": str(tmp_path / "target")}
    checks = (
        ["rustfmt", "--edition", "2024", "--check", str(schemes / "gentle.rs")],
        ["cargo", "check", "--quiet", "--package", "narrows-cc"],
    )
    for command in checks:
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not done.stderr, "no warnings"
