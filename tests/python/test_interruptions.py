"""Two writers, SIGKILL at random moments, a full disk, a clock that jumps: nothing finished is lost or shown wrong."""

import json
import os
import random
import shutil
import subprocess
import time

import pytest

import narrows
from attempts import SEED, Tally, many
from narrows import checksums

from conftest import call  # isort: skip

BUFFERS = "network.buffer=1bdp,2bdp,3bdp,4bdp,5bdp,6bdp"
SWEEP = ("compare", "bbr", "--set", BUFFERS, "--jobs", "2", "--trace", "-o", "out")


def shown(out):
    """Return the folder's results without the wall time, and its samples."""
    loaded = narrows.Results.load(out)
    rows = {row["id"]: json.dumps({**row, "wall_s": 0, "build": 0}, sort_keys=True) for row in loaded.raw}
    return rows, loaded.samples.sort("id", "time_s", "index", "series")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, executor):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert call(*SWEEP[:-1], folder / "out").exit_code == 0
    return shown(folder / "out")


@pytest.mark.slow
@pytest.mark.attempts
def test_sigkill_at_random_moments_loses_nothing(command, undisturbed, tmp_path):
    """A sweep that is killed at random moments and resumed ends with the results of an undisturbed one."""
    draw, tally = random.Random(f"kill {SEED}"), Tally("SIGKILL at random moments of a sweep, then resumed")
    print(f"kill: seed {SEED}")
    out, finished = tmp_path / "out", set()
    for _ in range(many(6, 50, 200)):
        process = command(*SWEEP, env={"FAKE_RUN_S": "0.1"})
        try:
            _, stderr = process.communicate(timeout=draw.uniform(0.5, 1.6))
            assert process.returncode == 0, stderr
            tally.add("finished before")
            assert shown(out)[0].keys() == undisturbed[0].keys()
            shutil.rmtree(out)
            finished = set()
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kept = {path.name for path in out.glob("runs/*.json")}
            assert finished <= kept, "a finished run is lost"
            assert all(checksums.read_run(out / "runs" / name) is not None for name in kept)
            finished = kept
            tally.add("killed")
    process = command(*SWEEP)
    assert process.communicate(timeout=60) and process.returncode == 0
    rows, samples = shown(out)
    assert rows.keys() == undisturbed[0].keys()
    assert {key: json.loads(row)["flows"] for key, row in rows.items()} == {
        key: json.loads(row)["flows"] for key, row in undisturbed[0].items()
    }
    assert samples.equals(undisturbed[1])
    assert [path for path in out.rglob(".*") if path.name not in (".lock", checksums.PLAN)] == []
    tally.close()


@pytest.mark.slow
@pytest.mark.attempts
def test_two_writers_leave_whole_results(command, undisturbed, tmp_path):
    """Of two commands in one folder, one is refused with a message or both finish; the results are whole."""
    tally = Tally("two writers in one folder")
    for _ in range(many(1, 5, 50)):
        both = [command(*SWEEP, env={"FAKE_RUN_S": "0.05"}) for _ in range(2)]
        ended = [(process.communicate(timeout=60)[1], process.returncode) for process in both]
        assert sorted(code for _, code in ended) in ([0, 0], [0, 1]), ended
        assert all(code == 0 or "another narrows is writing here" in stderr for stderr, code in ended)
        rows, samples = shown(tmp_path / "out")
        assert rows.keys() == undisturbed[0].keys()
        assert samples.equals(undisturbed[1])
        shutil.rmtree(tmp_path / "out")
        tally.add("one refused" if any(code for _, code in ended) else "one after the other")
    tally.close()


@pytest.mark.slow
def test_full_disk_names_file_and_keeps_finished_runs(command, tmp_path):
    """On a full disk the command ends with the name of a file, and what it shows afterwards is whole."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs root that may mount")
    try:
        process = command(*SWEEP[:-1], disk / "out")
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 1, stderr
        assert f"{disk}/out/" in stderr, stderr
        assert "No space left on device" in stderr
        for path in (disk / "out").glob("runs/*.json"):
            assert checksums.read_run(path) is not None
        assert not list((disk / "out").rglob("*.part"))
    finally:
        subprocess.run(["umount", disk], check=True)


def test_clock_that_jumps_changes_nothing(undisturbed, tmp_path, monkeypatch):
    """Clocks that jump by years, and files from the future, change neither results nor which runs are reused."""
    draw = random.Random(f"clock {SEED}")
    monkeypatch.setattr(time, "time", lambda: draw.uniform(-1e9, 1e10))
    monkeypatch.setattr(time, "time_ns", lambda: draw.randrange(10**19))
    out = tmp_path / "out"
    command = (*SWEEP[:-1], out)
    assert call(*command).exit_code == 0
    for path in out.rglob("*"):
        os.utime(path, (draw.randrange(2**33),) * 2)
    again = call(*command)
    assert "reused 6 of 6 runs" in again.stderr
    rows, samples = shown(out)
    assert rows.keys() == undisturbed[0].keys()
    assert samples.equals(undisturbed[1])
