"""The pages of `narrows reproduce` and `narrows report` in headless Chromium: content, widths, dark mode, keyboard."""

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest

import chromium
from narrows import studies

from conftest import ROOT, narrows_in, ran  # isort: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium.find() is None, reason="needs Chromium: apt install chromium"),
]
PAPERS, WORLDS = ("alpha", "beta"), ("paper", "today")
FINDINGS = "# Findings\n\n1. **Vegas keeps the queue short.** Packets wait 1.5 ms.\n   `narrows reproduce alpha fig1`\n"
PHONE, LAPTOP = 390, 1280
CONTRAST = 4.5
"""The contrast of text that WCAG 2.2, 1.4.3 requires (level AA)."""
PAGE_BYTES, PLOT_BYTES = 6_000_000, 50_000
"""Limits of a page, and of an embedded plot: 71 plots of all papers then leave space for the text."""
TABBED = 200
"""More tab stops than any page of this test has."""
VISIBLE = "(element) => element.checkVisibility({visibilityProperty: true})"
TEXTS = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const paint = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (element) => {
    const behind = [];
    for (let at = element; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
    behind.unshift("white");
    const [low, high] = [paint(behind), paint([...behind, getComputedStyle(element).color])].map(luminance).sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (own && element.checkVisibility() && !["SCRIPT", "OPTION"].includes(element.tagName))
      found.push([element.tagName + "." + element.className, contrast(element)]);
  }
  return found;
})()"""


def narrows(folder, *args):
    """Run the command on the built engine, which must succeed."""
    ran(narrows_in(folder, *args))


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return the page of a reproduction of two papers and that of a traced comparison."""
    home = tmp_path_factory.mktemp("pages")
    for name in PAPERS:
        studies.create(home / "papers" / name)
    claims = home / "papers" / "beta" / "fig1.claims.toml"  # one verdict differs between the worlds, with a cause
    text = claims.read_text()
    # NewReno fills the queue earlier by the rules of ns-3: 28 ms on average, 22 ms today.
    for before, after in (
        ("paper = 95", 'scheme = "newreno"\nbound = "25 ms is ours"\npaper = 25'),
        ("100 * utilization AS value", "queue_delay_mean_ms AS value"),
        ("# cause", "cause"),
    ):
        assert before in text
        text = text.replace(before, after)
    claims.write_text(text)
    (home / "papers" / "findings.md").write_text(FINDINGS)
    narrows(home, "reproduce", "--papers", "papers", "--quick", "-o", "report")
    narrows(home, "compare", "vegas", "newreno", "--trace", "50ms", "--duration", "3s", "-o", "traced")
    narrows(home, "report", "traced")
    return {"reproduce": home / "report" / "index.html", "report": home / "traced" / "report.html"}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium.Chromium(chromium.find(), tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(params=["reproduce", "report"])
def path(request, pages):
    """The file of each page in turn."""
    return pages[request.param]


def choose(page, control, value):
    """Set a filter as a user does, and return the verdicts of the remaining rows."""
    page.evaluate(
        f"{{ const control = document.getElementById({control!r}); control.value = {value!r};"
        " control.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    rows = page.evaluate(
        f"[...document.querySelectorAll('tr.claim')].filter({VISIBLE}).map((row) => row.innerText.toLowerCase())"
    )
    count = page.evaluate("document.getElementById('shown').value")
    assert count == f"{len(rows)} of {3 * len(PAPERS)} claims"
    return rows


def test_page_loads_alone_and_without_errors(browser, path):
    """A page requests nothing besides itself, and logs neither errors nor warnings."""
    page = browser.open(path, width=LAPTOP)
    page.evaluate(
        "Promise.all([...document.images].map((image) => { image.loading = 'eager'; return image.decode(); }))"
    )
    assert page.problems() == []
    assert page.requests() == [path.resolve().as_uri()]


def test_page_states_its_origin(browser, path):
    """Version, date, machine and command stand above the first table."""
    page = browser.open(path, width=LAPTOP)
    facts = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('dl.about div')].map((fact) =>"
        " [fact.querySelector('dt').textContent, fact.querySelector('dd').textContent]))"
    )
    command = facts.pop("run it again", None) or facts.pop("make this page again")
    assert command in ("narrows reproduce --quick --papers papers", "narrows report traced")
    assert facts.keys() == {"version", "date", "machine"}
    assert facts["version"].startswith("narrows ") and facts["machine"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts["date"])


