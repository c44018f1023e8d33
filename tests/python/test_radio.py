"""Generated radio paths: the command and the function around the engine's generator."""

import pytest
from typer.testing import CliRunner

import narrows
from narrows.cli import app


def call(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_the_command_writes_three_files(tmp_path):
    result = call("trace", "5g", "--seed", 3, "--duration", "2s", "-o", tmp_path / "path")
    assert result.exit_code == 0, result.stderr
    names = ("capacity.trace", "loss.trace", "delay.trace")
    assert [(tmp_path / "path" / name).is_file() for name in names] == [True] * 3
    assert all(name in result.stderr for name in names)
    assert result.stdout == ""
    times = [int(line) for line in (tmp_path / "path" / "capacity.trace").read_text().splitlines()]
    assert times == sorted(times)
    assert times[-1] == 2_000
    made = narrows.radio_trace(seed=3, duration="2s", mean="150mbit")
    assert (tmp_path / "path" / "capacity.trace").read_text() == made.capacity
    assert (tmp_path / "path" / "loss.trace").read_text() == made.loss
    assert (tmp_path / "path" / "delay.trace").read_text() == made.delay


def test_the_function_repeats_and_writes(tmp_path):
    first = narrows.radio_trace(seed=1, duration="5s")
    assert narrows.radio_trace(seed=1, duration="5s") == first
    assert narrows.radio_trace(seed=2, duration="5s").capacity != first.capacity
    written = first.write(tmp_path / "new" / "folder")
    assert [path.read_text() for path in written] == [first.capacity, first.loss, first.delay]
    with pytest.raises(narrows.ScenarioError):
        narrows.radio_trace(duration="0.1s")


def test_a_refusal_names_the_flag(tmp_path):
    short = call("trace", "5g", "--duration", "0.5s", "-o", tmp_path / "x")
    assert short.exit_code == 2
    assert short.stderr.startswith("narrows: --duration: ")
    assert "accepted:" in short.stderr
    other = call("trace", "6g", "-o", tmp_path / "x")
    assert other.exit_code == 2
    assert other.stderr.startswith("narrows: KIND: ")
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("")
    file = call("trace", "5g", "-o", tmp_path / "file")
    assert file.exit_code == 2
    assert "--out" in file.stderr
