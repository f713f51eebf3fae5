"""A discriminator of labelled and unlabelled images, from a pool to its scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from steepest.core.seeds import derive
from steepest.core.torch_settings import own_randomness
from steepest.errors import InputError, SettingWarning
from steepest.modules.batches import Inputs
from steepest.strategies.base import Strategy
from steepest.strategies.networks.adversarial import Networks, Plan, Sides, train_adversarially
from steepest.strategies.networks.adversarial_losses import AdversarialLosses
from steepest.strategies.networks.image_vae import kl_divergence
from steepest.strategies.networks.pool_images import PoolImages, Scaling, fit_scaling
from steepest.strategies.view import PoolView

_COLLAPSED_NATS = 1.0
_COLLAPSED_NATS_EACH = 0.03
"""A code that says less of its image, in all or by each of its numbers, says nothing."""

_LOOKED_AT = 256

_LEAST = {
    "beta": 0, "adversary": 0, "iterations": 1, "epochs": 1, "batch_size": 1, "lr": 0,
    "generator_steps": 1, "image_size": 4, "width": 1,
}  # fmt: skip
"""The smallest value of each option that all adversaries have."""


@dataclass(frozen=True, eq=False)
class Adversary:
    """Networks trained to tell labelled images from unlabelled ones.

    Attributes:
        networks: In eval mode.
        scaling: How images are prepared.
        kl_per_sample: Mean divergence of the codes in nats, over some images of both pools: near 0,
            the codes say nothing of the images, and the discriminator cannot tell them apart.
    """

    networks: Networks
    scaling: Scaling
    kl_per_sample: float

    def logits(self, inputs: Inputs) -> Tensor:
        """Return the discriminator's logits for N samples [N], each computed alone."""
        with torch.no_grad():
            mean, _ = self.networks.vae.encode(self.scaling.apply(inputs))
            said: Tensor = self.networks.discriminator(mean)
        return said


MakeNetworks = Callable[[int, tuple[int, ...]], Networks]
"""Makes networks for images of so many channels and this size."""

MakeSides = Callable[[PoolImages, PoolImages], Sides]
"""Adds states and targets to labelled and unlabelled images."""


def train_adversary(
    pool: PoolView,
    make_networks: MakeNetworks,
    make_sides: MakeSides,
    game: AdversarialLosses,
    plan: Plan,
    *,
    longest: int | None,
    name: str,
) -> Adversary:
    """Train networks on the labelled and unlabelled images of a pool.

    Args:
        pool: With labelled samples.
        make_networks: Makes the networks; its weights are drawn by the pool's seed.
        make_sides: Says what is to be learnt of the images.
        game: The losses.
        plan: How long to train.
        longest: Pixels of an image's longest side at most.
        name: The strategy's, for messages.

    Raises:
        InputError: If there are no labelled samples, or they are no images.
    """
    labelled = labelled_of(pool, name)
    dtype = torch.float64 if pool.lens.dtype == torch.float64 else torch.float32
    seed = derive(pool.seed, name)
    # Weights that are made where no gradients are wanted could not be trained.
    with torch.inference_mode(mode=False):
        scaling = fit_scaling([labelled, pool.unlabelled], longest, dtype)
        with own_randomness(derive(seed, "weights"), torch.device("cpu")):
            networks = make_networks(scaling.channels, scaling.size)
        networks = networks.to(pool.device, dtype)
        left, right = PoolImages(labelled, scaling), PoolImages(pool.unlabelled, scaling)
        sides = make_sides(left, right)
        train_adversarially(networks, sides, game, plan, seed=seed, progress=pool.progress)
        made = Adversary(networks, scaling, _mean_divergence(networks, [left, right], pool.device))
    _warn_if_collapsed(made, name)
    return made


def labelled_of(pool: PoolView, name: str) -> PoolView:
    """Return the labelled samples of a pool.

    Raises:
        InputError: If there are none.
    """
    if pool.labelled is None:
        raise InputError(
            f"{name} tells unlabelled samples from labelled ones, and there are none: name them by "
            "--labelled FILE, or in Python labelled= or support=Support(labelled=…) of another pool"
        )
    return pool.labelled


def iterations_for(pool: PoolView, epochs: int, batch_size: int, name: str) -> int:
    """Return how many batches so many passes over the labelled samples and candidates take."""
    return max(1, epochs * (len(labelled_of(pool, name)) + len(pool)) // batch_size)


def check_options(strategy: Strategy, **least: float) -> None:
    """Refuse options below a bound.

    Args:
        strategy: Whose options; one that is None passes.
        least: Smallest values of options that not every adversary has.

    Raises:
        InputError: Naming the option.
    """
    for option, bound in (least | _LEAST).items():
        value = getattr(strategy, option)
        if value is not None and not value >= bound:
            raise InputError(f"{strategy.name}: {option} must be {bound:g} or more, not {value}")


def set_published(strategy: Strategy, **published: Any) -> None:  # noqa: ANN401
    """Give a strategy that is being made the published values of some options.

    Args:
        strategy: Whose option ``published`` is set.
        published: The values by option.

    Raises:
        InputError: If one was set to something else.
    """
    usual = {field.name: field.default for field in fields(strategy)}
    for option, value in published.items():
        if getattr(strategy, option) not in (usual[option], value):
            raise InputError(
                f"{strategy.name}: published sets {option} to {value!r}: leave one of them out"
            )
        object.__setattr__(strategy, option, value)


def _warn_if_collapsed(made: Adversary, name: str) -> None:
    each = _COLLAPSED_NATS_EACH * made.networks.vae.mean.out_features
    if made.kl_per_sample < min(_COLLAPSED_NATS, each):
        warnings.warn(
            f"the codes of {name}'s autoencoder say {made.kl_per_sample:.2g} nats of an image: "
            "they have collapsed, and its choice is close to random; lower beta, or train longer",
            SettingWarning,
            stacklevel=3,
        )


@torch.no_grad()
def _mean_divergence(networks: Networks, pools: list[PoolImages], device: torch.device) -> float:
    found = []
    for images in pools:
        rows = torch.arange(min(_LOOKED_AT, len(images)), device=device)
        found.append(kl_divergence(*networks.vae.encode(images.take(rows))))
    return torch.cat(found).mean().item()
