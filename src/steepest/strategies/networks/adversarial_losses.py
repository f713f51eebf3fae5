"""Losses of an autoencoder and the discriminator it plays against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from steepest.strategies.networks.image_vae import Encoded, kl_divergence

KlReduction = Literal["batchmean", "sample", "sum"]
"""What the squared error per pixel is weighed against.

``"batchmean"`` is the divergence of a sample over its number of pixels and channels: both terms are
those of one bound on the likelihood. ``"sample"`` is the divergence of a sample, and ``"sum"`` that
of the whole batch: both outweigh the error by far, and the codes say nothing any more.
"""


@dataclass(frozen=True)
class AdversarialLosses:
    """The losses of the autoencoder and of the discriminator.

    A state is what the discriminator should say of a sample, between 0 and 1.

    Attributes:
        labelled_state: The state of labelled samples.
        wanted_state: What the autoencoder wants the discriminator to say of all samples.
        beta: Weight of the divergence.
        adversary: Weight of the discriminator in the autoencoder's loss.
        reconstruction: Weight of the squared error.
        classification: Weight of the classifier's loss, where there is one.
        kl_reduction: How the divergence is weighed against the error.
    """

    labelled_state: float
    wanted_state: float
    beta: float = 1.0
    adversary: float = 1.0
    reconstruction: float = 1.0
    classification: float = 0.0
    kl_reduction: KlReduction = "batchmean"

    def bound(self, images: Tensor, encoded: Encoded) -> Tensor:
        """Return the autoencoder's loss for images [B, C, ...], discriminator aside."""
        error = functional.mse_loss(_exact(encoded.made), images)
        divergence = kl_divergence(encoded.mean, encoded.log_variance)
        if self.kl_reduction == "sum":
            weighed = divergence.sum()
        elif self.kl_reduction == "sample":
            weighed = divergence.mean()
        else:
            weighed = divergence.mean() / images[0].numel()
        return self.reconstruction * error + self.beta * weighed

    def fooling(self, labelled: Tensor, unlabelled: Tensor) -> Tensor:
        """Return the autoencoder's loss for the discriminator's logits of both pools [B]."""
        said = [_against(logits, self.wanted_state) for logits in (labelled, unlabelled)]
        return self.adversary * (said[0] + said[1])

    def telling(self, labelled: Tensor, unlabelled: Tensor, states: Tensor) -> Tensor:
        """Return the discriminator's loss.

        Args:
            labelled: Logits of labelled samples [B].
            unlabelled: Logits of unlabelled samples [B].
            states: Of the unlabelled samples [B].
        """
        return _against(labelled, self.labelled_state) + _against(unlabelled, states)


def _against(logits: Tensor, states: Tensor | float) -> Tensor:
    logits = _exact(logits)
    wanted = states if isinstance(states, Tensor) else torch.full_like(logits, states)
    return functional.binary_cross_entropy_with_logits(logits, wanted)


def _exact(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()
