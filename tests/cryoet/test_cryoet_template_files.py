"""Templates from files: the archive, MRC maps, PDB and mmCIF atoms."""

from __future__ import annotations

import gzip
import json
import math
import sys

import mrcfile
import numpy as np
import pytest
import torch

from steepest.data.cryoet import (
    Templates,
    read_atoms_folder,
    read_mrc_folder,
    read_template_archive,
    write_template_archive,
)
from steepest.data.cryoet.atoms import atom_density, read_atoms
from steepest.data.cryoet.density import gaussian_density
from steepest.data.cryoet.mrc import read_mrc
from steepest.data.cryoet.templates import ARCHIVE, DESCRIPTION
from steepest.errors import DataError, InputError


def write_arrays(folder, **changes):
    ids = ["1abc", "4hne", "2def", "5vkq"]
    arrays = {
        "maps": np.arange(1, 4 * 64 + 1, dtype=np.uint8).reshape(4, 4, 4, 4),
        "ids": np.array(ids),
        "core50": np.array([True, True, True, False]),
        "mass_kda": np.array([100.0, 200.0, 300.0, 400.0], dtype=np.float32),
        "voxel": np.float32(5.0),
    }
    arrays.update(changes)
    np.savez(folder / ARCHIVE, **{k: v for k, v in arrays.items() if v is not None})
    meta = [{"id": i, "name": f"complex {i}", "licence": "CC0"} for i in ids]
    (folder / DESCRIPTION).write_text(json.dumps(meta))


def test_core_templates_are_read_and_a_better_spare_one_is_preferred(tmp_path):
    write_arrays(tmp_path)
    read = read_template_archive(tmp_path)
    assert read.names == ("1abc", "5vkq", "2def")
    assert read.titles[1] == "complex 5vkq"
    assert read.maps.sum(dim=(1, 2, 3)).tolist() == pytest.approx([100.0, 400.0, 300.0])
    assert read.voxel_angstrom == 5.0
    assert read_template_archive(tmp_path, core=False).names == ("1abc", "4hne", "2def", "5vkq")


def test_a_core_template_without_its_spare_one_is_kept(tmp_path):
    write_arrays(tmp_path, core50=np.array([True, True, False, True]))
    assert read_template_archive(tmp_path).names == ("1abc", "4hne", "5vkq")


def test_templates_are_written_and_read_again(tmp_path, templates):
    write_template_archive(templates, tmp_path)
    read = read_template_archive(tmp_path)
    assert read.names == templates.names
    assert read.titles == templates.titles
    peak = templates.maps.amax(dim=(1, 2, 3), keepdim=True)
    torch.testing.assert_close(read.maps / peak, templates.maps / peak, rtol=0, atol=0.02)
    assert read.source == "archive"


@pytest.mark.parametrize(
    "changes",
    [
        {"mass_kda": None},
        {"maps": np.ones((4, 4, 4, 4), np.float32)},
        {"maps": np.ones((3, 4, 4, 4), np.uint8)},
        {"maps": np.ones((4, 4, 4, 5), np.uint8)},
        {"maps": np.zeros((4, 4, 4, 4), np.uint8)},
        {"mass_kda": np.zeros(4, np.float32)},
        {"voxel": np.ones(3, np.float32)},
        {"core50": np.ones(4)},
    ],
)
def test_an_archive_of_another_layout_is_named(tmp_path, changes):
    write_arrays(tmp_path, **changes)
    with pytest.raises(DataError, match=ARCHIVE) as caught:
        read_template_archive(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [0, 100, 1000])
def test_a_damaged_archive_is_named(tmp_path, keep):
    write_arrays(tmp_path)
    path = tmp_path / ARCHIVE
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=f"{ARCHIVE}: truncated or damaged"):
        read_template_archive(tmp_path)


