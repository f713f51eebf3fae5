"""Exact per-sample gradient norms of any module: rules where there are some, a loop elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from steepest.errors import InputError, ModelError, NonFiniteError
from steepest.gradnorm import inputs as batches
from steepest.gradnorm.capture import Capture
from steepest.gradnorm.inputs import Inputs
from steepest.gradnorm.losses import RowLosses
from steepest.gradnorm.preserve import preserved
from steepest.gradnorm.probe import find_batched
from steepest.gradnorm.rules import rule_for


class Engine:
    """Squared per-sample gradient norms, tensor by tensor, for one model.

    One forward pass over the batch serves any number of losses. Parameters of layers that have a
    rule are reduced as the gradient passes; all others (layers without a rule, parameters used
    directly, layers called more than once, tied weights, layers that do not keep the samples
    first) are measured sample by sample through autograd. Nothing is left out.

    Args:
        model: Any module in eval mode; its trainable parameters count.

    Attributes:
        names: Names of the trainable parameters, in the order of the columns [P].
    """

    def __init__(self, model: nn.Module) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"the model must be a torch.nn.Module, not {type(model).__name__}")
        self.model: nn.Module = getattr(model, "_orig_mod", model)
        self._parameters = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        self.names = list(self._parameters)
        _check_mode(self.model)
        _check_weights(self._parameters)
        if not self.names:
            raise InputError("the model has no trainable parameter: set requires_grad on some")
        self._layers = _layers_with_rule(self.model, set(self._parameters.values()))
        self._batched: set[nn.Module] | None = None

    def squared_norms(self, inputs: Inputs, losses: RowLosses) -> tuple[Any, list[Tensor]]:
        """Measure one batch.

        Args:
            inputs: N samples.
            losses: Maps the model's outputs for some rows of the batch to losses, each [N].

        Returns:
            The model's outputs (detached logits or the like stay the caller's business), and for
            each loss the squared norms [N, P] in double precision.
        """
        inputs = batches.detached(inputs)
        with torch.inference_mode(mode=False), preserved(self.model), torch.enable_grad():
            outputs, found, slow = self._by_rules(inputs, losses)
            if slow:
                for squares, more in zip(found, self._by_loop(inputs, losses, slow), strict=True):
                    squares.update(more)
        total = batches.count(inputs)
        return outputs, [self._columns(squares, total) for squares in found]

    def _by_rules(
        self, inputs: Inputs, losses: RowLosses
    ) -> tuple[Any, list[dict[nn.Parameter, Tensor]], list[nn.Parameter]]:
        """Measure what the rules cover; name the parameters that they do not."""
        total = batches.count(inputs)
        slow = set(self._parameters.values()) - {
            p for own in self._layers.values() for p in own.values()
        }
        found: list[dict[nn.Parameter, Tensor]] = []
        with self._capturing() as capture:
            if self._batched is None:
                self._batched = find_batched(self.model, capture, inputs, losses)
            capture.batched = self._batched
            capture.start(total)
            outputs = batches.call(self.model, inputs)
            values = losses(outputs, slice(0, total))
            for index, value in enumerate(values):
                keep = index + 1 < len(values)
                squares, missed = self._measure(capture, value, outputs, keep=keep)
                found.append(squares)
                slow |= missed
        # A parameter that fell out for one loss is measured by the loop for all of them.
        kept = [{p: s for p, s in squares.items() if p not in slow} for squares in found]
        return outputs, kept, [p for p in self._parameters.values() if p in slow]

    def _measure(
        self,
        capture: Capture,
        value: Tensor,
        outputs: Any,  # noqa: ANN401
        *,
        keep: bool,
    ) -> tuple[dict[nn.Parameter, Tensor], set[nn.Parameter]]:
        """Send one loss back through the layers; return their squares, and who has none."""
        capture.phase = "ignore"
        scales = _scales(value, outputs)
        capture.phase, capture.squares = "measure", {}
        outside: list[Tensor | None] = []
        if value.requires_grad:
            loss = (value * scales.to(value.dtype)).sum()
            sources = capture.sources()
            found = torch.autograd.grad(loss, sources, retain_graph=keep, allow_unused=True)
            outside = list(found)
        squares, missed = self._sort_out(capture, outside)
        return {p: q.double() / scales.square() for p, q in squares.items()}, missed

    def _sort_out(
        self, capture: Capture, outside: list[Tensor | None]
    ) -> tuple[dict[nn.Parameter, Tensor], set[nn.Parameter]]:
        """Separate what the rules measured from what they cannot speak for."""
        grads = {id(s): g for s, g in zip(capture.sources(), outside, strict=False)}
        squares: dict[nn.Parameter, Tensor] = {}
        missed: set[nn.Parameter] = set()
        for layer, own in self._layers.items():
            calls = capture.calls[layer]
            covered = calls == 0 or (
                calls == 1 and layer in capture.batched and layer not in capture.spoilt
            )
            for name, parameter in own.items():
                if not covered or grads.get(id(parameter)) is not None:
                    missed.add(parameter)
                elif layer in capture.squares:
                    squares[parameter] = capture.squares[layer][name]
        return squares, missed

    def _by_loop(
        self, inputs: Inputs, losses: RowLosses, slow: list[nn.Parameter]
    ) -> list[dict[nn.Parameter, Tensor]]:
        """Measure some parameters one sample at a time, through autograd alone."""
        self._require_grad(slow)
        rows: list[list[Tensor]] = []
        for i in range(batches.count(inputs)):
            here = slice(i, i + 1)
            values = losses(batches.call(self.model, batches.take(inputs, here)), here)
            last = len(values) - 1
            try:
                rows.append([_squares_of(v, slow, keep=j < last) for j, v in enumerate(values)])
            except RuntimeError as error:
                raise self._explained(error, slow) from error
        stacked = [torch.stack(column) for column in zip(*rows, strict=True)]
        return [{p: table[:, j] for j, p in enumerate(slow)} for table in stacked]

    def _explained(self, error: RuntimeError, slow: list[nn.Parameter]) -> Exception:
        """Say which layer's values were overwritten, if that is what went wrong."""
        if "inplace operation" not in str(error):
            return error
        paths = [name for name, p in self._parameters.items() if p in set(slow)]
        return ModelError(
            f"the model overwrites in place what the gradient of {', '.join(paths[:3])} needs: "
            "use the out-of-place form of that operation"
        )

    @property
    def dtype(self) -> torch.dtype:
        """The precision that results are given in: that of the parameters."""
        first = next(iter(self._parameters.values())).dtype
        return first.to_real() if first.is_complex else first

    @contextmanager
    def _capturing(self) -> Iterator[Capture]:
        self._require_grad([p for own in self._layers.values() for p in own.values()])
        with Capture(self._layers) as capture:
            yield capture

    def _require_grad(self, wanted: list[nn.Parameter]) -> None:
        for parameter in self._parameters.values():
            parameter.requires_grad_(False)
        for parameter in wanted:
            parameter.requires_grad_(True)

    def _columns(self, squares: dict[nn.Parameter, Tensor], total: int) -> Tensor:
        first = next(iter(self._parameters.values()))
        zero = torch.zeros(total, dtype=torch.float64, device=first.device)
        table = [squares[p].double() if p in squares else zero for p in self._parameters.values()]
        return torch.stack([column.to(first.device) for column in table], dim=1)


