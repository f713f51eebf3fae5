"""Trains a model that is one linear layer as a probe, in place of epochs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steepest.data.base import Images
from steepest.data.sealed import Labels
from steepest.errors import InputError, ModelError
from steepest.training.augment import normalise
from steepest.training.probes.fit import fit_probe


def learn_head(
    model: nn.Module,
    images: Images,
    labels: Labels,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    seed: int,
) -> float:
    """Give a model that is one linear layer the weights of a probe.

    Args:
        model: Its first weights do not count.
        images: Features float32 [N, D].
        labels: Classes [N].
        mean: Per feature [D].
        std: Per feature [D].
        seed: Of the folds that decide how much is regularised.

    Returns:
        The mean loss on held-out labels.

    Raises:
        ModelError: If the model is more than one linear layer.
        InputError: If these are no features, or labels of another kind.
    """
    head = find_only_layer(model)
    if not isinstance(images, Tensor) or images.ndim != 2:
        raise InputError(
            f"a probe learns from features [N, D], not from {list(images.shape)}: set "
            "data.backbone=efficientnet-lite0, or training.method=scratch"
        )
    if not isinstance(labels, Tensor) or labels.dtype != torch.int64:
        raise InputError("a probe learns one class for each sample: set training.method=scratch")
    probe = fit_probe(normalise(images, mean, std), labels, head.out_features, seed=seed)
    # Centring and scaling become part of the layer: features stay as they are.
    weight = probe.head.weight.double() / probe.scale.double()
    bias = probe.head.bias.double() - weight @ probe.mean.double()
    with torch.no_grad():
        head.weight.copy_(weight)
        if head.bias is not None:
            head.bias.copy_(bias)
    report = probe.report
    return float("nan") if report is None else report.loss


def find_only_layer(model: nn.Module) -> nn.Linear:
    """Return the linear layer that is all of a model.

    Raises:
        ModelError: If it is more than that, or has no bias.
    """
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    known = sum(p.numel() for layer in layers for p in layer.parameters())
    if len(layers) != 1 or known != sum(p.numel() for p in model.parameters()):
        raise ModelError(
            "a probe is one linear layer on features, and the model is more than that: set "
            "model.name=linear, or training.method=scratch"
        )
    if layers[0].bias is None:
        raise ModelError("a probe has a bias, and the model's linear layer has none")
    return layers[0]
