"""Damaged results: named and repeated, never shown. All damage comes from printed seeds."""

import hashlib
import json
import os
import re
import shutil
import warnings

import pytest

import narrows
from attempts import Tally, generators, many
from narrows import checksums, drawing, engine, files
from narrows.errors import DamagedError, UsageError
from narrows.runner import Runner

from conftest import BRIEF, call, refused, timeless  # isort: skip

TEXT = 'duration = "2s"\n[network]\nrate = "1mbit"\n[[flows]]\nrtt = "40ms"\nscheme = "bbr"\n[sweep]\n"network.buffer" = ["1bdp", "2bdp", "3bdp"]\n'


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a folder of three runs with traces, its results and its samples."""
    out = tmp_path_factory.mktemp("saved") / "out"
    results = narrows.run(TEXT, trace=True, out=out)
    return out, results.raw, results.samples


def test_runs_of_an_earlier_command_are_not_mixed_in(tmp_path):
    """A folder without final results shows the runs of its last command; earlier commands can reuse earlier runs."""
    out, text = tmp_path / "out", '[network]\nrate = "1mbit"\n[[flows]]\nrtt = "40ms"\nscheme = "{}"\n'
    for scheme in ("bbr", "cubic"):
        narrows.run(text.format(scheme), out=out)
    (out / checksums.SUMS).unlink()
    assert len(list((out / "runs").glob("*.json"))) == 2
    assert narrows.Results.load(out).flows["scheme"].to_list() == ["cubic"]
    (out / checksums.PLAN).unlink()  # as earlier versions left it
    assert len(narrows.Results.load(out)) == 2


def cut(data, draw):
    return data[: draw.randrange(len(data))]


def bit(data, draw):
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def zeros(data, draw):
    at = draw.randrange(len(data))
    return data[:at] + bytes(len(data[at : at + 64])) + data[at + 64 :]


def digit(data, draw):
    """Change a digit of a number, which keeps every format valid."""
    places = [match.start() for match in re.finditer(rb"[0-9]", data)] or [0]
    at = draw.choice(places)
    return data[:at] + b"%d" % ((data[at] - ord("0") + draw.randrange(1, 10)) % 10) + data[at + 1 :]


def more(data, draw):
    return data + draw.randbytes(draw.randrange(1, 100))


def twice(data, draw):
    return data * 2


def line_less(data, draw):
    lines = data.splitlines(keepends=True)
    lines.pop(draw.randrange(len(lines)))
    return b"".join(lines)


def reordered(data, draw):
    lines = data.splitlines(keepends=True)
    draw.shuffle(lines)
    return b"".join(lines)


def deep(data, draw):
    return b"[" * 100_000 + b"]" * 100_000


def deep_inside(data, draw):
    return data.replace(b'"point": {', b'"deep": ' + b"[" * 50_000 + b"]" * 50_000 + b', "point": {')


def infinite(data, draw):
    return re.sub(rb"[0-9]+\.[0-9]+", draw.choice([b"NaN", b"Infinity", b"1e999", b"null"]), data, count=1)


def recoded(data, draw):
    return data.decode("latin-1").encode("utf-16")


def random_bytes(data, draw):
    return draw.randbytes(len(data))


CHANGES = [
    cut, bit, zeros, digit, more, twice, line_less, reordered, deep, deep_inside, infinite, recoded, random_bytes,
]  # fmt: skip


def remove(path, others, draw):
    path.unlink()


def empty(path, others, draw):
    path.write_bytes(b"")


def other(path, others, draw):
    """Replace a file by another file of the same kind."""
    beside = [each for each in others if each != path] or sorted(path.parent.glob("*.parquet"))
    shutil.copy(draw.choice(beside), path)


def folder(path, others, draw):
    path.unlink()
    path.mkdir()


def fifo(path, others, draw):
    path.unlink()
    os.mkfifo(path)


def link(path, others, draw):
    path.unlink()
    path.symlink_to(draw.choice([each for each in others if each != path] or [path.parent]))


REPLACEMENTS = [remove, empty, other, folder, fifo, link]


def damage(out, draw):
    """Damage one file of a folder of results; return the file and the kind."""
    groups = [
        sorted(out.glob("runs/*.json")),
        sorted(out.glob("traces/*/samples.parquet")),
        [out / "results.jsonl"],
        [out / "SHA256SUMS"],
        [out / "scenario.toml"],
        [out / "flows.parquet", out / "links.parquet", out / "runs.parquet"],
    ]
    group = draw.choice(groups)
    path = draw.choice(group)
    kind = draw.choice(CHANGES + REPLACEMENTS)
    if kind in REPLACEMENTS:
        kind(path, group, draw)
    else:
        path.write_bytes(kind(path.read_bytes(), draw))
    return path, kind.__name__


@pytest.mark.slow
@pytest.mark.attempts
def test_damaged_results_are_named_never_shown(saved, tmp_path):
    """Damaged folders give the undamaged figures, or an error that names the file; running again repairs them."""
    whole, raw, samples = saved
    shown, again = Tally("damaged results, loaded"), Tally("damaged results, run again")
    for number, draw in generators("damage", many(30, 300, 5000)):
        out = tmp_path / str(number)
        shutil.copytree(whole, out)
        path, kind = damage(out, draw)
        case = f"{number}: {kind} of {path.relative_to(out)}"
        try:
            loaded = narrows.Results.load(out)
            assert {row["id"]: row["flows"] for row in loaded.raw} == {row["id"]: row["flows"] for row in raw}, case
            assert loaded.samples.sort(loaded.samples.columns).equals(samples.sort(samples.columns)), case
            shown.add("as before")
        except (DamagedError, UsageError) as error:
            assert path.stem in str(error), (case, error)
            assert "again" in str(error), (case, error)
            shown.add("named")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                done = narrows.run(TEXT, trace=True, out=out)
            except (OSError, UsageError) as error:  # a folder or link in place of the file cannot be replaced
                assert path.name in str(error) and kind in ("folder", "link"), (case, error)
                again.add("refused")
            else:
                assert [row["flows"] for row in done.raw] == [row["flows"] for row in raw], case
                assert narrows.Results.load(out).samples.equals(samples), case
                again.add("repeated" if caught else "as before")
                if path.parent.name == "runs" and kind != "remove":
                    same = path.read_bytes() == (whole / path.relative_to(out)).read_bytes()
                    assert any(path.name in str(one.message) for one in caught) or same, case
        shutil.rmtree(out)
    shown.close()
    again.close()


@pytest.mark.parametrize("command", ["report", "plot"])
@pytest.mark.parametrize("name", ["results.jsonl", "samples.parquet", "flows.parquet", "links.parquet", "runs.parquet"])
@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x"], ids=["cut", "longer"])
def test_report_and_plot_name_damaged_file(command, name, change, saved, tmp_path):
    """`report` and `plot` on a damaged folder name the file and the remedy, exit with 1 and write nothing."""
    out = tmp_path / "out"
    shutil.copytree(saved[0], out)
    (path,) = list(out.rglob(name))[:1]
    path.write_bytes(change(path.read_bytes()))
    before = sorted(out.rglob("*"))
    done = call(command, out)
    refused(done, f"{path}: does not match its checksum", "run the command that made these results again", status=1)
    assert sorted(out.rglob("*")) == before


def test_run_under_another_name_is_repeated(tmp_path):
    """A saved run under the name of another run is named and repeated, although its checksum is valid."""
    planned = engine.plan(TEXT, "text", None, [])
    first = Runner(out=tmp_path).run(planned)
    paths = [tmp_path / "runs" / f"{item.id}.json" for item in planned]
    shutil.copy(paths[0], paths[1])
    with pytest.warns(UserWarning, match=f"{paths[1].name} holds the run '{planned[0].id}': the run is repeated"):
        assert timeless(Runner(out=tmp_path).run(planned)) == timeless(first)
    shutil.copy(paths[0], paths[1])
    with pytest.raises(DamagedError, match="holds the run"):
        narrows.Results.load(tmp_path)


def test_old_runs_are_repeated_with_one_notice(tmp_path, capsys):
    """Runs of an earlier version, without checksum, are repeated with one line for all, and not shown."""
    command = ("compare", *BRIEF, "bbr", "--set", "network.buffer=1bdp,2bdp,3bdp", "-o", tmp_path)
    assert call(*command).exit_code == 0
    saved = timeless(narrows.Results.load(tmp_path).raw)
    for path in (tmp_path / "runs").iterdir():
        path.write_text(re.sub(r', "checksum": "[^"]*"', "", path.read_text()))
    (tmp_path / "SHA256SUMS").unlink()
    shown = call("plot", tmp_path)
    refused(shown, "has no checksum, as of an earlier version; run", status=1)
    done = call(*command)
    notices = [line for line in done.stderr.splitlines() if "warning" in line]
    assert len(notices) == 1
    assert re.search(r"\.json and 2 more have no checksum, as of an earlier version: the runs are repeated", notices[0])
    assert timeless(narrows.Results.load(tmp_path).raw) == saved
    assert call("plot", tmp_path).exit_code == 0


def test_trace_of_another_run_is_repeated(saved, tmp_path):
    """An intact trace in place of another run's does not match, and its run is repeated."""
    out = tmp_path / "out"
    shutil.copytree(saved[0], out)
    first, second = sorted(out.glob("traces/*/samples.parquet"))[:2]
    whole = second.read_bytes()
    second.write_bytes(first.read_bytes() + b" ")
    with pytest.raises(DamagedError, match=second.parent.name):
        _ = narrows.Results.load(out).samples
    with pytest.warns(UserWarning, match=second.parent.name):
        narrows.run(TEXT, trace=True, out=out)
    assert second.read_bytes() == whole


