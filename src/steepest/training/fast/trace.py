"""One training step as a flat list of operators, from parameters to their gradients.

The list is made from what the model itself does, once, without computing anything. It can then be
rewritten: see ``steepest.training.fast.rewrite``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from steepest.modules.batches import logits_of
from steepest.tasks import Task
from steepest.training.fast.kernels import available


@dataclass(frozen=True)
class Trace:
    """Operators of one step.

    Attributes:
        graph: Takes parameters, buffers, images and targets, in this order; changes the buffers;
            returns the sum of the losses and the gradient of each parameter, or None for it.
        parameters: The model's parameters; those that learn nothing have no gradient.
        buffers: Its buffers.
    """

    graph: GraphModule
    parameters: tuple[nn.Parameter, ...]
    buffers: tuple[Tensor, ...]


def trace_step(
    model: nn.Module,
    task: Task,
    images: Tensor,
    targets: Tensor,
    autocast: torch.autocast,
    usable: Callable[[Tensor], bool] = available,
) -> Trace:
    """List the operators of a step on batches like this one.

    Args:
        model: In training mode, on its device.
        task: Decides the loss.
        images: [B, C, H, W], in the layout that all batches will have.
        targets: [B, ...].
        autocast: Decides the precision.
        usable: Says whether batches of activations can be normalised by our own operator.
    """
    names, parameters = zip(*model.named_parameters(), strict=True)
    named_buffers = dict(model.named_buffers())
    buffers = tuple(named_buffers.values())

    def learn(*tensors: Tensor) -> list[Tensor | None]:
        *given, x, y = tensors
        leaves = [
            tensor.detach().requires_grad_(p.requires_grad)
            for tensor, p in zip(given, parameters, strict=False)
        ]
        state = dict(zip((*names, *named_buffers), [*leaves, *given[len(leaves) :]], strict=True))
        with torch.enable_grad():
            with autocast, OwnNorms(usable):
                outputs = functional_call(model, state, (x,))
            losses = task.training_loss(logits_of(outputs).float(), y)
            learning = [leaf for leaf in leaves if leaf.requires_grad]
            found = iter(torch.autograd.grad(losses.mean(), learning, allow_unused=True))
        gradients = [next(found) if leaf.requires_grad else None for leaf in leaves]
        return [losses.detach().sum(), *gradients]

    tensors = [*(p.detach() for p in parameters), *buffers, images, targets]
    # With stand-ins for the tensors nothing is computed, and no buffer changes.
    tracer = make_fx(learn, tracing_mode="fake", _allow_non_fake_inputs=True)
    return Trace(tracer(*tensors), parameters, buffers)


class OwnNorms(TorchFunctionMode):
    """Within it, batches are normalised by our own operator, whatever module asks for it.

    Args:
        usable: The kind of activations supported.
    """

    def __init__(self, usable: Callable[[Tensor], bool]) -> None:
        super().__init__()
        self._usable = usable

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        """Call a function of torch, or ours in its place."""
        kwargs = kwargs or {}
        if func is functional.batch_norm:
            call = _NormCall(*args, **kwargs)
            if call.is_plain_training() and self._usable(call.input):
                return call.run()
        return func(*args, **kwargs)


@dataclass
class _NormCall:
    """The arguments of ``functional.batch_norm``."""

    input: Tensor
    running_mean: Tensor | None
    running_var: Tensor | None
    weight: Tensor | None = None
    bias: Tensor | None = None
    training: bool = False
    momentum: float | None = 0.1
    eps: float = 1e-5

    def is_plain_training(self) -> bool:
        """Say whether all is there that a common layer has, in single precision."""
        state = (self.running_mean, self.running_var, self.weight, self.bias)
        usual = all(t is not None and t.dtype == torch.float32 for t in state)
        several = self.input.numel() > self.input.shape[1]
        return self.training and usual and several and isinstance(self.momentum, float)

    def run(self) -> Tensor:
        state = (self.weight, self.bias, self.running_mean, self.running_var)
        result = _Normed.apply(self.input, *state, self.momentum, self.eps)  # type: ignore[no-untyped-call]
        return cast("Tensor", result)


class _Normed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, *rest: Any) -> Tensor:  # noqa: ANN401
        result, mean, inverse = torch.ops.steepest.normed(x, weight, bias, *rest, None, False)
        ctx.save_for_backward(x, mean, inverse, weight, bias)
        return cast("Tensor", result)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        (gradient,) = gradients
        x, *rest = ctx.saved_tensors
        found = torch.ops.steepest.normed_backward(gradient, None, x, None, *rest, False, False)
        return (*found[:3], None, None, None, None)
