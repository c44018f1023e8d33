"""Writes what was measured into docs/results.md.

    python docs/results.py REPORT BENCH [LAWS]

REPORT is the folder of `narrows reproduce`, of all papers; BENCH a file with the lines of `narrows bench --json`, and
those of `narrows bench` with `--schemes`, `--allocators` and `--dccp` behind them; LAWS what the laws of convergence
and of allocation print.

Only the regions between `<!-- NAME -->` and `<!-- /NAME -->` are written; the rest of the page is by hand. Nothing here
measures: every figure comes from these files, and the table of what was tried for BBR-CWS from its study. A region that
BENCH or LAWS has no line for stays as it is, which is said; a report that lacks a claim of `papers` is refused.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from narrows.claims import stated

PAGE = Path(__file__).resolve().parent / "results.md"
STUDY = PAGE.parent / "studies" / "bbr-cws.md"
PAPERS = PAGE.parents[1] / "papers"
ORDER = ("holds", "holds in direction", "does not hold")


def rounded(value: float) -> str:
    """Three significant digits, plainly."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def interval(ours: dict[str, Any] | None) -> str:
    """A mean with the half width of its 95 % interval."""
    if not ours or ours.get("mean") is None:
        return "no value"
    half = ours.get("half_width")
    return rounded(ours["mean"]) + (f" ± {rounded(half)}" if half else "")


