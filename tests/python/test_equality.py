"""The comparison of two builds finds and names differences."""

import copy
import json
import sys

import pytest

from conftest import ROOT  # isort: skip

sys.path.append(str(ROOT / "tests" / "equality"))

import compare
import differences
import goldens

RUN = "small, network.router=rcp, seed=1"
TEXT = '[network]\nrate = "10mbit"\nrouter = "rcp"  # at the port\n'


def record(text=TEXT):
    """A record of one run with a trace, and of a scenario that was refused."""
    result = {
        "event_hash": "00ff",
        "jain": 1.0,
        "flows": [{"flow": "a", "goodput_mbit_s": 9.5}, {"flow": "b", "goodput_mbit_s": 0.25}],
        "links": [{"link": "bottleneck", "router": {"kind": "rcp", "readings": {"rate_mbit_s": 4.0}}}],
    }
    trace = {
        "sha256": "bytes with router",
        "names": {"series": ["cwnd_bytes", "router_rate_mbit_s"]},
        "columns": {"value": "v1"},
    }
    return {
        "engine": "the one",
        "schemes": ["rcp", "cubic"],
        "routers": ["rcp"],
        "scenarios": {"small": {"text": text, "overrides": []}, "odd": {"text": "seed = 1", "overrides": []}},
        "runs": {
            RUN: {
                "event_hash": "00ff", "result": result, "traces": {"samples.arrow": trace},
            },
            "odd": {"refused": {"key": "flows", "line": None}},
        },
    }  # fmt: skip


def compared(tmp_path, old, new, *options):
    """The exit status of the command for two records."""
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    for file, content in zip(files, (old, new), strict=True):
        file.write_text(json.dumps(content))
    return compare.main(["compare", *map(str, files), *options])


def changed(change):
    """A record with one change."""
    new = copy.deepcopy(record())
    change(new)
    return new


def test_compare_equal_records_pass(tmp_path, capsys):
    """Equal records give exit status 0, the number of runs, and a note that one engine made both."""
    assert compared(tmp_path, record(), record()) == 0
    out = capsys.readouterr().out
    assert "1 runs, 1 refusals compared: equal" in out
    assert "the same engine" in out


def test_compare_no_runs_fails(tmp_path, capsys):
    """Records without runs prove nothing, so they are not equal."""
    empty = {**record(), "runs": {}}
    assert compared(tmp_path, empty, empty) == 1
    capsys.readouterr()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda run: run.update(event_hash="00fe"), 'event_hash: "00ff", now "00fe"'),
        (lambda run: run["result"]["flows"][1].update(goodput_mbit_s=0.26), "result.flows[1].goodput_mbit_s: 0.25, now 0.26"),
        (lambda run: run["result"].update(jain=1), "result.jain: 1.0, now 1"),
        (lambda run: run["result"]["flows"].pop(), "result.flows: 2 items, now 1"),
        (lambda run: run["result"].pop("jain"), "result.jain: only in the old"),
        (lambda run: run["result"].update(more=None), "result.more: only in the new"),
        (lambda run: run["traces"]["samples.arrow"].update(sha256="x"), 'traces.samples.arrow.sha256: "bytes with router", now "x"'),
        (lambda run: run.pop("traces"), "traces: only in the old"),
        (lambda run: run["result"]["links"][0]["router"]["readings"].update(rate_mbit_s=4.5), "result.links[0].router.readings.rate_mbit_s: 4.0, now 4.5"),
    ],
)  # fmt: skip
def test_compare_changed_field_is_named(tmp_path, capsys, change, line):
    """A difference names the run and its first differing field, and the exit status is 1."""
    assert compared(tmp_path, record(), changed(lambda new: change(new["runs"][RUN]))) == 1
    assert f"{RUN}: {line}\n" in capsys.readouterr().out


