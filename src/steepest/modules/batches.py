"""Batches that models take, and the logits they return."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.memory import is_out_of_memory
from steepest.core.seeds import SampleId
from steepest.errors import InputError, ModelError, NonFiniteError, SteepestError, in_one_line
from steepest.modules.gradient_strides import plain_strides

Inputs = Tensor | Sequence[Tensor] | Mapping[str, Tensor]
"""One batch: a tensor, several positional tensors, or keyword tensors; samples first [N, ...]."""


_OF_TOKENS = ("TokenClassifier", "CausalLM", "MaskedLM", "Seq2SeqLM")
"""Outputs of Hugging Face that carry logits [N, L, C], whose positions would pass for classes."""


def call(
    model: nn.Module,
    inputs: Inputs,
    *,
    copied: bool = True,
    mode: AbstractContextManager[object] | None = None,
) -> Any:  # noqa: ANN401 - a model returns what it likes
    """Run the model on one batch.

    Args:
        model: Any module.
        inputs: N samples.
        copied: Whether to give it a copy: a model may write into what it is given.
        mode: Looks on, and keeps the strides of gradients plain itself; that alone by default.

    Raises:
        ModelError: If the model fails; says on what. Lack of memory is passed on as it is.
    """
    try:
        with plain_strides(tensors_of(inputs)[0]) if mode is None else mode:
            given = cloned(inputs) if copied else inputs
            if isinstance(given, Tensor):
                return model(given)
            if isinstance(given, Mapping):
                return model(**given)
            return model(*given)
    except SteepestError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        samples, shapes = count(inputs), ", ".join(map(_describe, tensors_of(inputs)))
        remedy = "give it what it was trained on"
        if type(model).forward is nn.Module.forward:
            remedy = "give it a forward that returns the logits, or the module within that does"
        failed = ModelError(
            f"the model failed on inputs {shapes}, N = {samples} ({in_one_line(error)}): {remedy}"
        )
        failed.samples = samples
        raise failed from error


def _describe(tensor: Tensor) -> str:
    shape = ", ".join(["N", *map(str, tensor.shape[1:])])
    return f"[{shape}] {tensor.dtype}"


def tensors_of(inputs: Inputs) -> list[Tensor]:
    """Return the tensors of a batch.

    Raises:
        InputError: If something in it is not a tensor, or the tensors disagree on N.
    """
    names: list[str] = []
    if isinstance(inputs, Tensor):
        found: list[Any] = [inputs]
    elif isinstance(inputs, Mapping):
        names, found = list(inputs), list(inputs.values())
    elif isinstance(inputs, Sequence):
        found = list(inputs)
    else:
        found = [inputs]
    for place, item in enumerate(found):
        if not isinstance(item, Tensor) or item.ndim == 0:
            where = f" in {names[place]!r}" if names else ""
            raise InputError(
                "inputs must be a tensor, or a tuple or dict of tensors, with the samples along "
                f"the first dimension; found {type(item).__name__}{where}{_say_instead(item)}"
            )
        if item.layout != torch.strided or item.is_nested:
            raise InputError("inputs must be dense tensors: call .to_dense() or pad them first")
    sizes = [t.shape[0] for t in found]
    if not found or sizes.count(sizes[0]) != len(sizes):
        raise InputError(
            f"all inputs must hold the same number of samples; found {sizes}{_say_expand(found)}"
        )
    return found


def _say_instead(item: object) -> str:
    """Return the remedy for something other than a tensor of samples, as the end of a message."""
    if item is None:
        return ": leave it out"
    if isinstance(item, (bool, int, float, str)) or (isinstance(item, Tensor) and not item.ndim):
        return ": what is the same for all samples belongs into a module that calls the model"
    if hasattr(item, "edge_index"):
        return (
            ": give the tensors of the graphs padded to one size, a graph in each row, and a "
            "module that makes its batch of them"
        )
    return ""


def _say_expand(found: Sequence[Tensor]) -> str:
    """Return the remedy for one row that is meant for all samples, as the end of a message."""
    sizes = sorted({t.shape[0] for t in found})
    if len(sizes) != 2 or sizes[0] != 1:
        return ""
    return f": repeat what is the same for all, as by .expand({sizes[1]}, …)"


def tensors_in(values: Any) -> list[Tensor]:  # noqa: ANN401 - any nest of arguments
    """Return the tensors in a nest of values; bounds of slices count."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = values.values()
    elif isinstance(values, slice):
        values = (values.start, values.stop, values.step)
    elif not isinstance(values, list | tuple):
        return []
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple | dict | slice):
            found.extend(tensors_in(value))
    return found


def count(inputs: Inputs) -> int:
    """Return the number of samples N."""
    return tensors_of(inputs)[0].shape[0]


