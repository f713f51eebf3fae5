from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

from steepest.data.cryoet import contact_sheet
from steepest.errors import InputError


def pixels(content):
    with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
        assert image.mode == "L"
        return np.asarray(image)


def corner_volume(value=5.0):
    """A volume whose central slice across z is bright in one corner."""
    volume = torch.zeros(8, 8, 8)
    volume[4, :4, :4] = value
    return volume


def test_slices_stand_side_by_side_and_wrap_into_rows():
    sheet = pixels(contact_sheet(torch.zeros(5, 8, 8, 8), columns=2, scale=3))
    assert sheet.shape == (4 + 3 * (24 + 4), 4 + 2 * (24 + 4))


def test_the_central_slice_is_shown():
    tile = pixels(contact_sheet(corner_volume()[None], scale=1))[4:12, 4:12].astype(int)
    assert tile[:4, :4].min() > tile[4:, 4:].max()
    assert tile[4:, 4:].std() == 0


def test_another_axis_can_be_cut_across():
    volume = corner_volume().movedim(0, 2)
    along = pixels(contact_sheet(volume[None], scale=1, axis=2))
    assert np.array_equal(along, pixels(contact_sheet(corner_volume()[None], scale=1)))


def test_a_voxel_covers_a_square_of_pixels():
    small = pixels(contact_sheet(corner_volume()[None], scale=1))[4:12, 4:12]
    large = pixels(contact_sheet(corner_volume()[None], scale=3))[4:28, 4:28]
    assert np.array_equal(large, small.repeat(3, axis=0).repeat(3, axis=1))


def test_each_slice_has_its_own_contrast():
    both = torch.stack([corner_volume(1.0), corner_volume(100.0)])
    sheet = pixels(contact_sheet(both, scale=1))
    assert np.array_equal(sheet[4:12, 4:12], sheet[4:12, 16:24])


def test_titles_are_written_below_and_shortened():
    volumes = torch.zeros(2, 1, 16, 16, 16)
    bare = pixels(contact_sheet(volumes))
    titled = pixels(contact_sheet(volumes, ["ring", "a very long title – with a dash"]))
    assert titled.shape[0] == bare.shape[0] + 12
    below = titled[36:48]
    assert below[:, 4:36].min() < 100
    assert below[:, 40:72].min() < 100
    assert below[:, 36:40].min() == 255, "a title must not run into the next"


def test_a_flat_slice_is_grey():
    tile = pixels(contact_sheet(torch.full((1, 8, 8, 8), 7.0), scale=1))[4:12, 4:12]
    assert set(tile.flatten().tolist()) == {127}


@pytest.mark.parametrize(
    ("volumes", "options"),
    [
        (torch.zeros(0, 8, 8, 8), {}),
        (torch.zeros(8, 8, 8), {}),
        (torch.zeros(1, 2, 8, 8, 8), {}),
        (torch.zeros(2, 8, 8, 8), {"titles": ["one"]}),
        (torch.zeros(2, 8, 8, 8), {"columns": 0}),
        (torch.zeros(2, 8, 8, 8), {"scale": 0}),
        (torch.zeros(2, 8, 8, 8), {"axis": 3}),
    ],
)
def test_what_cannot_be_drawn_is_refused(volumes, options):
    with pytest.raises(InputError):
        contact_sheet(volumes, **options)
