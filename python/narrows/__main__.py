"""The command's entry: a Ctrl-C while its modules load is no error either."""

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
