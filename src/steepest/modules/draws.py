"""Thinned networks: a model with some of its activations dropped, the same ones for every sample.

A draw is one network. Its masks have the shape of one sample's activation and depend on the seed,
the layer's name and the number of the draw alone, so that all samples, in any batch, are seen by
the same networks. The model stays in eval mode: normalisation keeps its statistics. Dropout that is
no layer of its own, such as inside of attention, is left off.

All draws share the pass up to the first dropout where only the layers behind it have to run again.
Nothing is guessed: during one pass every layer notes what it reads and makes. If, from the first
dropout to the logits, each layer reads just what the one before it made (or a view of that), then
these layers, called in this order, are all that happens there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils import parametrize

from steepest.core.seeds import generator
from steepest.errors import ModelError
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.preserve import plain_attention, removing

_CHANNELWISE = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
_ALPHA = (nn.AlphaDropout, nn.FeatureAlphaDropout)
_NEGATIVE_LIMIT = -1.7580993408473766
"""Limit of SELU at −∞, the value that alpha dropout gives to a dropped activation."""

_LIMIT_BYTES = 1 << 27


def dropout_draws(model: nn.Module, inputs: Inputs, count: int, seed: int) -> Iterator[Tensor]:
    """Yield the logits of so many thinned networks.

    Where nothing but layers follows upon the first dropout, as in a head, what comes before it
    runs once and the rest is repeated; otherwise the whole model is run for each draw.

    Args:
        model: In eval mode; left unchanged.
        inputs: N samples.
        count: The number of networks T. More draws continue those of fewer.
        seed: Decides the masks, with the layers' names.

    Yields:
        Logits [N, C, ...], T times.

    Raises:
        ModelError: If the model has no dropout layers, or is in training mode.
    """
    # A compiled program would pass over hooks that are added after it was made.
    model = getattr(model, "_orig_mod", model)
    layers = {name: m for name, m in model.named_modules() if isinstance(m, _DropoutNd)}
    if not layers:
        raise ModelError(
            f"{type(model).__name__} has no dropout layers to draw from: {_help(model)}"
        )
    if model.training:
        raise ModelError("draws are made of a model in eval mode: call model.eval() first")
    return _draw(model, inputs, count, seed, {n: m for n, m in layers.items() if m.p > 0})


def _help(model: nn.Module) -> str:
    if type(model).__module__.startswith("steepest.models."):
        return (
            "build the model with dropout='head', such as by --model-option dropout=head of select "
            "or --set model.options.dropout=head of run"
        )
    return "give it nn.Dropout layers, or use a strategy that draws nothing, such as 'entropy'"


def _draw(
    model: nn.Module, inputs: Inputs, count: int, seed: int, layers: Mapping[str, _DropoutNd]
) -> Iterator[Tensor]:
    masks = _masks_of(model, seed)
    own = batches.detached(inputs)
    if not layers:
        yield from [_run(model, own)] * count
        return
    tail: Tail | None = None
    for draw in range(count):
        logits = None
        thinned = _Thinned(layers, batches.count(inputs), masks, draw)
        if tail is not None:
            with thinned.hooked():
                logits = tail.run()
        if logits is None:
            tail, logits = _run_whole(model, own, thinned, watched=draw == 0 and count > 1)
        yield logits


def _run_whole(
    model: nn.Module, inputs: Inputs, thinned: _Thinned, *, watched: bool
) -> tuple[Tail | None, Tensor]:
    """Run all of a thinned network.

    Returns:
        What follows upon the first dropout, if that was watched and can be repeated; the logits.
    """
    # A layer that works in place may be the first one.
    given = batches.cloned(inputs) if thinned.in_place else inputs
    watch = Watch(thinned.modules) if watched else None
    with thinned.hooked(), watching(model, watch):
        logits = _run(model, given)
    if not thinned.ran:
        raise ModelError(
            "none of the model's dropout layers runs in eval mode: call them as modules, and not "
            "by torch functions"
        )
    return None if watch is None else watch.tail(logits), logits


def _run(model: nn.Module, inputs: Inputs) -> Tensor:
    with torch.inference_mode(mode=False), torch.no_grad(), plain_attention():
        return batches.logits_of(batches.call(model, inputs)).detach()


class _Masks:
    """Dropout masks of each drawn network, computed once and cached while memory allows.

    Args:
        seed: Decides them.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._known: dict[tuple[Any, ...], Tensor] = {}
        self._bytes = 0

    def keep(
        self, layer: str, call: int, draw: int, rate: float, shape: torch.Size, device: torch.device
    ) -> Tensor:
        """Return the dropout mask of one sample's activation."""
        key = (layer, call, draw, rate, shape, device)
        mask = self._known.get(key)
        if mask is None:
            again = (call,) if call else ()
            source = generator(self.seed, "dropout", layer, draw, *again)
            uniform = torch.rand(shape, generator=source, dtype=torch.float32, device="cpu")
            mask = (uniform >= rate).to(device)
            if self._bytes + mask.numel() <= _LIMIT_BYTES:
                self._known[key] = mask
                self._bytes += mask.numel()
        return mask


