"""Data sets of the user's own code."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from steepest.data import ImageSet, load
from steepest.data.loading import check_options
from steepest.errors import ConfigError, DataError, InputError, UnknownNameError

MINE = """
import torch
from steepest.data import ImageSet, SealedLabels, Streamed, from_arrays


def grey(shade: int = 3, count=12):
    images = torch.full((count, 4, 4), shade, dtype=torch.uint8)
    return from_arrays(images, torch.arange(count) % 2, name="grey", test_share=0.25)


def rooted(root, shade=1):
    return from_arrays(torch.zeros(8, 4, 4), torch.arange(8) % 2, name=str(root), test_share=0.5)


class Mine(ImageSet):
    def __init__(self, name="mine"):
        super().__init__(**{**vars(grey()), "name": name})


ready = grey(7)
number = 3


def fails():
    import nothing_of_that_name


def damaged():
    return from_arrays(torch.zeros(8, 4), torch.zeros(7).long(), test_share=0.5)


def tensors():
    return torch.zeros(3)


class Shade:
    draws = 0

    def __call__(self, row, draw):
        return torch.full((1, 4, 4), row, dtype=torch.uint8)


def streamed(workers=1):
    images = Streamed(Shade(), 8, (1, 4, 4), torch.uint8, workers=workers)
    labels = torch.arange(8) % 2
    return ImageSet("s", ("a", "b"), images, SealedLabels(labels), images, labels, (0.0,), (1.0,))
"""


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    """Put a module into the current folder, which is not on the path."""
    (tmp_path / "own_pictures.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("own_pictures", None)


def test_a_function_is_called_with_its_options():
    data = load("own_pictures:grey", options={"shade": 9})
    assert (data.name, len(data.ids), int(data.train_images.max())) == ("grey", 9, 9)
    assert len(load("own_pictures:grey", limit=4).ids) == 4
    assert "" not in sys.path[1:]


def test_a_function_that_asks_for_the_folder_is_told_it(tmp_path, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    assert load("own_pictures:rooted").name == "None"
    assert load("own_pictures:rooted", root=tmp_path).name == str(tmp_path)
    monkeypatch.setenv("STEEPEST_DATA", str(tmp_path))
    assert load("own_pictures:rooted", options={"shade": 2}).name == str(tmp_path)


def test_a_class_or_a_data_set_that_is_ready_will_do():
    made = load("own_pictures:Mine", options={"name": "other"})
    assert isinstance(made, ImageSet)
    assert made.name == "other"
    assert int(load("own_pictures:ready").train_images.max()) == 7
    with pytest.raises(InputError, match="made already: it takes no options"):
        load("own_pictures:ready", options={"shade": 3})


def test_worker_processes_find_its_module():
    data = load("own_pictures:streamed")
    assert data.train_images[:3].flatten(1).amax(1).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "options", "kind", "message"),
    [
        ("own_pictures:grey", {"shad": 1}, UnknownNameError, "did you mean 'shade'"),
        ("own_pictures:grey", {"shade": "dark"}, ConfigError, "expected int, not str"),
        ("own_pictures:rooted", {"root": "x"}, UnknownNameError, "option of .* 'root'"),
        ("own_pictures:nothing", {}, InputError, "no function or class 'nothing'"),
        ("own_pictures:number", {}, InputError, "no function or class 'number'"),
        ("own_pictures:tensors", {}, InputError, "returns a Tensor, not a .*ImageSet: make one"),
        ("own_pictures:fails", {}, InputError, "cannot be made: ModuleNotFoundError: No module"),
        ("own_pictures:damaged", {}, DataError, "8 images for 7 labels|images are"),
        ("nowhere:grey", {}, InputError, "cannot be imported: .*No module named 'nowhere'"),
        ("own_pictures:", {}, InputError, "write package.module:function"),
        ("../own_pictures:grey", {}, InputError, "write package.module:function"),
    ],
)
def test_what_makes_no_data_set_is_told_in_one_line(name, options, kind, message):
    with pytest.raises(kind, match=message) as told:
        load(name, options=options)
    assert "\n" not in str(told.value)


def test_options_are_its_own_business_until_it_is_called():
    assert check_options("nowhere:grey", {"any": 1}) == {"any": 1}
    assert "own_pictures" not in sys.modules


def test_an_image_set_made_by_a_class_stays_replaceable():
    data = load("own_pictures:grey")
    assert replace(data, name="again").name == "again"
