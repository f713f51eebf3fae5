"""Images that a discriminator can tell from the labelled ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from steepest.strategies.base import Needs, Scorer, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.networks.adversarial import Networks, Plan, Sides
from steepest.strategies.networks.adversarial_losses import AdversarialLosses, KlReduction
from steepest.strategies.networks.adversary import (
    Adversary,
    check_options,
    iterations_for,
    set_published,
    train_adversary,
)
from steepest.strategies.networks.discriminator import Discriminator
from steepest.strategies.networks.image_vae import ImageVae, stage_sizes
from steepest.strategies.networks.pool_images import PoolImages, fit_scaling
from steepest.strategies.view import PoolView


@strategy("vaal")
@dataclass(frozen=True)
class Vaal(Scorer):
    """Images unlike the labelled ones to an adversary: score(x) = −D(μ(x)).

    An autoencoder makes codes μ of labelled and unlabelled images; a discriminator D learns to give
    1 to labelled and 0 to unlabelled ones, while the autoencoder learns to have both taken for
    labelled. What is taken for unlabelled all the same is chosen. D is the logit. The model has no
    part in it, and labels have none either: only which samples are labelled.

    Attributes:
        latent: Length of the code.
        beta: Weight of the codes' divergence from the normal distribution.
        adversary: Weight of the discriminator in the autoencoder's loss.
        kl_reduction: "batchmean" weighs the divergence of a sample against the squared error of
            all its pixels. "sum" is the published way: that of a whole batch against the error of
            one pixel, under which the codes collapse to 0 and the choice is close to random.
            "sample" lies between.
        separate_norm: Whether each pool goes through batch normalisation by itself, as in the
            published code. That takes away what all images of a pool have in common: pools that
            differ in nothing else look alike to the discriminator.
        published: Whether the losses are those of the published code: ``kl_reduction`` is then
            "sum" and ``separate_norm`` True.
        iterations: Steps of the discriminator; by default those of ``epochs``.
        epochs: Passes over the labelled samples and the candidates, in batches.
        batch_size: Images of each pool in a step.
        lr: Adam's learning rate.
        generator_steps: Steps of the autoencoder before each of the discriminator.
        image_size: Pixels of the longest side above which images are made smaller; by default 64,
            and 32 for volumes.
        width: Channels of the first convolution; by default 128, and 64 for volumes.
        amp: Whether to train in bfloat16 on GPUs.
    """

    needs: ClassVar[Needs] = Needs.LOGITS | Needs.LABELLED
    trains: ClassVar[str] = "an autoencoder and its adversary"

    latent: int = 32
    beta: float = 1.0
    adversary: float = 1.0
    kl_reduction: KlReduction = "batchmean"
    separate_norm: bool = False
    published: bool = False
    iterations: int | None = None
    epochs: int = 100
    batch_size: int = 128
    lr: float = 5e-4
    generator_steps: int = 2
    image_size: int | None = None
    width: int | None = None
    amp: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, latent=1)
        if self.published:
            set_published(self, kl_reduction="sum", separate_norm=True)

    def prepare(self, pool: PoolView) -> Adversary:
        """Train the autoencoder and the discriminator."""
        return train_adversary(
            pool,
            self._make_networks,
            _make_sides,
            AdversarialLosses(
                labelled_state=1.0,
                wanted_state=1.0,
                beta=self.beta,
                adversary=self.adversary,
                kl_reduction=self.kl_reduction,
            ),
            Plan(
                iterations=self.iterations
                or iterations_for(pool, self.epochs, self.batch_size, self.name),
                batch_size=self.batch_size,
                lr=self.lr,
                generator_steps=self.generator_steps,
                separate_norm=self.separate_norm,
                amp=self.amp,
            ),
            longest=self.image_size,
            name=self.name,
        )

    def score(self, batch: Batch) -> Tensor:
        """Return logits of being unlabelled [N]."""
        adversary: Adversary = batch.prepared
        return -adversary.logits(batch.inputs)

    def check(self, pool: PoolView) -> None:
        """Look whether the samples are images of a size that can be encoded."""
        stage_sizes(fit_scaling([pool], self.image_size, torch.float32).size)

    def _make_networks(self, channels: int, size: tuple[int, ...]) -> Networks:
        vae = ImageVae(channels, size, self.latent, width=self.width)
        return Networks(vae, Discriminator(self.latent))


def _make_sides(labelled: PoolImages, unlabelled: PoolImages) -> Sides:
    return Sides(labelled, unlabelled, states=unlabelled.in_order(torch.zeros(len(unlabelled))))
