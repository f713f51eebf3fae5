from __future__ import annotations

import shutil
from functools import partial

import pytest
import torch
from image_trees import read_all, uniform, write_classes
from PIL import Image
from small_copies import expect, read_small

from steepest.data import imagenet, load
from steepest.data.image_view import centre_box, see
from steepest.errors import DataError, InputError

SMALL = expect(imagenet, train_count=6, test_count=4, classes=2)
read_imagenet = partial(read_small, imagenet)
REMEDY = "set STEEPEST_DATA to the folder that holds imagenet/train"


@pytest.fixture
def written(tmp_path):
    train = write_classes(tmp_path / "imagenet" / "train", {"n01": 4, "n02": 2}, "JPEG")
    test = write_classes(tmp_path / "imagenet" / "val", {"n01": 1, "n02": 3}, "JPEG", 90)
    return train, test


def read(root, edition=SMALL, **options):
    return read_imagenet(root, edition, **{"size": 14, "workers": 0, **options})


def view(path):
    with Image.open(path) as image:
        return see(image, centre_box(image.width, image.height, 14, 16), 14)


def test_the_official_layout_is_read(tmp_path, written):
    data = read(tmp_path)
    assert data.classes == ("n01", "n02")
    assert data.train_labels.unseal("test").tolist() == [0, 0, 0, 0, 1, 1]
    assert data.test_labels.tolist() == [0, 1, 1, 1]
    assert torch.equal(data.train_images[:], torch.stack([view(path) for path in written[0]]))
    assert torch.equal(data.test_images[:], torch.stack([view(path) for path in written[1]]))
    assert (data.augmentation, data.train_images.draws) == ("own", 5)
    assert data.mean == (0.485, 0.456, 0.406)


def test_the_usual_sizes_are_224_of_256(tmp_path, written):
    data = read_imagenet(tmp_path, SMALL, workers=0)
    assert data.train_images.shape == (6, 3, 224, 224)
    with Image.open(written[1][0]) as image:
        wanted = see(image, centre_box(image.width, image.height, 224, 256), 224)
    assert torch.equal(data.test_images[[0]][0], wanted)


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_read_the_same_views(tmp_path, written, workers):
    data, alone = read(tmp_path, workers=workers), read(tmp_path)
    numbers = uniform(data.train_images)
    assert torch.equal(
        read_all(data.train_images, 4, numbers), read_all(alone.train_images, 1, numbers)
    )


def test_the_list_of_names_is_used_where_it_is_there(tmp_path, written):
    names = tmp_path / "imagenet" / "LOC_synset_mapping.txt"
    names.write_text("n00 unused\nn01 tench, Tinca tinca\nn02 crane\n")
    assert read(tmp_path).classes == ("tench, Tinca tinca", "crane")
    names.write_text("n01 crane\nn02 crane\n")
    assert read(tmp_path).classes == ("crane (n01)", "crane (n02)")
    names.write_text("n01 crane\n")
    with pytest.raises(DataError, match=r"LOC_synset_mapping\.txt: n02 is not in it"):
        read(tmp_path)


def test_another_number_of_images_or_classes_is_refused(tmp_path, written):
    written[0][0].unlink()
    with pytest.raises(DataError, match=f"train: 5 images instead of 6; .*{REMEDY}"):
        read(tmp_path)
    shutil.rmtree(tmp_path / "imagenet" / "train" / "n02")
    with pytest.raises(DataError, match=f"train: 1 classes instead of 2; .*{REMEDY}"):
        read(tmp_path)


def test_the_real_counts_are_expected_by_default(tmp_path, written):
    with pytest.raises(DataError, match="2 classes instead of 1000"):
        load("imagenet", tmp_path)


def test_classes_of_the_splits_must_agree(tmp_path, written):
    (tmp_path / "imagenet" / "val" / "n03").mkdir()
    with pytest.raises(DataError, match="val/n03: no such class in train"):
        read(tmp_path)
    (tmp_path / "imagenet" / "val" / "n03").rmdir()
    shutil.rmtree(tmp_path / "imagenet" / "val" / "n02")
    with pytest.raises(DataError, match="val/n02: missing"):
        read(tmp_path)


def test_an_unsorted_validation_split_is_explained(tmp_path, written):
    val = tmp_path / "imagenet" / "val"
    for path in written[1]:
        path.rename(val / path.name)
    for name in ("n01", "n02"):
        (val / name).rmdir()
    with pytest.raises(DataError, match="val: no folders of classes in it; sort its images"):
        read(tmp_path)


def test_a_damaged_image_is_named_on_one_line(tmp_path, written):
    written[0][3].write_bytes(written[0][3].read_bytes()[:-40])
    with pytest.raises(DataError, match=r"n01_3\.JPEG: cannot be read") as caught:
        read_all(read(tmp_path, workers=1).train_images)
    assert "\n" not in str(caught.value)


def test_without_data_the_remedy_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    with pytest.raises(DataError, match=REMEDY):
        load("imagenet")
    with pytest.raises(DataError, match=f"imagenet: ImageNet is not there; .*{REMEDY}"):
        load("imagenet", tmp_path)
    (tmp_path / "imagenet").mkdir()
    with pytest.raises(DataError, match=f"train: cannot be listed .*{REMEDY}"):
        load("imagenet", tmp_path)


def test_a_size_that_cannot_be_used_is_refused(tmp_path, written):
    with pytest.raises(InputError, match="size is 0"):
        read(tmp_path, size=0)
