"""Runs a model as a function of its parameters, in full precision, and leaves it unchanged."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from steepest.core.memory import is_out_of_memory
from steepest.errors import InputError, ModelError, SteepestError, first_line
from steepest.gradnorm.watch.cudnn import CudnnUse
from steepest.influence.vectors import Vector
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.checks import check_mode
from steepest.modules.precision import computing_in
from steepest.modules.preserve import attributes_restored, evaluating

T = TypeVar("T")

BATCH_SIZE = 256
"""Samples in flight by default; fewer where memory runs out."""


@contextmanager
def measuring(model: nn.Module) -> Iterator[None]:
    """Make a model ready to be differentiated: eval mode, single precision without TF32.

    Fused attention knows fewer derivatives than the plain formula, so that is used instead.
    """
    device = next(model.parameters()).device
    _load_forward_mode()
    fused = torch.backends.mha.get_fastpath_enabled()
    plain_autograd = (torch.inference_mode(mode=False), torch.enable_grad())
    layers = list(model.modules())
    with (
        evaluating(model), attributes_restored(layers), computing_in("fp32", device),
        CudnnUse(layers).differentiable(),
    ):  # fmt: skip
        check_mode(dict(model.named_modules()))
        for parameter in model.parameters():
            # Those that are differentiated are put in their place; no graph grows at the others.
            parameter.requires_grad_(False)
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            with plain_autograd[0], plain_autograd[1], sdpa_kernel(SDPBackend.MATH):
                yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fused)


def _load_forward_mode() -> None:
    """Load torch's forward derivatives: doing so warns of what is torch's own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import_module("torch._decomp.decompositions_for_jvp")


def logits_at(model: nn.Module, parameters: Vector, inputs: Inputs) -> Tensor:
    """Return the logits [N, C, ...] that a model would give with other parameters."""
    if isinstance(inputs, Tensor):
        return batches.logits_of(functional_call(model, parameters, (inputs,)))
    if isinstance(inputs, Mapping):
        return batches.logits_of(functional_call(model, parameters, (), dict(inputs)))
    return batches.logits_of(functional_call(model, parameters, tuple(inputs)))


def plain(model: nn.Module) -> nn.Module:
    """Return the module, or the original of a compiled one.

    Raises:
        InputError: If it is no module.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"the model must be a torch.nn.Module, not {type(model).__name__}")
    found: nn.Module = getattr(model, "_orig_mod", model)
    return found


def explained(
    compute: Callable[[], T],
    *,
    unless: type[Exception] | tuple[type[Exception], ...] = (),
) -> T:
    """Compute, and describe errors in one line.

    Args:
        compute: Runs the model and its loss.
        unless: What is passed on as it is, besides our own errors and lack of memory.

    Raises:
        ModelError: If it fails.
    """
    try:
        return compute()
    except SteepestError:
        raise
    except Exception as error:
        if is_out_of_memory(error) or isinstance(error, unless):
            raise
        raise ModelError(
            f"the model or its loss failed ({type(error).__name__}: {_told(error)}): check "
            "inputs and targets, and leave out functions without a derivative"
        ) from error


class FirstThatWorks:
    """One computation in two ways: the better one, and one for models that do not allow it.

    Args:
        better: How the better way is called.
        other: How the other way is called.

    Attributes:
        way: The route of the last computation.
        reason: Why the better one was left; empty if it was not.
    """

    def __init__(self, better: str, other: str) -> None:
        self._better, self._other = better, other
        self.way, self.reason = better, ""

    def __call__(self, better: Callable[[], T], other: Callable[[], T]) -> T:
        """Compute; once the better way has failed, the other one is taken at once.

        Raises:
            ModelError: If both fail; says why.
        """
        if self.way == self._better:
            try:
                return explained(better, unless=RuntimeError)
            except RuntimeError as error:
                if isinstance(error, SteepestError) or is_out_of_memory(error):
                    raise
                self.way, self.reason = self._other, _told(error)
        return explained(other)

    def describe(self) -> str:
        """Return one line about the way taken; empty for the better one."""
        return "" if self.way == self._better else f"{self._other}, since {self.reason}"


def in_parts(
    compute: Callable[[Inputs, Tensor | None], T], inputs: Inputs, targets: Tensor | None
) -> Iterator[T]:
    """Compute on a batch, or on its halves where memory runs out."""
    try:
        found = compute(inputs, targets)
    except (RuntimeError, MemoryError) as error:
        total = batches.count(inputs)
        if total == 1 or not is_out_of_memory(error):
            raise
        torch.cuda.empty_cache()
        halves = slice(0, total // 2), slice(total // 2, total)
    else:
        yield found
        return
    for rows in halves:
        some = None if targets is None else targets[rows]
        yield from in_parts(compute, batches.take(inputs, rows), some)


def _told(error: BaseException) -> str:
    return first_line(error)[:160]
