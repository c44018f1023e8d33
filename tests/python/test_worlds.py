"""Papers in two worlds: verdicts in each, more seeds for inconclusive claims, and the options that change verdicts."""

import json
from dataclasses import replace

import pytest

from fake_executor import ENGINE
from narrows import ablation, engine, papers, plans, progress, reproduce, verdicts

from conftest import ROOT, call, json_rows, python, ran, refused, write_paper  # isort: skip

pytestmark = pytest.mark.usefixtures("executor")

PAPER = """
title = "On queues"
authors = ["A. Author"]
citation = "A. Author: On queues. 2020."
[world]
name = "ns-3"
why = "Section 4 says so."
set = { "tcp.min_rto" = "1s", "tcp.ack_delay" = "200ms" }
"""
SCENARIO = """
duration = "10s"
repeat = 3
[network]
rate = "10mbit"
[[flows]]
scheme = "bbr"
rtt = "20ms"
"""
CLAIMS = """
[figure]
title = "Shares"

[[claim]]
id = "goodput"
text = "BBR gets 60 Mbit/s"
source = "page 3"
paper = 60.5
unit = "Mbit/s"
sql = 'SELECT seed, goodput_mbit_s AS value FROM flows'

[[claim]]
id = "rtt"
text = "Its RTT is 30 ms"
source = "page 3"
paper = 30
sql = 'SELECT seed, rtt_mean_ms AS value FROM flows'
"""
WIDE = """
[[claim]]
id = "wide"
text = "Odd seeds get 1, even ones -1"
source = "page 4"
reading = "second"
bound = "0.5 is ours"
kind = "at_least"
paper = 0.5
sql = 'SELECT seed, 2.0 * (seed % 2) - 1.0 AS value FROM flows'
"""


GOODPUT = "SELECT seed, goodput_mbit_s AS value FROM flows"
ONE = "SELECT seed, avg(goodput_mbit_s) AS value FROM flows GROUP BY seed"


@pytest.fixture
def folder(tmp_path):
    return write_paper(tmp_path / "papers" / "queues", PAPER, fig1=(SCENARIO, CLAIMS)) / "queues"


def rows(folder, out, *args):
    result = ran(call("reproduce", "--papers", folder.parent, "-o", out, "--json", *args))
    return json_rows(result)


def test_every_claim_gets_a_verdict_in_both_worlds(folder, tmp_path):
    """A claim runs as the paper ran it and as Linux deploys TCP today."""
    found = {(row["world"], row["id"]): row["verdict"] for row in rows(folder, tmp_path / "report")}
    assert found == {
        ("paper", "goodput"): "holds",
        ("today", "goodput"): "does not hold",
        ("paper", "rtt"): "holds",
        ("today", "rtt"): "holds",
    }


def test_one_world_can_be_chosen(folder, tmp_path):
    """`--world` runs one world; an unknown one is refused by name."""
    assert {row["world"] for row in rows(folder, tmp_path / "a", "--world", "today")} == {"today"}
    assert {row["world"] for row in rows(folder, tmp_path / "b", "--world", "paper")} == {"paper"}
    result = call("reproduce", "--papers", folder.parent, "-o", tmp_path / "c", "--world", "mars")
    refused(result, "--world: there is no world 'mars'; accepted: paper, today")


def test_paper_without_a_world_runs_today_only(folder, tmp_path):
    """A paper that states no world has one verdict per claim."""
    (folder / "paper.toml").write_text(PAPER.partition("[world]")[0])
    assert [row["world"] for row in rows(folder, tmp_path / "report")] == ["today", "today"]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('why = "Section 4 says so."\n', "", "world.why is missing"),
        ("why =", "wy =", "world.unknown key 'wy'"),
        ('set = { "tcp.min_rto" = "1s", "tcp.ack_delay" = "200ms" }', "set = 3", "world.set = 3"),
    ],
)
def test_world_with_a_slip_is_refused(folder, tmp_path, old, new, named):
    """A mistake in `[world]` names the file and what is accepted."""
    assert old in PAPER
    (folder / "paper.toml").write_text(PAPER.replace(old, new))
    result = call("reproduce", "--papers", folder.parent, "-o", tmp_path / "report")
    assert result.exit_code == 2
    assert named in result.stderr.replace("\n", "") and "paper.toml" in result.stderr


