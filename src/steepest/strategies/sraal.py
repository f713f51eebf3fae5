"""Images that a discriminator takes for uncertain ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from steepest.errors import InputError
from steepest.modules.batches import call, logits_of
from steepest.strategies.base import Needs, Scorer, Strategy, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.networks.adversarial import Networks, Plan, Sides
from steepest.strategies.networks.adversarial_losses import AdversarialLosses, KlReduction
from steepest.strategies.networks.adversary import (
    Adversary,
    check_options,
    iterations_for,
    labelled_of,
    set_published,
    train_adversary,
)
from steepest.strategies.networks.discriminator import Discriminator, make_perceptron
from steepest.strategies.networks.image_vae import ImageVae, stage_sizes
from steepest.strategies.networks.pool_images import PoolImages, fit_scaling
from steepest.strategies.target_classes import check_targets, class_shares
from steepest.strategies.view import PoolView
from steepest.training.evaluate import samples_at_once

_AT_ONCE = 64
_DECAYS = 30
"""Number of times the learning rate is lowered during a training."""


@strategy("sraal")
@dataclass(frozen=True)
class Sraal(Scorer):
    """Images that an adversary gives a high state of uncertainty: score(x) = D(μ(x)).

    As ``vaal``, but the discriminator D learns to give an unlabelled image the uncertainty of the
    model's prediction, and a labelled one 0; and the code is learnt together with the classes of
    the labelled images. Half of the code is decoded, the other half is classified. D is the logit.
    For dense outputs the uncertainty is the mean over positions, and what is classified are the
    shares of the classes in each label map.

    Attributes:
        latent: Length of the code; even.
        beta: Weight of the codes' divergence from the normal distribution.
        adversary: Weight of the discriminator in the autoencoder's loss.
        reconstruction: Weight of the squared error.
        classification: Weight of the classifier's cross-entropy.
        kl_reduction: As for ``vaal``; the published way is "sample".
        separate_norm: As for ``vaal``; the published way is True.
        official_sign: Whether the autoencoder strives for state 1, as the published code does, and
            not for the labelled state 0, which is what deceives the discriminator.
        official_variance: Whether the uncertainty mixes two kinds of variance, as the published
            code does: one-hot predictions then have 1/C.
        official_targets: Whether the second step of an iteration takes the classes of the first
            one's images, as the published code does.
        published: Whether the losses are those of the published code: ``kl_reduction`` is then
            "sample", and ``separate_norm`` and all three ``official_…`` are True.
        iterations: Steps of the discriminator; by default those of ``epochs``. Published: 20000.
        epochs: Passes over the labelled samples and the candidates, in batches.
        batch_size: Images of each pool in a step.
        lr: Adam's learning rate; it is multiplied by 0.85 up to thirty times on the way.
        generator_steps: Steps of the autoencoder before each of the discriminator.
        image_size: As for ``vaal``.
        width: As for ``vaal``.
        amp: Whether to train in bfloat16 on GPUs.
    """

    needs: ClassVar[Needs] = Needs.LOGITS | Needs.LABELLED | Needs.TARGETS
    trains: ClassVar[str] = "an autoencoder and its adversary"

    latent: int = 200
    beta: float = 1.0
    adversary: float = 1.0
    reconstruction: float = 5.0
    classification: float = 5.0
    kl_reduction: KlReduction = "batchmean"
    separate_norm: bool = False
    official_sign: bool = False
    official_variance: bool = False
    official_targets: bool = False
    published: bool = False
    iterations: int | None = None
    epochs: int = 100
    batch_size: int = 250
    lr: float = 5e-4
    generator_steps: int = 2
    image_size: int | None = None
    width: int | None = None
    amp: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, latent=2, reconstruction=0, classification=0)
        if self.published:
            set_published(
                self,
                kl_reduction="sample",
                separate_norm=True,
                official_sign=True,
                official_variance=True,
                official_targets=True,
            )
        if self.latent % 2:
            raise InputError(f"sraal: latent must be even, not {self.latent}: it is cut in halves")

    def prepare(self, pool: PoolView) -> Adversary:
        """Train the autoencoder, the classifier and the discriminator."""
        targets = self._targets(labelled_of(pool, self.name))
        uncertainty, classes = self._uncertainty(pool.unlabelled)
        iterations = self.iterations or iterations_for(
            pool, self.epochs, self.batch_size, self.name
        )

        def make_sides(labelled: PoolImages, unlabelled: PoolImages) -> Sides:
            return Sides(
                labelled,
                unlabelled,
                states=unlabelled.in_order(uncertainty),
                targets=labelled.in_order(targets),
                stale_targets=self.official_targets,
            )

        def make_networks(channels: int, size: tuple[int, ...]) -> Networks:
            return self._make_networks(channels, size, classes)

        plan = Plan(
            iterations=iterations,
            batch_size=self.batch_size,
            lr=self.lr,
            generator_steps=self.generator_steps,
            separate_norm=self.separate_norm,
            decay=0.85,
            # Rounded up: short trainings would be slowed down far more often otherwise.
            decay_every=math.ceil(iterations / _DECAYS),
            amp=self.amp,
        )
        return train_adversary(
            pool,
            make_networks,
            make_sides,
            self._game(),
            plan,
            longest=self.image_size,
            name=self.name,
        )

    def score(self, batch: Batch) -> Tensor:
        """Return logits of the predicted uncertainty [N]."""
        adversary: Adversary = batch.prepared
        return adversary.logits(batch.inputs)

    def check(self, pool: PoolView) -> None:
        """Look whether samples are images."""
        stage_sizes(fit_scaling([pool], self.image_size, torch.float32).size)
        Strategy.check(self, pool)

    def _game(self) -> AdversarialLosses:
        return AdversarialLosses(
            labelled_state=0.0,
            wanted_state=1.0 if self.official_sign else 0.0,
            beta=self.beta,
            adversary=self.adversary,
            reconstruction=self.reconstruction,
            classification=self.classification,
            kl_reduction=self.kl_reduction,
        )

    def _make_networks(self, channels: int, size: tuple[int, ...], classes: int) -> Networks:
        half = self.latent // 2
        vae = ImageVae(channels, size, self.latent, width=self.width, decoded=half)
        classifier: nn.Module = make_perceptron([half, 1024, 256, classes])
        return Networks(vae, Discriminator(self.latent, (512, 512, 512, 512)), classifier)

    def _uncertainty(self, pool: PoolView) -> tuple[Tensor, int]:
        """Return the uncertainty of all unlabelled samples [N], and the number of classes."""

        def read(batch: Batch) -> Tensor:
            shares = batch.logits.double().softmax(1)
            found = object_uncertainty(shares, unbiased=self.official_variance)
            return found.flatten(1).mean(1) if found.ndim > 1 else found

        first = pool.load([0])
        shape = first.shape if isinstance(first, Tensor) else (1, 1)
        size = min(_AT_ONCE, samples_at_once(shape, pool.device))
        found = pool.collect(read, "measuring uncertainty for sraal", size=size)["rows"]
        return found, pool.classes

    def _targets(self, labelled: PoolView) -> Tensor:
        """Return the class of each labelled sample [N], or the shares of classes in its map [N, C].

        Raises:
            InputError: If they are not given for all, or are none of the model's classes.
        """
        known = labelled.support.targets
        if any(i not in known for i in labelled.ids):
            raise InputError(
                "sraal learns the classes of the labelled samples: give them by --labelled FILE "
                "with id,label, or in Python support=Support(targets={id: class, …})"
            )
        check_targets(labelled, self.name)
        logits = labelled.task.distributions(logits_of(call(labelled.model, labelled.load([0]))))
        (classes, *positions), ignored = logits.shape[1:], labelled.task.ignored
        found = []
        # One by one: label maps of all samples together would be large.
        for sample in labelled.ids:
            target = labelled.support.targets_of([sample])[0]
            if target.is_floating_point() or list(target.shape) != positions:
                wanted = f"a map of classes {positions}" if positions else "one class"
                raise InputError(
                    f"sraal: the target of sample {sample!r} has the shape {list(target.shape)}, "
                    f"where the model predicts {wanted}: give such targets, or use 'vaal', which "
                    "asks for none"
                )
            found.append(class_shares(target, classes, ignored) if positions else target.long())
        return torch.stack(found)


_TINY = 1e-12


def object_uncertainty(probabilities: Tensor, *, unbiased: bool = False) -> Tensor:
    """Return 1 − m · v(m) / Var(p) for each prediction [N, ...], in [0, 1].

    m is the largest probability, Var the variance over the C classes, and v(m) the smallest
    variance that a prediction with that m can have: all others equal. It is 0 for one-hot
    predictions alone, at least 1 − m for all, and 1 − 1/C for uniform ones, where both variances
    vanish and their ratio is taken as 1.

    Args:
        probabilities: Of each class, at each position [N, C, ...].
        unbiased: Whether the variance is divided by C − 1 while the smallest is divided by C, as
            in the published code: a one-hot prediction then has 1/C and not 0.
    """
    p = probabilities.double()
    classes = p.shape[1]
    largest = p.max(1).values
    even = 1 / classes
    rest = (1 - largest) / (classes - 1)
    smallest = ((even - largest) ** 2 + (classes - 1) * (even - rest) ** 2) / classes
    variance = p.var(1, correction=1 if unbiased else 0)
    flat = variance <= _TINY
    ratio = torch.where(flat, 1.0, smallest / variance.clamp_min(_TINY))
    # Rounding alone can take it out of its range.
    return (1 - largest * ratio).clamp(0, 1)