def test_sums_are_those_of_sha256sum(saved):
    """`SHA256SUMS` is in the format of `sha256sum`, and covers the files that the command writes at its end."""
    lines = (saved[0] / "SHA256SUMS").read_text().splitlines()
    names = [line.partition("  ")[2] for line in lines]
    assert names == ["scenario.toml", "results.jsonl", "flows.parquet", "links.parquet", "runs.parquet"]
    assert lines == [f"{hashlib.sha256((saved[0] / name).read_bytes()).hexdigest()}  {name}" for name in names]


def test_sums_cover_files_of_their_folder_only(saved, tmp_path):
    """A name with a path in `SHA256SUMS` is damage: nothing outside the folder is read."""
    out = tmp_path / "out"
    shutil.copytree(saved[0], out)
    with (out / "SHA256SUMS").open("a") as sums:
        sums.write(f"{'0' * 64}  ../elsewhere\n")
    with pytest.raises(DamagedError, match="SHA256SUMS: is no list of checksums"):
        narrows.Results.load(out)


def hostile(result, draw):
    """Change the type of one value of a result, however deep."""
    places = []

    def walk(value):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            places.append((value, key))
            walk(inner)

    walk(result)
    holder, key = draw.choice(places)
    huge = [10**400, -(1 << 70), 1e308, float("nan")]
    holder[key] = draw.choice([None, "", "x", "../../x", [], {}, [[]], {"a": {}}, True, -1, "\x00", *huge])