@pytest.mark.slow
def test_inconclusive_claims_get_more_seeds(folder, tmp_path):
    """A figure with an inconclusive claim that counts runs up to the limit; `--seeds` fixes the number."""

    def wide(out, claims, *arguments):
        (folder / "fig1.claims.toml").write_text(claims)
        (row,) = (r for r in rows(folder, tmp_path / out, "--world", "today", *arguments) if r["id"] == "wide")
        assert row["verdict"] == "inconclusive", row
        return row["ours"]["seeds"]

    main = (CLAIMS + WIDE).replace('reading = "second"\n', "")
    assert wide("a", main) == reproduce.SEED_LIMIT["default"] > 3
    assert wide("b", main, "--seeds", 6) == 6
    assert wide("c", CLAIMS + WIDE) == 3, "a second reading is not counted"


def test_conclusive_figures_keep_their_seeds(folder, tmp_path):
    """A figure without inconclusive claims keeps the seeds of its scenario."""
    assert {row["ours"]["seeds"] for row in rows(folder, tmp_path / "report")} == {3}


def test_headline_counts_main_readings_only(folder, tmp_path):
    """Second readings are counted separately from the headline, and bounds of ours are stored."""
    (folder / "fig1.claims.toml").write_text(CLAIMS + WIDE)
    result = call("reproduce", "--papers", folder.parent, "-o", tmp_path / "report", "--world", "today")
    text = " ".join(result.stdout.split())
    assert "Today, 2 claims: 1 hold, 0 are inconclusive, 0 hold in direction, 1 do not hold, and 1 beside" in text
    stored = json.loads((tmp_path / "report" / "claims.json").read_text())
    assert [(row["counted"], row["bound"]) for row in stored] == [(True, ""), (True, ""), (False, "0.5 is ours")]


def test_ablation_names_the_option_that_turns_a_verdict(folder, tmp_path):
    """Switching one option of the paper's world at a time finds the one that changes the verdict."""
    out = tmp_path / "report"
    result = ran(call("reproduce", "--papers", folder.parent, "-o", out, "--ablate"))
    (turn,) = json.loads((out / "ablation.json").read_text())
    assert (turn["id"], turn["paper"]["verdict"], turn["today"]["verdict"]) == ("goodput", "holds", "does not hold")
    assert [option["option"] for option in turn["options"]] == ["tcp.min_rto"], "ack_delay turns nothing"
    line = " ".join(result.stdout.split())
    assert "queues fig1 goodput: holds → does not hold; turned by tcp.min_rto = default" in line


@pytest.mark.slow
def test_options_of_a_profile_are_those_that_differ():
    """Every option of ns-3's profile that differs from Linux's is switched alone, with Linux's value beside it."""
    read = (
        "import json, pathlib; from narrows import ablation, papers;"
        "(paper,) = papers.load_all(pathlib.Path('papers'), 'nodectl', ['tab3']);"
        "found = ablation.options(paper.figures[0]);"
        "print(json.dumps({o.key: [o.paper, o.today, dict(o.world.set)] for o in found}))"
    )
    done = ran(python("-c", read, cwd=ROOT))
    found = json.loads(done.stdout)
    assert found["min_rto"][:2] == ["1s", "200ms"]
    assert found["lt_bw"][:2] == ["off", "on"]
    assert "initial_window" not in found, "both have 10"
    assert found["rack"][2] == {"tcp.profile": "ns3", "tcp.ack_every": 1, "tcp.profile_except": "['rack']"}
    assert found["tcp.ack_every"] == ["1", "", {"tcp.profile": "ns3"}]


def test_claims_of_the_project_keep_the_rule():
    """Jain indices have the absolute band; no other claim has a band wider than 10 % of its printed value."""
    wrong = []
    for paper in papers.load_all(ROOT / "papers"):
        for figure in paper.figures:
            for claim in figure.claims:
                if claim.kind != "value" or claim.bound.startswith("about 0:"):
                    continue
                jain = claim.unit == "" and "Jain's index" in claim.text
                limit = verdicts.JAIN_WITHIN if jain else verdicts.TOLERANCE * abs(claim.paper)
                if claim.margin() > limit + 1e-12:
                    wrong.append(f"{figure.id} {claim.id}: {claim.margin():g} > {limit:g}")
    assert wrong == []


