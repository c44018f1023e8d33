"""Every test here runs against the stand-in engine, so that the suite needs no build."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "python")]

import fake_engine  # noqa: E402

sys.modules["narrows._engine"] = fake_engine  # type: ignore[assignment]

BOOT = (
    f"import sys; sys.path[:0] = [{str(HERE)!r}, {str(ROOT / 'python')!r}]; import fake_engine; "
    "sys.modules['narrows._engine'] = fake_engine; from narrows.cli import main; main()"
)


@pytest.fixture
def command(tmp_path):
    """Start the command in a process of its own."""

    def start(*args, env=None):
        return subprocess.Popen(
            [sys.executable, "-c", BOOT, *map(str, args)],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "NO_COLOR": "1", **(env or {})},
        )  # fmt: skip

    return start
