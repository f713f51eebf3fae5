"""Put a data set's files, which are on this machine already, into the data folder."""

from __future__ import annotations

from pathlib import Path

from steepest.core.files import expand_home
from steepest.data.base import load
from steepest.data.download.effort import Effort
from steepest.data.download.official import find_fault, place_of, unpack_official
from steepest.data.download.place import place
from steepest.data.holding import Holding, Layout, OfficialFile
from steepest.errors import DataError


def bring_in(holding: Holding, source: Path, root: Path, effort: Effort) -> None:
    """Check a file or folder, then link, copy or unpack it into the data folder.

    Args:
        holding: The data set.
        source: An official file, a folder that holds some, or a copy that its reader can read.
        root: The data folder.
        effort: How the work is shown.

    Raises:
        DataError: If it is not the data set, is damaged, or the disk is full.
    """
    try:
        source = expand_home(source).resolve()
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{source}: a link that leads nowhere; give the files themselves"
        ) from error
    if source.is_file():
        _bring_in_file(_recognise(holding, source), source, root, effort)
    elif source.is_dir():
        _bring_in_folder(holding, source, root, effort)
    else:
        raise DataError(f"{source}: no such file or folder; give what was downloaded")


def _bring_in_folder(holding: Holding, source: Path, root: Path, effort: Effort) -> None:
    found = [file for file in holding.files if (source / file.name).is_file()]
    copy = _find_copy(holding, source)
    if copy is not None:
        base, layout = copy
        load(holding.name, base, dict(layout.options))
        for path in layout.paths:
            if not (root / path).exists():
                place(base / path, root / path, effort.progress)
    elif found:
        for file in found:
            _bring_in_file(file, source / file.name, root, effort)
    else:
        looked = [" and ".join(layout.paths) for layout in holding.layouts]
        names = " or ".join(dict.fromkeys([*looked, *(file.name for file in holding.files)]))
        raise DataError(f"{source}: holds nothing of {holding.name}; looked for {names}")


def _find_copy(holding: Holding, source: Path) -> tuple[Path, Layout] | None:
    """Return the folder and the paths of a copy that is not just official files.

    The source may be the folder that holds the copy, or a folder of the copy itself.
    """
    files = {file.name for file in holding.files}
    for base in (source, *source.parents):
        for layout in holding.layouts:
            meant = base == source or source in [base / path for path in layout.paths]
            if meant and layout.is_in(base) and not set(layout.paths) <= files:
                return base, layout
    return None


def _recognise(holding: Holding, source: Path) -> OfficialFile:
    """Return which official file this is: by its name, or else by its size."""
    size_bytes = source.stat().st_size
    named = [file for file in holding.files if file.name == source.name]
    sized = [file for file in holding.files if file.size_bytes == size_bytes]
    if named or sized or len(holding.files) == 1:
        return (named + sized + list(holding.files))[0]
    names = " and ".join(file.name for file in holding.files)
    raise DataError(f"{source}: not a file of {holding.name}, which consists of {names}")


def _bring_in_file(file: OfficialFile, source: Path, root: Path, effort: Effort) -> None:
    fault = find_fault(file, source, effort)
    if fault:
        raise DataError(f"{source}: {fault}, so it is not the official {file.name}; get it again")
    if file.unpacking is not None:
        unpack_official(file, source, root, effort)
    elif source != place_of(file, root).resolve():
        place(source, place_of(file, root), effort.progress)
