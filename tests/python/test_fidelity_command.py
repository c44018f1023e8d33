"""`narrows fidelity`: its grid, its judgement, resuming, its output and its refusals."""

import itertools
import json
import signal
import sys
import time

import pytest

from narrows import engine
from narrows.fidelity import comparison, drawing, grid, page, tables, work

from conftest import ROOT, call, json_rows, ran, refused  # isort: skip

pytestmark = pytest.mark.usefixtures("executor")

SCHEMES = ("reno", "cubic", "bbr")
TWO = r"^(bbr|bbr\+cubic) 100mbit 40ms 1bdp$"
"""A single flow and a pair of the quick grid."""


@pytest.fixture
def kernel(monkeypatch):
    """Let the fake executor run the kernel."""
    monkeypatch.setenv("FAKE_KERNEL", "1")


def named(name):
    """Return a cell of the full grid."""
    (cell,) = [cell for cell in grid.cells(grid.FULL) if cell.name == name]
    return cell


def result(*flows, jain=0.9, seed=1, **host):
    """Return a run on the kernel: per flow goodput, mean RTT and optionally the other values."""
    own = {"kernel": "6.18", "real_time": True, "load": 0.5, "attempts": 1, "disturbed": False, **host}
    lateness = {"mean_us": 20.0, "p99_us": 90.0, "longest_ms": 6.0, "stalls": 0}
    rest = {"rtt_p95_ms": 80.0, "retransmit_percent": 1.0, "packets_sent": 100, "fill_time_ms": 200.0}
    rows = [{"goodput_mbit_s": goodput, "rtt_mean_ms": rtt, **rest} for goodput, rtt in flows]
    return {"id": "x", "seed": seed, "jain": jain, "flows": rows, "host": {**own, "lateness": lateness}}


def row(name, kernel, sim):
    """Compare the runs of a cell."""
    return comparison.compare(work.Measured(named(name), sim, kernel))


def test_full_grid_covers_the_stated_ranges():
    """The full grid has at least 100 cells: single flows, pairs and crowds, to the ends of every range."""
    cells = grid.cells(grid.FULL)
    assert len({cell.name for cell in cells}) == len(cells) >= 100
    assert grid.repeats(grid.FULL) >= 3
    for values, ends in (
        ([cell.rate_mbit_s for cell in cells], (10, 300)),
        ([rtt for cell in cells for rtt in cell.rtt_ms], (10, 100)),
        ([cell.buffer_bdp for cell in cells], (0.25, 8)),
        ([cell.loss_percent for cell in cells], (0, 1)),
    ):
        assert (min(values), max(values)) == ends
    pairs = [cell for cell in cells if cell.kind == grid.PAIR]
    every = {frozenset(pair) for pair in itertools.combinations_with_replacement(SCHEMES, 2)}
    assert {frozenset(cell.schemes) for cell in pairs} == every
    assert {cell.schemes for cell in pairs if len(cell.rtt_ms) == 2} >= {(name, name) for name in SCHEMES}
    assert {cell.schemes for cell in cells if cell.flows == 24} >= {(name,) for name in SCHEMES}
    assert {cell.kind for cell in cells if cell.queue == "codel"} == {grid.ALONE, grid.PAIR}


def test_quick_grid_takes_under_20_minutes():
    """The kernel's runs of the quick grid take less than 20 minutes, and a full run reuses them."""
    cells = grid.cells(grid.QUICK)
    assert grid.wall_s(cells) * grid.repeats(grid.QUICK) < 20 * 60
    assert set(cells) <= set(grid.cells(grid.FULL))
    assert grid.repeats(grid.QUICK) <= grid.repeats(grid.FULL)
    assert {cell.kind for cell in cells} == set(grid.KINDS)


def test_help_states_the_size_of_the_grids():
    """The help text states how many cells the grids have."""
    text = " ".join(call("fidelity", "--help").output.replace("│", " ").split())
    for name in grid.GRIDS:
        assert f"{name} ({len(grid.cells(name))} cells" in text


def test_cell_scenario_is_the_same_in_both_worlds(kernel):
    """Both worlds plan the same scenario with the same seeds, cell after cell."""
    cells = grid.cells(grid.FULL)
    there, here = (work.plan(cells, 2, on) for on in (engine.KERNEL, engine.SIM))
    assert [run.planned.text for run in there] == [run.planned.text for run in here]
    assert [run.cell for run in there] == [*cells, *cells]
    assert len({run.planned.id for run in there}) == 2 * len(cells)


