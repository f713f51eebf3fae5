"""The head that predicts losses learns their order, and nothing else."""

from __future__ import annotations

import pytest
import torch
from model_state import same, snapshot
from torch import nn

from steepest.core.seeds import generator
from steepest.errors import InputError, ModelError
from steepest.models import build
from steepest.modules.features import Features
from steepest.strategies.networks.loss_head import (
    LossHead,
    fit_loss_head,
    make_loss_head,
    ranking_loss,
)


def test_the_right_order_with_gaps_of_the_margin_costs_nothing():
    losses = torch.tensor([0.0, 3.0, 1.0, 2.0])
    assert ranking_loss(losses * 2, losses) == 0
    assert ranking_loss(losses, losses) == 0
    assert ranking_loss(losses / 4, losses) > 0


def test_constant_predictions_cost_the_margin():
    assert ranking_loss(torch.full((6,), 0.3), torch.arange(6.0)) == 1


def test_reversed_predictions_cost_the_margin_and_their_gaps():
    losses = torch.tensor([0.0, 1.0, 2.0, 3.0])
    # Pairs (0, 3) and (1, 2) are predicted with gaps of 3 and 1 the wrong way round.
    assert ranking_loss(-losses, losses) == ((1 + 3) + (1 + 1)) / 2


def test_the_first_is_paired_with_the_last():
    predicted, losses = torch.tensor([0.0, 0.25, 0.5, 8.0]), torch.arange(4.0)
    # Of the pairs (0, 3) and (1, 2) the second has a gap of a quarter, where 1 is wanted.
    assert ranking_loss(predicted, losses) == (0 + 0.75) / 2


def test_equal_losses_count_as_if_the_second_were_larger():
    assert ranking_loss(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 2.0])) == 2
    assert ranking_loss(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 2.0])) == 0


def test_a_constant_added_to_all_predictions_changes_nothing():
    random = generator(0, "ranking")
    predicted, losses = torch.randn(2, 8, generator=random, dtype=torch.float64)
    torch.testing.assert_close(ranking_loss(predicted + 7, losses), ranking_loss(predicted, losses))


def test_of_an_odd_batch_the_last_sample_is_left_out():
    random = generator(0, "odd")
    predicted, losses = torch.randn(2, 7, generator=random)
    assert ranking_loss(predicted, losses) == ranking_loss(predicted[:6], losses[:6])


def test_a_single_sample_costs_nothing_and_can_be_learnt_from():
    predicted = torch.tensor([3.0], requires_grad=True)
    loss = ranking_loss(predicted, torch.tensor([1.0]))
    loss.backward()
    assert loss == 0
    assert predicted.grad == 0


def test_no_gradient_flows_into_the_losses():
    predicted, losses = (torch.randn(4, requires_grad=True) for _ in range(2))
    ranking_loss(predicted, losses).backward()
    assert losses.grad is None
    assert predicted.grad is not None


def test_it_has_the_published_number_of_parameters():
    with torch.device("meta"):
        head = LossHead((64, 128, 256, 512))
    assert sum(p.numel() for p in head.parameters()) == 123_905


@pytest.mark.parametrize("positions", [(), (5,), (3, 3), (2, 3, 2)])
def test_maps_of_any_dimension_are_read_by_their_mean(positions):
    random = generator(0, "maps")
    maps = [torch.randn(4, c, *positions, generator=random) for c in (3, 5)]
    head = LossHead((3, 5))
    found = head(maps)
    assert found.shape == (4,)
    means = [m.flatten(2).mean(2) if positions else m for m in maps]
    torch.testing.assert_close(found, head.from_means(torch.cat(means, dim=1)))


def test_maps_with_positions_before_channels_are_refused():
    with pytest.raises(ModelError, match="channels before positions"):
        LossHead((3,)).means_of([torch.zeros(2, 7, 3)])


def test_the_whole_map_counts_and_not_a_corner_of_it():
    head = LossHead((3,))
    image = torch.zeros(1, 3, 56, 56)
    other = image.clone()
    other[:, :, 40:, 40:] = 5
    assert head([image]) != head([other])


def test_its_loss_reaches_into_the_model_in_joint_epochs_alone():
    head = LossHead((3,), joint_epochs=2)
    maps = torch.randn(4, 3, 2, 2, requires_grad=True)
    losses = torch.arange(4.0)

    def reaches(epoch):
        phase = head.begin_epoch(epoch)
        loss = head.loss(Features(maps, maps, (maps,)), losses)
        (found,) = torch.autograd.grad(loss, [maps], allow_unused=True)
        return phase, found is not None

    assert [reaches(epoch) for epoch in range(4)] == [
        ("joint", True),
        ("joint", True),
        ("detached", False),
        ("detached", False),
    ]


def test_it_is_made_for_the_maps_of_a_model_that_is_left_as_found():
    model = build("small-cnn", 3, 1, seed=0).train()
    images = torch.randn(2, 1, 8, 8)
    before = snapshot(model)
    state = torch.random.get_rng_state()
    head, again = (make_loss_head(model, images, seed=4) for _ in range(2))
    other = make_loss_head(model, images, seed=5)
    assert head.channels == (16, 32, 64)
    assert torch.equal(state, torch.random.get_rng_state())
    assert same(snapshot(model), before)
    assert torch.equal(head.last.weight, again.last.weight)
    assert not torch.equal(head.last.weight, other.last.weight)


def test_models_that_name_no_blocks_are_refused_in_one_line():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    with pytest.raises(ModelError, match="does not say which blocks"):
        make_loss_head(model, torch.randn(2, 1, 2, 2), seed=0)


def test_a_fitted_head_ranks_losses_that_its_means_tell():
    random = generator(0, "fit")
    means = torch.randn(64, 6, generator=random)
    losses = means[:, 0] * 2 + means[:, 4]
    head = LossHead((4, 2))
    fit_loss_head(head, means, losses, epochs=30, batch_size=16, seed=0)
    found = head.from_means(means).detach()
    assert torch.corrcoef(torch.stack([found, losses]))[0, 1] > 0.9
    with pytest.raises(InputError, match="label at least 2"):
        fit_loss_head(head, means[:1], losses[:1], epochs=1, batch_size=2, seed=0)
