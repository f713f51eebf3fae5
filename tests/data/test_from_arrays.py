from __future__ import annotations

import numpy as np
import pytest
import torch

from steepest.data import ImageSet, SealedLabels
from steepest.data.arrays import from_arrays
from steepest.errors import (
    DataError,
    EmptyClassWarning,
    InputError,
    NonFiniteError,
    UnknownNameError,
)
from steepest.training.augment import normalise

DRAW = np.random.default_rng(0)
BYTES = DRAW.integers(0, 256, (6, 5, 7, 3), dtype=np.uint8)
FIRST = BYTES.transpose(0, 3, 1, 2)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def make(images=BYTES, labels=LABELS, test_images=None, test_labels=None, **options):
    test_images = images[:2] if test_images is None else test_images
    test_labels = labels[:2] if test_labels is None else test_labels
    return from_arrays(images, labels, test_images, test_labels, **options)


@pytest.mark.parametrize(
    ("images", "layout"),
    [
        (BYTES, "auto"),
        (BYTES, "channels-last"),
        (FIRST, "auto"),
        (FIRST, "channels-first"),
        (np.asfortranarray(BYTES), "auto"),
        (BYTES[:, ::-1][:, ::-1], "auto"),
        (torch.tensor(BYTES), "auto"),
        (torch.tensor(FIRST.copy()), "auto"),
    ],
)
def test_images_of_any_layout_become_channels_first(images, layout):
    made = make(images, layout=layout)
    assert np.array_equal(made.train_images, FIRST)
    assert np.array_equal(made.test_images, FIRST[:2])
    assert made.train_images.dtype == torch.uint8
    assert made.train_images.is_contiguous()


def test_grey_images_need_no_axis_of_channels():
    made = make(BYTES[..., 0])
    assert np.array_equal(made.train_images, FIRST[:, :1])
    assert len(made.mean) == 1


@pytest.mark.parametrize(
    ("shape", "wanted"), [((4, 2, 5, 6, 7), (4, 2, 5, 6, 7)), ((4, 5, 6, 7, 1), (4, 1, 5, 6, 7))]
)
def test_volumes_have_one_axis_more(shape, wanted):
    made = make(DRAW.random(shape, dtype=np.float32), LABELS[:4])
    assert made.train_images.shape == wanted


@pytest.mark.parametrize("shape", [(6, 3, 8, 3), (6, 8, 8, 8)])
def test_a_layout_that_cannot_be_told_is_asked_for(shape):
    images = np.zeros(shape, np.uint8)
    with pytest.raises(InputError, match="set layout to 'channels-first' or 'channels-last'"):
        make(images)
    assert make(images, layout="channels-first").train_images.shape == shape
    assert make(images, layout="channels-last").channels == shape[-1]


def test_the_training_images_decide_the_layout_of_the_test_images():
    test = np.zeros((1, 3, 8, 3), np.uint8)
    train = np.zeros((6, 8, 8, 3), np.uint8)
    with pytest.raises(DataError, match="differ in shape"):
        make(train, test_images=test, test_labels=LABELS[:1])
    maps = np.zeros((6, 8, 8), np.uint8)
    assert make(train, maps, test, np.zeros((1, 3, 8), int)).test_images.shape == (1, 3, 3, 8)


@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8", ">f4", "g"])
def test_floats_are_used_as_they_are(kind):
    images = (BYTES[..., 0] / 256 * 8 - 4).astype(kind)
    made = make(images)
    assert made.train_images.dtype == torch.float32
    assert np.array_equal(made.train_images[:, 0], images.astype(np.float32))
    assert made.mean == pytest.approx([images.astype(float).mean()], abs=1e-3)


def test_mean_and_std_are_those_of_the_training_images():
    made = make(test_images=BYTES[:1] * 0, test_labels=LABELS[:1])
    scaled = BYTES / 255
    assert made.mean == pytest.approx(scaled.mean(axis=(0, 1, 2)))
    assert made.std == pytest.approx(scaled.std(axis=(0, 1, 2)))


