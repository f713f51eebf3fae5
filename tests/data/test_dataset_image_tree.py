from __future__ import annotations

import pytest
import torch
from image_trees import noise, read_all, save, uniform, write_classes
from PIL import Image

from steepest.data import load
from steepest.data.image_view import IMAGENET_MEAN, IMAGENET_STD, centre_box, see
from steepest.errors import DataError, InputError, UnknownNameError

SIZES = {"cat": 10, "dog": 5, "newt": 2}


def load_tree(path, **options):
    return load("folder", options={"path": str(path), "size": 8, "workers": 0, **options})


def view(path, size=8):
    with Image.open(path) as image:
        return see(image, centre_box(image.width, image.height, size, size), size)


def seen(column):
    """Return what tells the images of a column apart."""
    return {image.numpy().tobytes() for image in column[:]}


@pytest.fixture
def flat(tmp_path):
    return write_classes(tmp_path, SIZES)


@pytest.fixture
def split(tmp_path):
    return write_classes(tmp_path / "train", SIZES), write_classes(
        tmp_path / "test", {"dog": 2, "newt": 1}, first_seed=50
    )


def test_folders_for_training_and_testing_are_taken_as_they_are(tmp_path, split):
    data = load_tree(tmp_path)
    train, test = split
    assert data.classes == ("cat", "dog", "newt")
    assert data.train_labels.unseal("test").tolist() == [0] * 10 + [1] * 5 + [2] * 2
    assert data.test_labels.tolist() == [1, 1, 2]
    assert torch.equal(data.train_images[:], torch.stack([view(path) for path in train]))
    assert torch.equal(data.test_images[:], torch.stack([view(path) for path in test]))
    assert (data.mean, data.std) == (IMAGENET_MEAN, IMAGENET_STD)
    assert (data.augmentation, data.train_images.draws) == ("own", 5)


def test_val_may_stand_for_test(tmp_path, split):
    (tmp_path / "test").rename(tmp_path / "val")
    assert len(load_tree(tmp_path).test_images) == 3


@pytest.mark.parametrize("names", [("Train", "Test"), ("training_set", "val_set"), ("a", "b")])
def test_parts_of_other_names_are_not_taken_for_classes(tmp_path, names):
    for name in names:
        write_classes(tmp_path / name, {"cat": 2, "dog": 2})
    if names == ("a", "b"):
        assert load_tree(tmp_path).classes == names
    else:
        with pytest.raises(DataError, match=f"{names[0]} and {names[1]} look like parts"):
            load_tree(tmp_path)


def test_a_class_may_be_called_as_a_part_is(tmp_path):
    write_classes(tmp_path, {"bus": 3, "train": 3})
    assert load_tree(tmp_path).classes == ("bus", "train")
    write_classes(tmp_path, {"test": 2})
    with pytest.raises(DataError, match="train and test look like parts"):
        load_tree(tmp_path)


def test_a_share_of_each_class_becomes_the_test_set(tmp_path, flat):
    data = load_tree(tmp_path, test_share=0.3)
    assert torch.bincount(data.test_labels).tolist() == [3, 2, 1]
    assert torch.bincount(data.train_labels.unseal("test")).tolist() == [7, 3, 1]
    every = {view(path).numpy().tobytes() for path in flat}
    train, test = seen(data.train_images), seen(data.test_images)
    assert train | test == every
    assert not train & test


def test_rows_of_a_split_keep_the_order_of_names(tmp_path, flat):
    data = load_tree(tmp_path)
    place = {view(path).numpy().tobytes(): number for number, path in enumerate(flat)}
    for column in (data.train_images, data.test_images):
        rows = [place[image.numpy().tobytes()] for image in column[:]]
        assert rows == sorted(rows)
    labels = data.train_labels.unseal("test").tolist()
    assert labels == [data.classes.index(flat[row].parent.name) for row in
                      (place[i.numpy().tobytes()] for i in data.train_images[:])]  # fmt: skip