@pytest.mark.slow
@pytest.mark.attempts
def test_results_of_strangers_give_no_traceback(saved, tmp_path):
    """Results with valid checksums and wrong types give figures or a message, never an exception of Python."""
    tally = Tally("results of strangers, wrong types")
    line = json.loads((saved[0] / "results.jsonl").read_text().splitlines()[0])
    for number, draw in generators("strangers", many(10, 100, 5000)):
        result = json.loads(json.dumps(line))
        hostile(result, draw)
        text = json.dumps(result) + "\n"
        out = tmp_path / str(number)
        out.mkdir()
        checksums.write_all(out, {"results.jsonl": text.encode()})
        for command in (("report", out), ("plot", out))[number % 8 > 0 :]:
            done = call(*command)
            assert done.exit_code in (0, 1, 2), (number, text, done.exc_info)
            assert done.exception is None or isinstance(done.exception, SystemExit), (number, text, done.exc_info)
            assert done.exit_code == 0 or done.stderr.startswith("narrows: "), (number, done.stderr)
            tally.add({0: "shown", 1: "refused", 2: "refused"}[done.exit_code])
        shutil.rmtree(out)
    tally.close()


@pytest.mark.slow
def test_kept_plot_is_drawn_again_if_damaged(tmp_path):
    """A plot of an earlier reproduction is reused only if its files are unchanged."""
    results = narrows.run(TEXT)
    item = drawing.Drawing("fig", "place", {"kind": "line", "x": "network.buffer"}, results, b"data")
    for name, content in drawing.draw([item], tmp_path).items():
        files.write_atomic(tmp_path / name, content)
    whole = (tmp_path / "fig.png").read_bytes()
    drawn = []
    drawing.draw([item], tmp_path, print_status=drawn.append)
    assert drawn == []
    (tmp_path / "fig.png").write_bytes(whole[:-1])
    assert drawing.draw([item], tmp_path, print_status=drawn.append)["fig.png"] == whole
    assert drawn == ["drawing 1 of 1 plots"]


def test_report_checks_its_output_first(tmp_path):
    """A page that cannot be written is refused before the results are read."""
    (tmp_path / "file").write_text("keep")
    done = call("report", tmp_path / "absent", "-o", tmp_path / "file" / "page.html")
    refused(done, "cannot be created; accepted: ")
    assert "absent" not in done.stderr


@pytest.mark.slow
def test_output_links_are_refused(tmp_path):
    """No output follows a symbolic link: its target stays unchanged, and the message names the link."""
    victim = tmp_path / "victim"
    victim.write_text("keep")
    linked = tmp_path / "link"
    linked.symlink_to(victim)
    with pytest.raises(UsageError, match="link is a symbolic link; accepted: "):
        files.write_atomic(linked, "text")
    out = tmp_path / "out"
    assert call("compare", *BRIEF, "bbr", "-o", out).exit_code == 0
    for command in (
        ("plot", out, "-o", tmp_path / "link.png"),
        ("report", out, "-o", tmp_path / "link.html"),
        ("compare", "bbr", "--pcap", linked),
    ):
        (tmp_path / "link.png").unlink(missing_ok=True)
        for ending in ("png", "html"):
            path = tmp_path / f"link.{ending}"
            path.unlink(missing_ok=True)
            path.symlink_to(victim)
        done = call(*command)
        refused(done, "is a symbolic link; accepted: ")
    for name in ("runs", "traces", ".lock", ".plan", "results.jsonl", "SHA256SUMS"):
        shutil.rmtree(out)
        out.mkdir()
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        (out / name).symlink_to(elsewhere if name in ("runs", "traces") else victim)
        done = call("compare", *BRIEF, "bbr", "-o", out)
        refused(done, f"{name} is a symbolic link")
        assert not list(out.rglob("*.parquet"))
        assert list(elsewhere.iterdir()) == []
    assert victim.read_text() == "keep"
    (tmp_path / "folder-link").symlink_to(out)
    refused(call("compare", *BRIEF, "bbr", "-o", tmp_path / "folder-link"), "folder-link is a symbolic link")
