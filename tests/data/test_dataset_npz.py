from __future__ import annotations

import numpy as np
import pytest

from steepest.data import load
from steepest.errors import DataError, InputError, UnknownNameError

DRAW = np.random.default_rng(0)
ARRAYS = {
    "train_images": DRAW.integers(0, 256, (6, 8, 8, 3), dtype=np.uint8),
    "train_labels": np.array([0, 1, 0, 1, 0, 1]),
    "test_images": DRAW.integers(0, 256, (2, 8, 8, 3), dtype=np.uint8),
    "test_labels": np.array([1, 0]),
}


def save(path, save_as=np.savez, **changes):
    arrays = {k: v for k, v in {**ARRAYS, **changes}.items() if v is not None}
    save_as(path, **arrays)
    return {"path": str(path)}


@pytest.mark.parametrize("save_as", [np.savez, np.savez_compressed])
def test_the_arrays_of_a_file_are_read(tmp_path, save_as):
    read = load("npz", None, save(tmp_path / "mine.npz", save_as))
    assert read.name == "npz"
    assert np.array_equal(read.train_images, ARRAYS["train_images"].transpose(0, 3, 1, 2))
    assert read.train_labels.unseal("test").tolist() == [0, 1, 0, 1, 0, 1]
    assert np.array_equal(read.test_images, ARRAYS["test_images"].transpose(0, 3, 1, 2))
    assert read.test_labels.tolist() == [1, 0]
    assert read.classes == ("0", "1")
    assert read.augmentation == "none"
    assert read.mean == pytest.approx(ARRAYS["train_images"].mean(axis=(0, 1, 2)) / 255)


@pytest.mark.parametrize("names", [np.array(["cat", "dog"]), np.array([b"cat", b"dog"])])
def test_names_mean_and_std_are_taken_from_the_file(tmp_path, names):
    given = save(tmp_path / "mine.npz", classes=names, mean=np.full(3, 0.5), std=np.arange(1, 4))
    read = load("npz", None, given)
    assert read.classes == ("cat", "dog")
    assert (read.mean, read.std) == ((0.5,) * 3, (1.0, 2.0, 3.0))


def test_options_are_passed_on(tmp_path):
    untold = np.zeros((6, 3, 5, 3))
    given = save(tmp_path / "mine.npz", train_images=untold, test_images=None, test_labels=None)
    options = {**given, "layout": "channels-last", "augmentation": "flip", "test_share": 0.5}
    read = load("npz", None, options)
    assert list(read.train_images.shape) == list(read.test_images.shape) == [3, 3, 3, 5]
    assert read.augmentation == "flip"
    others = [load("npz", None, {**options, "seed": seed}).test_labels for seed in range(8)]
    assert len({tuple(labels.tolist()) for labels in others}) > 1


def test_label_maps_and_several_classes_set_the_task(tmp_path):
    maps = save(
        tmp_path / "maps.npz",
        train_labels=np.zeros((6, 8, 8), np.uint8),
        test_labels=np.zeros((2, 8, 8), np.uint8),
    )
    several = save(
        tmp_path / "several.npz",
        train_labels=np.ones((6, 4), bool),
        test_labels=np.ones((2, 4), bool),
    )
    assert load("npz", None, maps).task == "segmentation"
    assert load("npz", None, several).task == "multi-label"


def test_a_relative_path_is_looked_for_here_and_then_under_the_root(tmp_path, monkeypatch):
    here, root = tmp_path / "here", tmp_path / "root"
    for folder in (here, root):
        folder.mkdir()
    monkeypatch.chdir(here)
    save(root / "mine.npz")
    assert len(load("npz", root, {"path": "mine.npz"}).train_images) == 6
    save(here / "mine.npz", train_images=ARRAYS["train_images"][:4], train_labels=[0, 1, 0, 1])
    assert len(load("npz", root, {"path": "mine.npz"}).train_images) == 4
    with pytest.raises(DataError, match=r"other\.npz: no such file; set the option path"):
        load("npz", root, {"path": "other.npz"})


def test_the_path_is_needed():
    with pytest.raises(InputError, match=r"'path' in data set .* is missing"):
        load("npz")
    with pytest.raises(UnknownNameError, match="did you mean 'path'"):
        load("npz", None, {"paths": "a.npz"})


@pytest.mark.parametrize("key", ARRAYS)
def test_a_missing_array_is_named_beside_those_that_are_there(tmp_path, key):
    given = save(tmp_path / "mine.npz", **{key: None, "extra": np.zeros(1)})
    message = rf"mine\.npz: no array '{key}' in it, but .*extra; save it with the names train_im"
    with pytest.raises(DataError, match=message):
        load("npz", None, given)


@pytest.mark.parametrize("keep", [0, 3, 50, 700, -30])
def test_a_torn_file_is_refused(tmp_path, keep):
    given = save(tmp_path / "mine.npz")
    (tmp_path / "mine.npz").write_bytes((tmp_path / "mine.npz").read_bytes()[:keep])
    with pytest.raises(DataError, match=r"mine\.npz: not an npz file, or damaged") as caught:
        load("npz", None, given)
    assert "\n" not in str(caught.value)


def test_a_changed_byte_is_noticed(tmp_path):
    given = save(tmp_path / "mine.npz")
    content = bytearray((tmp_path / "mine.npz").read_bytes())
    content[600] ^= 1
    (tmp_path / "mine.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"mine\.npz: not an npz file, or damaged"):
        load("npz", None, given)


def test_python_objects_are_not_read(tmp_path):
    names = np.array(["cat", "dog"], dtype=object)
    given = save(tmp_path / "mine.npz", classes=names)
    with pytest.raises(DataError, match="classes holds Python objects, which are not read"):
        load("npz", None, given)


def test_a_single_array_is_refused(tmp_path):
    np.save(tmp_path / "mine.npy", ARRAYS["train_images"])
    with pytest.raises(DataError, match=r"a single array; save several with numpy\.savez"):
        load("npz", None, {"path": str(tmp_path / "mine.npy")})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_labels": np.zeros(5, int)}, "6 training images for 5 labels"),
        ({"classes": np.array(["cat"])}, "a label is outside 0..0"),
        ({"classes": np.array("cat")}, r"classes are \[\]; give one name each"),
        ({"mean": np.array(0.5)}, "a finite number for each channel"),
        ({"std": np.zeros(3)}, "std above 0"),
        ({"mean": np.full(3, 127.5)}, "on the 0..1 scale: divide them by 255"),
        ({"classes": np.array([b"\xe9", b"a"])}, "classes are not text in UTF-8"),
        ({"train_labels": np.array([b"\xe9", b"a"] * 3)}, "a label is not text in UTF-8"),
        ({"train_images": np.full((6, 8, 8, 3), np.inf)}, "NaN or infinity"),
        ({"train_images": ARRAYS["train_images"].astype(np.int32)}, "give bytes 0..255"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_with_the_files_name(tmp_path, changes, message):
    with pytest.raises(DataError, match=rf"mine\.npz: .*{message}"):
        load("npz", None, save(tmp_path / "mine.npz", **changes))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Denied"), r"cannot be read \(Denied"),
        (MemoryError(), "fit into memory"),
    ],
)
def test_a_file_that_is_whole_is_not_called_damaged(tmp_path, monkeypatch, error, message):
    def fail(*_, **__):
        raise error

    given = save(tmp_path / "mine.npz")
    monkeypatch.setattr(np, "load", fail)
    with pytest.raises(DataError, match=message):
        load("npz", None, given)
