"""Writes a CycloneDX list of all components: the crates of Cargo.lock and the packages of both lock files of Python.

Packages that only `requirements-extras.lock` has, for the extras `ray` and `sdn`, have the scope `optional`.

python tests/sbom.py > target/sbom.json
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", re.MULTILINE)


def component(kind: str, name: str, version: str, hashes: list[str]) -> dict[str, Any]:
    """Return the entry of a component with its package URL and SHA-256 sums."""
    url = f"pkg:{kind}/{name}@{version}"
    sums = [{"alg": "SHA-256", "content": each} for each in hashes]
    found = {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}
    return found | ({"hashes": sums} if sums else {})


def crates(text: str) -> Iterator[dict[str, Any]]:
    """Yield the crates of a Cargo.lock; those of the workspace have no hash."""
    for package in tomllib.loads(text)["package"]:
        hashes = [package["checksum"]] if "checksum" in package else []
        yield component("cargo", package["name"], package["version"], hashes)


def packages(text: str) -> Iterator[dict[str, Any]]:
    """Yield the packages of a lock file of pip."""
    places = [*PINNED.finditer(text)]
    for match, end in zip(places, [*(each.start() for each in places[1:]), len(text)], strict=True):
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", text[match.start() : end])
        yield component("pypi", match[1].lower().replace("_", "-"), match[2], hashes)


def document(root: Path = ROOT) -> dict[str, Any]:
    """Return the list."""
    cargo = (root / "Cargo.lock").read_text(encoding="utf-8")
    needed = [*packages((root / "requirements.lock").read_text(encoding="utf-8"))]
    extras = packages((root / "requirements-extras.lock").read_text(encoding="utf-8"))
    known = {row["purl"] for row in needed}
    optional = [row | {"scope": "optional"} for row in extras if row["purl"] not in known]
    listed = [*crates(cargo), *needed, *optional]
    version = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    main = {"type": "application", "bom-ref": "narrows", "name": "narrows", "version": version}
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": main},
        "components": sorted(listed, key=lambda row: row["purl"]),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(document(), indent=1))