def test_missing_or_broken_files_are_named(tmp_path):
    with pytest.raises(DataError, match=f"{ARCHIVE}: missing"):
        read_template_archive(tmp_path)
    write_arrays(tmp_path)
    (tmp_path / DESCRIPTION).write_text("[{}]")
    with pytest.raises(DataError, match=f"{DESCRIPTION}: not a list"):
        read_template_archive(tmp_path)
    (tmp_path / DESCRIPTION).write_text('[{"id": "1abc", "name": "x"}]')
    with pytest.raises(DataError, match=f"{DESCRIPTION}: says nothing of template '4hne'"):
        read_template_archive(tmp_path)
    (tmp_path / DESCRIPTION).unlink()
    with pytest.raises(DataError, match=f"{DESCRIPTION}: missing"):
        read_template_archive(tmp_path)


def blob(shape, voxel, centre, sigma=25.0):
    axes = [np.arange(n) * voxel for n in shape]
    z, y, x = np.meshgrid(*axes, indexing="ij")
    away = (z - centre[0]) ** 2 + (y - centre[1]) ** 2 + (x - centre[2]) ** 2
    return np.exp(-away / (2 * sigma**2)).astype(np.float32)


def write_mrc(path, values, voxel=5.0):
    with mrcfile.new(path, overwrite=True) as file:
        file.set_data(values)
        file.voxel_size = voxel


@pytest.mark.parametrize(
    ("voxel", "shape"), [(5.0, (60, 60, 60)), (2.5, (110, 120, 130)), (10.0, (30, 32, 30))]
)
def test_maps_of_any_voxel_are_centred_and_resampled(tmp_path, voxel, shape):
    write_mrc(tmp_path / "a.mrc", blob(shape, voxel, (140.0, 150.0, 155.0)), voxel)
    read = read_mrc(tmp_path / "a.mrc")
    wanted = torch.from_numpy(blob((64, 64, 64), 5.0, (157.5, 157.5, 157.5)))
    torch.testing.assert_close(read, wanted, rtol=0, atol=0.05)


def test_axes_in_another_order_are_put_right(tmp_path):
    values = blob((60, 60, 60), 5.0, (150.0, 150.0, 150.0))
    values[30, 30, 40:50] = 1.0
    write_mrc(tmp_path / "usual.mrc", values)
    write_mrc(tmp_path / "swapped.mrc", np.ascontiguousarray(values.transpose(2, 1, 0)))
    with mrcfile.open(tmp_path / "swapped.mrc", mode="r+") as file:
        file.header.mapc, file.header.mapr, file.header.maps = 3, 2, 1
    torch.testing.assert_close(read_mrc(tmp_path / "swapped.mrc"), read_mrc(tmp_path / "usual.mrc"))


def test_a_folder_of_maps_is_a_set_of_templates(tmp_path):
    for name, centre in (("b", 150.0), ("a", 140.0)):
        write_mrc(tmp_path / f"{name}.mrc", blob((60, 60, 60), 5.0, (centre,) * 3))
    (tmp_path / "notes.txt").write_text("not a map")
    read = read_mrc_folder(tmp_path)
    assert read.names == ("a", "b")
    assert read.maps.shape == (2, 64, 64, 64)
    assert read.source == "MRC"


def test_densities_below_zero_are_taken_for_solvent(tmp_path):
    write_mrc(tmp_path / "a.mrc", blob((60, 60, 60), 5.0, (150.0,) * 3) - 0.1)
    read = read_mrc(tmp_path / "a.mrc")
    assert float(read[0].max()) == 0.0
    write_mrc(tmp_path / "a.mrc", np.full((60, 60, 60), -1.0, np.float32))
    with pytest.raises(DataError, match=r"a\.mrc: no density above 0"):
        read_mrc(tmp_path / "a.mrc")


