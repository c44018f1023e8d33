"""Counts the attempts of the hostile tests, and prints rows of a table: `tried | how many | result`.

`NARROWS_LONG=1` selects the forms of `make test-long`, `NARROWS_REDTEAM=1` those of `make redteam`, `NARROWS_SEED` the
seed; every test prints its seed.
"""

import os
import random
from collections import Counter
from dataclasses import dataclass, field

REDTEAM = bool(os.environ.get("NARROWS_REDTEAM"))
LONG = bool(os.environ.get("NARROWS_LONG"))
SEED = int(os.environ.get("NARROWS_SEED", "1"))


def many(short, long, redteam):
    """Return the number of attempts of this run."""
    return redteam if REDTEAM else long if LONG else short


def generators(what, count):
    """Yield a number and a random generator per attempt; a failure prints both."""
    print(f"{what}: seed {SEED}, {count} attempts")
    for number in range(count):
        yield number, random.Random(f"{what} {SEED} {number}")


@dataclass
class Tally:
    """Outcomes of attempts of one kind."""

    what: str
    outcomes: Counter = field(default_factory=Counter)

    def add(self, outcome):
        self.outcomes[outcome] += 1

    def close(self):
        """Print the row; show it in a long run, where pytest captures output of passing tests."""
        total = sum(self.outcomes.values())
        result = ", ".join(f"{count} {outcome}" for outcome, count in self.outcomes.most_common())
        row = f"{self.what} | {total} | {result}"
        print(row)
        if path := os.environ.get("NARROWS_REDTEAM_TABLE"):
            with open(path, "a", encoding="utf-8") as table:  # noqa: PTH123
                table.write(row + "\n")