@pytest.mark.parametrize(
    ("goodput", "rtt", "misses"),
    [
        (103.0, 42.0, []),
        (97.0, 38.0, []),
        (103.01, 40.0, ["goodput"]),
        (96.99, 40.0, ["goodput"]),
        (100.0, 42.01, ["mean RTT"]),
        (90.0, 37.9, ["goodput", "mean RTT"]),
        (100.0, None, ["mean RTT"]),
    ],
)
def test_single_flow_agrees_up_to_its_bounds(goodput, rtt, misses):
    """A single flow agrees up to 3 % of goodput and 5 % of mean RTT; a missing value never agrees."""
    found = row("bbr 100mbit 40ms 1bdp", [result((100.0, 40.0))] * 2, [result((goodput, rtt))] * 5)
    assert (found["agrees"], found["misses"]) == (not misses, misses)


@pytest.mark.parametrize(
    ("shares", "ours", "agrees"),
    [
        ((50, 50), 55, True),
        ((50, 50), 44.9, False),
        ((46, 54), 58, True),  # the kernel's own spread is 8 points
        ((46, 54), 58.1, False),
        ((49, 51), 55, True),  # a spread below 5 points does not tighten the bound
    ],
)
def test_pair_agrees_within_points_or_kernel_spread(shares, ours, agrees):
    """A pair agrees up to 5 points of share, or up to the kernel's own spread if that is larger."""
    there = [result((share, 60.0), (100 - share, 60.0)) for share in shares]
    found = row("bbr+cubic 100mbit 40ms 1bdp", there, [result((ours, 90.0), (100 - ours, 90.0))])
    assert found["agrees"] == agrees
    assert found["misses"] == [] if agrees else ["share"]


def test_random_loss_compares_runs_of_the_same_seeds():
    """Under random loss a seed loses the same packets in both worlds; other cells use all runs of the simulator."""
    ours = [result((10.0, 40.0), seed=1), result((10.2, 40.0), seed=2), result((20.0, 40.0), seed=3)]
    theirs = [result((10.0, 40.0), seed=1), result((10.0, 40.0), seed=2)]
    lossy = row("cubic 100mbit 40ms 1bdp 0.1%", theirs, ours)
    assert (lossy["sim"]["goodput_mbit_s"]["n"], lossy["agrees"]) == (2, True)
    assert row("cubic 100mbit 40ms 1bdp", theirs, ours)["sim"]["goodput_mbit_s"]["n"] == 3


def test_crowd_is_judged_by_jains_index():
    """A crowd agrees if goodput, mean RTT and Jain's index agree."""
    name = "24 cubic 100mbit 40ms 1bdp"
    there = [result(*[(4.0, 70.0)] * 24, jain=0.9)]
    assert row(name, there, [result(*[(4.0, 70.0)] * 24, jain=0.95)])["agrees"]
    assert row(name, there, [result(*[(4.0, 70.0)] * 24, jain=0.96)])["misses"] == ["Jain's index"]


def test_totals_count_cells_by_kind():
    """The totals count agreeing cells per kind, and state load, lateness and disturbed runs."""
    alone = "bbr 100mbit 40ms 1bdp"
    good = row(
        alone,
        [result((100.0, 40.0), load=0.2), result((100.0, 40.0), load=3.0, disturbed=True)],
        [result((100.0, 40.0))],
    )
    bad = row(alone, [result((100.0, 40.0))], [result((90.0, 40.0))])
    totals = comparison.totals([good, bad])
    assert totals["alone"] == {"cells": 2, "agree": 1, "percent": 50.0, "target_percent": 95}
    assert totals["pair"]["percent"] is None
    assert (totals["kernel_runs"], totals["disturbed_runs"], totals["load_min"], totals["load_max"]) == (3, 1, 0.2, 3.0)
    assert drawing.severity(bad) == pytest.approx(10 / 3)
    assert "Runs that other work disturbed: 1 of 3" in tables.conditions(totals)


