"""Probes as the training of a model: of one that is a linear layer, and of another's last one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steepest.data.base import Images
from steepest.data.sealed import Labels
from steepest.errors import InputError, ModelError
from steepest.modules.features import extract_features, find_penultimate
from steepest.training.augment import normalise
from steepest.training.evaluate import predict_logits
from steepest.training.probes.fit import fit_probe
from steepest.training.probes.probe import Probe


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
    put_into(head, probe)
    report = probe.report
    return float("nan") if report is None else report.loss


def begin_from_probe(
    model: nn.Module,
    images: Images,
    labels: Labels,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    seed: int,
    device: torch.device,
) -> None:
    """Give a net's last layer the weights of a probe on what the net makes of images.

    From there its training disturbs the other layers little: a head of random weights would send
    large gradients into layers that know much already.

    Args:
        model: Ends in one linear layer; its mode stays.
        images: uint8 or float32 [N, C, ...], in memory or on disk.
        labels: Classes [N].
        mean: Per channel, of bytes on the 0..1 scale [C].
        std: Per channel, on the same scale [C].
        seed: Of the folds that decide how much is regularised.
        device: The device.

    Raises:
        ModelError: If the model ends in another kind of layer.
        InputError: If labels are of another kind, or all of one class.
    """
    if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.ndim != 1:
        raise InputError(
            "fine-tuning learns one class for each sample: set training.method=scratch"
        )
    few = normalise(torch.as_tensor(images[torch.arange(min(2, len(images)))]), mean, std)
    name = find_penultimate(model.to(device), few.to(device))
    head = model.get_submodule(name)
    if not isinstance(head, nn.Linear) or head.bias is None:
        raise ModelError(
            f"fine-tuning begins with a linear layer that has a bias, and the model ends in "
            f"{head}: set training.method=scratch"
        )
    rows = predict_logits(_Features(model, name), images, mean=mean, std=std, device=device)
    put_into(head, fit_probe(rows, labels, head.out_features, seed=seed))


def put_into(head: nn.Linear, probe: Probe) -> None:
    """Make a layer with a bias give the probe's logits for features as they are.

    Centring and scaling become part of the layer.
    """
    weight = probe.head.weight.double() / probe.scale.double()
    bias = probe.head.bias.double() - weight @ probe.mean.double()
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)


class _Features(nn.Module):
    """Inputs of a model's last layer [N, D]."""

    def __init__(self, model: nn.Module, head: str) -> None:
        super().__init__()
        self.model, self.head = model, head

    def forward(self, x: Tensor) -> Tensor:
        return extract_features(self.model, x, penultimate=self.head).penultimate


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
