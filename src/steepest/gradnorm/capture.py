"""Watch the layers that have a rule, and reduce each the moment its gradient arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from steepest.gradnorm.rules import Squares, rule_for

Phase = Literal["forward", "ignore", "rows", "measure"]
"""What a gradient that arrives is for: nothing that we asked for, or one of two things."""


class Capture:
    """Hooks on the layers with a rule, for the length of a ``with`` block.

    While a watched layer runs, its parameters do not require grad, so the graph holds
    activations only and no weight gradient of the batch is ever built. Everywhere else they do:
    if one of them receives a gradient from autograd itself, it was used outside its layer.

    Args:
        layers: The layers to watch, with the names of the parameters that count.
    """

    def __init__(self, layers: Mapping[nn.Module, Mapping[str, nn.Parameter]]) -> None:
        self._layers = layers
        self._rules = {layer: rule_for(layer) for layer in layers}
        self._handles: list[RemovableHandle] = []
        self._anchors: dict[tuple[torch.dtype, torch.device], Tensor] = {}
        self._samples = 0
        self.phase: Phase = "forward"
        self.batched: set[nn.Module] = set(layers)
        self.calls: Counter[nn.Module] = Counter()
        self.squares: dict[nn.Module, Squares] = {}
        self.row_squares: dict[nn.Module, Tensor] = {}
        self.spoilt: set[nn.Module] = set()

    def __enter__(self) -> Self:
        for layer in self._layers:
            self._handles.append(layer.register_forward_pre_hook(self._before))
            self._handles.append(layer.register_forward_hook(self._after, with_kwargs=True))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def start(self, samples: int) -> None:
        """Forget the last batch; the next one has this many samples."""
        self._samples = samples
        self.phase = "forward"
        self.calls.clear()
        self.squares = {}
        self.row_squares = {}
        self.spoilt = set()
        self._anchors.clear()

    def sources(self) -> list[Tensor]:
        """Return what a backward pass has to reach for every layer's gradient to arrive."""
        used = [p for params in self._layers.values() for p in params.values()]
        return [*self._anchors.values(), *used]

    def _before(self, layer: nn.Module, _args: Any) -> None:  # noqa: ANN401
        for parameter in self._layers[layer].values():
            parameter.requires_grad_(False)

    def _after(
        self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor
    ) -> Tensor:
        for parameter in self._layers[layer].values():
            parameter.requires_grad_(True)
        given: Tensor = args[0] if args else next(iter(kwargs.values()))
        self.calls[layer] += 1
        output = self._anchored(output)
        if any(t.shape[:1] != (self._samples,) for t in (given, output)):
            self.spoilt.add(layer)
        elif output.requires_grad and layer in self.batched:
            self._reduce_on_arrival(layer, given.detach(), output)
        return output

    def _anchored(self, output: Tensor) -> Tensor:
        """Let a graph start at this output if it has none yet."""
        if output.requires_grad or not torch.is_grad_enabled():
            return output
        key = (output.dtype, output.device)
        if key not in self._anchors:
            zero = torch.zeros((), dtype=output.dtype, device=output.device, requires_grad=True)
            self._anchors[key] = zero
        # The sum is no leaf, so that an in-place activation may follow.
        return output + self._anchors[key]

    def _reduce_on_arrival(self, layer: nn.Module, given: Tensor, output: Tensor) -> None:
        version = given._version  # noqa: SLF001 - autograd's own test for overwritten values
        rule = self._rules[layer]

        def reduce(gradient: Tensor) -> None:
            if self.phase == "ignore":
                return
            # A second call needs cross terms, an overwritten input is lost, and a model that
            # takes gradients of its own has second derivatives: all go the exact slower way.
            overwritten = given._version != version  # noqa: SLF001
            if self.phase == "forward" or self.calls[layer] != 1 or overwritten or rule is None:
                self.spoilt.add(layer)
                return
            g = gradient if gradient.dtype == torch.float64 else gradient.float()
            if self.phase == "rows":
                self.row_squares[layer] = g.reshape(len(g), -1).double().square().sum(1)
                return
            a = given.to(g.dtype) if given.is_floating_point() else given
            self.squares[layer] = rule(layer, a, g)

        output.register_hook(reduce)  # type: ignore[no-untyped-call]
