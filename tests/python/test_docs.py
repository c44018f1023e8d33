"""The documents agree with the product. Unlike the other tests these run the built engine, in separate processes."""

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

OUTPUT, TRACES, RESULTS = DOCS / "output.md", DOCS / "topics" / "traces.md", DOCS / "results.md"
RUN = blocks.documents()
GENERATED = ("schemes", "routers", "papers")
"""Folders whose pages `docs/generate.py` writes as a whole."""
STUDIES = [*(DOCS / "studies").glob("*.md"), DOCS / "fidelity.md"]
PAGES = [*sorted({*RUN, *DOCS.rglob("*.md")}), *ROOT.glob("[AC]*.md")]
FINDINGS = RESULTS.read_text(encoding="utf-8").partition("## Ten findings\n")[2].partition("\n## ")[0]


def shell(*command):
    return subprocess.run(
        command, cwd=ROOT, env=blocks.environment(), capture_output=True, text=True, timeout=600, check=False
    )


def generate(*flags):
    return shell(sys.executable, str(DOCS / "generate.py"), *flags)


def prose(path):
    """A document without its fenced blocks."""
    return blocks.FENCE.sub("", path.read_text(encoding="utf-8"))


def name_of(path):
    return f"{path.parent.name}-{path.stem}"


LONG = {
    "docs-deploy", "docs-guide", "docs-papers", "topics-benchmarks", "topics-plots", "topics-qlog", "topics-quic",
    "topics-sixth-paper", "topics-traces",
}  # fmt: skip
"""Documents whose commands take more than a few seconds."""


@functools.cache
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


def test_documents_with_commands_are_run():
    """Every document with commands runs, unless it is generated or its commands measure for hours."""
    shown = {path for path in DOCS.rglob("*.md") if blocks.FENCE.search(path.read_text(encoding="utf-8"))}
    generated = {path for path in shown if path.parent.name in GENERATED}
    assert shown - generated - {RESULTS, *STUDIES} == {*RUN} - {ROOT / "README.md"}
    for path in {ROOT / "README.md", *DOCS.rglob("*.md")} - generated - {RESULTS, *STUDIES}:
        hidden = re.findall(r"^(?: {4}|\t)(?:\$ )?(?:narrows|make|python) .*$", prose(path), re.MULTILINE)
        assert not hidden, f"{path.name} shows commands outside fenced blocks: {hidden}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=pytest.mark.long if name_of(path) in LONG else ()) for path in RUN], ids=name_of
)
def test_blocks_do_what_the_document_shows(path, tmp_path):
    """All commands and cells of a document run and print the shown output."""
    document = blocks.Document(path, tmp_path)
    now = document.run()
    assert now == path.read_text(encoding="utf-8"), "the printed outputs are not current; `make docs` writes them"
    assert document.commands or "```python" in now, "nothing was run"


def test_shortened_commands_are_in_a_document():
    """Every long command with a shorter replacement is in some document."""
    shown = "\n".join(path.read_text(encoding="utf-8") for path in RUN)
    for command in blocks.SHORTER:
        assert re.search(rf"^(?:\$ )?{re.escape(command)}(?:  .*)?$", shown, re.MULTILINE), command


@pytest.mark.slow
def test_generated_pages_are_current():
    """The generated pages of scenario keys, commands, schemes, router algorithms and papers are current."""
    done = generate("--check", "--references")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_scheme_pictures_show_current_runs():
    """The event hash in every picture of a scheme equals that of a run with the present engine."""
    done = generate("--check", "--references", "--images")
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


