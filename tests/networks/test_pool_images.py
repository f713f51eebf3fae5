"""Images as an autoencoder takes them, and which of them each step sees."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from steepest.core.seeds import generator
from steepest.errors import InputError, NonFiniteError
from steepest.selecting.samples import as_samples
from steepest.strategies.networks import pool_images
from steepest.strategies.networks.adversarial import ShuffledRows
from steepest.strategies.networks.pool_images import (
    PoolImages,
    fit_scaling,
    images_of,
    keyed_order,
    resized,
    small_size,
)
from steepest.strategies.view import Lens, PoolView

CPU = torch.device("cpu")


def view(data, ids=None, seed=0):
    return PoolView(as_samples(data, ids), Lens(nn.Identity(), CPU), seed=seed)


@pytest.fixture
def data():
    return torch.randn(9, 2, 6, 6, generator=generator(0, "data")) * 3 + 5


def test_every_channel_is_scaled_to_its_own_range(data):
    data[:, 1] *= 100
    scaling = fit_scaling([view(data)], None, torch.float32)
    found = scaling.apply(data)
    flat = found.transpose(0, 1).flatten(1)
    torch.testing.assert_close(flat.min(1).values, torch.tensor([-1.0, -1.0]))
    torch.testing.assert_close(flat.max(1).values, torch.tensor([1.0, 1.0]))
    assert scaling.apply(data * 10).abs().max() <= 1


def test_a_channel_that_never_changes_becomes_zero(data):
    data[:, 1] = 7
    scaling = fit_scaling([view(data)], None, torch.float32)
    assert scaling.apply(data)[:, 1].abs().max() == 0


def test_the_range_is_that_of_all_pools(data):
    scaling = fit_scaling([view(data), view(data + 100)], None, torch.float32)
    assert scaling.apply(data).max() < -0.5


def test_images_are_made_smaller_by_means_and_keep_their_proportions():
    assert small_size((32, 32), None) == (32, 32)
    assert small_size((360, 480), None) == (48, 64)
    assert small_size((64, 64, 64), None) == (32, 32, 32)
    assert small_size((40, 20), 10) == (10, 5)
    assert small_size((1000, 8), None) == (64, 4)
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert resized(image, (2, 2)).flatten().tolist() == [2.5, 4.5, 10.5, 12.5]
    assert resized(image, (4, 4)) is image


def test_samples_that_are_no_images_are_refused_in_one_line(data):
    with pytest.raises(InputError, match="not \\[9, 5\\]: use 'core-set'"):
        images_of(torch.zeros(9, 5))
    with pytest.raises(InputError, match="not dict"):
        images_of({"a": data})
    with pytest.raises(InputError, match="different sizes"):
        fit_scaling([view(data), view(data[:, :, :4])], None, torch.float32)


def test_a_sample_that_is_not_finite_is_named(data):
    data[4, 0, 0, 0] = torch.nan
    with pytest.raises(NonFiniteError, match="'e'"):
        fit_scaling([view(data, list("abcdefghi"))], None, torch.float32)


def test_the_order_of_images_is_that_of_their_ids_and_not_of_the_pool(data):
    turned = torch.arange(8, -1, -1)
    one, two = view(data, list(range(9))), view(data[turned], turned.tolist())
    assert [one.ids[p] for p in keyed_order(one)] == [two.ids[p] for p in keyed_order(two)]
    scaling = fit_scaling([one], None, torch.float32)
    rows = torch.tensor([3, 0, 5])
    assert torch.equal(PoolImages(one, scaling).take(rows), PoolImages(two, scaling).take(rows))


def test_images_that_do_not_fit_are_loaded_as_they_are_asked_for(data, monkeypatch):
    pool = view(data)
    scaling = fit_scaling([pool], None, torch.float32)
    held = PoolImages(pool, scaling)
    monkeypatch.setattr(pool_images, "_HELD_BYTES", 0)
    loaded = PoolImages(pool, scaling)
    rows = torch.tensor([8, 1, 1, 4])
    assert loaded._held is None
    assert torch.equal(held.take(rows), loaded.take(rows))


def test_portions_of_a_load_change_nothing(data):
    whole, parts = view(data), view(data)
    parts.lens = replace(parts.lens, batch_size=2)
    one, two = (fit_scaling([pool], None, torch.float32) for pool in (whole, parts))
    assert torch.equal(one.low, two.low)
    assert torch.equal(one.high, two.high)
    rows = torch.arange(9)
    assert torch.equal(PoolImages(whole, one).take(rows), PoolImages(parts, two).take(rows))


def test_values_of_samples_follow_their_images(data):
    images = PoolImages(view(data), fit_scaling([view(data)], None, torch.float32))
    assert images.in_order(torch.arange(9)).tolist() == images.order
    assert images.in_order(torch.arange(9.0).double()).dtype == torch.float32


def test_an_epoch_draws_no_row_twice_and_all_batches_are_of_one_size():
    draws = ShuffledRows(10, 4, seed=1, name="rows", device=CPU)
    epochs = [torch.cat([draws.batch(2 * e), draws.batch(2 * e + 1)]) for e in range(3)]
    assert all(len(set(epoch.tolist())) == 8 for epoch in epochs)
    assert epochs[0].tolist() != epochs[1].tolist()


def test_a_batch_depends_on_the_seed_the_name_and_its_number_alone():
    draws = ShuffledRows(10, 4, seed=1, name="rows", device=CPU)
    late = draws.batch(5)
    assert torch.equal(late, ShuffledRows(10, 4, 1, "rows", CPU).batch(5))
    draws.batch(0)
    assert torch.equal(late, draws.batch(5))
    assert late.tolist() != ShuffledRows(10, 4, 2, "rows", CPU).batch(5).tolist()
    assert late.tolist() != ShuffledRows(10, 4, 1, "others", CPU).batch(5).tolist()


def test_few_rows_make_smaller_batches():
    assert sorted(ShuffledRows(3, 128, 0, "few", CPU).batch(7).tolist()) == [0, 1, 2]
