"""The comparison with measurements of Linux: its criteria, its page, and a few of its cells."""

import json
import re
import sys

import pytest

from conftest import BUILT_ENV, ROOT, python, ran  # isort: skip

STUDY = ROOT / "studies" / "fidelity"
sys.path.insert(0, str(STUDY))

import cells  # noqa: E402

PAGE = ROOT / "docs" / "fidelity.md"
CHEAP = {"newreno": 9, "bbr": 13, "bbr + cubic": 18}
"""Numbers of cells that run quickly, by their schemes."""


def region(name):
    """Return the rows of a table of the page, without its head."""
    text = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return text[1].splitlines()[2:]


@pytest.mark.parametrize("variant", ["exact", "late"])
def test_page_has_a_row_per_cell(variant):
    """Both tables of the page have every cell of the data, in the order of the file."""
    titles = [row.split("|")[1].strip() for row in region(variant)]
    lines = cells.DATA.read_text(encoding="utf-8").splitlines()
    assert len(titles) == len(lines) - 1
    assert titles == [cell.title() for cell in cells.read()]


@pytest.mark.parametrize("variant", ["exact", "late"])
def test_page_counts_its_rows(variant):
    """The stated count is the number of rows in which all criteria hold."""
    rows = region(variant)
    held = sum("all hold" in row for row in rows)
    assert f"{held} of {len(rows)} in `{variant}`" in PAGE.read_text(encoding="utf-8")


def test_deviation_names_missed_criteria():
    """Each criterion fails by itself, just beyond its bound."""
    cell = cells.read()[0]  # goodput 85.52 and 9.0, RTT 50.57 and 51.13
    there = cells.Sample(cell.goodput, cell.smoothed_rtt, cell.smoothed_rtt, cell.smoothed_rtt, (0.0, 0.0))

    def missed(**changed):
        return cells.deviation(cell, cells.Sample(**{**vars(there), **changed})).misses()

    assert missed() == []
    assert missed(goodput=tuple(1.029 * rate for rate in cell.goodput)) == []
    assert missed(goodput=tuple(1.031 * rate for rate in cell.goodput)) == ["goodput"]
    total = sum(cell.goodput)
    assert missed(goodput=(cell.goodput[0] - 0.049 * total, cell.goodput[1] + 0.049 * total)) == []
    assert missed(goodput=(cell.goodput[0] - 0.051 * total, cell.goodput[1] + 0.051 * total)) == ["share"]
    assert missed(smoothed_rtt=(cell.smoothed_rtt[0], 0.951 * cell.smoothed_rtt[1])) == []
    assert missed(smoothed_rtt=(cell.smoothed_rtt[0], 0.949 * cell.smoothed_rtt[1])) == ["RTT"]


def misses(number, changes):
    """Return the criteria that a cell misses with seed 1 on the built engine."""
    code = (
        "import json, sys, cells; cell = cells.read()[int(sys.argv[1]) - 1]; "
        "print(json.dumps(cells.deviation(cell, cells.mean(cells.simulate(cell, json.loads(sys.argv[2]), 1))).misses()))"
    )
    env = {**BUILT_ENV, "PYTHONPATH": f"{BUILT_ENV['PYTHONPATH']}:{STUDY}"}
    done = ran(python("-c", code, number, json.dumps(changes), env=env, timeout=300))
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("number", CHEAP.values(), ids=CHEAP)
def test_defaults_agree_with_linux(number):
    """With the defaults, goodput, share and RTT are within the criteria of the kernel's run."""
    assert misses(number, {}) == []


@pytest.mark.slow
def test_bbr_without_headroom_misses_rtt():
    """Without the headroom for bursts, as in ns-3, the RTT of one BBR flow is outside the criteria."""
    assert misses(CHEAP["bbr"], {"tcp.profile": "ns3"}) == ["RTT"]
