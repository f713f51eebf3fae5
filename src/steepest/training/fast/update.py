"""Moving the parameters by gradients in any precision, and the copies that a program reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from steepest.training.fast.kernels import runs_on

if TYPE_CHECKING:
    from steepest.training.fast.kernels.sgd import Addresses

_ALIGNED_BYTES = 16


class ParameterUpdate:
    """Takes the optimiser's step, by a kernel of our own where it is plain gradient descent.

    Args:
        optimizer: Owns the parameters; its state goes on as if it had taken the step itself.
        parameters: All of the model's.
        copies: In half precision, by the place of their parameter; kept equal to it.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        parameters: Sequence[nn.Parameter],
        copies: dict[int, Tensor],
    ) -> None:
        self._optimizer = optimizer
        self._parameters = parameters
        self._copies = copies
        self._wide: dict[int, Tensor] = {}
        self._tables: dict[object, Addresses] = {}
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """Make the copies equal to the parameters, which others have changed."""
        if self._copies:
            sources = [self._parameters[place].detach() for place in self._copies]
            torch._foreach_copy_(list(self._copies.values()), sources)

    @torch.no_grad()
    def __call__(self, gradients: Sequence[Tensor | None]) -> None:
        """Move the parameters by their gradients; those without stay."""
        found = [_laid_out(g, p) for g, p in zip(gradients, self._parameters, strict=True)]
        if self._is_own():
            self._descend(found)
        else:
            self._give(found)
            self._optimizer.step()
            self.refresh()

    def after_recording(self) -> None:
        """Tell the kernel where a recording's gradients are."""
        for table in self._tables.values():
            table.upload()

    def _is_own(self) -> bool:
        """Say whether the optimiser does nothing but what our kernel does."""
        optimizer = self._optimizer
        if type(optimizer) is not torch.optim.SGD or not runs_on(self._parameters[0].device):
            return False
        if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:  # noqa: SLF001
            return False
        places = {p: i for i, p in enumerate(self._parameters)}
        for group in optimizer.param_groups:
            odd = group["maximize"] or group["dampening"] or group["differentiable"]
            lr = group["lr"]
            if odd or not isinstance(lr, Tensor) or lr.device != self._parameters[0].device:
                return False
            for p in group["params"]:
                if p not in places or not _is_usable(p):
                    return False
        return True

    def _momentum_of(self, parameter: nn.Parameter) -> Tensor:
        """Return the optimiser's own buffer, laid out as the parameter is."""
        state = self._optimizer.state[parameter]
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = torch.zeros_like(parameter, requires_grad=False)
        elif buffer.stride() != parameter.stride():
            buffer = torch.empty_like(parameter, requires_grad=False).copy_(buffer)
        state["momentum_buffer"] = buffer
        return cast("Tensor", buffer)

    def _descend(self, gradients: Sequence[Tensor | None]) -> None:
        from steepest.training.fast.kernels.sgd import Update

        on_gpu = self._parameters[0].is_cuda
        recording = on_gpu and torch.cuda.is_current_stream_capturing()
        places = {p: i for i, p in enumerate(self._parameters)}
        for number, group in enumerate(self._optimizer.param_groups):
            update = Update(
                group["lr"], group["momentum"], group["weight_decay"], group["nesterov"]
            )
            by_type: dict[torch.dtype, list[int]] = {}
            for p in group["params"]:
                gradient = gradients[places[p]]
                if gradient is not None:
                    by_type.setdefault(gradient.dtype, []).append(places[p])
            for kind, chosen in by_type.items():
                table = self._table((number, kind, *chosen), chosen, bool(group["momentum"]))
                table.look_at([gradients[i] for i in chosen])  # type: ignore[misc]
                if not recording:
                    table.upload()
                table.launch(update)
        for p in self._parameters:
            p.grad = None

    def _table(self, key: object, places: Sequence[int], momentum: bool) -> Addresses:
        from steepest.training.fast.kernels.sgd import Addresses

        if key not in self._tables:
            parameters = [self._parameters[i] for i in places]
            momenta = [self._momentum_of(p) for p in parameters] if momentum else None
            copies = [self._copies.get(i) for i in places]
            self._tables[key] = Addresses([p.detach() for p in parameters], momenta, copies)
        return self._tables[key]

    def _give(self, gradients: Sequence[Tensor | None]) -> None:
        """Let the parameters have their gradients, in their own precision."""
        narrow, wide = [], []
        for place, (p, gradient) in enumerate(zip(self._parameters, gradients, strict=True)):
            if gradient is None or gradient.dtype == p.dtype:
                p.grad = gradient
                continue
            if place not in self._wide:
                self._wide[place] = torch.empty_like(p, requires_grad=False)
            narrow.append(gradient)
            wide.append(self._wide[place])
            p.grad = self._wide[place]
        if wide:
            torch._foreach_copy_(wide, narrow)


def _is_usable(parameter: nn.Parameter) -> bool:
    dense = bool(torch.ops.aten.is_non_overlapping_and_dense(parameter))
    return dense and parameter.dtype == torch.float32 and parameter.data_ptr() % _ALIGNED_BYTES == 0


def _laid_out(gradient: Tensor | None, parameter: nn.Parameter) -> Tensor | None:
    """Return a gradient whose numbers lie in memory in the order of the parameter's."""
    if gradient is None:
        return None
    pairs = zip(gradient.shape, gradient.stride(), parameter.stride(), strict=True)
    if all(mine == its for size, mine, its in pairs if size > 1):
        return gradient
    return torch.empty_like(parameter, dtype=gradient.dtype, requires_grad=False).copy_(gradient)
