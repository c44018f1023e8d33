"""Starts the command. Ctrl-C ends it quietly even while its modules load."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Load the command and run it."""
    try:
        from narrows import cli
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    cli.main()


if __name__ == "__main__":
    main()
