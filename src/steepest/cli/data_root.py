"""The data folder, as the environment names it."""

from __future__ import annotations

import os
from pathlib import Path

from steepest.datasets.base import DATA_VARIABLE


def data_root() -> Path | None:
    """Return the folder of data sets; None if the environment names none."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser() if named else None