@pytest.mark.slow
def test_change_of_one_scheme_runs_only_its_runs_again(folder, tmp_path, monkeypatch, executed):
    """After a change of one scheme, a second reproduction takes the runs of other schemes from the folder."""
    swept = SCENARIO + '[sweep]\n"flows.scheme" = ["bbr", "cubic"]\n'
    (folder / "fig1.toml").write_text(swept)
    (folder / "fig1.claims.toml").write_text(CLAIMS.partition('[[claim]]\nid = "rtt"')[0].replace(GOODPUT, ONE))
    rows(folder, tmp_path / "report", "--world", "today")
    before = len(executed)
    rows(folder, tmp_path / "report", "--world", "today")
    assert len(executed) == before
    sources = ENGINE.sources()
    changed = json.dumps({**sources, "schemes": {**sources["schemes"], "cubic": "changed"}})
    monkeypatch.setattr(engine, "_sources", lambda: json.loads(changed))
    rows(folder, tmp_path / "report", "--world", "today")
    assert len(executed) == before + 3, "CUBIC's three seeds"


def test_ablation_runs_the_points_that_claims_need(folder, tmp_path):
    """A query needs the points whose values it names; it needs all points if its rows differ without the others."""
    (folder / "fig1.toml").write_text(SCENARIO + '[sweep]\n"flows.scheme" = ["bbr", "cubic", "newreno"]\n')
    (paper,) = papers.load_all(folder.parent)
    whole = plans.plan(paper, paper.figures[0], "today", "default", 2)
    claim = paper.figures[0].claims[0]
    unjudged = replace(whole, figure=replace(whole.figure, claims=()))
    (done,) = plans.Executor(tmp_path / "runs", None, progress.Silent()).run([unjudged])

    def schemes(where, value="rtt_mean_ms"):
        sql = f"SELECT seed, avg({value}) AS value FROM flows WHERE {where} GROUP BY seed"
        places = ablation.needed([replace(claim, sql=sql)], whole.runs, done.results)
        return [whole.runs[i].point["flows.scheme"] for i in places if whole.runs[i].seed == whole.runs[0].seed]

    assert schemes("\"flows.scheme\" = 'cubic'") == ["cubic"]
    assert schemes("scheme IN ('bbr', 'newreno')") == ["bbr", "newreno"]
    assert schemes("scheme <> 'bbr'") == ["bbr", "cubic", "newreno"]
    assert schemes("rtt_mean_ms > 0") == ["bbr", "cubic", "newreno"]
    assert schemes("goodput_mbit_s > 0", "CASE WHEN scheme = 'bbr' THEN 1 ELSE 0 END") == ["bbr", "cubic", "newreno"]


@pytest.mark.parametrize(
    ("file", "line", "named"),
    [
        ("paper.toml", 'year = "x"', "year = 'x'; accepted: a whole number"),
        ("paper.toml", 'order = "x"', "order = 'x'; accepted: a number"),
        ("paper.toml", "venue = 5", "venue = 5; accepted: a text"),
        ("fig1.claims.toml", 'quick = "5s"', "figure.quick = '5s'; accepted: a table"),
        ("fig1.claims.toml", "about = [1]", "figure.about = [1]; accepted: a text"),
    ],
)
def test_wrong_types_in_papers_are_named(folder, file, line, named):
    """A key of a wrong type ends the command with one line: file, value and what is accepted."""
    path = folder / file
    text = path.read_text().replace("[figure]\n", f"[figure]\n{line}\n") if "claims" in file else f"{line}\n{PAPER}"
    path.write_text(text)
    result = call("reproduce", "--papers", folder.parent, "-o", folder / "report")
    assert result.exit_code == 2
    assert named in result.stderr.replace("\n", " ")


def test_ablation_needs_both_worlds(folder):
    """One world alone has no verdicts to compare."""
    result = call("reproduce", "--papers", folder.parent, "--ablate", "--world", "paper", "-o", folder / "report")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "--ablate, --world" in result.stderr
