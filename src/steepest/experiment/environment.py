"""Versions and hardware that a result depends on, and digests of the user's code behind a run.

Imports of that code are read from the source, not from what is loaded: that depends on what else a
process has done. Installed packages are left alone, but for the one that the module itself is in.
"""

from __future__ import annotations

import ast
import hashlib
import platform
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from steepest.core.journal import read_journal
from steepest.errors import ChangedCodeWarning
from steepest.experiment.config import Config
from steepest.version import __version__

CODE = "code"
"""Key of the module digests in a record's environment."""

_OURS = __name__.partition(".")[0]
"""Its version is on record, whoever imports it."""

_INSTALLED = frozenset({"site-packages", "dist-packages"})


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Return versions and hardware, for a record."""
    on_gpu = device.type == "cuda"
    return {
        "steepest": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "threads": torch.get_num_threads(),
    }


def code_of(config: Config, *, strategy: bool = True) -> dict[str, str]:
    """Return a mark of each module of the user's own that a configuration names.

    What such a module imports from its own folder or package has its own mark. A module that
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
    """Return the modules that have changed since a run's last record."""
    now = code_of(config)
    entries = read_journal(folder / "records.jsonl")[0] if now else []
    recorded_code: Any = (entries[-1].get("environment") if entries else None) or {}
    then = recorded_code.get(CODE) if isinstance(recorded_code, Mapping) else None
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


def find_local_files(module: str, file: Path) -> dict[str, Path]:
    """Return the files of a module and of all that it imports from the same folder or package.

    Args:
        module: Its name, such as ``"package.module"``.
        file: Where it is.

    Returns:
        Files by the names of modules, the packages that they are in included.
    """
    depth = module.count(".") + (file.name == "__init__.py")
    package = module.partition(".")[0]
    if package == _OURS or depth >= len(file.parents):
        return {module: file}
    root, found = file.parents[depth], {module: file}
    waiting = [*_with_packages(module), *_imported_by(module, file)]
    while waiting:
        name = waiting.pop()
        foreign = _INSTALLED.intersection(root.parts) and name.partition(".")[0] != package
        path = None if name in found or foreign else _locate(root, name)
        if path is not None:
            found[name] = path
            waiting += _imported_by(name, path)
    return found


def _locate(root: Path, name: str) -> Path | None:
    base = root.joinpath(*name.split("."))
    choices = (base / "__init__.py", base.with_name(f"{base.name}.py"))
    return next((path for path in choices if path.is_file()), None)


def _with_packages(name: str) -> list[str]:
    """Return a name and those of the packages that it is in, which are imported with it."""
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _imported_by(module: str, file: Path) -> Iterator[str]:
    """Yield what a file may import; what is no module is among it."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # Compiled code, say.
    inside = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_packages(alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = inside[: len(inside) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from _with_packages(base) if base else []
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)
