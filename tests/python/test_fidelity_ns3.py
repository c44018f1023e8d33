"""The cells of `narrows fidelity` in ns-3: arguments, stored values, columns of the page, and a short run."""

import json
import sys

import pytest

from narrows.bench import ns3
from narrows.fidelity import comparison, grid, page, work

from conftest import ROOT  # isort: skip
from test_fidelity_command import named  # isort: skip
from test_fidelity_command import result as measured  # isort: skip

sys.path.insert(0, str(ROOT / "studies" / "fidelity"))

import ns3_cells

ALONE, PAIR, CROWD = "bbr 100mbit 40ms 1bdp", "bbr+cubic 100mbit 40ms 1bdp", "24 cubic 100mbit 40ms 1bdp"


def result(*flows, jain=0.9):
    """Return a run in the form of the engine and the program: per flow goodput and mean RTT."""
    return measured(*flows, jain=jain) | {"ns3": "3.37", "source": "new"}


def row(name, *flows):
    """Return the comparison of a cell in which both worlds are equal."""
    run = result(*flows)
    return comparison.compare(work.Measured(named(name), [run], [run]))


def line(name, *flows, **values):
    """Return the stored line of a cell."""
    return ns3_cells.values(named(name), [result(*flows, **values)])


def options(name):
    """Return the program's options for a cell."""
    return dict(text.removeprefix("--").split("=") for text in ns3_cells.arguments(named(name), 2))


def test_cell_becomes_options_of_the_program():
    """Rate, buffer in whole packets, flows, jitter and measured interval are those of the cell's scenario."""
    found = options("bbr+bbr 100mbit 10/50ms 1bdp")
    assert found == {
        "rate": "100", "buffer": "416", "queue": "droptail", "loss": "0", "jitter": "50", "schemes": "TcpBbr,TcpBbr",
        "rtts": "10,50", "count": "1", "spread": "1", "seconds": "30", "warmup": "3", "seed": "2",
    }  # fmt: skip
    assert options(CROWD)["count"] == "24"
    assert options("bbr 100mbit 40ms codel")["buffer"] == "1333"
    assert options("cubic 100mbit 40ms 1bdp 0.1%")["loss"] == "0.1"
    assert options("bbr+cubic 100mbit 40ms 1bdp")["rtts"] == "40,40"


def test_random_loss_has_more_seeds():
    """Cells with random loss run with three seeds, others with one."""
    assert [len(ns3_cells.seeds(named(name))) for name in (ALONE, "bbr 100mbit 40ms 1bdp 1%")] == [1, 3]


def test_stored_runs_of_another_program_are_ignored(tmp_path):
    """Runs of other sources and a line cut off by an interruption count as not finished."""
    runs = [{"cell": ALONE, "seed": 1, **result((95.0, 43.0)), "source": source} for source in ("new", "old")]
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(map(json.dumps, runs)) + '\n{"cell": "bb')
    assert ns3_cells.finished(path, "new") == {(ALONE, 1): runs[0]}
    assert ns3_cells.finished(path, "newer") == ns3_cells.finished(tmp_path / "none", "new") == {}


def test_lines_follow_the_grid_and_await_all_seeds():
    """A line per finished cell, in the order of the grid; a cell that lacks a seed has none."""
    cells = [named(name) for name in (ALONE, "bbr 100mbit 40ms 1bdp 1%", PAIR)]
    runs = {
        (PAIR, 1): result((80.0, 60.0), (20.0, 70.0)),
        (cells[1].name, 1): result((80.0, 60.0)),
        (ALONE, 1): result((95.0, 43.0)),
    }
    first, second = map(json.loads, ns3_cells.lines(cells, runs, {}).splitlines())
    assert (first["cell"], second["cell"]) == (ALONE, PAIR)
    assert (second["ns3"], second["share_percent"]["mean"], second["rtt_mean_ms"]["mean"]) == ("3.37", 80.0, 65.0)
    assert (first["share_percent"], first["goodput_mbit_s"]["half"]) == (None, None)


