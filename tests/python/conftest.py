"""Shared parts of the tests, which use the built engine.

A test that needs control over time, failures or the kernel takes the fixture `executor`; processes of `command` have it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "python")]

import fake_executor  # noqa: E402
from fake_executor import ENGINE  # noqa: E402
from loopback import Starter  # noqa: E402

# A shell ignores Ctrl-C in background jobs, and processes inherit that: tests that send it would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

BRIEF = ("--rate", "1mbit", "--duration", "5s")
"""Options of a comparison that takes milliseconds; later ones of the same name replace them."""
SHORT = {"rate": "1mbit", "duration": "5s"}
"""The same for the library."""
BOOT = (
    f"import sys; sys.path[:0] = [{str(HERE)!r}, {str(ROOT / 'python')!r}]; "
    "import fake_executor; fake_executor.install(); from narrows.cli import main; main()"
)
"""A program that is the command with the fake executor."""
BUILT_ENV = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "NO_COLOR": "1", "COLUMNS": "80"}
"""The environment of processes that use the built engine."""


def call(*args):
    """Run the command in this process."""
    from narrows.cli import app
    from narrows.cli.options import spelled_out

    return CliRunner().invoke(app, spelled_out([str(arg) for arg in args]))


def timeless(results):
    """Return results without the wall time that they took."""
    return [{**result, "wall_s": 0} for result in results]


def json_rows(result):
    """Parse the lines that a command printed, one JSON object each."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def narrows_in(folder, *args, prefix=()):
    """Run the command on the built engine in a folder, after the words of `prefix`; skip the test if there is none."""
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "narrows", *map(str, args)],
        cwd=folder, env=BUILT_ENV, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if "cannot import name '_engine'" in done.stderr:
        pytest.skip("the engine is not built: maturin develop")
    return done


def without_rights_in(folder, *args):
    """Run the command as a user without rights: root gives them up in a user namespace, and still reads its files."""
    if os.geteuid() != 0:
        return narrows_in(folder, *args)
    prefix = ("unshare", "--user")
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("needs user namespaces, or a user other than root")
    return narrows_in(folder, *args, prefix=prefix)


def built(expression):
    """Evaluate an expression of `narrows.engine` on the built engine; skip the test if there is none."""
    code = f"import json; from narrows import engine; print(json.dumps({expression}))"
    done = subprocess.run([sys.executable, "-c", code], env=BUILT_ENV, capture_output=True, text=True, check=False)
    if "cannot import name '_engine'" in done.stderr:
        pytest.skip("the engine is not built: maturin develop")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def executor():
    """Execute the runs of a module with the fake executor."""
    with pytest.MonkeyPatch.context() as patch:
        fake_executor.install(patch.setattr)
        yield


@pytest.fixture
def executed(monkeypatch):
    """Return the ids of the runs that are executed from now on."""
    ids, execute = [], ENGINE.run

    def run(planned, *arguments):
        ids.append(json.loads(planned)["id"])
        return execute(planned, *arguments)

    monkeypatch.setattr(ENGINE, "run", run)
    return ids


@pytest.fixture
def command(tmp_path):
    """Start the command in a process of its own, with the fake executor."""

    def start(*args, env=None):
        return subprocess.Popen(
            [sys.executable, "-c", BOOT, *map(str, args)],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "NO_COLOR": "1", **(env or {})},
        )  # fmt: skip

    return start


@pytest.fixture
def start():
    """Start `narrows dccp` in processes of their own, on the built engine."""
    starter = Starter()
    yield starter
    starter.stop()
