"""The documents say what is so. Unlike the other tests these run the built engine, in processes of their own."""

import functools
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

import blocks  # noqa: E402

GUIDE = DOCS / "guide.md"
RUN = [ROOT / "README.md", GUIDE, *(DOCS / f"{name}.md" for name in ("scenarios", "notebook", "papers"))]
PAGES = [*RUN, *(DOCS / "schemes").glob("*.md"), *(DOCS / "studies").glob("*.md"), *ROOT.glob("[AC]*.md")]
ELSEWHERE = {DOCS / "results.md", *(DOCS / "studies").glob("*.md")}
"""Documents that are written by measuring, which these tests do not do."""


def shell(*command):
    return subprocess.run(
        command, cwd=ROOT, env=blocks.environment(), capture_output=True, text=True, timeout=600, check=False
    )


def prose(path):
    """A document without its fenced blocks."""
    return blocks.FENCE.sub("", path.read_text(encoding="utf-8"))


def heading_anchors(path):
    text = prose(path)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)
    return {*plain, *re.findall(r'<a id="([^"]+)">', text)}


@functools.cache
def options(command):
    done = shell("narrows", *command.split(), "--help")
    assert done.returncode == 0, f"narrows {command} is no command"
    return set(re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", done.stdout))


GENERATED = ("schemes", "allocators")
"""Folders of pages that are written from a registry."""


def test_every_document_that_shows_commands_is_run():
    shown = [path for path in DOCS.rglob("*.md") if path not in ELSEWHERE and path.parent.name not in GENERATED]
    assert {*shown, ROOT / "README.md"} == {*RUN}
    for path in RUN:
        hidden = re.findall(r"^(?: {4}|\t)(?:\$ )?(?:narrows|make|python) .*$", prose(path), re.MULTILINE)
        assert not hidden, f"{path.name} shows commands outside fenced blocks: {hidden}"


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_commands_and_cells_do_what_the_document_shows(path, tmp_path):
    document = blocks.Document(path, tmp_path)
    now = document.run()
    assert now == path.read_text(encoding="utf-8"), "the printed outputs are not current; `make docs` writes them"
    assert document.commands or "```python" in now, "nothing was run"


def test_every_shortened_command_is_in_a_document():
    shown = "\n".join(path.read_text(encoding="utf-8") for path in RUN)
    for command in blocks.SHORTER:
        assert re.search(rf"^(?:\$ )?{re.escape(command)}(?:  .*)?$", shown, re.MULTILINE), command


def test_references_and_pages_of_schemes_are_current():
    done = shell(sys.executable, str(DOCS / "generate.py"), "--check", "--references")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_pictures_of_schemes_show_what_the_engine_does():
    done = shell(sys.executable, str(DOCS / "generate.py"), "--check", "--references", "--images")
    assert done.returncode == 0, done.stdout + done.stderr


PICTURES = """
import sys, pathlib
sys.path.insert(0, "docs")
import generate, pictures
from narrows import engine
rows = [row for row in engine.schemes() if row.name == "fixed"]
engine.schemes = lambda: rows
pictures.FOLDER = pathlib.Path(sys.argv[1])
(pictures.FOLDER / "gone-alone.png").touch()
settle = lambda **how: print(generate.settle_pictures(**how))
settle(check=True, runs=False, again=False)
settle(check=False, runs=False, again=False)
settle(check=True, runs=True, again=False)
first = pictures.pictures("fixed")[0].path
kept = first.read_bytes()
pictures.pictures("fixed")[1].path.write_bytes(kept)
settle(check=True, runs=False, again=False)
settle(check=True, runs=True, again=False)
settle(check=False, runs=True, again=False)
pictures.pictures("fixed")[0].draw()
print(first.read_bytes() == kept)
"""


def test_a_picture_that_is_missing_stale_or_left_over_is_noticed_and_mended(tmp_path):
    done = shell(sys.executable, "-c", PICTURES, str(tmp_path))
    assert done.stdout.splitlines() == [
        "gone-alone.png is of no scheme; `make docs` removes it",
        "fixed-alone.png is not there; `make docs` draws it",
        "fixed-against-cubic.png is not there; `make docs` draws it",
        "3",
        "gone-alone.png is of no scheme, removed",
        "drew fixed-alone.png",
        "drew fixed-against-cubic.png",
        "3",
        "0",
        "0",  # of the wrong run, which only running shows
        "fixed-against-cubic.png shows a run that the engine does no more; `make docs` draws it",
        "1",
        "drew fixed-against-cubic.png",
        "1",
        "True",  # the same bytes again
    ], done.stderr


def test_the_check_sees_a_stale_page():
    page = DOCS / "schemes" / "no-such-scheme.md"
    page.write_text("# Of a scheme that is no more\n")
    try:
        done = shell(sys.executable, str(DOCS / "generate.py"), "--check", "--references")
    finally:
        page.unlink()
    assert done.returncode == 1
    assert "no-such-scheme.md is not current" in done.stdout


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        if there in ELSEWHERE:
            continue
        assert there.exists(), f"{path.name} links to {target}"
        assert not anchor or anchor in heading_anchors(there), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_commands_named_in_prose_exist_with_their_options(path):
    for command, rest in re.findall(r"`narrows (dccp [a-z]+|[a-z]+)([^`]*)`", prose(path)):
        for option in re.findall(r"(?<!\w)--?[a-z][\w-]*", rest):
            assert option in options(command), f"{path.name}: narrows {command}{rest}"


def test_the_guide_defines_every_field_of_a_result():
    done = shell("narrows", "compare", "cubic", "--duration", "1s", "--json")
    result = json.loads(done.stdout)
    # Every allocator has a scheme of its name.
    listed = [row["name"] for row in json.loads(shell("narrows", "allocators", "--json").stdout)]
    allocators = shell("narrows", "compare", *listed, "--each", "--duration", "1s", "--json")
    named = set(re.findall(r"`(\w+)`", GUIDE.read_text(encoding="utf-8").partition("### Fields of a result")[2]))
    flow, link = result["flows"][0], result["links"][0]
    assert {*result, *flow, *link, *result["counters"]} - named == set()
    assert len(allocators.stdout.splitlines()) == len(listed)
    for row in map(json.loads, allocators.stdout.splitlines()):
        allocator = row["links"][0]["allocator"]
        assert {*allocator, *allocator["readings"], allocator["kind"]} - named == set()


def test_the_guide_names_every_series_of_a_trace(tmp_path):
    read = (
        "import narrows; r = narrows.compare('fixed', duration='1s', trace=True); "
        "print(*r.samples['series'].unique().sort())"
    )
    done = shell(sys.executable, "-c", read)
    series = done.stdout.split()
    assert "cwnd_bytes" in series
    text = GUIDE.read_text(encoding="utf-8")
    assert [name for name in series if f"`{name}`" not in text] == []


OF_SCHEMES = sorted((DOCS / "schemes" / "images").glob("*"))


def test_pictures_of_schemes_are_small_together():
    assert sum(path.stat().st_size for path in OF_SCHEMES) < 3_000_000


@pytest.mark.parametrize("path", [*sorted((DOCS / "images").glob("*.png")), *OF_SCHEMES], ids=lambda path: path.stem)
def test_pictures_are_small_enough_and_shown(path):
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    assert path.stat().st_size < (60_000 if path in OF_SCHEMES else 150_000)
    assert 400 <= width <= 1600
    assert 300 <= height <= 1600
    assert any(f"images/{path.name}" in page.read_text(encoding="utf-8") for page in PAGES)


@pytest.mark.parametrize(
    ("shown", "printed", "fit"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\nc\n", False),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nd\n", True),
        ("a\n…\nd\n", "a\nb\n", False),
        ("took … s\n", "took 1.25 s\n", True),
        ("took … s\n", "took 1.25 ms\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_what_is_printed_must_fit_what_is_shown(shown, printed, fit):
    assert blocks.fits(shown, printed) is fit
    assert blocks.current(shown, printed) == (shown if fit else printed)


def run_text(text, folder):
    page = folder / "page.md"
    page.write_text(text)
    work = folder / "work"
    work.mkdir()
    return blocks.Document(page, work).run()


def test_a_failing_command_must_be_shown_as_such(tmp_path):
    with pytest.raises(blocks.Wrong, match="ends with status 3"):
        run_text("```console\n$ exit 3\n$ true\n```\n", tmp_path)


def test_a_shown_status_is_allowed(tmp_path):
    text = "```console\n$ exit 3\n$ echo $?\n3\n```\n"
    assert run_text(text, tmp_path) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```sh\nfalse\n```\n", "`false` ends with status 1"),
        ("```console\n$ exit 3\n```\n", "the last command ends with status 3"),
        ("```python\n\n1 / 0\n```\n", 'File "page.md", line 3'),
        ("```toml\na = 1\n```\n", "a comment that names its file"),
        ("```bash\ntrue\n```\n", "a block of kind 'bash'"),
    ],
)
def test_blocks_that_do_not_work_are_errors(text, said, tmp_path):
    with pytest.raises(blocks.Wrong, match=re.escape(said)):
        run_text(text, tmp_path)


def test_outputs_are_replaced_by_what_is_printed_now(tmp_path):
    text = "```console\n$ echo b\na\n```\n\n```python\nprint(1)\n2 + 2\n```\n\n```text\n5\n```\n"
    assert run_text(text, tmp_path) == text.replace("\na\n", "\nb\n").replace("5\n", "1\n4\n")
