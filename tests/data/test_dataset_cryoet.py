from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from steepest.data import load
from steepest.data.cryoet import Settings, procedural_templates, write_template_archive
from steepest.data.streamed import Streamed
from steepest.data.subtomograms import Request, find_templates, make_subtomograms
from steepest.errors import DataError, InputError, UnknownNameError

REAL = os.environ.get("STEEPEST_DATA")
FEW = {"train": 60, "test": 8, "storage": "stream"}


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)


@pytest.mark.parametrize("name", ["50c-clean", "50c-snr005"])
def test_everything_works_without_files(name):
    data = load(name, options={"train": 6, "test": 3})
    assert repr(data) == (
        f"ImageSet('{name} (procedural templates)', 50 classes, "
        "train [6, 1, 32, 32, 32], test [3, 1, 32, 32, 32])"
    )
    assert data.train_images.dtype == torch.float32
    assert data.task == "classification"
    assert (data.mean, data.std) == ((0.0,), (1.0,))
    assert data.classes == procedural_templates().names
    assert float(data.train_images.std()) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("name", ["50c-clean", "50c-snr005"])
def test_the_full_size_is_that_of_the_paper(name):
    data = load(name, options={"storage": "stream"})
    assert data.train_images.shape == (24_000, 1, 32, 32, 32)
    assert data.test_images.shape == (1_000, 1, 32, 32, 32)
    labels = data.train_labels.unseal("test")
    assert torch.bincount(labels).tolist() == [480] * 50
    assert torch.bincount(data.test_labels).tolist() == [20] * 50


def test_noise_and_splits_make_volumes_differ():
    clean, noisy = (load(name, options=FEW) for name in ("50c-clean", "50c-snr005"))
    assert torch.equal(clean.test_labels, noisy.test_labels)
    alike = float((clean.train_images[[0]] * noisy.train_images[[0]]).mean())
    assert 0.05 < alike < 0.5
    assert not torch.equal(clean.train_images[[0]], clean.test_images[[0]])


def test_a_smaller_set_is_the_beginning_of_a_larger_one():
    larger = load("50c-clean", options=FEW)
    smaller = load("50c-clean", options={**FEW, "train": 10})
    assert torch.equal(smaller.train_images[[9]], larger.train_images[[9]])
    labels = larger.train_labels.unseal("test")
    assert torch.equal(smaller.train_labels.unseal("test"), labels[:10])


def test_storages_agree(tmp_path):
    options = {"train": 5, "test": 2, "snr_mode": "white"}
    made = {
        storage: load("50c-snr005", tmp_path, {**options, "storage": storage})
        for storage in ("memory", "map", "stream")
    }
    assert isinstance(made["stream"].train_images, Streamed)
    for storage in ("map", "stream"):
        rows = torch.arange(5)
        assert torch.equal(made[storage].train_images[rows], made["memory"].train_images)
    names = sorted(path.name.rsplit("-", 1)[0] for path in (tmp_path / "cache").iterdir())
    assert names == ["50c-snr005-test", "50c-snr005-train"]


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"shift_voxels": 6.0}, {"random_defocus": True}, {"neighbours": 3}],
    ids=lambda change: next(iter(change)),
)
def test_options_change_volumes(change):
    usual = load("50c-clean", options=FEW)
    other = load("50c-clean", options={**FEW, **change})
    assert not torch.equal(usual.test_images[[0, 1]], other.test_images[[0, 1]])


def test_modes_of_the_ratio_change_the_noise():
    made = [
        load("50c-snr005", options={**FEW, "snr_mode": mode}).test_images[[0]]
        for mode in ("tilt", "white", "aitom")
    ]
    assert not torch.allclose(made[0], made[1], atol=0.1)
    assert not torch.allclose(made[1], made[2], atol=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": 0}, "train is 0"),
        ({"test": 2.5}, "test = 2.5: expected int"),
        ({"seed": "x"}, "seed = 'x': expected int"),
        ({"workers": -1}, "workers is -1"),
        ({"templates": "file"}, "did you mean 'files'"),
        ({"storage": "disk"}, "unknown storage 'disk'"),
        ({"snr_mode": "volume"}, "unknown SNR mode"),
        ({"neighbours": -1}, "neighbours is -1"),
        ({"shift_voxels": 20.0}, "shift_voxels is 20.0"),
        ({"device": "tpu"}, "device 'tpu'"),
        ({"storage": "map"}, "set STEEPEST_DATA"),
    ],
)
def test_options_that_cannot_be_used_are_named(options, message):
    with pytest.raises((InputError, DataError), match=message):
        load("50c-snr005", options={**FEW, **options})


def test_the_clean_set_has_no_mode_of_noise():
    with pytest.raises(UnknownNameError, match="snr_mode"):
        load("50c-clean", options={"snr_mode": "white"})


def test_files_go_before_shapes_and_the_name_says_so(tmp_path):
    write_template_archive(procedural_templates(), tmp_path / "cryoet")
    assert "(archive templates)" in load("50c-clean", tmp_path, FEW).name
    shapes = load("50c-clean", tmp_path, {**FEW, "templates": "procedural"})
    assert "(procedural templates)" in shapes.name


def test_files_that_are_asked_for_must_be_there(tmp_path):
    for root in (None, tmp_path):
        with pytest.raises(DataError, match="templates = 'procedural'"):
            load("50c-clean", root, {**FEW, "templates": "files"})


def test_folders_of_maps_and_structures_are_found(tmp_path):
    for folder, message in (("structures", "no PDB or mmCIF"), ("maps", "no MRC files")):
        (tmp_path / "cryoet" / folder).mkdir(parents=True)
        with pytest.raises(DataError, match=message):
            load("50c-clean", tmp_path, FEW)


def test_another_number_of_classes_is_refused(tmp_path):
    few = procedural_templates().take(procedural_templates().names[:49])
    write_template_archive(few, tmp_path / "cryoet")
    with pytest.raises(DataError, match="49 archive templates instead of 50"):
        load("50c-clean", tmp_path, FEW)
    assert len(find_templates(tmp_path, "files", 49)) == 49


def test_other_physics_can_be_simulated_from_python():
    request = Request(
        train=3, test=2, seed=0, templates="procedural", storage="memory", device="cpu", workers=0
    )
    settings = Settings(size_voxels=16, voxel_angstrom=20.0, shift_voxels=1.0, snr=1.0)
    data = make_subtomograms("coarse", None, request, settings)
    assert data.train_images.shape == (3, 1, 16, 16, 16)
    assert data.name == "coarse (procedural templates)"


def test_real_templates_make_fifty_classes():
    root = Path(REAL or ".")
    if not (root / "cryoet").is_dir():
        pytest.skip("STEEPEST_DATA is not set, or has no folder cryoet: no real templates")
    templates = find_templates(root, "files", 50)
    assert "5vkq" in templates.names
    assert "4hne" not in templates.names
    masses = templates.maps.sum(dim=(1, 2, 3))
    assert float(masses.min()) == pytest.approx(220.5, abs=0.1)
    assert float(masses.max()) == pytest.approx(2542.9, abs=0.1)
    data = load("50c-snr005", root, FEW)
    assert float(data.test_images[[0]].std()) == pytest.approx(1.0, abs=1e-3)
