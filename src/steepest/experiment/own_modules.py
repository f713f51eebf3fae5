"""Digests of the user's code behind a run: an edited strategy is another strategy."""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from steepest.core.journal import read_journal
from steepest.errors import ChangedCodeWarning
from steepest.experiment.config import Config
from steepest.experiment.local_imports import find_local_files

CODE = "code"
"""Key of the module digests in a record's environment."""


def code_of(config: Config, *, strategy: bool = True) -> dict[str, str]:
    """Return a mark of each module of the user's own that a configuration names.

    What such a module imports from its own folder or package has a mark of its own. A module that
    is not imported yet, or is in no file, has none.

    Args:
        config: Names of data set, model, task and strategy.
        strategy: Whether to look at the strategy.
    """
    named = [config.data.name, config.model.name, config.task.name]
    named += [config.strategy.name] if strategy else []
    files: dict[str, Path] = {}
    for module in {name.partition(":")[0] for name in named if ":" in name}:
        if file := getattr(sys.modules.get(module), "__file__", None):
            files |= find_local_files(module, Path(file))
    return {module: mark for module, file in sorted(files.items()) if (mark := _mark(file))}


def changed_modules(folder: Path, config: Config) -> list[str]:
    """Return the modules that are not what they were when a run's last record was made."""
    now = code_of(config)
    entries = read_journal(folder / "records.jsonl")[0] if now else []
    told: Any = (entries[-1].get("environment") if entries else None) or {}
    then = told.get(CODE) if isinstance(told, Mapping) else None
    known = then if isinstance(then, Mapping) else {}
    return [module for module, mark in now.items() if known.get(module, mark) != mark]


def warn_of_changed_code(what: str, modules: Iterable[str]) -> None:
    """Say that records are of other code than would be run now, if they are."""
    if names := ", ".join(sorted(set(modules))):
        warnings.warn(
            f"{what}: made with another version of {names} than there is now, and kept; for what "
            "has changed choose another label or another --out",
            ChangedCodeWarning,
            stacklevel=3,
        )


def _mark(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    except OSError:
        return ""