def test_given_mean_and_std_are_kept():
    made = make(mean=(0.1, 0.2, 0.3), std=np.array([1, 2, 3]))
    assert (made.mean, made.std) == ((0.1, 0.2, 0.3), (1.0, 2.0, 3.0))
    assert make(mean=torch.tensor([0.5, 0.5, 0.5])).std == make().std


def test_a_channel_without_contrast_has_the_std_one():
    images = np.concatenate([DRAW.random((6, 5, 7, 1)), np.full((6, 5, 7, 1), 0.1)], axis=-1)
    made = make(images)
    assert made.std[0] == pytest.approx(images[..., 0].std(), rel=1e-4)
    assert made.std[1] == 1.0


@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "i4", "i8", "u2", "u8", ">i4"])
def test_whole_numbers_are_classes(kind):
    made = make(labels=LABELS.astype(kind))
    assert made.task == "classification"
    assert made.train_labels.unseal("test").tolist() == LABELS.tolist()
    assert made.test_labels.dtype == torch.int64
    assert made.classes == ("0", "1", "2")


def test_the_test_labels_count_for_the_number_of_classes():
    assert make(test_labels=[3, 4]).classes == tuple("01234")


@pytest.mark.parametrize("kind", ["u1", "i4", "i8"])
def test_whole_numbers_for_each_pixel_are_label_maps(kind):
    maps = DRAW.integers(0, 4, (6, 5, 7)).astype(np.uint8)
    maps[0, 0] = 255
    made = make(labels=maps.astype(np.int64).astype(kind))
    assert made.task == "segmentation"
    assert made.test_labels.dtype == torch.uint8
    assert np.array_equal(made.train_labels.unseal("test"), maps)
    assert made.classes == ("0", "1", "2", "3")


def test_booleans_for_each_class_are_multi_label():
    several = DRAW.random((6, 4)) < 0.5
    made = make(labels=several)
    assert made.task == "multi-label"
    assert np.array_equal(made.train_labels.unseal("test"), several)
    assert made.classes == ("0", "1", "2", "3")


def test_names_and_augmentation_are_kept():
    made = make(classes=["a", "b", "c", "d"], name="mine", augmentation="crop-flip")
    assert made.classes == ("a", "b", "c", "d")
    assert (made.name, made.augmentation) == ("mine", "crop-flip")


def test_without_test_images_a_share_is_split_off_by_the_seed():
    images = np.arange(40, dtype=np.uint8)[:, None, None] * np.ones((5, 5), np.uint8)
    labels = np.arange(40)
    splits = [from_arrays(images, labels, test_share=0.25, seed=seed) for seed in (0, 0, 1)]
    for split in splits:
        test = split.test_labels.tolist()
        train = split.train_labels.unseal("test").tolist()
        assert len(test) == 10
        assert sorted(train + test) == list(range(40))
        assert (train, test) == (sorted(train), sorted(test))
        assert split.test_images[:, 0, 0, 0].tolist() == test
        assert split.train_images[:, 0, 0, 0].tolist() == train
    assert torch.equal(splits[0].test_labels, splits[1].test_labels)
    assert not torch.equal(splits[0].test_labels, splits[2].test_labels)


