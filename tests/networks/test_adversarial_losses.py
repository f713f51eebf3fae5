"""The losses of the autoencoder and the discriminator, by their formulas."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from steepest.core.seeds import generator
from steepest.strategies.networks.adversarial_losses import AdversarialLosses
from steepest.strategies.networks.image_vae import Encoded, kl_divergence

VAAL = AdversarialLosses(labelled_state=1.0, wanted_state=1.0)
SRAAL = AdversarialLosses(labelled_state=0.0, wanted_state=0.0)


@pytest.fixture
def seen():
    random = generator(0, "adversarial losses")
    images, made = torch.randn(2, 4, 1, 3, 5, generator=random, dtype=torch.float64)
    mean, log_variance = torch.randn(2, 4, 6, generator=random, dtype=torch.float64)
    return images, Encoded(made, mean, mean, log_variance)


def test_both_terms_of_the_bound_are_those_of_a_whole_sample(seen):
    images, encoded = seen
    whole = (images - encoded.made).square().flatten(1).sum(1)
    wanted = (whole + kl_divergence(encoded.mean, encoded.log_variance)).mean() / 15
    torch.testing.assert_close(VAAL.bound(images, encoded), wanted)


def test_the_published_reductions_weigh_a_pixel_against_a_sample_or_a_batch(seen):
    images, encoded = seen
    error = functional.mse_loss(encoded.made, images)
    divergence = kl_divergence(encoded.mean, encoded.log_variance)
    batch = AdversarialLosses(1.0, 1.0, kl_reduction="sum").bound(images, encoded)
    sample = AdversarialLosses(1.0, 1.0, beta=2.0, reconstruction=5.0, kl_reduction="sample")
    torch.testing.assert_close(batch, error + divergence.sum())
    torch.testing.assert_close(sample.bound(images, encoded), 5 * error + 2 * divergence.mean())


def test_the_autoencoder_pays_for_what_is_not_taken_for_the_wanted_state():
    sure = torch.tensor([9.0, 9.0])
    assert VAAL.fooling(sure, sure) < 1e-3
    assert VAAL.fooling(-sure, -sure) == pytest.approx(18, abs=0.01)
    assert SRAAL.fooling(sure, sure) == pytest.approx(18, abs=0.01)
    assert AdversarialLosses(1.0, 1.0, adversary=0.5).fooling(-sure, sure) == pytest.approx(
        4.5, abs=0.01
    )


def test_the_discriminator_is_taught_the_states():
    left, right = torch.tensor([2.0, -1.0]), torch.tensor([0.5, 3.0])
    states = torch.tensor([0.3, 0.9])
    bce = functional.binary_cross_entropy
    wanted = bce(left.sigmoid(), torch.zeros(2)) + bce(right.sigmoid(), states)
    torch.testing.assert_close(SRAAL.telling(left, right, states), wanted)


def test_with_full_states_one_game_is_the_other_with_all_signs_turned():
    left, right = torch.randn(2, 5, generator=generator(0, "signs"))
    one = VAAL.telling(left, right, torch.zeros(5))
    other = SRAAL.telling(-left, -right, torch.ones(5))
    torch.testing.assert_close(one, other)


def test_a_higher_state_is_answered_by_a_higher_logit():
    best = []
    for state in (0.2, 0.5, 0.8):
        logit = torch.zeros(1, requires_grad=True)
        loss = SRAAL.telling(torch.zeros(1), logit, torch.tensor([state]))
        best.append(-float(torch.autograd.grad(loss, [logit])[0]))
    assert best == sorted(best)
    assert best[0] < 0 < best[2]