_MASKS: WeakKeyDictionary[nn.Module, _Masks] = WeakKeyDictionary()
"""Masks of the last seed by model, because a pool comes in many batches."""


def _masks_of(model: nn.Module, seed: int) -> _Masks:
    masks = _MASKS.get(model)
    if masks is None or masks.seed != seed:
        masks = _MASKS[model] = _Masks(seed)
    return masks


class _Thinned:
    """One thinned network: masks by layer and by call.

    Args:
        layers: The dropout layers by name.
        rows: The number of samples in the batch.
        masks: Where masks come from.
        draw: The network.
    """

    def __init__(
        self, layers: Mapping[str, _DropoutNd], rows: int, masks: _Masks, draw: int
    ) -> None:
        self.modules = frozenset(layers.values())
        self.in_place = any(m.inplace for m in layers.values())
        self.ran = False
        self._layers = layers
        self._rows = rows
        self._masks = masks
        self._draw = draw
        self._calls: Counter[str] = Counter()

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Let the model's dropout layers drop what this network lacks."""
        self._calls.clear()
        handles = [
            module.register_forward_hook(self._hook(name), with_kwargs=True)
            for name, module in self._layers.items()
        ]
        with removing(handles):
            yield

    def _hook(self, name: str) -> Any:  # noqa: ANN401
        def drop(module: _DropoutNd, args: Any, kwargs: Any, _output: object) -> Tensor:  # noqa: ANN401
            # What the layer reads, not what it returns: it may drop activations by itself.
            x: Tensor = args[0] if args else next(iter(kwargs.values()))
            dropped = self._drop(name, module, x)
            return x.copy_(dropped) if module.inplace else dropped

        return drop

    def _drop(self, name: str, module: _DropoutNd, x: Tensor) -> Tensor:
        if x.ndim == 0 or len(x) != self._rows:
            raise ModelError(
                f"the dropout layer {name!r} reads {list(x.shape)}, not a row for each of the "
                f"{self._rows} samples: place it where samples come first"
            )
        self.ran = True
        shape = x.shape[1:]
        if isinstance(module, _CHANNELWISE):
            shape = torch.Size([*shape[:1], *[1] * (x.ndim - 2)])
        call, rate = self._calls[name], module.p
        self._calls[name] += 1
        keep = self._masks.keep(name, call, self._draw, rate, shape, x.device).to(x.dtype)
        if rate == 1:
            return torch.zeros_like(x)
        if not isinstance(module, _ALPHA):
            return x * (keep / (1 - rate))
        scale = math.sqrt(1 / ((1 - rate) * (1 + rate * _NEGATIVE_LIMIT**2)))
        return scale * (x * keep + _NEGATIVE_LIMIT * (1 - keep - rate))


class _View(NamedTuple):
    """Layout of a view within its base tensor."""

    whole: tuple[Any, ...]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    shift: int

    def of(self, whole: Tensor) -> Tensor | None:
        """Return the same view of another tensor; None if that one is laid out in another way."""
        if _layout(whole) != self.whole:
            return None
        if whole.shape == self.shape and whole.stride() == self.stride:
            return whole
        return whole.as_strided(self.shape, self.stride, whole.storage_offset() + self.shift)