@pytest.mark.slow
def test_pictures_missing_stale_or_left_over_are_mended(tmp_path):
    """A check lists pictures that are missing, stale or of no scheme; writing draws or removes them."""
    done = shell(sys.executable, "-c", PICTURES, str(tmp_path))
    assert done.stdout.splitlines() == [
        "gone-alone.png belongs to no scheme; `make docs` removes it",
        "fixed-alone.png is missing; `make docs` draws it",
        "fixed-against-cubic.png is missing; `make docs` draws it",
        "3",
        "gone-alone.png belongs to no scheme, removed",
        "drew fixed-alone.png",
        "drew fixed-against-cubic.png",
        "3",
        "0",
        "0",  # the picture of another run: only a new run detects it
        "fixed-against-cubic.png is stale: the engine runs different events; `make docs` draws it",
        "1",
        "drew fixed-against-cubic.png",
        "1",
        "True",  # the same bytes again
    ], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("folder", GENERATED)
def test_check_lists_a_stale_page(folder):
    """A page of a removed scheme, router algorithm or paper fails the check."""
    page = DOCS / folder / "nothing-of-this-name.md"
    page.write_text("# Of something that is gone\n")
    try:
        done = generate("--check", "--references")
    finally:
        page.unlink()
    assert done.returncode == 1
    assert "nothing-of-this-name.md is stale" in done.stdout


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path):
    """Every relative link of a document has a file, and its anchor a heading."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), f"{path.name} links to {target}"
        assert not anchor or anchor in heading_anchors(there), f"{path.name} links to {target}"


def test_every_page_is_linked_from_the_index():
    """The index of the documents leads to every hand-written page and every paper, in one step."""
    index = {
        (DOCS / target.partition("#")[0]).resolve()
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(DOCS / "README.md"))
    }
    pages = [path for path in DOCS.rglob("*.md") if path.parent.name not in ("schemes", "routers")]
    assert [path.name for path in pages if path not in index] == ["README.md"]


@pytest.mark.slow
@pytest.mark.parametrize("path", [*RUN, DOCS / "README.md", RESULTS], ids=name_of)
def test_commands_in_prose_exist_with_their_options(path):
    """Every command in prose exists and has the options named with it."""
    for command, rest in re.findall(r"`narrows ((?:brf|dccp|kernel|nodectl|perf) [a-z]+|[a-z]+)([^`]*)`", prose(path)):
        for option in re.findall(r"(?<!\w)--?[a-z][\w-]*", rest):
            assert option in options(command), f"{path.name}: narrows {command}{rest}"


@pytest.mark.slow
def test_output_reference_defines_every_field():
    """The output reference names every field of a result, of its flows and links, and every reading."""
    done = shell("narrows", "compare", "cubic", "--duration", "1s", "--json")
    result = json.loads(done.stdout)
    # Every router algorithm has a scheme of its name.
    listed = [row["name"] for row in json.loads(shell("narrows", "routers", "--json").stdout)]
    routers = shell("narrows", "compare", *listed, "--each", "--duration", "1s", "--json")
    named = set(re.findall(r"`(\w+)`", OUTPUT.read_text(encoding="utf-8").partition("## Fields of a result")[2]))
    flow, link = result["flows"][0], result["links"][0]
    assert {*result, *flow, *link, *result["counters"]} - named == set()
    assert len(routers.stdout.splitlines()) == len(listed)
    for row in map(json.loads, routers.stdout.splitlines()):
        router = row["links"][0]["router"]
        assert {*router, *router["readings"], router["kind"]} - named == set()


@pytest.mark.slow
def test_traces_page_names_every_series():
    """The page of traces names every series that any flow and link have."""
    read = (
        "import narrows; r = narrows.compare('fixed', duration='1s', trace=True); "
        "print(*r.samples['series'].unique().sort())"
    )
    done = shell(sys.executable, "-c", read)
    series = done.stdout.split()
    assert "cwnd_bytes" in series
    text = TRACES.read_text(encoding="utf-8")
    assert [name for name in series if f"`{name}`" not in text] == []


def numbers(text):
    """The numbers of a text, without thousands separators, footnote marks and names such as fig9."""
    return set(re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w]|\.\d)", text.replace(",", "")))


def test_guide_fits_into_an_hour():
    """The guide has fewer than 150 lines."""
    assert len((DOCS / "guide.md").read_text(encoding="utf-8").splitlines()) < 150


def test_results_begin_with_ten_findings():
    """Results open with ten findings on one screen; each has numbers, a link and a command."""
    head = RESULTS.read_text(encoding="utf-8").partition("\n## Verdicts")[0]
    assert len(head.splitlines()) < 40
    found = re.split(r"^\d+\. ", FINDINGS, flags=re.MULTILINE)[1:]
    assert len(found) == 10
    for text in found:
        assert re.search(r"\]\([^)]+\):\s+`(?:narrows|cargo) [^`]+`", text), text


@pytest.mark.parametrize(
    "text", re.split(r"^\d+\. ", FINDINGS, flags=re.MULTILINE)[1:], ids=lambda text: text.split("**")[1]
)
def test_numbers_of_a_finding_are_measured(text):
    """Every number of a finding is on the page that the finding links to."""
    (target,) = re.findall(r"\]\(([^)\s]+)\)", text)
    name, _, anchor = target.partition("#")
    page = (DOCS / name if name else RESULTS).read_text(encoding="utf-8").replace(FINDINGS, "")
    stated = numbers(re.sub(r"`[^`]*`|\]\([^)]+\)", "", text))
    assert stated and stated <= numbers(page), sorted(stated - numbers(page))
    assert not anchor or anchor in heading_anchors(DOCS / name if name else RESULTS)


OF_SCHEMES = sorted((DOCS / "schemes" / "images").glob("*"))


def test_scheme_pictures_are_small_together():
    """All pictures of schemes take less than 3 MB."""
    assert sum(path.stat().st_size for path in OF_SCHEMES) < 3_000_000


@pytest.mark.parametrize("path", [*sorted((DOCS / "images").glob("*.png")), *OF_SCHEMES], ids=lambda path: path.stem)
def test_pictures_are_small_enough_and_shown(path):
    """Every picture has a moderate size and is shown in a document."""
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
def test_printed_output_must_fit_the_shown_one(shown, printed, fit):
    """An ellipsis stands for any lines or characters; everything else must be equal."""
    assert blocks.fits(shown, printed) is fit
    assert blocks.current(shown, printed) == (shown if fit else printed)


def run_text(text, folder):
    page = folder / "page.md"
    page.write_text(text)
    work = folder / "work"
    work.mkdir()
    return blocks.Document(page, work).run()


def test_unexpected_failure_of_a_command_is_an_error(tmp_path):
    """A command may fail only if the document shows its exit status next."""
    with pytest.raises(blocks.Wrong, match="ends with status 3"):
        run_text("```console\n$ exit 3\n$ true\n```\n", tmp_path)


def test_shown_exit_status_is_accepted(tmp_path):
    """A document may show that a command fails."""
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
def test_broken_blocks_are_errors(text, said, tmp_path):
    """A block that fails, lacks its file name or has an unknown kind is an error with its line."""
    with pytest.raises(blocks.Wrong, match=re.escape(said)):
        run_text(text, tmp_path)


def test_shown_output_is_replaced_by_printed_output(tmp_path):
    """Running a document replaces stale output and keeps everything else."""
    text = "```console\n$ echo b\na\n```\n\n```python\nprint(1)\n2 + 2\n```\n\n```text\n5\n```\n"
    assert run_text(text, tmp_path) == text.replace("\na\n", "\nb\n").replace("5\n", "1\n4\n")


def test_table_rows_have_the_columns_of_their_head():
    """No cell of a table holds a bare pipe, which would shift the cells after it."""
    for path in [DOCS / "commands.md", OUTPUT, RESULTS, *(DOCS / "papers").glob("*.md")]:
        for table in re.findall(r"(?:^\|.*\n)+", prose(path), re.MULTILINE):
            widths = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
            assert len(widths) == 1, f"{path.name}: {table.splitlines()[0]}"