def test_an_array_mapped_from_disk_is_neither_copied_nor_written(tmp_path):
    np.save(tmp_path / "images.npy", FIRST)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    made = make(mapped)
    assert made.train_images.data_ptr() == mapped.ctypes.data
    assert np.array_equal(made.train_images, FIRST)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"images": BYTES.astype(np.int64)}, DataError, "images are int64; give bytes 0..255"),
        ({"images": BYTES.astype(np.uint16)}, DataError, r"images are uint16; .* by images / m"),
        ({"images": BYTES > 3}, DataError, "give bytes 0..255"),
        ({"images": BYTES[:, 0, 0, 0]}, DataError, r"images are \[6\]; give .* features \[N, D\]"),
        ({"images": BYTES[..., 0, 0]}, DataError, r"features \[N, D\] are .*uint8; give floats"),
        ({"images": BYTES.astype(str)}, DataError, "give numbers"),
        ({"images": np.full((6, 5, 7, 3), np.nan)}, NonFiniteError, "NaN or infinity"),
        ({"layout": "channel-first"}, UnknownNameError, "did you mean 'channels-first'"),
        ({"labels": LABELS / 2}, DataError, "labels are torch.float64"),
        ({"labels": LABELS > 0}, DataError, r"labels are torch.bool of shape \[6\]"),
        ({"labels": np.eye(6, 3)}, DataError, "numbers 0 and 1: give labels == 1"),
        ({"labels": np.eye(6, 3, 1) - np.eye(6, 3)}, DataError, "label 0 of sample 0 is -1.0"),
        ({"labels": LABELS[:, None]}, DataError, r"shape \[6, 1\]; give classes int64 \[N\]"),
        ({"labels": LABELS - 1}, DataError, "a label is -1; number the classes from 0 on"),
        ({"labels": LABELS[:5]}, DataError, "6 training images for 5 labels"),
        ({"labels": LABELS, "classes": ["a", "b"]}, DataError, "0..1: number the 2 classes"),
        ({"classes": ["a", "b", "a"]}, InputError, "a name of its own"),
        ({"classes": []}, InputError, "a name of its own"),
        ({"labels": np.full((6, 5, 7), -1)}, DataError, "must hold 0..255"),
        ({"labels": np.full((6, 5, 7), 256)}, DataError, "must hold 0..255"),
        ({"labels": np.full((6, 5, 7), 255)}, DataError, "no sample has a label"),
        ({"labels": np.zeros((6, 7, 5), int)}, DataError, r"maps of \[7, 5\] for images of \[5, 7"),
        ({"images": BYTES[:0], "labels": LABELS[:0]}, DataError, "there are no training images"),
        ({"test_images": BYTES[:0], "test_labels": LABELS[:0]}, DataError, "are no test images"),
        ({"test_images": BYTES[:2] / 255}, DataError, "uint8 and test images torch.float32"),
        ({"test_labels": np.ones((2, 3), bool)}, DataError, "different kinds"),
        ({"mean": (0.5,)}, DataError, "need 3 values"),
        ({"mean": 0.5}, DataError, "a finite number for each channel"),
        ({"std": (1, 1, float("nan"))}, DataError, "a finite number for each channel"),
        ({"std": ("a", "b", "c")}, DataError, "a finite number for each channel"),
        ({"test_share": 0.5}, InputError, "leave test_share out"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        make(**arguments)


@pytest.mark.parametrize("share", [-0.5, 0.01, 0.99, 1.0, 2.0])
def test_a_share_that_leaves_a_part_empty_is_refused(share):
    with pytest.raises(InputError, match="6 samples cannot be split so"):
        from_arrays(BYTES, LABELS, test_share=share)


def test_something_to_test_on_is_needed():
    with pytest.raises(InputError, match=r"or a test_share such as 0\.2"):
        from_arrays(BYTES, LABELS)
    with pytest.raises(InputError, match="come together"):
        from_arrays(BYTES, LABELS, BYTES)
    with pytest.raises(DataError, match="6 images for 5 labels"):
        from_arrays(BYTES, LABELS[:5], test_share=0.5)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_features_are_rows_of_floats_measured_by_column(kind):
    rows = np.array([[1, 10, 5], [3, 30, 5], [5, 20, 5]], dtype=kind)
    data = from_arrays(rows, np.array([0, 1, 1]), rows[:2], np.array([0, 1]))
    assert data.train_images.dtype == torch.float32
    assert (data.train_images.shape, data.channels) == ((3, 3), 3)
    assert data.mean == pytest.approx((3, 20, 5))
    assert data.std == pytest.approx((np.std([1, 3, 5]), np.std([10, 30, 20]), 1))
    assert normalise(data.train_images, data.mean, data.std).mean(0).abs().max() < 1e-6
    plain = from_arrays(rows, np.arange(3) % 2, test_share=0.34, mean=[0] * 3, std=[1] * 3)
    assert (plain.mean, plain.std) == ((0, 0, 0), (1, 1, 1))


@pytest.mark.parametrize("layout", ["auto", "channels-first", "channels-last"])
def test_features_have_no_layout(layout):
    data = from_arrays(np.eye(6, 4), np.arange(6) % 2, test_share=0.5, layout=layout)
    assert data.train_images.shape == (3, 4)


def test_features_must_be_finite_and_of_one_width():
    rows = np.eye(6, 4)
    with pytest.raises(NonFiniteError, match="features hold NaN"):
        from_arrays(np.where(rows == 1, np.nan, rows), np.arange(6) % 2, test_share=0.5)
    with pytest.raises(DataError, match="differ in shape"):
        from_arrays(rows, np.arange(6) % 2, rows[:, :3], np.arange(6) % 2)


def test_bytes_are_no_features():
    images = torch.zeros(4, 3, dtype=torch.uint8)
    labels = torch.arange(4) % 2
    with pytest.raises(DataError, match=r"or features float32 \[N, C\], not torch.uint8"):
        ImageSet("x", ("a", "b"), images, SealedLabels(labels), images, labels, (0,) * 3, (1,) * 3)


@pytest.mark.parametrize("kind", [np.str_, object, np.bytes_])
def test_labels_may_be_names_of_classes(kind):
    names = np.array(["a cat", "newt", "newt", "Ox"]).astype(kind)
    data = from_arrays(
        np.ones((4, 3)), names, np.ones((2, 3)), np.array(["newt", "dog"], dtype=kind)
    )
    assert data.classes == ("Ox", "a cat", "dog", "newt")
    assert data.train_labels.unseal("test").tolist() == [1, 3, 3, 0]
    assert data.test_labels.tolist() == [3, 2]


def test_names_keep_the_order_that_is_given_and_hold_unicode():
    names = np.array(["鳥", "a cat"] * 4)
    data = from_arrays(np.ones((8, 3)), names, classes=["鳥", "Frösche", "a cat"], test_share=0.25)
    assert data.classes == ("鳥", "Frösche", "a cat")
    assert set(data.train_labels.unseal("test").tolist()) == {0, 2}


@pytest.mark.parametrize(
    ("train", "test", "classes", "message"),
    [
        (["a", "b"], ["a", "c"], ["a", "b"], "a label is 'c', which is not among classes"),
        (["a", "b"], [0, 1], None, "of different kinds"),
        ([0, 1], ["a", "b"], None, "of different kinds"),
        (["a", float("nan")], ["a", "b"], None, "labels are text, but one is nan; leave out"),
        (["a", "nan"], ["a", "a"], None, "a label is 'nan'; leave out"),
        (["a", " "], ["a", "a"], None, "a label is ' '; leave out"),
        (["a", "b"], ["a ", "b"], None, "labels 'a' and 'a ' differ only in spaces"),
        ([None, None], [0, 1], None, "labels hold object; give numbers"),
    ],
)
def test_names_that_cannot_be_labels_are_refused(train, test, classes, message):
    train = np.array(train, dtype=object if None in train or train[-1] != train[-1] else None)
    with pytest.raises(DataError, match=message):
        from_arrays(np.ones((2, 3)), train, np.ones((2, 3)), np.array(test), classes)


def test_classes_of_no_sample_are_warned_of_unless_they_have_names():
    rows, labels = np.ones((6, 3)), np.array([1, 2, 4] * 2)
    with pytest.warns(EmptyClassWarning, match="2 of 5 classes are those of no sample, 0 for one"):
        data = from_arrays(rows, labels, test_share=0.5)
    assert len(data.classes) == 5
    from_arrays(rows, labels, classes="abcde", test_share=0.5)
