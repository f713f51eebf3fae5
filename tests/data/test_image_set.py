from __future__ import annotations

import pytest
import torch

from steepest.data import DATASETS, ImageSet, SealedLabels, base, load, names
from steepest.errors import DataError, InputError, UnknownNameError


def make(**changes):
    fields = {
        "name": "toy",
        "classes": ("cat", "dog"),
        "train_images": torch.zeros(3, 1, 4, 4, dtype=torch.uint8),
        "train_labels": SealedLabels(torch.tensor([0, 1, 1])),
        "test_images": torch.zeros(2, 1, 4, 4, dtype=torch.uint8),
        "test_labels": torch.tensor([0, 1]),
        "mean": (0.5,),
        "std": (0.25,),
    }
    return ImageSet(**{**fields, **changes})


def test_ids_are_the_rows_of_the_training_images():
    assert make().ids == range(3)


def test_repr_is_one_short_line_without_pixels_or_labels():
    text = repr(make())
    assert text == "ImageSet('toy', 2 classes, train [3, 1, 4, 4], test [2, 1, 4, 4])"


def test_checking_labels_does_not_unseal_them():
    assert make().train_labels.purposes == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_images": torch.zeros(3, 1, 4, 4, dtype=torch.float64)}, "uint8"),
        ({"train_images": torch.zeros(3, 4, 4, dtype=torch.uint8)}, "N, C, H, W"),
        ({"train_images": torch.zeros(4, 1, 4, 4, dtype=torch.uint8)}, "4 training images for 3"),
        ({"test_images": torch.zeros(3, 1, 4, 4, dtype=torch.uint8)}, "3 test images for 2"),
        ({"test_images": torch.zeros(2, 1, 5, 4, dtype=torch.uint8)}, "differ in shape"),
        ({"train_labels": SealedLabels(torch.tensor([0, 1, 2]))}, "outside 0..1"),
        ({"test_labels": torch.tensor([0, -1])}, "outside 0..1"),
        ({"test_labels": torch.tensor([0.0, 1.0])}, "int64"),
        ({"mean": (0.5, 0.5, 0.5)}, "1 values"),
        ({"std": (0.0,)}, "above 0"),
        (
            {
                "train_images": torch.zeros(0, 1, 4, 4, dtype=torch.uint8),
                "train_labels": SealedLabels(torch.zeros(0, dtype=torch.int64)),
            },
            "0 training images",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(changes, message):
    with pytest.raises(DataError, match=message):
        make(**changes)


def test_names_lists_what_the_package_holds():
    assert {"cifar10", "digits"} <= set(names())


def test_an_unknown_name_says_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'digits'"):
        load("digit")


@pytest.fixture
def roots(monkeypatch):
    seen = []

    def spy(root):
        seen.append(root)
        return make()

    monkeypatch.setitem(DATASETS._entries, "spy", spy)
    return seen


def test_root_comes_from_the_environment(roots, monkeypatch, tmp_path):
    monkeypatch.setenv(base.DATA_VARIABLE, str(tmp_path))
    load("spy")
    load("spy", tmp_path / "elsewhere")
    monkeypatch.setenv(base.DATA_VARIABLE, "")
    load("spy")
    assert roots == [tmp_path, tmp_path / "elsewhere", None]


def test_the_data_folder_is_what_the_environment_names(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(base.DATA_VARIABLE, "~/sets")
    assert base.data_root() == tmp_path / "sets"
    monkeypatch.setenv(base.DATA_VARIABLE, "~nobody-of-that-name/sets")
    with pytest.raises(InputError, match="there is no such home folder; give the whole path"):
        base.data_root()
    for nothing in ("", None):
        if nothing is None:
            monkeypatch.delenv(base.DATA_VARIABLE)
        else:
            monkeypatch.setenv(base.DATA_VARIABLE, nothing)
        assert base.data_root() is None
