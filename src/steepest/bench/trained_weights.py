"""Weights and statistics as a trained model has them: none of them zero, one or equal."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steepest.core.seeds import generator


def settle(model: nn.Module, inputs: Tensor, seed: int) -> None:
    """Spread constant parameters, and take running statistics from a few samples.

    A fresh norm layer scales by one and shifts by zero, and some models begin with a head of
    zeros: then gradients vanish, or a wrong formula goes unseen. The model ends in eval mode.

    Args:
        model: Changed in place.
        inputs: A few samples [N, ...], at least 2.
        seed: Decides the values.
    """
    draws = generator(seed, "bench", "settle")
    for parameter in model.parameters():
        values = parameter.detach()
        if parameter.requires_grad and bool((values == values.reshape(-1)[0]).all()):
            spread = 0.1 if values.ndim < 2 else 0.02
            values += spread * torch.randn(values.shape, generator=draws)
    model.eval()
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]  # noqa: SLF001
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.reset_running_stats()
        norm.momentum = None  # The plain mean over all that is seen.
    if norms:
        with torch.no_grad():
            model(inputs)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()
