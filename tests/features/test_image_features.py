from __future__ import annotations

import pytest
import torch
from tiny_backbone import tiny

from steepest.errors import InputError
from steepest.features import image_features

IMAGES = torch.randint(0, 256, (7, 3, 4, 4), generator=torch.Generator().manual_seed(0)).byte()


def test_rows_are_those_of_the_net_and_kept(tmp_path):
    backbone = tiny()
    found = image_features(IMAGES, backbone, store=tmp_path, batch_size=3, progress=False)
    torch.testing.assert_close(found.rows, backbone.model(IMAGES / 255).detach())
    assert (found.ids, found.computed) == (tuple(range(7)), 7)
    more = torch.cat([IMAGES[[4, 2]], 255 - IMAGES[:1]])
    again = image_features(more, tiny(), store=tmp_path, ids="abc", progress=False)
    assert (again.ids, again.computed) == (("a", "b", "c"), 1)
    assert torch.equal(again.rows[:2], found.rows[[4, 2]])


def test_grey_images_are_taken_as_colours(tmp_path):
    grey = IMAGES[:, :1]
    found = image_features(grey, tiny(), store=tmp_path, progress=False)
    colours = image_features(grey.repeat(1, 3, 1, 1), tiny(), store=tmp_path, progress=False)
    assert torch.equal(found.rows, colours.rows)


@pytest.mark.parametrize("images", [IMAGES.float(), IMAGES[0], IMAGES.repeat(1, 2, 1, 1)])
def test_other_tensors_are_refused(images, tmp_path):
    with pytest.raises(InputError, match=r"give bytes \[N, 3, H, W\]"):
        image_features(images, tiny(), store=tmp_path)
