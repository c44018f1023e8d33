"""The regions of `docs/profiles.md`: what each profile sets, from the engine's list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Profile = Mapping[str, Any]

KERNEL = {"set": "as stated", "linux": "as Linux", None: "–"}


def regions(profiles: Sequence[Profile]) -> dict[str, str]:
    """The generated regions of `docs/profiles.md`, by name."""
    sources = {f"{profile['name']}-sources": sources_region(profile) for profile in profiles}
    lacks = {f"{profile['name']}-lacks": lacks_region(profile) for profile in profiles if profile["lacks"]}
    return {"values": values_region(profiles), **sources, **lacks}


def values_region(profiles: Sequence[Profile]) -> str:
    """Every option that a profile sets: its value per profile, and its treatment on the kernel; a dash if not set."""
    values = {profile["name"]: {row["key"]: row["value"] for row in settings(profile)} for profile in profiles}
    keys = list(dict.fromkeys(row["key"] for profile in profiles for row in settings(profile)))
    kernel = {row["key"]: KERNEL[row["kernel"]] for profile in profiles for row in settings(profile)}
    head = ["option", *(f"`{name}`" for name in values), "`--on kernel`"]
    rows = [
        [f"`{key}`", *(f"`{given[key]}`" if key in given else "–" for given in values.values()), kernel[key]]
        for key in keys
    ]
    return "\n".join(["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]) + "\n"


def sources_region(profile: Profile) -> str:
    """The source of each value of a profile."""
    rows = [f"| `{row['key']} = {row['value']}` | {row['follows']} |" for row in settings(profile)]
    return "\n".join(["| option | follows |", "|---|---|", *rows]) + "\n"


def lacks_region(profile: Profile) -> str:
    """The differences that no option expresses."""
    return "".join(f"* {text}\n" for text in profile["lacks"])


def settings(profile: Profile) -> list[Mapping[str, str]]:
    """All options of a profile: keys of `[tcp]`, then parameters of schemes."""
    return [*profile["tcp"], *profile["params"]]
