"""Features of a model: the input of its head and the maps of its blocks.

A model may say where they are, as ours do, by two attributes with names of layers:

* ``head_layers`` make logits out of features: the *input* of the first is the feature.
* ``block_layers``: their *outputs* are the maps.

For other models the head is found, or named in the call. ``forward`` returns what it always does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from steepest.core.wording import suggest
from steepest.errors import InputError, ModelError
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.head import declared_layers, find_penultimate
from steepest.modules.preserve import plain_attention, removing

__all__ = ["Features", "extract_features", "find_penultimate"]


@dataclass(frozen=True, eq=False)
class Features:
    """Outputs of one forward pass over N samples.

    Attributes:
        logits: [N, C], or [N, C, ...] for dense outputs.
        penultimate: The input of the head [N, D]; where that is a map, the mean over its positions,
            and where it is a sequence, over those that reach the logits: padding does not.
        maps: The outputs of the blocks, each [N, C, ...]; empty unless asked for.
    """

    logits: Tensor
    penultimate: Tensor
    maps: tuple[Tensor, ...] = ()


def extract_features(
    model: nn.Module,
    inputs: Inputs,
    *,
    maps: bool = False,
    detach: bool = True,
    penultimate: str | None = None,
    blocks: Sequence[str] | None = None,
) -> Features:
    """Run a model once in its current mode, and keep intermediate results.

    Args:
        model: Any module that returns logits, or carries them in its output.
        inputs: N samples.
        maps: Whether to keep the maps of the blocks.
        detach: Whether to leave out the graph. If False, gradients flow through everything that
            is returned, as far as they are enabled.
        penultimate: The layer whose input is the feature, such as ``"classifier.6"``. By default
            it is found; for a model without ``head_layers`` that takes a pass of two samples, so
            for many batches call ``find_penultimate`` once.
        blocks: The layers whose outputs are the maps; by default the model's ``block_layers``.

    Raises:
        InputError: If the model has no layer of that name.
        ModelError: If it is not clear what the feature or the maps are; says the remedy.
    """
    # A compiled program would pass over hooks that are added after it was made.
    model = getattr(model, "_orig_mod", model)
    rows = batches.count(inputs)
    head = find_penultimate(model, inputs) if penultimate is None else penultimate
    wanted = _choose_blocks(model, blocks) if maps else ()
    layers = {name: _get_layer(model, name) for name in (head, *wanted)}
    read, made = _Watch("reads"), _Watch("makes")
    with torch.no_grad() if detach else nullcontext():
        with (
            _watching(layers, head, wanted, read, made),
            _reaching(layers[head], detach=detach) as reach,
            plain_attention(),
        ):
            logits = batches.logits_of(batches.call(model, inputs))
        feature = _mean_over_positions(layers[head], read.take(head, rows), reach(logits))
    found = (logits, feature, *(made.take(name, rows) for name in wanted))
    kept = [tensor.detach() for tensor in found] if detach else found
    return Features(kept[0], kept[1], tuple(kept[2:]))


class _Watch:
    """Tensors that layers read or make during one pass, by layer."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._seen: dict[str, list[tuple[Tensor | None, int]]] = {}

    def note(self, name: str, values: object) -> None:
        tensors = (x for x in pytree.tree_leaves(values) if isinstance(x, Tensor))
        tensor = next(tensors, None)
        version = 0
        if tensor is not None and tensor.is_inference():
            # Such tensors do not count their changes, so only a copy is safe.
            tensor = tensor.clone()
        elif tensor is not None:
            version = tensor._version  # noqa: SLF001 - nothing else reveals changes
        self._seen.setdefault(name, []).append((tensor, version))

    def take(self, name: str, rows: int) -> Tensor:
        calls = self._seen.get(name, [])
        if len(calls) != 1:
            raise ModelError(
                f"the layer {name!r} ran {len(calls)} times in one pass: name one that runs once"
            )
        tensor, version = calls[0]
        if tensor is None or tensor.ndim < 2 or len(tensor) != rows:
            shape = "no tensor" if tensor is None else list(tensor.shape)
            raise ModelError(
                f"the layer {name!r} {self._verb} {shape}, not a row for each of the {rows} "
                "samples: name another one"
            )
        if not tensor.is_inference() and tensor._version != version:  # noqa: SLF001
            raise ModelError(
                f"what the layer {name!r} {self._verb} is changed in place behind it: name the "
                "layer that does so, or set its inplace=False"
            )
        return tensor