def test_matrix_has_a_row_per_paper_and_world(browser, pages):
    """The matrix counts the verdicts of each paper and of all papers in each world."""
    page = browser.open(pages["reproduce"], width=LAPTOP)
    rows = page.evaluate(
        "[...document.querySelectorAll('.matrix tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    titles = [row.pop(0) for row in rows[:: len(WORLDS)]]
    assert titles == ["Alpha", "Beta", "all papers"]
    worlds = ["as the paper ran it (ns-3)", "today"] * len(PAPERS)
    assert [row[0] for row in rows] == [*worlds, "as the paper ran it", "today"]
    claims = json.loads((pages["reproduce"].parent / "claims.json").read_text())
    found = iter(rows)
    for papers in [*([paper] for paper in PAPERS), list(PAPERS)]:
        for world in WORLDS:
            counts = Counter(row["verdict"] for row in claims if row["paper_id"] in papers and row["world"] == world)
            verdicts = ("holds", "inconclusive", "holds in direction", "does not hold")
            assert next(found)[1:5] == [str(counts[verdict]) for verdict in verdicts]
    assert page.evaluate("document.querySelectorAll('ol.findings li').length") == 1


@pytest.mark.parametrize("width", [PHONE, LAPTOP])
def test_every_claim_shows_its_verdicts(browser, pages, width):
    """Each claim's row shows one verdict per world, as `claims.json` has it, inside the viewport."""
    page = browser.open(pages["reproduce"], width=width)
    found = page.evaluate(
        "[...document.querySelectorAll('tr.claim')].map((row) => [...row.querySelectorAll('.verdict')].map((cell) => {"
        f" const box = cell.getBoundingClientRect(); return [cell.innerText, box.left, box.right, ({VISIBLE})(cell)]; }}))"
    )
    claims = json.loads((pages["reproduce"].parent / "claims.json").read_text())
    expected = [
        [row["verdict"] for world in WORLDS for row in claims if (row["world"], row["paper_id"]) == (world, paper)]
        for paper in PAPERS
    ]
    expected = [list(pair) for both in expected for pair in zip(both[:3], both[3:], strict=True)]
    assert [[text[2:] for text, *_ in row] for row in found] == expected
    for text, left, right, visible in (cell for row in found for cell in row):
        assert visible and 0 <= left < right <= width, text


@pytest.mark.long
def test_filters_leave_the_rows_asked_for(browser, pages):
    """Verdict, paper, figure and text select matching rows; the output counts them."""
    page = browser.open(pages["reproduce"], width=LAPTOP)
    everything = choose(page, "verdict", "")
    assert len(everything) == 6
    failed = choose(page, "verdict", "fails")
    assert failed and all("does not hold" in row for row in failed)
    assert failed == choose(page, "verdict", "differs"), "the one that fails in one world"
    assert page.evaluate(f"[...document.querySelectorAll('.figure')].filter({VISIBLE}).length") == 1
    assert len(choose(page, "verdict", "")) == 6
    assert choose(page, "words", "WAIT less") == [row for row in everything if "wait less" in row]
    assert choose(page, "words", "nothing has these words") == []
    choose(page, "words", "")
    for control, value in (("paper", "alpha"), ("paper", ""), ("figure", "beta-fig1")):
        assert len(choose(page, control, value)) == (3 if value else 6)
    assert len(choose(page, "paper", "alpha")) == 3, "another paper's figure is no longer chosen"
    assert page.problems() == []


@pytest.mark.parametrize("width", [320, PHONE, 700, 900, 1100, LAPTOP])
def test_page_fits_every_width(browser, path, width):
    """A page never scrolls sideways; only wide tables and plots do, in their own boxes."""
    page = browser.open(path, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.long
def test_filter_is_folded_on_a_phone(browser, pages):
    """On a phone the filter opens on demand and then lies inside the viewport; on a laptop it is open."""
    assert browser.open(pages["reproduce"], width=LAPTOP).evaluate("document.getElementById('fold').open")
    page = browser.open(pages["reproduce"], width=PHONE)
    assert not page.evaluate("document.getElementById('fold').open")
    page.evaluate("document.querySelector('#fold summary').focus()")
    page.press("Enter", code=13, text="\r")
    assert page.evaluate("document.getElementById('fold').open")
    edges = page.evaluate(
        "[...document.querySelectorAll('#fold select, #fold input')].map((control) =>"
        " [control.getBoundingClientRect().left, control.getBoundingClientRect().right])"
    )
    assert len(edges) == 4
    assert all(0 <= left < right <= PHONE for left, right in edges)


@pytest.mark.parametrize("scheme", ["dark", pytest.param("light", marks=pytest.mark.long)])
def test_text_is_legible(browser, path, scheme):
    """All text contrasts with its background, in light and in dark mode; plots follow the mode."""
    page = browser.open(path, width=LAPTOP, scheme=scheme)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark is (scheme == "dark")
    assert page.evaluate("getComputedStyle(document.querySelector('figure img')).filter") != "none" or not dark
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    found = page.evaluate(TEXTS)
    kinds = {name.partition(".")[0] for name, _ in found}
    assert kinds >= {"H1", "P", "TH", "TD", "A", "SUMMARY", "PRE", "FIGCAPTION", "CAPTION"}
    faint = [(name, round(value, 2)) for name, value in found if value < CONTRAST]
    assert not faint


@pytest.mark.long
def test_keyboard_reaches_every_control(browser, path):
    """Tab reaches the skip link first, then every control and fold, each with a visible outline."""
    page = browser.open(path, width=LAPTOP)
    stops = []
    for _ in range(TABBED):
        page.tab()
        stop = page.evaluate(
            "(() => { const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();"
            " return [at.id || at.className || at.tagName, style.outlineStyle, parseFloat(style.outlineWidth),"
            " box.right > 0 && box.width > 0]; })()"
        )
        if stop[0] == "BODY":
            break
        stops.append(stop)
    names = [stop[0] for stop in stops]
    assert names[0] == "skip"
    for name, style, width, seen in stops:
        assert style == "solid" and width >= 2 and seen, f"the focus is not visible on {name}"
    folds = page.evaluate("document.querySelectorAll('summary').length")
    assert folds >= 1 and names.count("SUMMARY") == folds
    wanted = page.evaluate("[...document.querySelectorAll('select, input')].map((control) => control.id)")
    assert set(wanted) <= set(names)
    target = page.evaluate("document.querySelector('.skip').hash.slice(1)")
    assert page.evaluate(f"document.getElementById({target!r}) !== null")


@pytest.mark.long
@pytest.mark.parametrize("width", [PHONE, LAPTOP])
def test_screen_reader_meets_headings_and_tables(browser, path, width):
    """Headings descend by one level, tables and their column heads have names, and landmarks exist."""
    page = browser.open(path, width=width)
    nodes = page.accessible()
    levels = [node["level"] for node in nodes if node["role"] == "heading"]
    roles = Counter(node["role"] for node in nodes)
    assert levels.count(1) == 1 and all(node["name"] for node in nodes if node["role"] == "heading")
    order = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((head) => Number(head.tagName[1]))"
    )
    assert order[0] == 1 and all(after <= before + 1 for before, after in pairwise(order))
    assert roles["main"] == roles["banner"] == roles["contentinfo"] == 1
    tables = [node["name"] for node in nodes if node["role"] == "table"]
    assert len(tables) == page.evaluate("document.querySelectorAll('table').length") >= 2
    assert all(tables) and len(set(tables)) == len(tables)
    heads = [node["name"] for node in nodes if node["role"] == "columnheader"]
    assert len(heads) == page.evaluate("document.querySelectorAll('thead th').length") and all(heads)
    assert roles["row"] == page.evaluate("document.querySelectorAll('tr').length")
    images = [node["name"] for node in nodes if node["role"] in ("image", "img")]
    assert len(images) == page.evaluate("document.images.length") >= 2
    assert all(len(name) > 20 for name in images), "each says what it shows"
    controls = [node["name"] for node in nodes if node["role"] in ("combobox", "searchbox", "link")]
    assert all(controls)
    assert page.evaluate("document.documentElement.lang") == "en"


def test_links_lead_somewhere(browser, path):
    """Each plot links its SVG and PDF beside the page, and every link inside the page has a target."""
    page = browser.open(path, width=LAPTOP)
    figures = page.evaluate(
        "[...document.querySelectorAll('figure')].map((figure) =>"
        " [...figure.querySelectorAll('a')].map((link) => link.getAttribute('href')))"
    )
    assert len(figures) >= 2
    for links in figures:
        assert [Path(link).suffix for link in links] == [".svg", ".pdf"]
        for link, head in zip(links, (b"<?xml", b"%PDF"), strict=True):
            assert (path.parent / unquote(link)).read_bytes().startswith(head)
    missing = (
        "[...document.querySelectorAll('a[href^=\"#\"]')].map((link) => link.hash.slice(1))"
        ".filter((id) => !document.getElementById(id))"
    )
    assert page.evaluate(missing) == []


def test_page_stays_small(pages):
    """A page of all papers stays under its limit, because each plot does and, on average, each figure does."""
    figures = len(list((ROOT / "papers").glob("*/*.claims.toml")))
    page = pages["reproduce"].read_text()
    assert len(page.encode()) < PAGE_BYTES * len(PAPERS) / figures
    plots = re.findall(r'src="(data:image/png;base64,[^"]+)"', page)
    assert len(plots) == len(PAPERS) and max(map(len, plots)) < PLOT_BYTES
