"""Starts studies: folders like those of papers, ready for `narrows reproduce`.

A new study consists of the files of `templates/study`, with `$name` and `$title` replaced.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from string import Template

from narrows.errors import UsageError
from narrows.files import check_writable, make_folder, write_atomic

FILES = ("paper.toml", "fig1.toml", "fig1.claims.toml", "findings.md")
"""The files of a new study, in the order to read them."""
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
ACCEPTED = "accepted: up to 64 lower-case letters, digits and hyphens, such as shallow-buffers"


def create(folder: Path) -> list[Path]:
    """Write a new study.

    Args:
        folder: Its folder: new or empty. The last part of the path is the study's name.

    Returns:
        The files written.

    Raises:
        UsageError: The name is not acceptable, or the folder is a file, not empty or not writable.
    """
    if not NAME.fullmatch(folder.name):
        raise UsageError(f"NAME: a study cannot be called {folder.name or str(folder)!r}; {ACCEPTED}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        problem = "is not empty" if folder.is_dir() else "is a file"
        raise UsageError(f"NAME: {folder} {problem}; accepted: a new or empty folder")
    check_writable(folder, flag="NAME")
    make_folder(folder, "NAME")
    words = {"name": folder.name, "title": folder.name.replace("-", " ").capitalize()}
    written = []
    for name in FILES:
        text = (resources.files("narrows") / "templates" / "study" / name).read_text(encoding="utf-8")
        write_atomic(folder / name, Template(text).substitute(words))
        written.append(folder / name)
    return written
