"""Writes the generated parts of the documents: references, pages, and the printed output of every block.

    python docs/generate.py                       write everything
    python docs/generate.py --check               write nothing; list stale parts; exit with status 1 if any
    python docs/generate.py --references          leave out the blocks, which takes seconds instead of minutes
    python docs/generate.py --images              draw all pictures again

| generated | from | by |
|---|---|---|
| regions of `scenarios.md` | the engine's schema of scenarios | `scenario_keys.py` |
| regions of `profiles.md` | the profiles of the engine | `profile_tables.py` |
| a region of `commands.md` | the typer application | `command_pages.py` |
| `schemes/`, `routers/` | the registries of the engine | `registry_pages.py`, `pictures.py` |
| a region of `fidelity.md` | the cells that `narrows fidelity` measured | `fidelity_page.py` |
| `papers/` | `papers/` and the stored measurements | `paper_pages.py`, `comparisons.py` |
| regions of `results.md`, `README.md` and `docs/README.md` | the same | `paper_pages.py` |
| printed output in all documents | the blocks themselves | `blocks.py` |

A region stands between `<!-- NAME -->` and `<!-- /NAME -->`.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import command_pages
import comparisons
import fidelity_page
import paper_pages
import profile_tables
import registry_pages
import scenario_keys
from blocks import ROOT, Document, documents
from pictures import pictures, unneeded
from regions import filled

DOCS = ROOT / "docs"
FOLDERS = ("schemes", "routers", "papers")
"""Folders whose pages are generated as a whole."""


def references() -> dict[Path, str]:
    """Every generated page, and every page with generated regions; runs nothing."""
    from narrows import engine

    papers, outcomes = paper_pages.load(), paper_pages.measured()
    verdicts = {
        "headline": paper_pages.headline_region(),
        "findings": paper_pages.findings_region(),
        "verdicts": paper_pages.verdicts_region(),
    }
    regions = {
        DOCS / "scenarios.md": scenario_keys.regions(engine.schema()),
        DOCS / "profiles.md": profile_tables.regions(engine.profiles()),
        DOCS / "commands.md": {"commands": command_pages.region()},
        DOCS / "fidelity.md": {"grid": fidelity_page.region()},
        DOCS / "results.md": verdicts,
        DOCS / "README.md": {"papers": paper_pages.papers_region()},
        ROOT / "README.md": {"headline": verdicts["headline"]},
    }
    return {
        **{page: filled(page, contents) for page, contents in regions.items()},
        **registry_pages.scheme_pages(DOCS / "schemes", engine.schemes()),
        **registry_pages.router_pages(DOCS / "routers", engine.routers()),
        **paper_pages.pages(),
        **comparisons.pages(papers, outcomes),
    }


def with_outputs(path: Path) -> str:
    """Return a document with the present output of its blocks."""
    with tempfile.TemporaryDirectory(prefix="narrows-docs-") as folder:
        return Document(path, Path(folder)).run()


def images() -> None:
    """Draw the pictures of the guide and of the topics."""
    import narrows
    from narrows import plots

    run = narrows.compare("bbr", "cubic", rate="100mbit", rtt="40ms", buffer="4bdp", trace="50ms")
    series = ["inflight_bytes", "rtt_sample_ms", "queue_pkt"]
    title = "BBR and CUBIC share 100 Mbit/s, 40 ms, buffer 4 BDP"
    plots.save(run.plot("time", series=series, title=title), DOCS / "images" / "bbr-cubic.png")
    sweep = narrows.run(ROOT / "scenarios" / "bbr-vs-cubic.toml")
    plots.save(sweep.plot("share"), DOCS / "images" / "share.png")


def settle_pictures(check: bool, *, runs: bool, again: bool) -> int:
    """Draw missing and stale pictures of schemes, or list them.

    Args:
        check: List them only.
        runs: Compare the event hash of each picture with a run of the present engine.
        again: Draw all pictures.

    Returns:
        How many were missing, stale or left over.
    """
    from narrows import engine

    found = 0
    for path in unneeded(engine.schemes()):
        found += 1
        print(f"{path.name} belongs to no scheme" + ("; `make docs` removes it" if check else ", removed"))
        if not check:
            path.unlink()
    for picture in (picture for row in engine.schemes() for picture in pictures(row.name)):
        there = picture.path.is_file()
        current = there and (not runs or picture.drawn() == picture.now())
        found += not current
        if check and not current:
            why = "is stale: the engine runs different events" if there else "is missing"
            print(f"{picture.path.name} {why}; `make docs` draws it")
        elif not check and (again or not current):
            picture.draw()
            print(f"drew {picture.path.name}")
    return found


def main() -> int:
    """Write, or check."""
    arguments = argparse.ArgumentParser(description="Write the generated parts of the documents.")
    arguments.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a part is stale")
    arguments.add_argument("--references", action="store_true", help="do not run the blocks")
    arguments.add_argument("--images", action="store_true", help="draw all pictures; with --check, compare their runs")
    options = arguments.parse_args()
    stale = 0

    def settle(path: Path, text: str | None) -> None:
        nonlocal stale
        old = path.read_text(encoding="utf-8") if path.is_file() else None
        if old == text:
            return
        stale += 1
        name = path.relative_to(ROOT)
        if options.check:
            there, current = (old or "").splitlines(), (text or "").splitlines()
            lines = list(difflib.unified_diff(there, current, f"{name}", "current", n=0, lineterm=""))
            print("\n".join([f"{name} is stale; `make docs` writes it", *lines[:40]]))
        elif text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")

    if options.images and not options.check:
        images()
    stale += settle_pictures(options.check, runs=options.images or not options.references, again=options.images)
    written = references()
    for path, text in written.items():
        settle(path, text)
    for path in sorted(path for folder in FOLDERS for path in (DOCS / folder).glob("*.md")):
        if path not in written:  # its scheme, router algorithm or paper is gone
            settle(path, None)
    if not options.references:
        for path in documents():
            settle(path, with_outputs(path))
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