def test_compare_two_changes_event_hash_comes_first(tmp_path, capsys):
    """Of several differing fields the event hash is shown and the others are counted."""

    def change(new):
        new["runs"][RUN].update(event_hash="0")
        new["runs"][RUN]["result"].update(jain=0.5, event_hash="0")

    assert compared(tmp_path, record(), changed(change)) == 1
    out = capsys.readouterr().out
    assert f'{RUN}: event_hash: "00ff", now "0" (and 2 more fields)\n' in out
    assert "compared: 1 differ" in out


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda new: new["runs"].pop(RUN), f"runs: only in the old: {RUN}"),
        (lambda new: new["runs"].update(late=new["runs"]["odd"]), "runs: only in the new: late"),
        (lambda new: new["schemes"].remove("cubic"), "schemes: only in the old: cubic"),
        (lambda new: new["routers"].append("wcp"), "routers: only in the new: wcp"),
        (lambda new: new["runs"]["odd"]["refused"].update(line=7), "odd: refused.line: null, now 7"),
        (lambda new: new["scenarios"]["odd"].update(text="seed = 2"), "odd: scenario.text.seed: 1, now 2"),
    ],
)
def test_compare_different_sets_fail(tmp_path, capsys, change, line):
    """Runs, schemes or scenarios that only one record has are differences, as are other refusals."""
    assert compared(tmp_path, record(), changed(change)) == 1
    assert line in capsys.readouterr().out.splitlines()


def test_compare_comments_of_scenarios_do_not_count(tmp_path, capsys):
    """Scenarios are compared by their content; records of two engines carry no note."""
    new = {**record(text=TEXT.replace("at the port", "with another comment")), "engine": "another"}
    assert compared(tmp_path, record(), new) == 0
    assert "engine" not in capsys.readouterr().out


def test_compare_ignored_field_is_left_out_and_shown(tmp_path, capsys):
    """`--ignore` leaves a field out of all objects, and the output says so."""
    new = changed(lambda new: new["runs"][RUN]["result"].update(jain=0.5))
    assert compared(tmp_path, record(), new, "--ignore", "jain") == 0
    assert "ignored: jain" in capsys.readouterr().out


def tree(folder, header, table, page="`0123456789abcdef`"):
    """A tree with a snapshot, a page, a corpus, and a paper that cannot be read."""
    (folder / "crates" / "sim" / header).mkdir(parents=True)
    snapshot = f"---\nsource: {header}\nexpression: table\n---\n{table}\n"
    (folder / "crates" / "sim" / header / f"{header}__table.snap").write_text(snapshot)
    (folder / "crates" / "packets.hex").write_text("too short: 0102030405060708\n")
    (folder / "docs" / "schemes").mkdir(parents=True)
    (folder / "docs" / "schemes" / "cubic.md").write_text(f"The events have the hash {page}.\n")
    (folder / "papers" / "p").mkdir(parents=True)
    (folder / "papers" / "p" / "paper.toml").write_text("title = ")
    return folder


def test_goldens_moved_snapshot_is_equal(tmp_path, monkeypatch):
    """Snapshots are compared by their rows, regardless of folder, file and insta's header."""
    monkeypatch.setattr(goldens, "papers", lambda tree: {"p fig1": {"claims": {"c": {"kind": "less"}}}})
    report = goldens.of_trees(tree(tmp_path / "a", "golden", "1 2\n3 4"), tree(tmp_path / "b", "other", "1 2\n3 4"))
    assert report.equal(), report.lines()
    assert report.compared == {
        "snapshots": 1, "pages with hashes": 1, "corpora": 1, "figures of papers": 1, "claims": 1
    }  # fmt: skip


def test_goldens_changed_row_and_hash_are_named(tmp_path, monkeypatch):
    """A changed row, a changed hash on a page and a changed claim are differences with their places."""
    claims = iter(({"paper": 0.5}, {"paper": 0.6}))
    monkeypatch.setattr(goldens, "papers", lambda tree: {"p fig1": {"claims": {"c": next(claims)}}})
    old = tree(tmp_path / "a", "golden", "1 2\n3 4")
    new = tree(tmp_path / "b", "golden", "1 2\n3 5", "`0123456789abcdee`")
    report = goldens.of_trees(old, new)
    assert report.found == [
        'snapshots: table: line 2: "3 4", now "3 5"',
        'pages with hashes: docs/schemes/cubic.md: line 1: "0123456789abcdef", now "0123456789abcdee"',
        "papers: p fig1.claims.c.paper: 0.5, now 0.6",
    ]


def test_goldens_unreadable_papers_fail(tmp_path):
    """Papers that a tree cannot read are a difference, never skipped."""
    report = goldens.of_trees(tree(tmp_path / "a", "golden", "1"), tree(tmp_path / "b", "golden", "1"))
    assert not report.equal()
    assert "cannot be read" in report.found[0]


def test_differences_long_values_are_cut():
    """A difference shows the beginning of long values."""
    assert len(differences.shown("x" * 1000)) < 110
