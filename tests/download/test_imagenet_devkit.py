"""The kit that sorts the validation images of ImageNet, and the whole way from its archives."""

from __future__ import annotations

import io

import numpy as np
import pytest
from archives import contents, make_tar, tar_bytes
from holdings import make_holding, official
from scipy.io import savemat

from steepest.data.catalogue import find_holding
from steepest.data.download import obtain
from steepest.data.download.obtain import read_validation_folders
from steepest.errors import DataError

KIT = "ILSVRC2012_devkit_t12"
WNIDS = ("n00000001", "n00000002", "n00000003")


def make_classes(wnids=WNIDS):
    """The table of classes, the last of which only groups the others."""
    kinds = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O")]
    table = np.zeros((len(wnids), 1), dtype=kinds)
    for row, wnid in enumerate(wnids):
        table[row, 0] = (row + 1, wnid, "a word", 2 if row == len(wnids) - 1 else 0)
    file = io.BytesIO()
    savemat(file, {"synsets": table})
    return file.getvalue()


def kit_members(truth=b"2\n1\n2\n", classes=None):
    return {
        f"{KIT}/data/ILSVRC2012_validation_ground_truth.txt": truth,
        f"{KIT}/data/meta.mat": make_classes() if classes is None else classes,
        f"{KIT}/readme.txt": b"read me",
    }


def test_each_image_has_the_folder_of_its_class(tmp_path):
    path = make_tar(tmp_path / "kit.tar.gz", kit_members())
    assert read_validation_folders(path) == {
        "ILSVRC2012_val_00000001.JPEG": WNIDS[1],
        "ILSVRC2012_val_00000002.JPEG": WNIDS[0],
        "ILSVRC2012_val_00000003.JPEG": WNIDS[1],
    }


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({f"{KIT}/readme.txt": b""}, "is not in it"),
        (kit_members(truth=b"1\n3\n"), "an unknown class"),
        (kit_members(truth=b"one\n"), "an unknown class"),
        (kit_members(classes=b"damaged"), "meta.mat cannot be read"),
        (kit_members(classes=make_classes(("../../x", "n2", "n3"))), "has a class '../../x'"),
    ],
    ids=["empty", "a group", "no number", "damaged", "a path"],
)
def test_another_layout_is_told(members, message, tmp_path):
    with pytest.raises(DataError, match=message):
        read_validation_folders(make_tar(tmp_path / "kit.tar.gz", members))


def test_the_official_archives_become_the_folders_that_the_reader_reads(tmp_path):
    """As the catalogue says it, with small archives in the place of the real ones."""
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    classes = {f"{w}.tar": tar_bytes({f"{w}_1.JPEG": w.encode()}, "w") for w in WNIDS[:2]}
    images = {f"ILSVRC2012_val_0000000{i}.JPEG": b"%d" % i for i in (1, 2, 3)}
    make_tar(downloads / f"{KIT}.tar.gz", kit_members())
    make_tar(downloads / "ILSVRC2012_img_train.tar", classes, mode="w")
    make_tar(downloads / "ILSVRC2012_img_val.tar", images, mode="w")
    real = find_holding("imagenet")
    small = [
        official(file.name, (downloads / file.name).read_bytes(), unpacking=file.unpacking)
        for file in real.files
    ]
    found = obtain(make_holding(*small, layouts=real.layouts), tmp_path / "data", source=downloads)
    assert found.paths == (tmp_path / "data/imagenet/train", tmp_path / "data/imagenet/val")
    assert contents(tmp_path / "data" / "imagenet") == {
        "train/n00000001/n00000001_1.JPEG": b"n00000001",
        "train/n00000002/n00000002_1.JPEG": b"n00000002",
        "val/n00000001/ILSVRC2012_val_00000002.JPEG": b"2",
        "val/n00000002/ILSVRC2012_val_00000001.JPEG": b"1",
        "val/n00000002/ILSVRC2012_val_00000003.JPEG": b"3",
    }
