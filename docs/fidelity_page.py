"""The generated region of `fidelity.md`: the cells that `narrows fidelity` measured, and the causes of the misses.

| source | gives |
|---|---|
| `studies/fidelity/cells.jsonl`, a copy of the one that `narrows fidelity --grid full -o DIR` writes | the tables |
| `studies/fidelity/causes.toml` | a sentence per missed cell |
| `studies/fidelity/ns3.jsonl`, which `studies/fidelity/ns3_cells.py` writes | the columns of ns-3, if it exists |
"""

from __future__ import annotations

from blocks import ROOT

FOLDER = ROOT / "studies" / "fidelity"
CELLS, CAUSES, NS3 = FOLDER / "cells.jsonl", FOLDER / "causes.toml", FOLDER / "ns3.jsonl"
NONE = "No cells are stored yet: `narrows fidelity --grid full -o DIR`, then `cp DIR/cells.jsonl studies/fidelity`.\n"


def region() -> str:
    """The tables, from the stored cells.

    Raises:
        SystemExit: The cells are not those of a finished comparison, or a cause belongs to no missed cell.
    """
    from narrows.fidelity import page

    if not CELLS.is_file():
        return NONE
    try:
        rows, totals = page.read(CELLS)
        return page.markdown(rows, totals, page.read_causes(CAUSES, rows), page.read_ns3(NS3))
    except ValueError as error:
        raise SystemExit(f"docs/generate.py: {error}") from None
