"""Sources of templates: files in the data folder, or the built-in shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from steepest.data.cryoet.atoms import read_atoms_folder
from steepest.data.cryoet.mrc import read_mrc_folder
from steepest.data.cryoet.procedural import procedural_templates
from steepest.data.cryoet.template_archive import ARCHIVE, read_template_archive
from steepest.data.cryoet.templates import Templates
from steepest.errors import DataError, UnknownNameError

SOURCES = ("auto", "files", "procedural")
FOLDER = "cryoet"
MAPS_FOLDER = "maps"
STRUCTURES_FOLDER = "structures"


def find_templates(root: Path | None, source: str, classes: int) -> Templates:
    """Return the templates of a data set.

    Args:
        root: The folder of data sets. In its folder ``cryoet`` the first that is there is read:
            the archive, MRC files in ``maps``, PDB or mmCIF files in ``structures``.
        source: ``"files"``; ``"procedural"``; or ``"auto"``: files if there are any.
        classes: How many there must be.

    Raises:
        UnknownNameError: If there is no such source.
        DataError: If files are missing or damaged, or are not as many as the classes.
    """
    if source not in SOURCES:
        raise UnknownNameError("source of templates", source, SOURCES)
    read = None if source == "procedural" else _find_files(root)
    if read is None and source == "files":
        raise DataError(
            f"{'no data folder' if root is None else root / FOLDER}: no {ARCHIVE}, {MAPS_FOLDER}/ "
            f"or {STRUCTURES_FOLDER}/; put templates there, or use templates = 'procedural'"
        )
    templates = procedural_templates() if read is None else read()
    if len(templates) != classes:
        raise DataError(f"{len(templates)} {templates.source} templates instead of {classes}")
    return templates


def _find_files(root: Path | None) -> Callable[[], Templates] | None:
    if root is None:
        return None
    folder = root / FOLDER
    if (folder / ARCHIVE).exists():
        return lambda: read_template_archive(folder)
    if (folder / MAPS_FOLDER).is_dir():
        return lambda: read_mrc_folder(folder / MAPS_FOLDER)
    if (folder / STRUCTURES_FOLDER).is_dir():
        return lambda: read_atoms_folder(folder / STRUCTURES_FOLDER)
    return None