def bench_table(rows: list[dict[str, Any]]) -> str:
    """The rows of the benchmark."""
    lines = [
        "| case | packets delivered | wall s (median) | million packets/s | events | kB per flow, peak | SACK blocks"
        " | recoveries | paced | rate samples | ns-3, packets/s | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        c = row["counters"]
        ns3 = row.get("ns3")
        theirs = f"{ns3['packets_per_s']:,.0f} | {ns3['ratio']:.0f}" if ns3 else "– | –"
        lines.append(
            f"| {row['case']} | {row['data_packets']:,} | {row['wall_s']:.3f} | {row['packets_per_s'] / 1e6:.2f} "
            f"| {row['events']:,} | {row['peak_flow_bytes'] / 1e3:.1f} | {c['sack_blocks']:,} | {c['recoveries']:,} "
            f"| {c['paced_waits']:,} | {c['rate_samples']:,} "
            f"| {theirs} |"
        )
    return "\n".join(lines)


def costs_table(rows: list[dict[str, Any]]) -> str:
    """What an acknowledgement costs each scheme."""
    lines = [f"| scheme | ns per acknowledgement | ratio to `{rows[0]['reference']}` |", "|---|---|---|"]
    lines += [f"| `{row['scheme']}` | {row['ns_per_ack']:.1f} | {row['ratio']:.2f} |" for row in rows]
    return "\n".join(lines)


def ports_table(rows: list[dict[str, Any]]) -> str:
    """What allocators cost the link they sit at."""
    lines = [
        "| allocator | flows | ns per packet | ratio to none | ns per wake | ns per wake and flow | bytes"
        " | bytes per flow |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        wake, each = row["ns_per_wake"], row["ns_per_wake_and_flow"]
        wakes = "– | –" if wake is None else f"{wake:,.0f} | {rounded(each)}"
        lines.append(
            f"| `{row['allocator']}` | {row['flows']:,} | {row['ns_per_packet']:.1f} | {row['ratio']:.1f} | {wakes} "
            f"| {row['memory_bytes']:,} | {rounded(row['bytes_per_flow'])} |"
        )
    return "\n".join(lines)


def datagrams_table(rows: list[dict[str, Any]]) -> str:
    """What a datagram costs, by what carries it."""
    ratio = f"ratio to {rows[0]['reference']}"
    lines = [
        f"| carried by | path | datagram, bytes | ns per datagram | Mbit/s | {ratio} | core busy |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        by = f"`{row['scheme']}`" if row["scheme"] else row["transport"].upper()
        lines.append(
            f"| {by} | {row['path']} | {row['datagram_bytes']:,} | {row['ns_per_datagram']:,.0f} "
            f"| {row['mbit_s']:,.0f} | {row['ratio']:.2f} | {row['cpu_percent']:.0f} % |"
        )
    return "\n".join(lines)


Table = Callable[[list[dict[str, Any]]], str]
MEASURED: tuple[tuple[str, str, str, Table], ...] = (
    ("bench", "packets_per_s", "narrows bench --json", bench_table),
    ("scheme-cost", "ns_per_ack", "narrows bench --schemes --json", costs_table),
    ("allocator-cost", "ns_per_packet", "narrows bench --allocators --json", ports_table),
    ("datagram-cost", "ns_per_datagram", "narrows bench --dccp --json", datagrams_table),
)
"""Of each region of a benchmark: the field by which its rows are known, the command that prints them, and its table."""


def gaps_list(said: list[str]) -> str:
    """The laws of allocation, one line for each scheme and kind of network."""
    found = re.compile(r"^(?:test \S+ \.\.\. )?(\w+, [A-Z_]+: \d+ flows on .*drops\b.*)$")
    return "\n".join(f"* {match[1]}" for line in sorted(said) if (match := found.match(line)))


def claims_tables(claims: list[dict[str, Any]]) -> str:
    """One table per paper, with the causes of what does not hold below it."""
    parts = []
    for paper in dict.fromkeys(claim["paper_id"] for claim in claims):
        mine = [claim for claim in claims if claim["paper_id"] == paper]
        counts = Counter(claim["verdict"] for claim in mine)
        tally = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ORDER if counts[verdict])
        lines = [f"### {paper}: {len(mine)} claims: {tally}", "", "| figure | claim | paper | ours | verdict | cause |"]
        lines.append("|---|---|---|---|---|---|")
        causes: list[str] = []
        for claim in mine:
            note = ""
            if claim["verdict"] != "holds" and claim["cause"]:
                if claim["cause"] not in causes:
                    causes.append(claim["cause"])
                note = f"{causes.index(claim['cause']) + 1}"
            unit = f" {claim['unit']}" if claim["unit"] else ""
            paper_value = "–" if claim["paper"] is None else f"{rounded(claim['paper'])}{unit}"
            ours = interval(claim["ours"]) + (f" against {interval(claim['than'])}" if claim["than"] else "") + unit
            text = claim["text"] + (f" ({claim['remark']})" if claim.get("remark") else "")
            text = text.replace("|", "\\|")
            verdict = claim["verdict"]
            lines.append(f"| {claim['figure']} | {text} | {paper_value} | {ours} | {verdict} | {note} |")
        lines.append("")
        lines.extend(f"{i}. {cause}" for i, cause in enumerate(causes, start=1))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def missing(claims: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """The claims of a folder of papers that a report has not judged, by paper, figure and id."""
    told = {(claim["paper_id"], claim["figure"], claim["id"]) for claim in claims}
    return [" ".join(claim) for claim in stated(folder) if claim not in told]


def say(text: str) -> None:
    """What the one who runs this must know."""
    print(f"results.py: {text}", file=sys.stderr)


def replace(text: str, name: str, body: str) -> str:
    """The page with one region written anew."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"{PAGE} has no region `{name}`")
    return pattern.sub(lambda match: f"{match[1]}{body}\n{match[2]}", text)


def region(text: str, name: str) -> str:
    """What stands in one region of a page."""
    found = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"{STUDY} has no region `{name}`")
    return found[1]


def measured(page: str, rows: list[dict[str, Any]]) -> str:
    """The page with the regions of the benchmarks that there are rows for."""
    for name, field, command, table in MEASURED:
        if found := [row for row in rows if field in row]:
            page = replace(page, name, table(found))
        else:
            say(f"no row of `{command}`: the region `{name}` stays as it is")
    return page


def main() -> None:
    """Reads the files and writes the page."""
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    claims = json.loads((Path(sys.argv[1]) / "claims.json").read_text())
    if lacking := missing(claims, PAPERS):
        listed = ", ".join(lacking[:5]) + (", ..." if len(lacking) > 5 else "")
        raise SystemExit(
            f"{sys.argv[1]} lacks {len(lacking)} claims: {listed}; accepted: what `narrows reproduce -o` writes"
        )
    rows = [json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines() if line.strip()]
    page = measured(PAGE.read_text(), rows)
    if len(sys.argv) == 4:
        said = Path(sys.argv[3]).read_text().splitlines()
        page = replace(page, "convergence", "\n".join(line for line in said if line.startswith("|")))
        page = replace(page, "gaps", gaps_list(said))
    else:
        say("no LAWS: the regions `convergence` and `gaps` stay as they are")
    page = replace(page, "claims", claims_tables(claims))
    page = replace(page, "tried", region(STUDY.read_text(), "tried"))
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
