"""The autoencoder takes images and volumes of any size, and gives them back."""

from __future__ import annotations

import pytest
import torch

from steepest.core.seeds import generator
from steepest.errors import InputError
from steepest.strategies.networks.discriminator import Discriminator, make_perceptron
from steepest.strategies.networks.image_vae import (
    ImageVae,
    kl_divergence,
    split_groups,
    stage_sizes,
)


def count(module):
    return sum(p.numel() for p in module.parameters())


def test_networks_for_small_images_have_the_published_number_of_parameters():
    with torch.device("meta"):
        assert count(ImageVae(3, (32, 32))) == 22_835_139
        assert count(Discriminator(32)) == 280_065


def test_volumes_are_encoded_from_as_many_numbers_as_images():
    with torch.device("meta"):
        assert ImageVae(1, (32, 32, 32)).mean.in_features == 4096
        assert ImageVae(3, (32, 32)).mean.in_features == 4096


def test_larger_images_get_more_stages():
    assert stage_sizes((32, 32))[-1] == (2, 2)
    assert len(stage_sizes((128, 128))) == len(stage_sizes((32, 32))) + 2


@pytest.mark.parametrize("size", [(4, 4), (6, 6), (7, 9), (28, 28), (5, 17), (8, 8, 8), (4, 6, 9)])
def test_what_is_decoded_has_the_size_of_the_image(size):
    vae = ImageVae(2, size, 5, width=2)
    images = torch.randn(3, 2, *size, generator=generator(0, "images"))
    found = vae(images)
    assert found.made.shape == images.shape
    assert {t.shape for t in found[1:]} == {(3, 5)}


@pytest.mark.parametrize("size", [(3, 8), (8,), (2, 2, 2), (8, 8, 8, 8)])
def test_samples_that_are_no_images_are_refused_in_one_line(size):
    with pytest.raises(InputError, match="at least 4 pixels"):
        stage_sizes(size)


def test_a_single_image_can_be_learnt_from():
    for size in ((4, 4), (7, 9), (5, 17)):
        vae = ImageVae(1, size, 2, width=2).train()
        assert vae(torch.randn(1, 1, *size)).made.isfinite().all()


def test_only_the_beginning_of_a_code_is_decoded_if_so_wanted():
    vae = ImageVae(1, (4, 4), 6, width=2, decoded=2).eval()
    code = torch.randn(3, 6)
    assert vae.decoder[0].in_features == 2
    assert torch.equal(vae.undecoded(code), code[:, 2:])


def test_groups_of_a_batch_are_what_batches_of_their_own_are():
    images = torch.randn(7, 1, 8, 8, dtype=torch.float64, generator=generator(0, "groups"))
    one, two = (ImageVae(1, (8, 8), 3, width=2).double().train() for _ in range(2))
    two.load_state_dict(one.state_dict())
    together = one.encode(images, [3, 4])[0]
    apart = torch.cat([two.encode(part)[0] for part in (images[:3], images[3:])])
    torch.testing.assert_close(together, apart)
    for left, right in zip(one.buffers(), two.buffers(), strict=True):
        torch.testing.assert_close(left, right)
    assert not torch.allclose(together, one.encode(images)[0])
    encoded = one(images, [3, 4])
    parts = split_groups(encoded, [3, 4])
    assert torch.equal(parts[1].mean, encoded.mean[3:])
    assert [len(part.made) for part in parts] == [3, 4]


def test_the_divergence_is_that_of_two_normal_distributions():
    random = generator(0, "kl")
    mean, log_variance = torch.randn(2, 4, 3, generator=random, dtype=torch.float64)
    normal = torch.distributions.Normal
    there = normal(mean, (log_variance / 2).exp())
    wanted = torch.distributions.kl_divergence(there, normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(kl_divergence(mean, log_variance), wanted)
    assert kl_divergence(torch.zeros(2, 3), torch.zeros(2, 3)).tolist() == [0, 0]


def test_a_perceptron_ends_without_a_relu():
    found = make_perceptron([3, 8, 2])
    assert [type(layer).__name__ for layer in found] == ["Linear", "ReLU", "Linear"]
    assert Discriminator(3, (4, 4, 4, 4))(torch.randn(5, 3)).shape == (5,)
