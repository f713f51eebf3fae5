"""Atoms in PDB and mmCIF files: a folder of them is a set of templates, one class each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.data.cryoet.density import gaussian_density
from steepest.data.cryoet.templates import BOX_VOXEL_ANGSTROM, Templates
from steepest.errors import DataError, InputError, first_line

ATOM_SUFFIXES = (".pdb", ".ent", ".cif", ".mmcif", ".pdb.gz", ".ent.gz", ".cif.gz")

Array = npt.NDArray[np.float64]


def read_atoms_folder(folder: Path, *, sigma_angstrom: float = 7.0) -> Templates:
    """Read every structure of a folder; classes are named by the files.

    Args:
        folder: The location of the files; subfolders are not searched.
        sigma_angstrom: Standard deviation of the Gaussian that each atom is blurred by.

    Raises:
        InputError: If the library that reads structures is not installed.
        DataError: If there are none, or one cannot be used.
    """
    paths = sorted(p for p in folder.glob("*") if p.name.lower().endswith(ATOM_SUFFIXES))
    if not paths:
        raise DataError(f"{folder}: no PDB or mmCIF files in it")
    names = tuple(path.name.partition(".")[0] for path in paths)
    maps = torch.stack([atom_density(path, sigma_angstrom=sigma_angstrom) for path in paths])
    return Templates(names, names, maps, BOX_VOXEL_ANGSTROM, "atom")


def atom_density(path: Path, *, sigma_angstrom: float = 7.0) -> Tensor:
    """Return the density of a structure, in kDa a voxel, about its centre of mass.

    Returns:
        float32 [64, 64, 64] of 5 Å a voxel.

    Raises:
        InputError: If the library is not installed, or the Gaussian is too narrow.
        DataError: If the file cannot be used, or the structure is too large.
    """
    places, masses = read_atoms(path)
    try:
        return gaussian_density(places, masses / 1000.0, sigma_angstrom)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def read_atoms(path: Path) -> tuple[Array, Array]:
    """Read the atoms of the first biological assembly, or of the first model; no water.

    Returns:
        Coordinates in Å in the order z, y, x [A, 3], and masses in Da, times occupancy [A].

    Raises:
        InputError: If the library that reads structures is not installed.
        DataError: If the file cannot be read, or holds no atoms.
    """
    try:
        import gemmi
    except ImportError as error:
        raise InputError(
            "PDB and mmCIF files need the package gemmi: run pip install 'steepest[cryoet]'"
        ) from error
    try:
        structure = gemmi.read_structure(str(path))
        structure.setup_entities()
        structure.remove_waters()
        model = structure[0]
        if structure.assemblies:
            naming = gemmi.HowToNameCopiedChain.Short
            model = gemmi.make_assembly(structure.assemblies[0], model, naming)
        atoms = [
            (*reversed(site.atom.pos.tolist()), site.atom.element.weight * site.atom.occ)
            for site in model.all()
        ]
    except Exception as error:  # the parser raises almost anything on damaged text
        raise DataError(
            f"{path}: not a readable PDB or mmCIF file ({first_line(error)})"
        ) from error
    if not atoms:
        raise DataError(f"{path}: no atoms in it")
    table = np.array(atoms, dtype=np.float64)
    return table[:, :3], table[:, 3]