def test_maps_that_cannot_be_used_are_named(tmp_path):
    with pytest.raises(DataError, match="no MRC files"):
        read_mrc_folder(tmp_path)
    path = tmp_path / "a.mrc"
    path.write_bytes(b"not a map" * 200)
    with pytest.raises(DataError, match=r"a\.mrc: not a readable MRC file") as caught:
        read_mrc_folder(tmp_path)
    assert "\n" not in str(caught.value)
    write_mrc(path, blob((60, 60, 60), 5.0, (150.0,) * 3))
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError, match=r"a\.mrc: not a readable MRC file"):
        read_mrc(path)
    write_mrc(path, np.ones((8, 8), np.float32))
    with pytest.raises(DataError, match=r"a\.mrc: not one three-dimensional map"):
        read_mrc(path)
    unknown = (0.0, math.inf, (5.0, math.nan, 5.0), (math.nan, 5.0, 5.0), (5.0, 5.0, 6.0))
    for voxel in unknown:
        write_mrc(path, np.ones((8, 8, 8), np.float32), voxel=voxel)
        with pytest.raises(DataError, match="must be cubes of a known side"):
            read_mrc(path)
    write_mrc(path, np.ones((40, 40, 40), np.float32), voxel=20.0)
    with pytest.raises(DataError, match="outside a box of 320"):
        read_mrc(path)


ATOM = (
    "ATOM  {serial:5d}  {name:<3s} ALA A{serial:4d}    "
    "{x:8.3f}{y:8.3f}{z:8.3f}{occ:6.2f}  0.00          {element:>2s}  \n"
)
ATOMS = [("C", 0.0, 0.0, 0.0, 1.0), ("N", 60.0, 0.0, 0.0, 1.0), ("S", 0.0, 30.0, -20.0, 0.5)]
MASSES = [12.011, 14.007, 32.06 * 0.5]


def write_pdb(path, atoms=ATOMS):
    text = "".join(
        ATOM.format(serial=n, name=e, x=x, y=y, z=z, occ=o, element=e)
        for n, (e, x, y, z, o) in enumerate(atoms, start=1)
    )
    water = "HETATM  999  O   HOH A 999     500.000   0.000   0.000  1.00  0.00           O  \n"
    path.write_text(text + water + "END\n")


def test_atoms_are_read_with_masses_and_without_water(tmp_path):
    write_pdb(tmp_path / "a.pdb")
    places, masses = read_atoms(tmp_path / "a.pdb")
    assert places.tolist() == [[0, 0, 0], [0, 0, 60], [-20, 30, 0]]
    assert masses.tolist() == pytest.approx(MASSES, rel=1e-3)


def test_mmcif_gives_the_same_as_pdb_also_compressed(tmp_path):
    import gemmi

    write_pdb(tmp_path / "a.pdb")
    structure = gemmi.read_structure(str(tmp_path / "a.pdb"))
    structure.make_mmcif_document().write_file(str(tmp_path / "a.cif"))
    (tmp_path / "b.pdb.gz").write_bytes(gzip.compress((tmp_path / "a.pdb").read_bytes()))
    for name in ("a.cif", "b.pdb.gz"):
        torch.testing.assert_close(atom_density(tmp_path / name), atom_density(tmp_path / "a.pdb"))


def test_the_biological_assembly_is_put_together(tmp_path):
    write_pdb(tmp_path / "a.pdb", [("C", 50.0, 0.0, 0.0, 1.0)])
    remark = (
        "REMARK 350 BIOMOLECULE: 1\n"
        "REMARK 350 APPLY THE FOLLOWING TO CHAINS: A\n"
        "REMARK 350   BIOMT1   1  1.000000  0.000000  0.000000        0.00000\n"
        "REMARK 350   BIOMT2   1  0.000000  1.000000  0.000000        0.00000\n"
        "REMARK 350   BIOMT3   1  0.000000  0.000000  1.000000        0.00000\n"
        "REMARK 350   BIOMT1   2 -1.000000  0.000000  0.000000        0.00000\n"
        "REMARK 350   BIOMT2   2  0.000000 -1.000000  0.000000        0.00000\n"
        "REMARK 350   BIOMT3   2  0.000000  0.000000  1.000000        0.00000\n"
    )
    path = tmp_path / "a.pdb"
    path.write_text(remark + path.read_text())
    places, _ = read_atoms(path)
    assert sorted(places.tolist()) == [[0, 0, -50], [0, 0, 50]]


