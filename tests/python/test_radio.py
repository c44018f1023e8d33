"""Generated radio paths: the command and the function."""

import pytest

import narrows

from conftest import call, ran, refused  # isort: skip


def test_trace_command_writes_three_files(tmp_path):
    """`narrows trace` writes the three files of the path that the function generates."""
    result = ran(call("trace", "5g", "--seed", 3, "--duration", "2s", "-o", tmp_path / "path"))
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


def test_radio_trace_repeats_for_equal_seeds(tmp_path):
    """Equal seeds give equal paths, `write` creates the folder, and an invalid value raises `ScenarioError`."""
    first = narrows.radio_trace(seed=1, duration="5s")
    assert narrows.radio_trace(seed=1, duration="5s") == first
    assert narrows.radio_trace(seed=2, duration="5s").capacity != first.capacity
    written = first.write(tmp_path / "new" / "folder")
    assert [path.read_text() for path in written] == [first.capacity, first.loss, first.delay]
    with pytest.raises(narrows.ScenarioError):
        narrows.radio_trace(duration="0.1s")


def test_trace_command_error_names_option(tmp_path):
    """An error names the option or argument, and writes nothing."""
    refused(call("trace", "5g", "--duration", "0.5s", "-o", tmp_path / "x"), "narrows: --duration: ", "accepted:")
    refused(call("trace", "6g", "-o", tmp_path / "x"), "narrows: KIND: ")
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("")
    refused(call("trace", "5g", "-o", tmp_path / "file"), "--out")
