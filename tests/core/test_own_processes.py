"""Processes that we start of ourselves."""

from __future__ import annotations

from pathlib import Path

import steepest


def test_none_imports_modules_of_the_current_directory():
    sources = list(Path(steepest.__file__).parent.rglob("*.py"))
    started = {file.name for file in sources if "[sys.executable," in file.read_text("utf-8")}
    safely = {file.name for file in sources if '[sys.executable, "-P",' in file.read_text("utf-8")}
    assert started == safely != set()
