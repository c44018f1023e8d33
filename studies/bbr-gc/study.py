"""The effect of BBR-GC's exponents and amplitudes, and of its correction on BBR v2 and v3.

    python studies/bbr-gc/study.py [-o DIR]        writes the tables of docs/studies/bbr-gc.md, and its figure

Finished runs in DIR are reused. Criteria, fixed before any result was known:

* fairness: mean and least of Jain's index over the cells of two-rtts.toml;
* delay: mean round-trip time of the 10 ms flow over the same cells;
* retransmissions: mean over the cells of crowd.toml;
* alone: the least utilisation over the cells of alone.toml.

A setting qualifies if its least utilisation alone is at least 97 % of that of the paper's setting, and if it
retransmits at most 1.1 times as much. Of these, the setting with the greatest mean of Jain's index is recommended, and
judged on the cells of others.toml, which did not influence the choice.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import polars as pl

import narrows

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))

from regions import fill, table

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"
PAGE = DOCS / "studies" / "bbr-gc.md"
FIGURE = DOCS / "images" / "bbr-gc-gamma.png"

UP = (0.125, 0.25, 0.5, 1, 2, 4)
DOWN = (0.5, 1, 2, 4, 8)
AMPLITUDES = ((0.25, 0.25), (0.25, 0.5), (0.5, 0.25), (1, 0.5), (0.5, 0.8), (1, 0.8))
READINGS = {
    "P_up in the whole phase": "between=up",
    "gain 1 from 1 BDP on": "between=cruise",
    "the probe ends at 1 BDP": "between=drain",
    "the probe lasts until 1.25 BDP or loss": "between=probe",
    "no early end of a probe": "early_down=off",
    "quanta count": "quanta=on",
    "smoothed RTT": "rtt=smoothed",
    "least RTT of a round": "rtt=least",
    "RTT_max of the last 10 s": "rtt_max_window=10",
}
PAPER = "bbr-gc"
Row = dict[str, float]


def measure(scheme: str, out: Path | None) -> Row:
    """Return the figures of a scheme or setting."""

    def run(part: str) -> narrows.Results:
        folder = out and out / part / re.sub(r"[:,=]", "_", scheme)
        return narrows.run(HERE / f"{part}.toml", set={"flows.scheme": scheme}, out=folder)

    pair, crowd, alone = run("two-rtts"), run("crowd"), run("alone")
    jain = pair.runs.group_by("network.buffer", "flows.1.rtt").agg(pl.col("jain").mean())["jain"]
    used = alone.links.filter(pl.col("index") == 0).group_by("network.buffer", "network.loss")
    return {
        "jain": jain.mean(),
        "least_jain": jain.min(),
        "rtt_ms": pair.flows.filter(pl.col("index") == 0)["rtt_mean_ms"].mean(),
        "again": crowd.flows["retransmit_percent"].mean(),
        "used": 100 * used.agg(pl.col("utilization").mean())["utilization"].min(),
    }


def judge(scheme: str, out: Path | None) -> Row:
    """Return the figures on the other cells: Jain's index per buffer, retransmissions, and utilisation."""
    folder = out and out / "others" / re.sub(r"[:,=]", "_", scheme)
    results = narrows.run(HERE / "others.toml", set={"flows.scheme": scheme}, out=folder)
    per_cell = results.runs.group_by("network.buffer", maintain_order=True).agg(pl.col("jain").mean())
    row = dict(per_cell.iter_rows())
    links = results.links.filter(pl.col("index") == 0)
    return {**row, "again": results.flows["retransmit_percent"].mean(), "used": 100 * links["utilization"].mean()}


def setting(up: float, down: float, amplitudes: tuple[float, float] = (0.5, 0.5)) -> str:
    """Return a setting as on the command line; the paper's is plain `bbr-gc`."""
    paper = {"up_gamma": 0.25, "down_gamma": 4, "up_amplitude": 0.5, "down_amplitude": 0.5}
    ours = {"up_gamma": up, "down_gamma": down, "up_amplitude": amplitudes[0], "down_amplitude": amplitudes[1]}
    changed = ",".join(f"{key}={value:g}" for key, value in ours.items() if value != paper[key])
    return f"bbr-gc:{changed}" if changed else PAPER


def rows_of(rows: Mapping[str, Row], heads: Sequence[str]) -> str:
    """Format a table with a row per setting."""
    return table(heads, ([name, *(f"{value:.3g}" for value in row.values())] for name, row in rows.items()))


