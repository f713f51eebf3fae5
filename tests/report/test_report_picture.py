from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from steepest.experiment.report.gallery import LARGEST_SIDE, encode_picture


def shown(image: torch.Tensor) -> np.ndarray:
    """Return the pixels that a browser would see."""
    data = encode_picture(image).removeprefix("data:image/png;base64,")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def test_floats_reach_from_black_to_white_whatever_their_scale():
    grey = torch.tensor([[0.0, 1.0], [2.0, 4.0]])
    for scaled in (grey, grey * 1000 - 3000, grey / 1e6):
        assert shown(scaled[None]).tolist() == [[0, 64], [128, 255]]


def test_channels_of_floats_keep_their_colour():
    image = torch.zeros(3, 1, 2)
    image[:, 0, 1] = torch.tensor([-1.0, 0.0, 1.0])
    assert shown(image).tolist() == [[[128, 128, 128], [0, 128, 255]]]


@pytest.mark.parametrize("value", [0.0, 7.5, float("nan"), float("inf")])
def test_a_flat_image_is_black(value):
    assert shown(torch.full((1, 2, 3), value)).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_values_that_are_no_numbers_do_not_hide_the_others():
    image = torch.tensor([[[float("nan"), 0.0, 1.0, float("inf"), -float("inf")]]])
    assert shown(image).tolist() == [[0, 0, 255, 255, 0]]


@pytest.mark.parametrize(("depth", "central"), [(5, 2), (4, 2), (1, 0)])
def test_of_a_volume_the_central_slice_is_shown(depth, central):
    volume = torch.arange(depth, dtype=torch.uint8).reshape(1, depth, 1, 1).expand(1, -1, 2, 2)
    assert shown(volume).tolist() == [[central] * 2] * 2


def test_the_scale_of_a_float_volume_is_that_of_the_slice():
    volume = torch.zeros(1, 3, 1, 2)
    volume[0, 0] = 100.0
    volume[0, 1, 0, 1] = 0.5
    assert shown(volume).tolist() == [[0, 255]]


@pytest.mark.parametrize(("channels", "seen"), [(1, (2, 2)), (2, (2, 2)), (3, (2, 2, 3)),
                                                (6, (2, 2, 3))])  # fmt: skip
def test_one_or_three_channels_are_shown(channels, seen):
    image = torch.randint(0, 256, (channels, 2, 2), dtype=torch.uint8)
    expected = image[: 3 if len(seen) == 3 else 1].permute(1, 2, 0).numpy()
    assert shown(image).shape == seen
    np.testing.assert_array_equal(shown(image).reshape(expected.shape), expected)


def test_a_large_slice_is_made_small():
    assert shown(torch.rand(1, 9, 128, 64)).shape == (LARGEST_SIDE, LARGEST_SIDE // 2)
