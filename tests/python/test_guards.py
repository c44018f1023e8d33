"""Guards of results and folders: each is tested alone, because other guards would hide that it is missing."""

import errno
import json
import os
import re

import pytest

import narrows
from narrows import checksums, engine, files, sql
from narrows.errors import DamagedError, UsageError
from narrows.runner import Runner

from conftest import ONE_FLOW, timeless  # isort: skip


def test_full_disk_error_names_the_file_itself(tmp_path, monkeypatch):
    """An error that names no file, such as a full disk, gets the name of the file, not of its temporary file."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        files.write_atomic(tmp_path / "a.json", "text")
    assert caught.value.filename == str(tmp_path / "a.json")


def test_library_refuses_a_linked_folder_of_results(tmp_path):
    """The library writes into no folder behind a link either."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(UsageError, match="link is a symbolic link; accepted: "):
        Runner(out=tmp_path / "link").run([])
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT * FROM nosuch('x')", "calls 'nosuch', which is no function of values"),
        ("SELECT * FROM \"nosuch\"('x')", "which is no function of values"),
        ("SELECT 'read_csv' AS a FROM t", "but sees no files"),
        ("SELECT 'a\\' AS a FROM t", "a backslash or a dollar sign"),
        ("SELECT $$a$$ AS a FROM t", "a backslash or a dollar sign"),
        ("DROP TABLE t", "begins with 'drop'"),
        ("SELECT cast(a AS decimal(99,99)) AS a FROM t", "casts to decimal; accepted: casts to double"),
        ("SELECT a::numeric(0, 0) AS a FROM t", "casts to numeric; accepted: casts to double"),
        ("SELECT a // null AS a FROM t", "has the operator //; accepted: floor(a / b)"),
        ("SELECT null = any(-1) AS a FROM t", "calls 'any', which is no function of values"),
        ("SELECT null = all(-1) AS a FROM t", "compares with all of a list"),
    ],
)
def test_each_rule_of_queries_refuses_alone(query, problem):
    """Each rule for queries refuses something that no other rule does."""
    with pytest.raises(ValueError, match=re.escape(problem)):
        sql.check(query)


def test_deep_result_with_right_checksum_is_named(tmp_path):
    """A result that is nested too deeply for Python is named, although its checksum is valid."""
    deep = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    checksums.write_all(tmp_path, {"results.jsonl": deep})
    with pytest.raises(DamagedError, match=r"results\.jsonl: line 1 is nested too deeply"):
        narrows.Results.load(tmp_path)


@pytest.mark.parametrize("key", ["version", "build"])
def test_whole_run_of_another_version_or_build_is_repeated(key, tmp_path, executed):
    """An undamaged run, with a valid checksum, of another version or build is executed again."""
    planned = engine.plan(ONE_FLOW, "text", None, [])
    (first,) = Runner(out=tmp_path).run(planned)
    path = tmp_path / "runs" / f"{planned[0].id}.json"
    saved = json.loads(path.read_text())
    del saved["checksum"]
    path.write_text(checksums.with_checksum(saved | {key: "other"}) + "\n")
    assert checksums.read_run(path)[key] == "other"
    before = len(executed)
    (again,) = Runner(out=tmp_path).run(planned)
    assert timeless([again]) == timeless([first])
    assert len(executed) == before + 1


def test_interrupted_end_leaves_no_checksums(tmp_path, monkeypatch):
    """While the last files are written there are no checksums: the command writes them after these files."""
    checksums.write_all(tmp_path, {"a": b"1"})

    def full(path, content):
        raise OSError("no space left")

    monkeypatch.setattr(checksums, "write_atomic", full)
    with pytest.raises(OSError, match="no space"):
        checksums.write_all(tmp_path, {"a": b"2"})
    assert not (tmp_path / "SHA256SUMS").exists()


def test_file_is_replaced_not_rewritten(tmp_path):
    """A write creates a new file; another link to the old file still has the old content."""
    path, before = tmp_path / "a", tmp_path / "before"
    files.write_atomic(path, "old")
    os.link(path, before)
    files.write_atomic(path, "new")
    assert (path.read_text(), before.read_text()) == ("new", "old")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda r: r.update(id="../../x"), "id is '../../x'"),
        (lambda r: r.update(point=[]), "point is no table of values"),
        (lambda r: r.update(traces={"../x": "0"}), "traces is no table of checksums"),
        (lambda r: r.update(traces={"x": 0}), "traces is no table of checksums"),
        (lambda r: r.update(seed=True), "seed is 'True'"),
        (lambda r: r.update(seed=1 << 63), "seed is '9223372036854775808'"),
        (lambda r: r.update(scenario=None), "scenario is 'None'"),
        (lambda r: r.update(flows={}), "flows is no list of tables"),
        (lambda r: r.update(links=[[]]), "links is no list of tables"),
        (lambda r: r["flows"][0].update(goodput_mbit_s="x"), "flows: goodput_mbit_s is 'x'"),
        (lambda r: r["flows"][0].update(rtt_mean_ms=False), "flows: rtt_mean_ms is 'False'"),
        (lambda r: r["flows"][0].pop("scheme"), "flows: scheme is missing"),
        (lambda r: r["links"][0].update(link=3), "links: link is '3'"),
        (lambda r: r.pop("jain"), "jain is missing"),
        (lambda r: r.update(duration_s=None), "duration_s is 'None'"),
        (lambda r: r.update(warmup_s=[[]]), "warmup_s is '[[]]'"),
        (lambda r: r["point"].update({"network.buffer": 1e308}), "point: network.buffer is '1e+308'"),
        (lambda r: r["flows"][0].update(rtt_mean_ms=float("nan")), "flows: rtt_mean_ms is 'nan'"),
    ],
)
def test_result_of_another_shape_is_named_not_shown(change, problem, tmp_path):
    """A result with a valid checksum and a value of another type is named with line and key, and not shown."""
    result = json.loads(json.dumps(narrows.run(ONE_FLOW).raw[0]))
    change(result)
    checksums.write_all(tmp_path, {"results.jsonl": (json.dumps(result) + "\n").encode()})
    with pytest.raises(DamagedError, match=re.escape(f"results.jsonl: line 1 is no result: {problem}")):
        narrows.Results.load(tmp_path)