def test_lines_keep_values_measured_elsewhere(tmp_path):
    """Values of cells without runs here stay, if the same program measured them."""
    path, pair = tmp_path / "ns3.jsonl", {(PAIR, 1): result((80.0, 60.0), (20.0, 70.0))}
    cells = [named(ALONE), named(PAIR)]
    path.write_text(ns3_cells.lines(cells, {(ALONE, 1): result((95.0, 43.0))}, {}))
    text = ns3_cells.lines(cells, pair, ns3_cells.stored(path, "new"))
    assert [json.loads(line)["cell"] for line in text.splitlines()] == [ALONE, PAIR]
    assert ns3_cells.stored(path, "newer") == ns3_cells.stored(tmp_path / "none", "new") == {}


def test_page_counts_agreement_of_ns3():
    """The tables have columns of ns-3 for values that decide, and a sentence counts its cells that agree with Linux."""
    crowd = [(4.0, 70.0)] * 24
    rows = [row(ALONE, (95.0, 43.0)), row("cubic 100mbit 40ms 1bdp", (96.5, 68.0)),
            row(PAIR, (80.0, 60.0), (20.0, 60.0)), row(CROWD, *crowd)]  # fmt: skip
    stored = {
        found["cell"]: found
        for found in (
            line(ALONE, (95.0, 45.5)),
            line(PAIR, (76.0, 99.0), (24.0, 99.0)),
            line(CROWD, *crowd, jain=0.5),
            line("cubic 100mbit 40ms codel", (95.0, 43.0)),
        )
    }
    text = page.markdown(rows, comparison.totals(rows), {}, stored)
    assert (
        "* ns-3 3.37 agrees with Linux by the same criterion in 0 of 1 single flows, 1 of 1 pairs of flows, 0 of 1 crowds."
        in text
    )
    assert "goodput, Mbit/s, ours | goodput, Mbit/s, ns-3 | mean RTT, ms, Linux | mean RTT, ms, ours | mean RTT" in text
    assert "share, %, ours | share, %, ns-3 |" in text
    assert "Jain's index, ours | Jain's index, ns-3 |" in text
    assert "p95, ms, ns-3" not in text
    assert f"| {ALONE} | 95 | 95 | 95 | 43 | 43 | 45.5 |" in text.replace(".0 ", " ")
    assert "| cubic 100mbit 40ms 1bdp | 96.5 | 96.5 | – | 68 | 68 | – |" in text.replace(".0 ", " ")
    bare = page.markdown(rows, comparison.totals(rows), {})
    assert "ns-3" not in bare
    assert page.markdown(rows, comparison.totals(rows), {}, {}) == bare


def test_page_reads_stored_values_of_ns3(tmp_path):
    """A missing file gives no values; an invalid line is an error."""
    path = tmp_path / "ns3.jsonl"
    assert page.read_ns3(path) == {}
    path.write_text(ns3_cells.lines([named(ALONE)], {(ALONE, 1): result((95.0, 43.0))}, {}))
    assert page.read_ns3(path)[ALONE]["goodput_mbit_s"]["mean"] == 95.0
    path.write_text("[]\n")
    with pytest.raises(ValueError, match="a line is no cell; accepted"):
        page.read_ns3(path)


def test_stored_cells_are_those_of_the_grid():
    """Every stored line belongs to a cell of the full grid, in its order."""
    stored = list(page.read_ns3(ns3_cells.VALUES))
    assert stored == [cell.name for cell in grid.cells(grid.FULL) if cell.name in set(stored)]


def test_ns3_runs_two_flows_over_codel():
    """Two seconds at 10 Mbit/s: flows fill the link, RTTs are at least the base RTTs, and the seed decides the run."""
    try:
        program = ns3.build(ns3_cells.SOURCE)
    except OSError as error:
        pytest.skip(f"skipped: needs ns-3: {error}")

    class Short(grid.Cell):
        """A cell of two seconds."""

        duration_s = 2

    cell = Short(("bbr", "cubic"), 10, (20, 40), 4, queue="codel", loss_percent=0.1)
    first, again, other = (ns3_cells.execute(program, cell, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert 8 < comparison.goodput(first) <= 10 * 1448 / 1500
    assert [flow["rtt_mean_ms"] > rtt for flow, rtt in zip(first["flows"], cell.rtt_ms, strict=True)] == [True, True]
