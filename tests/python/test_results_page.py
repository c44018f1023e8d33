"""The program that writes docs/results.md, on files as the commands leave them."""

import json
import subprocess
import sys

import pytest

from conftest import ROOT  # isort: skip

sys.path.insert(0, str(ROOT / "docs"))

import results

from narrows import claims

PAGE = """By hand.
<!-- bench -->
<!-- /bench -->
<!-- scheme-cost -->
old
<!-- /scheme-cost -->
<!-- datagram-cost -->
<!-- /datagram-cost -->
"""
DATAGRAMS = [
    {
        "transport": "udp", "scheme": None, "path": "batches", "datagram_bytes": 1400, "datagrams": 9, "mbit_s": 8000.0,
        "ns_per_datagram": 1400.0, "ratio": 1.0, "reference": "UDP, batches", "cpu_percent": 99.4,
    },
    {
        "transport": "dccp", "scheme": "guess", "path": "memory", "datagram_bytes": 1400, "datagrams": 9, "mbit_s": 4000.0,
        "ns_per_datagram": 2800.0, "ratio": 0.5, "reference": "UDP, batches", "cpu_percent": 100.0,
    },
]  # fmt: skip
CLAIM = {
    "paper_id": "p", "figure": "fig1", "id": "a", "text": "More | less", "paper": 2.0, "unit": "ms", "remark": "",
    "ours": {"mean": 2.5, "half_width": 0.25, "seeds": 5}, "than": None, "verdict": "does not hold", "cause": "Why.",
}  # fmt: skip


def test_rows_are_told_apart_by_what_they_measure_and_a_region_without_any_stays(capsys):
    page = results.measured(PAGE, DATAGRAMS)
    assert "| UDP | batches | 1,400 | 1,400 | 8,000 | 1.00 | 99 % |" in page
    assert "| `guess` | memory | 1,400 | 2,800 | 4,000 | 0.50 | 100 % |" in page
    assert "old" in page, "rows of datagrams name schemes, and are no costs of acknowledgements"
    told = capsys.readouterr().err
    assert "no row of `narrows bench --schemes --json`: the region `scheme-cost` stays as it is" in told
    assert "datagram-cost" not in told


def test_every_claim_has_its_row_and_a_cause_stands_once():
    table = results.claims_tables([CLAIM, {**CLAIM, "id": "b"}, {**CLAIM, "id": "c", "verdict": "holds"}])
    assert table.startswith("### p: 3 claims: 1 holds, 2 does not hold")
    assert table.count("| fig1 | More \\| less | 2 ms | 2.5 ± 0.25 ms | does not hold | 1 |") == 2
    assert table.count("1. Why.") == 1
    assert "| holds |  |" in table


def test_a_report_that_lacks_claims_is_refused(tmp_path):
    stated = len(claims.stated(results.PAPERS))
    assert len(results.missing([], results.PAPERS)) == stated > 400
    (tmp_path / "claims.json").write_text(json.dumps([CLAIM]))
    (tmp_path / "bench.jsonl").write_text("")
    program = ROOT / "docs" / "results.py"
    before = results.PAGE.read_bytes()
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), str(tmp_path / "bench.jsonl")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"lacks {stated} claims: " in done.stderr and "accepted: what `narrows reproduce -o` writes" in done.stderr
    assert results.PAGE.read_bytes() == before


def test_the_page_has_a_region_for_everything_that_is_written():
    page = results.PAGE.read_text()
    for name in [*(name for name, *_ in results.MEASURED), "convergence", "gaps", "claims", "tried"]:
        assert results.region(page, name)
    with pytest.raises(SystemExit, match="has no region"):
        results.replace(page, "nothing", "")
