"""Limits that every source file keeps."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

MOST_LINES = 500
"""The most lines of a file."""


def sources(folder: str) -> list[Path]:
    """All Rust and Python files below `folder`, build output left out."""
    files = [path for ending in ("rs", "py") for path in (ROOT / folder).rglob(f"*.{ending}")]
    return sorted(path for path in files if "target" not in path.relative_to(ROOT).parts)


@pytest.mark.parametrize(
    ("folder", "least"), [("crates", 300), ("python", 40), ("tests", 25), ("docs", 2), ("studies", 5)]
)
def test_source_file_has_at_most_500_lines(folder: str, least: int) -> None:
    """No source file below `folder` has more than 500 lines; `least` guards against a search that finds nothing."""
    files = sources(folder)
    assert len(files) >= least
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in files}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}