class Tail:
    """Layers that are called one after the other.

    Args:
        start: The input of the first one [N, ...].
        links: The layers, each with how it views what the one before it made.
        end: How the logits view what the last one made.
    """

    def __init__(
        self, start: Tensor, links: list[tuple[nn.Module, _View | None]], end: _View
    ) -> None:
        self._start = start
        self._links = links
        self._end = end

    def run(self) -> Tensor | None:
        """Return the logits [N, C, ...]; None if layers came to make something else."""
        with torch.inference_mode(mode=False), torch.no_grad():
            first = self._links[0][0]
            x: Tensor | None = self._start.clone() if _in_place(first) else self._start
            for module, view in self._links:
                x = x if view is None or x is None else view.of(x)
                if x is None:
                    return None
                x = module(x)
            return None if x is None else self._end.of(x)


class Watch:
    """Inputs and outputs of layers in one pass, from the first dropout on.

    Args:
        dropouts: The dropout layers.
    """

    def __init__(self, dropouts: Collection[nn.Module]) -> None:
        self._dropouts = dropouts
        self._links: list[tuple[nn.Module, _View | None]] = []
        self._start: tuple[Tensor, int] | None = None
        self._last: tuple[Tensor, int] | None = None
        self._depth = 0
        self._broken = False

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record a layer's input."""
        self._depth += 1
        begun = self._start is not None
        if self._depth > 1 or self._broken or not (begun or module in self._dropouts):
            return
        x = args[0] if len(args) == 1 and not kwargs else None
        if not isinstance(x, Tensor) or not _is_plain(x):
            self._give_up()
        elif self._last is None:
            kept = x.clone() if _in_place(module) else x
            self._start = (kept, kept._version)  # noqa: SLF001 - nothing else reveals changes
            self._links.append((module, None))
        else:
            self._follow(module, x)

    def leave(self, made: object) -> None:
        """Record a layer's output."""
        self._depth -= 1
        if self._depth > 0 or self._broken or self._start is None:
            return
        if isinstance(made, Tensor) and _is_plain(made):
            self._last = (made, made._version)  # noqa: SLF001
        else:
            self._give_up()

    def tail(self, logits: Tensor) -> Tail | None:
        """Return the computation between the first dropout and the logits, if known."""
        if self._broken or self._start is None or self._last is None or not _is_plain(logits):
            return None
        start, version = self._start
        end = _view_of(logits, *self._last)
        if end is None or start._version != version:  # noqa: SLF001
            return None
        return Tail(start, self._links, end)

    def _follow(self, module: nn.Module, x: Tensor) -> None:
        view = None if self._last is None else _view_of(x, *self._last)
        if view is None:
            self._give_up()
        else:
            self._links.append((module, view))

    def _give_up(self) -> None:
        self._broken = True
        # Activations of a whole batch are not held for nothing.
        self._links, self._start, self._last = [], None, None


@contextmanager
def watching(model: nn.Module, watch: Watch | None) -> Iterator[None]:
    """Let a watch see all calls of the model's layers; None sees nothing."""
    handles = []
    if watch is not None:
        for module in model.modules():
            if _is_layer(module):
                handles.append(module.register_forward_pre_hook(watch.enter, with_kwargs=True))
                # After all other hooks on it, which may change what it makes.
                handles.append(module.register_forward_hook(lambda _m, _a, made: watch.leave(made)))
    with removing(handles):
        yield


def _is_layer(module: nn.Module) -> bool:
    return not any(module.children()) or parametrize.is_parametrized(module)


def _in_place(module: nn.Module) -> bool:
    return bool(getattr(module, "inplace", False))


def _is_plain(x: Tensor) -> bool:
    return type(x) is Tensor and x.layout == torch.strided and not x.is_inference()


def _layout(x: Tensor) -> tuple[Any, ...]:
    return (tuple(x.shape), x.stride(), x.dtype, x.device)


def _view_of(part: Tensor, whole: Tensor, version: int) -> _View | None:
    """Return how one tensor lies in another; None if it does not, or that one has changed."""
    shared = part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
    same_kind = part.dtype == whole.dtype and part.is_conj() == whole.is_conj()
    if not shared or not same_kind or whole._version != version or part._version != version:  # noqa: SLF001
        return None
    shift = int(part.storage_offset() - whole.storage_offset())
    return _View(_layout(whole), tuple(part.shape), part.stride(), shift)