def each(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """Return the batch with every tensor changed, in the same form."""
    if isinstance(inputs, Tensor):
        return change(inputs)
    if isinstance(inputs, Mapping):
        return {name: change(tensor) for name, tensor in inputs.items()}
    return tuple(change(tensor) for tensor in inputs)


def take(inputs: Inputs, rows: slice | Tensor) -> Inputs:
    """Return some of the samples of a batch."""
    return each(inputs, lambda tensor: tensor[rows])


def move(inputs: Inputs, device: torch.device, dtype: torch.dtype) -> Inputs:
    """Return the batch on a device, numbers with a fraction in the model's precision."""
    return each(inputs, lambda t: t.to(device, dtype if t.is_floating_point() else None))


def detached(inputs: Inputs) -> Inputs:
    """Return the batch cut off from any graph it came from, and fit for a new one."""
    return each(inputs, cut_off)


def cloned(inputs: Inputs) -> Inputs:
    """Return a copy of the batch."""
    return each(inputs, torch.clone)


def cut_off(tensor: Tensor) -> Tensor:
    """Return a tensor cut off from any graph it came from, and fit for a new one."""
    if not torch.is_inference_mode_enabled() and not tensor.is_inference():
        return tensor.detach()
    with torch.inference_mode(mode=False):
        return tensor.clone() if tensor.is_inference() else tensor.detach()


def are_finite(inputs: Inputs) -> Tensor:
    """Return whether no input holds NaN or infinity, as a tensor that need not be waited for."""
    found = [torch.isfinite(t).all() for t in tensors_of(inputs) if t.is_floating_point()]
    return torch.stack(found).all() if found else torch.ones((), dtype=torch.bool)


def is_finite(tensor: Tensor) -> bool:
    """Say whether a tensor holds neither NaN nor infinity."""
    # A finite sum has no other terms, and is quicker to have than a mask.
    return math.isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all())


def check_finite(inputs: Inputs, names: Sequence[SampleId] | None = None) -> None:
    """Raise if a floating-point input holds NaN or infinity.

    Args:
        inputs: N samples.
        names: Their names in errors [N]; by default their position in the batch.

    Raises:
        NonFiniteError: Names the first sample concerned, and the input where there are several.
    """
    tensors = tensors_of(inputs)
    keys: list[Any] = list(inputs) if isinstance(inputs, Mapping) else list(range(len(tensors)))
    for key, tensor in zip(keys, tensors, strict=True):
        if tensor.is_floating_point() and not is_finite(tensor):
            bad = ~torch.isfinite(tensor).reshape(len(tensor), -1).all(1)
            row = int(bad.nonzero()[0])
            name = row if names is None else names[row]
            kind = "NaN" if bool(torch.isnan(tensor[row]).any()) else "infinity"
            where = "the inputs hold" if len(tensors) == 1 else f"the input {key!r} holds"
            remedy = "clean such samples or leave them out"
            if kind == "infinity" and not bool((tensor == torch.inf).any()):
                remedy += "; if it is a mask for attention, make it one of bools"
            raise NonFiniteError(f"{where} {kind}: sample {name!r} holds {kind} first; {remedy}")


def logits_of(outputs: Any) -> Tensor:  # noqa: ANN401
    """Return the logits [N, C, ...] that a model's output is or carries.

    Raises:
        ModelError: If there are none.
    """
    logits = outputs
    if not isinstance(outputs, Tensor):
        _refuse_boxes(outputs)
        mapped = isinstance(outputs, Mapping)
        # torchvision's nets for segmentation put them under "out".
        found = outputs.get("logits", outputs.get("out")) if mapped else None
        logits = found if mapped else getattr(outputs, "logits", None)
    if not isinstance(logits, Tensor):
        raise ModelError(
            f"the model returned {type(outputs).__name__}, which is neither a tensor nor carries "
            "'logits' or 'out': wrap it in a module that returns its logits"
        )
    if logits.ndim < 2 or logits.shape[1] < 2:
        shape = ", ".join(["N", *map(str, logits.shape[1:])])
        pair = "torch.cat" if logits.ndim > 1 else "torch.stack"
        raise ModelError(
            f"the model's logits have shape [{shape}], but [N, C, ...] with at least two classes C "
            "is needed: for a logit z that says yes or no return "
            f"{pair}([torch.zeros_like(z), z], 1)"
        )
    return logits


def check_classes_second(outputs: Any) -> None:  # noqa: ANN401
    """Refuse logits that are known to have their classes last.

    Raises:
        ModelError: Says the remedy.
    """
    if isinstance(outputs, Tensor):
        return  # It has no name that would tell.
    kind = type(outputs).__name__
    if any(word in kind for word in _OF_TOKENS) and outputs.logits.ndim == 3:
        raise ModelError(
            f"the model returned {kind} with logits {list(outputs.logits.shape)}, classes last, "
            "where [N, C, ...] is needed: wrap it in a module that returns logits.transpose(1, 2)"
        )


def _refuse_boxes(outputs: Any) -> None:  # noqa: ANN401
    """Refuse a detector, whose logits are those of boxes and would be taken for label maps."""
    found = outputs[0] if isinstance(outputs, (list, tuple)) and outputs else outputs
    for name in ("boxes", "pred_boxes"):
        if name in found if isinstance(found, Mapping) else hasattr(found, name):
            raise ModelError(
                f"the model returns {name}: object detection is not supported; wrap it in a module "
                "that returns one row of logits [N, C] for each image"
            )