def test_json_has_an_object_per_cell_and_totals(kernel, tmp_path):
    """`--json` prints an object per cell and the totals, both worlds with intervals; the folder has the same lines."""
    done = ran(call("fidelity", "--cells", TWO, "--json", "-o", tmp_path / "out"))
    *cells, totals = json_rows(done)
    assert [cell["cell"] for cell in cells] == ["bbr 100mbit 40ms 1bdp", "bbr+cubic 100mbit 40ms 1bdp"]
    assert (totals["cells"], totals["kernel_runs"]) == (2, 4)
    for cell, kind in zip(cells, (grid.ALONE, grid.PAIR), strict=True):
        assert (cell["kind"], len(cell["hosts"])) == (kind, 2)
        for world, runs in (("kernel", 2), ("sim", grid.SEEDS)):
            assert set(cell[world]["goodput_mbit_s"]) == {"mean", "half", "n", "min", "max"}
            assert cell[world]["goodput_mbit_s"]["n"] == runs
            assert (cell[world]["share_percent"] is None) == (kind == grid.ALONE)
        assert {"load", "mean_us", "p99_us", "longest_ms", "disturbed", "attempts"} <= set(cell["hosts"][0])
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"cells.jsonl", "agreement.svg", "agreement.png", "runs"} <= files
    assert (tmp_path / "out" / "cells.jsonl").read_text() == done.stdout


@pytest.mark.slow
def test_table_fits_80_columns(kernel, tmp_path):
    """The table of the quick grid has 80 columns at most, states the criterion and counts the cells that agree."""
    done = ran(call("fidelity", "-o", tmp_path / "out"))
    assert max(map(len, done.stdout.splitlines())) <= 80
    text = " ".join(done.stdout.split())
    for part in ("bbr+cubic", "100mbit 10/50ms 1bdp", "within 3 %", "Single flows: 12 of 12 agree", "the aim is 95 %"):
        assert part in text
    assert "19 cells: 95 runs of the simulator, then 38 of the kernel" in done.stderr
    assert "about 16 min" in done.stderr
    assert f"results go to {tmp_path / 'out'}" in done.stderr


