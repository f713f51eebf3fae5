"""Opacus: per-sample gradients, and the norms of its fast ("ghost") clipping."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from steepest.bench.case import Case
from steepest.bench.contenders.base import CONTENDERS, Step
from steepest.bench.contenders.stand_ins import FrozenNorm, check_same_function, with_stand_ins
from steepest.bench.measuring import check_room


@CONTENDERS.register("opacus")
def prepare_opacus(case: Case) -> Step:
    """Make per-sample gradients by GradSampleModule ready."""
    modules = _import()
    weights = sum(p.numel() * p.element_size() for p in case.parameters)
    check_room(case.samples * weights, case.device)
    case, note = _adapt(case)
    model = modules.GradSampleModule(case.model, loss_reduction="sum")
    parameters = [p for p in model.parameters() if p.requires_grad]

    def read() -> Tensor:
        # Some parameters may be out of use; they have no gradient.
        found = [p.grad_sample for p in parameters if p.grad_sample is not None]
        norms = [torch.linalg.vector_norm(g.flatten(1), dim=1) for g in found]
        whole: Tensor = torch.linalg.vector_norm(torch.stack(norms), dim=0)
        return whole

    return Step(_runner(case, model, read), case.samples, note)


@CONTENDERS.register("opacus-ghost")
def prepare_ghost(case: Case) -> Step:
    """Make the norms of fast gradient clipping ready; no second backward pass is made."""
    modules = _import()
    case, note = _adapt(case)
    model = modules.GradSampleModuleFastGradientClipping(case.model, loss_reduction="sum")

    def read() -> Tensor:
        norms: Tensor = model.get_norm_sample()
        for parameter in model.trainable_parameters:
            del parameter._norm_sample  # noqa: SLF001 - or it would count as resting memory
        model.per_sample_gradient_norms = None
        return norms

    return Step(_runner(case, model, read), case.samples, note)


def _runner(case: Case, model: Any, read: Callable[[], Tensor]) -> Callable[[], Tensor]:  # noqa: ANN401
    def run() -> Tensor:
        with warnings.catch_warnings():
            # Its hooks warn of inputs that need no gradient, such as the images themselves.
            warnings.simplefilter("ignore")
            case.losses(model, case.inputs).sum().backward()  # type: ignore[no-untyped-call]
        norms = read()
        model.zero_grad(set_to_none=True)
        return norms

    return run


def _adapt(case: Case) -> tuple[Case, str]:
    """Return a case with a model that Opacus accepts, and the changes made for it."""
    adapted, replaced = with_stand_ins(case.model)
    check_same_function(case.model, adapted, case.inputs[:2])
    notes = [f"{replaced} by equal layers that Opacus accepts"] if replaced else []
    if any(p.requires_grad for p in adapted.parameters(recurse=False)):
        notes.append("parameters outside layers: functorch throughout")
    inputs = case.inputs
    if not inputs.is_contiguous():
        adapted.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        inputs = inputs.contiguous()
        notes.append("in contiguous layout, for with channels last its convolutions are wrong")
    return replace(case, model=adapted, inputs=inputs), "; ".join(notes)


def _import() -> Any:  # noqa: ANN401 - an optional package
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules: Any = import_module("opacus.grad_sample")
    if FrozenNorm not in modules.GradSampleModule.GRAD_SAMPLERS:
        modules.register_grad_sampler(FrozenNorm)(_sample_gradients)
    return modules


def _sample_gradients(
    layer: FrozenNorm, activations: list[Tensor], backprops: Tensor
) -> dict[nn.Parameter, Tensor]:
    """Give Opacus the gradients of a stand-in in closed form, as it has for its own layers."""
    return layer.sample_gradients(activations[0], backprops)
