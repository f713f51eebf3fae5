"""Files of a user's module: its own, and those it imports from the same folder.

Imports are read from the source, not from what is loaded: that depends on what else a process has
done. Installed packages are left alone, but for the one that the module itself is in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_OURS = __name__.partition(".")[0]
"""Its version is on record, whoever imports it."""

_INSTALLED = frozenset({"site-packages", "dist-packages"})


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