@pytest.mark.long
def test_killed_command_keeps_finished_kernel_runs(kernel, command, tmp_path):
    """After SIGKILL the same command executes only the kernel's runs that had not finished."""
    args = ("fidelity", "--cells", TWO, "--repeat", 4, "-o", "out")
    process = command(*args, env={"FAKE_RUN_S": "0.3"})
    end = time.monotonic() + 60
    while len(list(tmp_path.glob("out/runs/*-kernel.json"))) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/runs/*-kernel.json")}
    assert 2 <= len(kept) < 8
    again = command(*args)
    errors = again.communicate(timeout=60)[1]
    assert again.returncode == 0, errors
    assert f"{8 - len(kept)} of the kernel are left" in errors
    assert kept == {path: path.stat().st_mtime_ns for path in kept}
    assert len(list(tmp_path.glob("out/runs/*-kernel.json"))) == 8


@pytest.mark.slow
def test_changed_simulator_keeps_kernel_runs(kernel, tmp_path, monkeypatch, executed):
    """After a change of the simulator only its runs are repeated; kernel runs depend on kernel and emulator."""
    args = ("fidelity", "--cells", TWO, "-o", tmp_path / "out")
    assert call(*args).exit_code == 0
    monkeypatch.setattr(engine, "fingerprint", lambda planned: "another build")
    before = len(executed)
    assert "all of the kernel are saved" in call(*args).stderr
    assert len(executed) - before == 2 * grid.SEEDS
    monkeypatch.setattr(engine, "emulator", lambda: "another")
    assert "4 of the kernel are left" in call(*args).stderr
    assert "all of the kernel are saved" in call(*args).stderr
    monkeypatch.setattr(work.platform, "release", lambda: "7.0")
    assert "4 of the kernel are left" in call(*args).stderr


@pytest.mark.slow
def test_again_repeats_disturbed_kernel_runs_only(kernel, tmp_path, monkeypatch, executed):
    """Disturbed runs are marked, and `--again` repeats only those."""
    monkeypatch.setenv("FAKE_DISTURBED", "2")
    args = ("fidelity", "--cells", TWO, "-o", tmp_path / "out")
    text = call(*args).stdout
    assert sum(line.lstrip().startswith(tables.DISTURBED) for line in text.splitlines()) == 2
    assert "Runs that other work disturbed: 2 of 4" in " ".join(text.split())
    monkeypatch.delenv("FAKE_DISTURBED")
    before = len(executed)
    assert "all of the kernel are saved" in call(*args).stderr
    assert len(executed) == before
    done = call(*args, "--again")
    assert len(executed) - before == 2
    assert "disturbed:" not in done.stdout


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--grid", "half"], "--grid: there is no grid `half`; accepted: quick, full"),
        (["--cells", "("], "--cells: `(` is no regular expression: "),
        (["--cells", "vegas"], "--cells: `vegas` matches no cell of the grid quick; accepted: a regular expression"),
        (["--repeat", "0"], "--repeat: `0` is too small; accepted: a whole number from 1"),
    ],
)
def test_invalid_options_are_refused_before_runs(args, problem, kernel, tmp_path, monkeypatch):
    """Invalid options end with status 2, one sentence and no file."""
    monkeypatch.chdir(tmp_path)
    done = call("fidelity", *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"narrows: {problem}")
    assert "accepted: " in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_machine_without_the_kernel_is_refused(tmp_path, monkeypatch, executed):
    """Without root, or on another system, the command ends with status 2 and runs nothing."""
    monkeypatch.chdir(tmp_path)
    before = len(executed)
    done = call("fidelity", "--cells", TWO)
    refused(done, "the fake kernel runs nothing; accepted: root on Linux")
    monkeypatch.setattr(sys, "platform", "darwin")
    done = call("fidelity", "--cells", TWO)
    refused(done, "this machine runs darwin", "accepted: root on Linux")
    assert len(executed) == before
    assert list(tmp_path.iterdir()) == []


def test_page_states_the_cause_of_each_miss(tmp_path):
    """The Markdown has a row per cell and per miss, with its cause; a cause for any other cell is an error."""
    rows = [
        row("bbr 100mbit 40ms 1bdp", [result((100.0, 40.0), disturbed=True)], [result((90.0, 40.0))] * 5),
        row("bbr+cubic 100mbit 40ms 1bdp", [result((80.0, 60.0), (20.0, 60.0))], [result((81.0, 60.0), (19.0, 60.0))]),
    ]
    drawing.save(rows, comparison.totals(rows), tmp_path)
    read, totals = page.read(tmp_path / "cells.jsonl")
    assert read == json.loads(json.dumps(rows))
    text = page.markdown(read, totals, {})
    assert "* Single flows: 0 of 1 agree (0 %); the aim is 95 %." in text
    assert "* 0 of 1 misses have a cause." in text
    assert f"| bbr 100mbit 40ms 1bdp | goodput -10.0 % (bound 3.0) | {page.UNKNOWN} |" in text
    assert "| bbr 100mbit 40ms 1bdp ~ | 100 | 90.0 ± 0.0 |" in text
    assert "| +1.0 | yes |" in text.replace("+1.00", "+1.0")
    causes = tmp_path / "causes.toml"
    causes.write_text('"bbr 100mbit 40ms 1bdp" = "ProbeRTT | waits."\n')
    assert "| ProbeRTT \\| waits. |" in page.markdown(read, totals, page.read_causes(causes, read))
    causes.write_text('"bbr+cubic 100mbit 40ms 1bdp" = "It agrees."\n')
    with pytest.raises(ValueError, match="is no missed cell; accepted: bbr 100mbit 40ms 1bdp"):
        page.read_causes(causes, read)


def test_page_refuses_an_unfinished_file(tmp_path):
    """A file without its totals is not a finished comparison."""
    (tmp_path / "cells.jsonl").write_text('{"cell": "bbr"}\n')
    with pytest.raises(ValueError, match="no finished comparison; accepted"):
        page.read(tmp_path / "cells.jsonl")


def test_documents_show_the_stored_cells(tmp_path, monkeypatch):
    """The region of the fidelity page names its command, shows stored cells, and refuses causes of other cells."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import fidelity_page

    for name in ("CELLS", "CAUSES", "NS3"):
        monkeypatch.setattr(fidelity_page, name, tmp_path / getattr(fidelity_page, name).name)
    assert fidelity_page.region() == fidelity_page.NONE
    rows = [row("bbr 100mbit 40ms 1bdp", [result((100.0, 40.0))], [result((90.0, 40.0))])]
    drawing.save(rows, comparison.totals(rows), tmp_path)
    fidelity_page.CAUSES.write_text('"bbr 100mbit 40ms 1bdp" = "A reason."\n')
    assert "| A reason. |" in fidelity_page.region()
    fidelity_page.CAUSES.write_text('"nothing" = "A reason."\n')
    with pytest.raises(SystemExit, match="'nothing' is no missed cell"):
        fidelity_page.region()