def test_a_density_is_the_sum_of_gaussians():
    places = np.array([[0.0, 0.0, 0.0], [10.0, -20.0, 30.0]])
    masses = np.array([3.0, 1.0])
    found = gaussian_density(places, masses, 9.0, size=24, voxel_angstrom=6.0)
    centre = masses @ places / 4.0
    steps = (np.arange(24) - 11.5) * 6.0
    z, y, x = np.meshgrid(steps, steps, steps, indexing="ij")
    wanted = np.zeros((24, 24, 24))
    for place, mass in zip(places - centre, masses, strict=True):
        away = (z - place[0]) ** 2 + (y - place[1]) ** 2 + (x - place[2]) ** 2
        wanted += mass * 6.0**3 * np.exp(-away / (2 * 81.0)) / (2 * np.pi * 81.0) ** 1.5
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-6)
    assert float(found.sum()) == pytest.approx(4.0, rel=1e-4)


def test_many_atoms_are_added_up_in_parts(monkeypatch):
    draws = np.random.default_rng(0)
    places, masses = draws.normal(0, 40, (50, 3)), draws.uniform(1, 2, 50)
    whole = gaussian_density(places, masses, 7.0)
    monkeypatch.setattr("steepest.data.cryoet.density._CHUNK", 16)
    torch.testing.assert_close(gaussian_density(places, masses, 7.0), whole)


def test_structures_that_cannot_be_used_are_named(tmp_path):
    with pytest.raises(DataError, match="no PDB or mmCIF files"):
        read_atoms_folder(tmp_path)
    path = tmp_path / "a.cif"
    path.write_text("this is no structure")
    with pytest.raises(DataError, match=r"a\.cif: not a readable PDB or mmCIF file") as caught:
        read_atoms_folder(tmp_path)
    assert "\n" not in str(caught.value)
    path.unlink()
    write_pdb(tmp_path / "a.pdb", [])
    with pytest.raises(DataError, match=r"a\.pdb: .*"):
        read_atoms_folder(tmp_path)
    write_pdb(tmp_path / "a.pdb", [("C", 0.0, 0.0, 0.0, 1.0), ("C", 600.0, 0.0, 0.0, 1.0)])
    with pytest.raises(DataError, match=r"a\.pdb: .* of the mass is outside a box of 320"):
        read_atoms_folder(tmp_path)
    write_pdb(tmp_path / "a.pdb")
    with pytest.raises(InputError, match="give 4 or more"):
        read_atoms_folder(tmp_path, sigma_angstrom=2.0)


def test_a_folder_of_structures_is_a_set_of_templates(tmp_path):
    write_pdb(tmp_path / "b.pdb")
    write_pdb(tmp_path / "a.ent", ATOMS[:2])
    read = read_atoms_folder(tmp_path)
    assert isinstance(read, Templates)
    assert read.names == ("a", "b")
    assert read.maps.sum(dim=(1, 2, 3)).tolist() == pytest.approx(
        [sum(MASSES[:2]) / 1000, sum(MASSES) / 1000], rel=1e-3
    )


@pytest.mark.parametrize(("library", "file"), [("mrcfile", "a.mrc"), ("gemmi", "a.pdb")])
def test_without_its_library_the_remedy_is_said(tmp_path, monkeypatch, library, file):
    (tmp_path / file).write_text("x")
    monkeypatch.setitem(sys.modules, library, None)
    read = read_mrc_folder if library == "mrcfile" else read_atoms_folder
    with pytest.raises(InputError, match=rf"{library}: run pip install 'steepest\[cryoet\]'"):
        read(tmp_path)