def test_the_seed_decides_the_split_and_nothing_else_does(tmp_path, flat):
    first = seen(load_tree(tmp_path).test_images)
    assert seen(load_tree(tmp_path).test_images) == first
    assert seen(load_tree(tmp_path, seed=1).test_images) != first
    write_classes(tmp_path, {"owl": 4}, first_seed=70)
    assert first <= seen(load_tree(tmp_path).test_images)


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_read_the_same_views(tmp_path, split, workers):
    data, alone = load_tree(tmp_path, workers=workers), load_tree(tmp_path)
    numbers = uniform(data.train_images)
    assert torch.equal(read_all(data.test_images), alone.test_images[:])
    augmented = read_all(data.train_images, 5, numbers)
    assert torch.equal(augmented, read_all(alone.train_images, 3, numbers))
    assert not torch.equal(augmented, alone.train_images[:])


def test_the_path_may_be_below_the_data_folder(tmp_path, split, monkeypatch):
    monkeypatch.setenv("STEEPEST_DATA", str(tmp_path.parent))
    assert len(load_tree(tmp_path.name).test_images) == 3
    with pytest.raises(
        DataError, match=f"absent: no such folder, nor is it under {tmp_path.parent}"
    ):
        load_tree("absent")


def test_an_unreadable_image_is_named_when_it_is_read(tmp_path, split):
    (tmp_path / "train" / "dog" / "dog_3.png").write_bytes(b"nonsense")
    data = load_tree(tmp_path, workers=1)
    with pytest.raises(DataError, match=r"dog_3\.png: cannot be read \(not an image\)") as caught:
        read_all(data.train_images)
    assert "\n" not in str(caught.value)


def test_all_unreadable_images_are_named_when_asked_for(tmp_path, split):
    for number in range(4):
        (tmp_path / "train" / "dog" / f"dog_{number}.png").write_bytes(b"nonsense")
    (tmp_path / "test" / "dog" / "dog_0.png").write_bytes(b"nonsense")
    message = r"5 of 20 images .*dog_0\.png \(not an image\).* and 2 more; restore or remove them"
    with pytest.raises(DataError, match=message):
        load_tree(tmp_path, check=True)
    assert len(load_tree(tmp_path).train_images) == 17


def test_whole_images_pass_the_check(tmp_path, flat):
    assert len(load_tree(tmp_path, check=True).train_images) == 14


def test_a_class_without_images_is_named(tmp_path, flat):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty: no images in it; add some"):
        load_tree(tmp_path)


def test_a_test_class_that_nobody_learns_is_named(tmp_path, split):
    save(tmp_path / "test" / "owl" / "1.png", noise())
    with pytest.raises(DataError, match=r"test/owl: there is no such class in .*train"):
        load_tree(tmp_path)


def test_trees_of_another_layout_are_refused(tmp_path):
    with pytest.raises(DataError, match="0 folders of classes in it; give FOLDER/<class>"):
        load_tree(tmp_path)
    write_classes(tmp_path / "train", {"cat": 1, "dog": 1})
    with pytest.raises(DataError, match="neither test nor val"):
        load_tree(tmp_path)
    (tmp_path / "test").mkdir()
    with pytest.raises(DataError, match="test: no images in it"):
        load_tree(tmp_path)
    write_classes(tmp_path / "tiny", {"cat": 1, "dog": 1})
    with pytest.raises(DataError, match="no class is large enough"):
        load_tree(tmp_path / "tiny")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size is 0"),
        ({"test_share": 1.0}, "test_share is 1.0"),
        ({"mean": [0.5]}, "mean is"),
        ({"workers": -1}, "workers is -1"),
    ],
)
def test_options_that_cannot_be_used_are_refused(tmp_path, flat, options, message):
    with pytest.raises(InputError, match=message):
        load_tree(tmp_path, **options)


def test_the_path_is_needed():
    with pytest.raises(InputError, match=r"'path' in data set .* is missing"):
        load("folder")
    with pytest.raises(UnknownNameError, match="did you mean 'size'"):
        load("folder", options={"path": "x", "sizes": 3})
