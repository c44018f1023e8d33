"""Shared parts of the tests, which use the built engine.

A test that needs control over time, failures or the kernel takes the fixture `executor` or, for processes, `command`.
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
from narrows import claims  # noqa: E402

# Background jobs of a shell ignore Ctrl-C, and their processes inherit this: tests that send it would wait forever.
signal.signal(signal.SIGINT, signal.default_int_handler)

BRIEF = ("--rate", "1mbit", "--duration", "5s")
"""Options of a comparison that takes milliseconds; later options of the same name replace them."""
SHORT = {"rate": "1mbit", "duration": "5s"}
"""The same for the library."""
BOOT = (
    f"import sys; sys.path[:0] = [{str(HERE)!r}, {str(ROOT / 'python')!r}]; "
    "import fake_executor; fake_executor.install(); from narrows.cli import main; main()"
)
"""A program that runs the command with the fake executor."""
BUILT_ENV = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "NO_COLOR": "1", "COLUMNS": "80"}
"""The environment of processes that use the built engine."""
ONE_FLOW = '[network]\nrate = "1mbit"\n[[flows]]\nrtt = "40ms"\nscheme = "bbr"\n'
"""A scenario."""
FIGURE = '[figure]\ntitle = "Shares"\n'
"""The head of a claims file."""


def call(*args):
    """Run the command in this process."""
    from narrows.cli import app
    from narrows.cli.options import spelled_out

    return CliRunner().invoke(app, spelled_out([str(arg) for arg in args]))


def timeless(results):
    """Return results without their wall times."""
    return [{**result, "wall_s": 0} for result in results]


def json_rows(result):
    """Parse the printed lines of a command, one JSON object each."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(done, *messages, status=2):
    """Check that a command, in this process or in its own, ended with this status and these messages."""
    ended = done.returncode if isinstance(done, subprocess.CompletedProcess) else done.exit_code
    assert ended == status, done.stderr
    for message in messages:
        assert message in done.stderr, done.stderr


def ran(done):
    """Check that a command succeeded, in this process or in its own; return it."""
    refused(done, status=0)
    return done


def python(*args, prefix=(), **options):
    """Run Python on the built engine in a separate process, after the words of `prefix`."""
    options = {"env": BUILT_ENV, "capture_output": True, "text": True, "check": False} | options
    return subprocess.run([*prefix, sys.executable, *map(str, args)], **options)


def start_narrows(*args, **options):
    """Start the command on the built engine in a separate process, with pipes for its output."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    options = {"env": BUILT_ENV, "text": True} | pipes | options
    return subprocess.Popen([sys.executable, "-m", "narrows", *map(str, args)], **options)


def narrows_in(folder, *args, prefix=()):
    """Run the command on the built engine in a folder, after the words of `prefix`."""
    return python("-m", "narrows", *args, prefix=prefix, cwd=folder, timeout=120)


def without_rights_in(folder, *args):
    """Run the command as a user without rights: root drops them in a user namespace, and still reads its files."""
    if os.geteuid() != 0:
        return narrows_in(folder, *args)
    prefix = ("unshare", "--user")
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("needs user namespaces, or a user other than root")
    return narrows_in(folder, *args, prefix=prefix)


def built(expression):
    """Evaluate an expression of `narrows.engine` on the built engine."""
    done = python("-c", f"import json; from narrows import engine; print(json.dumps({expression}))")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write_paper(home, paper, **figures):
    """Write the files of a paper: `paper.toml`, and scenario and claims of each figure. Return the folder of papers."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "paper.toml").write_text(paper)
    for name, (scenario, stated) in figures.items():
        (home / f"{name}.toml").write_text(scenario)
        (home / f"{name}.claims.toml").write_text(stated)
    return home.parent


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return the folder of a new study."""
    folder = tmp_path_factory.mktemp("study") / "mine"
    assert call("new", "study", folder).exit_code == 0
    return folder


@pytest.fixture
def read_claims(tmp_path):
    """Read a claims file from its text, optionally with the shared tables of a paper."""

    def sheet(text, **shared):
        path = tmp_path / "fig1.claims.toml"
        path.write_text(FIGURE + text)
        return claims.read(path, claims.Shared(**shared))

    return sheet


@pytest.fixture(scope="module")
def executor():
    """Execute the runs of a module with the fake executor."""
    with pytest.MonkeyPatch.context() as patch:
        fake_executor.install(patch.setattr)
        yield


@pytest.fixture
def executed(monkeypatch):
    """Return the ids of runs executed from now on."""
    ids, execute = [], ENGINE.run

    def run(planned, *arguments):
        ids.append(json.loads(planned)["id"])
        return execute(planned, *arguments)

    monkeypatch.setattr(ENGINE, "run", run)
    return ids


@pytest.fixture
def command(tmp_path):
    """Start the command in a separate process, with the fake executor."""

    def start(*args, env=None):
        return subprocess.Popen(
            [sys.executable, "-c", BOOT, *map(str, args)],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "NO_COLOR": "1", **(env or {})},
        )  # fmt: skip

    return start


@pytest.fixture
def start():
    """Start `narrows dccp` in separate processes, on the built engine."""
    starter = Starter()
    yield starter
    starter.stop()
