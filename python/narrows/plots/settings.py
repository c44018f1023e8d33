"""Imports matplotlib without the settings file of the current folder, which may be untrusted.

Import this module before matplotlib.
"""

from __future__ import annotations

import contextlib
import os.path
import sys

if "matplotlib" not in sys.modules and os.path.lexists("matplotlibrc"):
    with contextlib.chdir("/"):
        import matplotlib as matplotlib