def qualifies(row: Row, paper: Row) -> bool:
    """Whether a setting qualifies, as the module docstring defines it."""
    return row["used"] >= 0.97 * paper["used"] and row["again"] <= 1.1 * paper["again"]


def heat(rows: Mapping[str, Row]) -> None:
    """Draw fairness and retransmissions over the two exponents."""
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for panel, key, title in zip(panels, ("jain", "again"), ("mean of Jain's index", "retransmitted, %"), strict=True):
        values = [[rows[setting(up, down)][key] for up in UP] for down in DOWN]
        image = panel.imshow(values, origin="lower", aspect="auto", cmap="viridis" if key == "jain" else "viridis_r")
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                light = image.cmap(image.norm(value))[1] > 0.6
                colour = "black" if light else "white"
                panel.text(x, y, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=8)
        panel.set_xticks(range(len(UP)), [f"{up:g}" for up in UP])
        panel.set_yticks(range(len(DOWN)), [f"{down:g}" for down in DOWN])
        panel.set_xlabel("exponent of P_up (paper: 0.25)")
        panel.set_ylabel("exponent of P_down (paper: 4)")
        panel.set_title(title)
        figure.colorbar(image, ax=panel)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=100, metadata={"Software": None})


def each(settings: Iterable[str], out: Path | None, known: dict[str, Row]) -> dict[str, Row]:
    """Measure the unknown settings, and report progress."""
    wanted = list(settings)
    for i, name in enumerate(wanted, start=1):
        if name not in known:
            print(f"{i}/{len(wanted)} {name}", flush=True)
            known[name] = measure(name, out)
    return {name: known[name] for name in wanted}


def main() -> None:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("-o", "--out", type=Path, help="keep the runs in a folder")
    out: Path | None = parser.parse_args().out
    known: dict[str, Row] = {}

    exponents = each((setting(up, down) for down in DOWN for up in UP), out, known)
    paper = exponents[PAPER]
    fit = {name: row for name, row in exponents.items() if qualifies(row, paper)}
    best = max(fit, key=lambda name: fit[name]["jain"])
    up, down = (float(dict_of(best).get(key, default)) for key, default in (("up_gamma", 0.25), ("down_gamma", 4)))
    amplitudes = each(
        [setting(*pair, both) for pair in ((0.25, 4), (up, down)) for both in ((0.5, 0.5), *AMPLITUDES)], out, known
    )
    fit |= {name: row for name, row in amplitudes.items() if qualifies(row, paper)}
    best = max(fit, key=lambda name: fit[name]["jain"])
    readings = each((f"bbr-gc:{text}" for text in READINGS.values()), out, known)
    ended = f"{best}{',' if ':' in best else ':'}between=drain"
    family = each(["bbr", PAPER, "bbr-gc:between=drain", best, ended, "bbr2", "bbr2-gc", "bbr3", "bbr3-gc"], out, known)
    others = {f"`{name}`": judge(name, out) for name in family}

    heat(exponents)
    heads = ["", "Jain, mean", "Jain, least", "RTT of the 10 ms flow, ms", "retransmitted, %", "least use alone, %"]
    marked = {
        f"`{name}`" + ("" if qualifies(row, paper) else " (does not qualify)"): row
        for name, row in {**exponents, **amplitudes}.items()
    }
    buffers = [f"Jain, {key}" for key in next(iter(others.values())) if key not in ("again", "used")]
    fill(
        PAGE,
        {
            "settings": rows_of(dict(sorted(marked.items(), key=lambda item: -item[1]["jain"])), heads),
            "readings": rows_of(
                {"as printed": paper}
                | {f"{text} (`{READINGS[text]}`)": readings[f"bbr-gc:{READINGS[text]}"] for text in READINGS},
                heads,
            ),
            "family": rows_of({f"`{name}`": row for name, row in family.items()}, heads),
            "others": rows_of(others, ["", *buffers, "retransmitted, %", "use, %"]),
            "best": f"Recommended: `{best}`.",
        },
    )


def dict_of(spec: str) -> dict[str, str]:
    """Return the parameters of a scheme as on the command line."""
    _, _, text = spec.partition(":")
    return dict(part.split("=") for part in text.split(",") if part)


if __name__ == "__main__":
    main()
