"""Stores measurements in the documents.

    narrows reproduce --ablate --literal -o report
    narrows bench --json > bench.jsonl                    # with ns-3 beside it, where Debian's libns3-dev is installed
    narrows bench --schemes --json >> bench.jsonl
    narrows bench --routers --json >> bench.jsonl
    narrows bench --dccp --json >> bench.jsonl
    cargo test --release -p narrows-sim --test all -- laws_convergence laws_allocation --nocapture > laws.txt
    python docs/results.py report bench.jsonl [laws.txt]  # REPORT BENCH [LAWS]
    narrows reproduce bbr-gc fig5 --on kernel --json > fig5.jsonl     # as root; so for every figure with such verdicts
    python docs/results.py --kernel fig5.jsonl fig8.jsonl             # or --kernel-quick, with --quick in real time
    make docs

The claims of the report go to `docs/papers/measured.jsonl`, from which `docs/generate.py` writes the pages of papers.
Those of the kernel go to `docs/papers/kernel.jsonl` or `kernel-quick.jsonl`.
BENCH goes to regions of `docs/topics/benchmarks.md` between `<!-- NAME -->` and `<!-- /NAME -->`, LAWS to those of
`docs/topics/explicit-rates.md`. Nothing here measures. A region without new lines in the files keeps its content, with
a note on standard error; BENCH may be an empty file. A report that lacks a claim of `papers/` is refused.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from comparisons import ABLATION, LITERAL
from paper_pages import KERNEL_FILES, ON_KERNEL, PAPERS, rounded
from paper_pages import MEASURED as CLAIMS

from narrows.claims import stated

TOPICS = Path(__file__).resolve().parent / "topics"
BENCHMARKS, LAWS = TOPICS / "benchmarks.md", TOPICS / "explicit-rates.md"


def bench_table(rows: list[dict[str, Any]]) -> str:
    """The event loop, by case."""
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


def schemes_table(rows: list[dict[str, Any]]) -> str:
    """The cost of an acknowledgement, by scheme."""
    lines = [f"| scheme | ns per acknowledgement | ratio to `{rows[0]['reference']}` |", "|---|---|---|"]
    lines += [f"| `{row['scheme']}` | {row['ns_per_ack']:.1f} | {row['ratio']:.2f} |" for row in rows]
    return "\n".join(lines)


def routers_table(rows: list[dict[str, Any]]) -> str:
    """The cost of a packet and of a wake, by router algorithm."""
    lines = [
        "| router algorithm | flows | ns per packet | ratio to none | ns per wake | ns per wake and flow | bytes"
        " | bytes per flow |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        wake, each = row["ns_per_wake"], row["ns_per_wake_and_flow"]
        wakes = "– | –" if wake is None else f"{wake:,.0f} | {rounded(each)}"
        lines.append(
            f"| `{row['router']}` | {row['flows']:,} | {row['ns_per_packet']:.1f} | {row['ratio']:.1f} | {wakes} "
            f"| {row['memory_bytes']:,} | {rounded(row['bytes_per_flow'])} |"
        )
    return "\n".join(lines)


def datagrams_table(rows: list[dict[str, Any]]) -> str:
    """The cost of a datagram, by transport."""
    ratio = f"ratio to {rows[0]['reference']}"
    lines = [
        f"| transport | path | datagram, bytes | ns per datagram | Mbit/s | {ratio} | core busy |",
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
    ("scheme-cost", "ns_per_ack", "narrows bench --schemes --json", schemes_table),
    ("router-cost", "ns_per_packet", "narrows bench --routers --json", routers_table),
    ("datagram-cost", "ns_per_datagram", "narrows bench --dccp --json", datagrams_table),
)
"""Regions of benchmarks: the field that identifies their rows, the command that prints them, and the table."""


def gaps_list(printed: list[str]) -> str:
    """The tests of allocation, one line for each scheme and kind of network."""
    found = re.compile(r"^(?:test \S+ \.\.\. )?(\w+, [A-Z_]+: \d+ flows on .*drops\b.*)$")
    return "\n".join(f"* {match[1]}" for line in sorted(printed) if (match := found.match(line)))


def outcomes(claims: Sequence[Mapping[str, Any]]) -> str:
    """The claims of a report as lines of JSON: our value and the verdict."""

    def spread(value: Mapping[str, Any] | None) -> list[Any] | None:
        return None if not value or value.get("mean") is None else [value["mean"], value.get("half_width")]

    rows = (
        {
            "paper": row["paper_id"], "figure": row["figure"], "claim": row["id"], "world": row["world"],
            "verdict": row["verdict"], "ours": spread(row["ours"]), "than": spread(row["than"]),
        }
        for row in claims
    )  # fmt: skip
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def missing(claims: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """The claims of a folder of papers that a report lacks, each as paper, figure and name."""
    reported = {(claim["paper_id"], claim["figure"], claim["id"]) for claim in claims}
    return [" ".join(claim) for claim in stated(folder) if claim not in reported]


def note(text: str) -> None:
    """Print a note to standard error."""
    print(f"results.py: {text}", file=sys.stderr)


def replace(text: str, name: str, body: str) -> str:
    """A page with one region replaced."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"results.py: the page has no region `{name}`")
    return pattern.sub(lambda match: f"{match[1]}{body}\n{match[2]}", text)


def measured(page: str, rows: list[dict[str, Any]]) -> str:
    """A page with the regions of all benchmarks in `rows` replaced."""
    for name, field, command, table in MEASURED:
        if found := [row for row in rows if field in row]:
            page = replace(page, name, table(found))
        else:
            note(f"no row of `{command}`: the region `{name}` keeps its content")
    return page


def on_kernel(world: str, files: Sequence[str]) -> None:
    """Store the outcomes of the kernel's runs of this world."""
    claims = [json.loads(line) for name in files for line in Path(name).read_text().splitlines()]
    KERNEL_FILES[world].write_text(outcomes([claim for claim in claims if claim["world"] == ON_KERNEL]))


def main() -> None:
    """Read the files, write the pages and the outcomes of claims."""
    world = next((world for world in KERNEL_FILES if sys.argv[1:2] == [f"--{world}"]), None)
    if world and len(sys.argv) > 2:
        on_kernel(world, sys.argv[2:])
        return
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    claims = json.loads((Path(sys.argv[1]) / "claims.json").read_text())
    if lacking := missing(claims, PAPERS):
        listed = ", ".join(lacking[:5]) + (", ..." if len(lacking) > 5 else "")
        raise SystemExit(
            f"{sys.argv[1]} lacks {len(lacking)} claims: {listed}; accepted: a full report of `narrows reproduce -o`"
        )
    rows = [json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines() if line.strip()]
    BENCHMARKS.write_text(measured(BENCHMARKS.read_text(), rows))
    if len(sys.argv) == 4:
        printed = Path(sys.argv[3]).read_text().splitlines()
        page = replace(LAWS.read_text(), "convergence", "\n".join(line for line in printed if line.startswith("|")))
        LAWS.write_text(replace(page, "gaps", gaps_list(printed)))
    else:
        note("no laws: the regions `convergence` and `gaps` keep their content")
    CLAIMS.write_text(outcomes(claims))
    for path in (ABLATION, LITERAL):
        found = Path(sys.argv[1]) / path.with_suffix(".json").name
        if found.is_file():
            path.write_text(
                "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in json.loads(found.read_text()))
            )
        else:
            note(f"{sys.argv[1]} has no {found.name}: {path.name} keeps its content")


if __name__ == "__main__":
    main()