@contextmanager
def _watching(
    layers: Mapping[str, nn.Module], head: str, blocks: Sequence[str], read: _Watch, made: _Watch
) -> Iterator[None]:
    def note_inputs(_: nn.Module, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        read.note(head, (args, kwargs))

    def note_output_of(name: str) -> Any:  # noqa: ANN401 - a hook
        return lambda _module, _args, output: made.note(name, output)

    handles = [layers[head].register_forward_pre_hook(note_inputs, with_kwargs=True)]
    handles += [layers[name].register_forward_hook(note_output_of(name)) for name in blocks]
    with removing(handles):
        yield


@contextmanager
def _reaching(layer: nn.Module, *, detach: bool) -> Iterator[Callable[[Tensor], Tensor | None]]:
    """Yield a function that says which positions of a sequence reach the logits.

    Some models make logits of every token and keep those of a sample's last, or their mean without
    the padding. What was kept is seen by the gradient, for which the few steps behind the layer
    alone are recorded.
    """
    made: list[Tensor] = []

    def begin_graph(_: nn.Module, __: object, output: object) -> Tensor | None:
        if not isinstance(output, Tensor) or output.ndim < 3:
            return None
        torch.set_grad_enabled(True)  # Until the pass is over, which is without gradients.
        made.append(output.detach().requires_grad_())
        return made[-1].clone()  # Which may be changed in place.

    def reach(logits: Tensor) -> Tensor | None:
        if len(made) != 1 or logits.ndim != 2 or not logits.requires_grad:
            return None
        # Unequal weights, since probabilities add up to what nothing changes.
        weights = torch.arange(1, logits.shape[1] + 1).to(logits)
        total = (logits * weights).sum()
        (slope,) = torch.autograd.grad(total, made, allow_unused=True, materialize_grads=True)
        return (slope != 0).any(-1)

    # Where a graph is wanted, what is recorded must stay as it is; and convolutions read no tokens.
    handles = (
        [layer.register_forward_hook(begin_graph)]
        if detach and isinstance(layer, nn.Linear)
        else []
    )
    with removing(handles):
        yield reach


def _mean_over_positions(layer: nn.Module, feature: Tensor, reach: Tensor | None) -> Tensor:
    if reach is not None and not bool(reach.all()):
        found = reach | ~reach.flatten(1).any(1).view(-1, *[1] * (reach.ndim - 1))
        kept = torch.where(found[..., None], feature, 0).flatten(1, -2).sum(1)
        return kept / found.flatten(1).sum(1, keepdim=True)
    # A linear layer has its features last, all others have them behind the samples.
    if isinstance(layer, nn.Linear):
        feature = feature.movedim(-1, 1)
    return feature.flatten(2).mean(2) if feature.ndim > 2 else feature


def _choose_blocks(model: nn.Module, blocks: Sequence[str] | None) -> tuple[str, ...]:
    if blocks is not None:
        return (blocks,) if isinstance(blocks, str) else tuple(blocks)
    declared = declared_layers(model, "block_layers")
    if not declared:
        raise ModelError(
            f"{type(model).__name__} does not say which blocks make its maps: give it an attribute "
            "block_layers with the names of layers whose outputs they are, such as ('layer1', "
            "'layer2'), or give blocks= to extract_features"
        )
    return declared


def _get_layer(model: nn.Module, name: str) -> nn.Module:
    known: dict[str, nn.Module] = dict(model.named_modules(remove_duplicate=False))
    if name not in known:
        said = [suggest(name, known), "model.named_modules() lists all"]
        raise InputError(f"the model has no layer {name!r}: {' '.join(filter(None, said))}")
    return known[name]