def _scales(values: Tensor, outputs: Any) -> Tensor:  # noqa: ANN401
    """Return powers of two [N] that bring each sample's gradient to a size around one.

    The squares of a sure sample's gradient would otherwise vanish in single precision. Scaling by
    a power of two is exact, and is undone afterwards.
    """
    ones = torch.ones(len(values), dtype=torch.float64, device=values.device)
    try:
        logits = batches.logits_of(outputs)
    except ModelError:
        return ones
    if not values.requires_grad or not logits.requires_grad:
        return ones
    (found,) = torch.autograd.grad(values.sum(), logits, retain_graph=True, allow_unused=True)
    gradient: Tensor | None = found
    if gradient is None:
        return ones
    size = gradient.reshape(len(gradient), -1).abs().amax(1).double()
    exponents = torch.where(size > 0, size.clamp_min(1e-300).log2().floor(), 0)
    return torch.exp2(-exponents.clamp(-120, 120)).to(values.device)


def _squares_of(loss: Tensor, parameters: list[nn.Parameter], *, keep: bool) -> Tensor:
    """Return the squared gradient norms [P] of one sample's loss."""
    if not loss.requires_grad:
        return torch.zeros(len(parameters), dtype=torch.float64, device=loss.device)
    grads = torch.autograd.grad(loss.sum(), parameters, retain_graph=keep, allow_unused=True)
    zero = torch.zeros((), dtype=torch.float64, device=loss.device)
    found: Sequence[Tensor | None] = grads
    squares = [zero if g is None else g.to_dense().abs().double().square().sum() for g in found]
    return torch.stack([s.to(loss.device) for s in squares])


def _layers_with_rule(
    model: nn.Module, trainable: set[nn.Parameter]
) -> dict[nn.Module, dict[str, nn.Parameter]]:
    """Return the layers whose own trainable parameters a rule can measure.

    A parameter that belongs to several layers is left to the loop: its gradient is a sum over
    them, and the square has cross terms.
    """
    owned = [(m, dict(m.named_parameters(recurse=False))) for m in model.modules()]
    owners = Counter(p for _, own in owned for p in own.values())
    layers: dict[nn.Module, dict[str, nn.Parameter]] = {}
    for layer, own in owned:
        counted = {n: p for n, p in own.items() if p in trainable and owners[p] == 1}
        if counted and rule_for(layer) is not None:
            layers[layer] = counted
    return layers


def _check_mode(model: nn.Module) -> None:
    for path, module in model.named_modules():
        where = f"layer {path!r} ({type(module).__name__})" if path else "the model"
        if module.training:
            raise ModelError(f"{where} is in training mode: call model.eval() first")
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:  # noqa: SLF001
            raise ModelError(
                f"{where} normalises by batch statistics even in eval mode, so a per-sample "
                "gradient is not defined: build it with track_running_stats=True"
            )


def _check_weights(parameters: dict[str, nn.Parameter]) -> None:
    for name, parameter in parameters.items():
        if nn.parameter.is_lazy(parameter):
            raise ModelError(f"the weight {name!r} has no shape yet: run the model once first")
        if not bool(torch.isfinite(parameter.detach()).all()):
            raise NonFiniteError(
                f"the weight {name!r} holds NaN or infinity: train again or load other weights"
            )
