from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from steepest.core.seeds import generator
from steepest.tasks import IGNORED
from steepest.training import AUGMENTATIONS, CropFlip, normalise


def change_one(image, padding, top, left, mirror):
    """Pad, crop and mirror one image, step by step."""
    channels, height, width = image.shape
    canvas = torch.zeros(channels, height + 2 * padding, width + 2 * padding, dtype=image.dtype)
    canvas[:, padding : padding + height, padding : padding + width] = image
    crop = canvas[:, top : top + height, left : left + width]
    return crop.flip(2) if mirror else crop


@settings(deadline=None, max_examples=40)
@given(
    batch=st.integers(1, 5),
    channels=st.integers(1, 3),
    height=st.integers(1, 7),
    width=st.integers(1, 7),
    padding=st.integers(0, 4),
    flip=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_batch_is_changed_as_its_images_one_by_one(
    batch, channels, height, width, padding, flip, seed
):
    augment = CropFlip(padding, flip)
    images = torch.randint(
        256, (batch, channels, height, width), generator=generator(seed, "images")
    ).to(torch.uint8)
    draws = augment.draw(batch, generator(seed, "draws"))
    wanted = [
        change_one(image, padding, *row) for image, row in zip(images, draws.tolist(), strict=True)
    ]
    changed = augment.apply(images, draws)
    assert changed.dtype == torch.uint8
    assert torch.equal(changed, torch.stack(wanted))


def test_draws_cover_all_shifts_and_mirror_half():
    draws = AUGMENTATIONS["crop-flip"].draw(4000, generator(0, "draws"))
    for column in (0, 1):
        shares = torch.bincount(draws[:, column], minlength=9) / 4000
        assert len(shares) == 9
        assert ((shares - 1 / 9).abs() < 0.03).all()
    assert abs(draws[:, 2].double().mean().item() - 0.5) < 0.03
    assert abs(torch.corrcoef(draws.T.double())[0, 1].item()) < 0.06


def test_shift_moves_by_one_and_never_mirrors():
    draws = AUGMENTATIONS["shift"].draw(200, generator(0, "draws"))
    assert set(draws[:, :2].unique().tolist()) == {0, 1, 2}
    assert not draws[:, 2].any()


def test_none_changes_nothing():
    images = torch.randint(256, (3, 1, 4, 4), generator=generator(0, "images"))
    none = AUGMENTATIONS["none"]
    assert torch.equal(none.apply(images, none.draw(3, generator(0, "draws"))), images)


def test_floats_are_changed_too():
    images = torch.rand(2, 1, 3, 3, generator=generator(0, "images"))
    draws = torch.tensor([[1, 1, 1], [0, 0, 0]])
    changed = CropFlip(1, flip=True).apply(images, draws)
    assert torch.equal(changed[0], images[0].flip(2))
    assert torch.equal(changed[1, :, 1:, 1:], images[1, :, :2, :2])
    assert not changed[1, :, 0].any()


def test_normalise_takes_off_the_mean_of_each_channel():
    images = torch.randint(256, (2, 3, 4, 4), generator=generator(0, "images")).to(torch.uint8)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)
    wanted = images.double() / 255
    for channel in range(3):
        wanted[:, channel] = (wanted[:, channel] - mean[channel]) / std[channel]
    normal = normalise(images, mean, std)
    assert normal.dtype == torch.float32
    assert torch.allclose(normal.double(), wanted, atol=1e-6)


def test_normalise_needs_as_many_means_as_deviations():
    with pytest.raises(ValueError, match="zip"):
        normalise(torch.zeros(1, 2, 2, 2, dtype=torch.uint8), (0.5,), (1.0, 1.0))


def test_what_padding_brings_into_a_label_map_is_ignored():
    maps = torch.zeros(1, 2, 2, dtype=torch.uint8)
    moved = CropFlip(padding=1).apply_to_labels(maps, torch.tensor([[0, 0, 0]]))
    assert moved.tolist() == [[[IGNORED, IGNORED], [IGNORED, 0]]]


def test_floats_are_on_the_scale_of_the_mean_already():
    images = torch.tensor([[[[0.5]], [[2.0]]]])
    told = normalise(images, mean=(0.25, 1.0), std=(0.5, 2.0))
    assert told.flatten().tolist() == [0.5, 0.5]
