"""Untrusted folders of results: nothing is read without limit, and nothing outside the folder is shown."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

import narrows
from narrows import checksums
from narrows.errors import DamagedError, UsageError

from conftest import call, refused  # isort: skip

TEXT = 'name = "s"\nduration = "2s"\n[network]\nrate = "1mbit"\n[[flows]]\nrtt = "40ms"\nscheme = "bbr"\n'


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a folder of one run with its trace."""
    out = tmp_path_factory.mktemp("saved") / "out"
    narrows.run(TEXT, trace=True, out=out)
    return out


@pytest.fixture
def out(saved, tmp_path):
    """Return a copy of the folder."""
    shutil.copytree(saved, tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture(autouse=True)
def finite(monkeypatch):
    """Let the hash of a file beyond the limits fail instead of taking an hour."""
    digest = checksums.hashlib.file_digest

    def bounded(file, name):
        size = os.fstat(file.fileno()).st_size
        assert size <= 1 << 30, f"{size} bytes are hashed"
        return digest(file, name)

    monkeypatch.setattr(checksums.hashlib, "file_digest", bounded)


def listed(out, name, digest="0" * 64):
    """Add a file to the checksums of a folder."""
    with (out / "SHA256SUMS").open("a") as sums:
        sums.write(f"{digest}  {name}\n")


def sparse(path, size=1 << 40):
    """Make a file large without using a disk."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


# Sizes


@pytest.mark.parametrize("command", ["plot", "report"])
def test_listed_file_without_end_is_named(command, out):
    """`plot`, `report` and `load` hash no file of 1 TiB that `SHA256SUMS` lists; they name it immediately."""
    sparse(out / "big")
    listed(out, "big")
    done = call(command, out)
    assert done.exit_code == 1 and done.stderr.startswith(f"narrows: {out / 'big'}: is larger than 1024 MiB;"), done
    with pytest.raises(DamagedError, match="big: is larger than 1024 MiB; run the command"):
        narrows.Results.load(out)


def test_listed_files_have_a_limit_together(out, monkeypatch):
    """The files of `SHA256SUMS` also have a limit of their total size, even if they are links to one file."""
    size = (out / "results.jsonl").stat().st_size
    whole = (out / "SHA256SUMS").read_text()
    for number in range(100):
        os.link(out / "results.jsonl", out / f"again-{number}")
    line = next(line for line in whole.splitlines() if line.endswith("results.jsonl"))
    copies = "".join(f"{line.partition(' ')[0]}  again-{number}\n" for number in range(100))
    (out / "SHA256SUMS").write_text(whole + copies)
    assert len(narrows.Results.load(out)) == 1
    monkeypatch.setattr(checksums, "MOST_SUMMED", 100 * size)
    with pytest.raises(DamagedError, match=r"again-\d+: is larger than"):
        narrows.Results.load(out)


def test_trace_without_end_is_named_and_repeated(out):
    """A trace of 1 TiB is named by `plot`, and its run is repeated."""
    (path,) = out.glob("traces/*/samples.parquet")
    whole = path.read_bytes()
    sparse(path)
    done = call("plot", out)
    assert done.exit_code == 1 and f"{path}: is larger than 16384 MiB; run" in done.stderr, done.stderr
    with pytest.warns(UserWarning, match=r"samples.parquet is larger than 16384 MiB: the run is repeated"):
        narrows.run(TEXT, trace=True, out=out)
    assert path.read_bytes() == whole


def test_written_trace_is_one_that_is_read(tmp_path, monkeypatch):
    """A new trace beyond the limit ends the command with a message; otherwise its run would repeat forever."""
    monkeypatch.setattr(checksums, "MOST_TRACE", 1000)
    with pytest.raises(
        UsageError, match=r"the trace is larger than .*; accepted: a longer interval of `trace.samples`"
    ):
        narrows.run(TEXT, trace=True, out=tmp_path / "out")
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_listed_file_of_another_kind_is_named(kind, out):
    """A pipe, a device and a folder in `SHA256SUMS` are named; nothing waits for a writer."""
    listed(out, "odd")
    if kind == "pipe":
        os.mkfifo(out / "odd")
    elif kind == "device":
        (out / "odd").symlink_to("/dev/zero")
    else:
        (out / "odd").mkdir()
    with pytest.raises(DamagedError, match=r"/odd: .*; run the command"):
        narrows.Results.load(out)


# Links


@pytest.mark.parametrize(
    "pattern",
    ["SHA256SUMS", "results.jsonl", "flows.parquet", "scenario.toml", "runs/*.json", "traces/*/samples.parquet",
     "runs", "traces", ".plan"],
)  # fmt: skip
def test_links_out_of_the_folder_are_named(pattern, out, tmp_path):
    """A link that leads out of the folder is named and shows nothing, although its target is intact."""
    assert call("run", "-o", out, "--trace", scenario(tmp_path)).exit_code == 0
    if pattern.startswith(("runs", ".plan")):
        (out / "SHA256SUMS").unlink()
        (out / "results.jsonl").unlink()
    (path,) = out.glob(pattern)
    shutil.move(path, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    done = call("report", out, "-o", tmp_path / "page.html")
    refused(done, "is a symbolic link that leads out of", status=1)
    assert f"{path}" in done.stderr
    assert not (tmp_path / "page.html").exists()


def test_sum_of_a_link_to_a_system_file_is_refused(out):
    """A link to a file of the system is refused even with a valid checksum."""
    (out / "odd").symlink_to("/etc/passwd")
    listed(out, "odd", hashlib.sha256(Path("/etc/passwd").read_bytes()).hexdigest())
    with pytest.raises(DamagedError, match="/odd: is a symbolic link that leads out of"):
        narrows.Results.load(out)


def test_links_to_and_within_the_folder_are_read(out, tmp_path):
    """The folder may be behind a link, and a link in the folder may lead to another file of the folder."""
    (tmp_path / "link").symlink_to(out)
    shutil.move(out / "results.jsonl", out / "other")
    (out / "results.jsonl").symlink_to("other")
    assert len(narrows.Results.load(tmp_path / "link").samples) > 0


@pytest.mark.parametrize("pattern", ["runs/*.json", "traces/*/samples.parquet"])
def test_reused_runs_lie_in_the_folder(pattern, out, tmp_path):
    """A run or a trace behind a link out of the folder does not count as finished."""
    (path,) = out.glob(pattern)
    shutil.move(path, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    try:
        with pytest.warns(UserWarning, match=r"is a symbolic link that leads out of .*: the run is repeated"):
            narrows.run(TEXT, trace=True, out=out)
    except UsageError as error:  # the run is repeated, and no output replaces a link
        assert pattern.startswith("runs") and "is a symbolic link; accepted" in str(error)


# Characters


@pytest.mark.slow
def test_letters_for_terminals_are_escaped(out):
    """Strings of a saved run with a valid checksum cannot control the terminal."""
    result = json.loads((out / "results.jsonl").read_text())
    result["flows"][0] |= {"params": "\x1b]0;PWN\x07\x1b[2J", "label": "bbr\x9b2J"}
    result |= {"scenario": "a\x1b[2Jb", "point": {"network.buffer": "\x1b[2J", "a\x1b[2J": "1"}}
    checksums.write_all(out, {"results.jsonl": (json.dumps(result) + "\n").encode()})
    for command in ("plot", "report"):
        done = call(command, out)
        assert done.exit_code in (0, 2), done.output
        assert not {"\x1b", "\x9b", "\x07"} & set(done.output)


def test_listed_name_with_a_zero_byte_is_damage(tmp_path):
    """No file has a name with a zero byte: a list of checksums with one is damaged."""
    out = tmp_path / "out"
    narrows.run(TEXT, out=out)
    sums = out / "SHA256SUMS"
    sums.write_bytes(sums.read_bytes().replace(b"flows", b"fl\0ws", 1))
    with pytest.raises(DamagedError, match="is no list of checksums"):
        narrows.Results.load(out)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plot", "report"])
def test_letters_without_a_glyph_give_no_warning(command, out, recwarn):
    """A label that the font cannot show, such as one in Chinese, is drawn with boxes and without a warning."""
    line = json.loads((out / "results.jsonl").read_text())
    line["flows"][0] |= {"label": "\u6d41\u91cf", "params": "\u540d=\u6d41"}
    line["scenario"] = "\u6d41\u91cf"
    checksums.write_all(out, {"results.jsonl": (json.dumps(line) + "\n").encode()})
    assert call(command, out, *(("--kind", "bar", "--x", "spec") if command == "plot" else ())).exit_code == 0
    assert [str(each.message) for each in recwarn] == []


def scenario(folder):
    """Write the scenario of the saved run to a file."""
    path = folder / "s.toml"
    path.write_text(TEXT)
    return path
