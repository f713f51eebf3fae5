"""Reports how gradient norms are measured and what that costs, layer by layer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor, nn

from steepest.core.memory import peak_bytes
from steepest.errors import InputError
from steepest.gradnorm.engine import Engine
from steepest.gradnorm.rules import function_name
from steepest.gradnorm.watch.sources import roots_of
from steepest.gradnorm.watch.uses import Use
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.losses import Loss, resolve
from steepest.modules.precision import Precision
from steepest.modules.preserve import preserved_buffers


@dataclass(frozen=True)
class LayerCost:
    """The cost of measuring one use of parameters.

    Attributes:
        parameters: The names of the parameters.
        function: The torch function that takes them.
        route: How the largest of them is measured.
        given: Shapes of what the function is given.
        returned: Shapes of what it returns.
        seconds: The time that the rule takes.
        share: The same, as a share of the whole measurement.
        scratch_bytes: The most memory that the rule holds meanwhile.
    """

    parameters: tuple[str, ...]
    function: str
    route: str
    given: tuple[tuple[int, ...], ...]
    returned: tuple[tuple[int, ...], ...]
    seconds: float
    share: float
    scratch_bytes: int


@dataclass(frozen=True)
class Explanation:
    """How a model's gradient norms are measured.

    Attributes:
        layers: One entry per use of parameters, in the order of the forward pass.
        slow: The parameters for which the whole model is run sample by sample.
        seconds: The time of the whole measurement, forward and backward included.
        samples: The number of samples in the batch.
    """

    layers: tuple[LayerCost, ...]
    slow: tuple[str, ...]
    seconds: float
    samples: int

    def __str__(self) -> str:
        """Return a table for people; the steps of a recurrent layer are one line."""
        lines = [("parameters", "function", "route", "returns", "time", "scratch")]
        for _, run in groupby(self.layers, lambda each: (each.parameters, each.function)):
            layer, *others = steps = list(run)
            first = layer.parameters[0] if layer.parameters else "–"
            more = len(layer.parameters) - 1
            scratch = f"{max(step.scratch_bytes for step in steps) / 2**20:.1f} MiB"
            shapes = ", ".join("×".join(map(str, shape)) for shape in layer.returned)
            name = f"{first} +{more}" if more > 0 else first
            function = f"{layer.function}, {len(steps)} times" if others else layer.function
            share = f"{sum(step.share for step in steps):.1%}"
            lines.append((name, function, layer.route, shapes, share, scratch))
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        rows = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
                for line in lines]  # fmt: skip
        rest = 1 - sum(layer.share for layer in self.layers)
        rows.append(f"forward, backward and the rest: {rest:.1%} of {self.seconds * 1e3:.1f} ms "
                    f"for {self.samples} samples")  # fmt: skip
        if self.slow:
            rows.append(f"sample by sample through the whole model: {', '.join(self.slow)}")
        return "\n".join(rows)


def explain(
    model: nn.Module,
    inputs: Inputs,
    loss: Loss = "entropy",
    *,
    targets: Tensor | None = None,
    precision: Precision = "tf32",
) -> Explanation:
    """Measure a batch, and say how and at what cost each layer was measured.

    Args:
        model: Any module in eval mode.
        inputs: N samples on the model's device.
        loss: A name or a callable.
        targets: Labels [N, ...] where the loss takes some.
        precision: In what precision to multiply.
    """
    total = batches.count(inputs)
    if total == 0:
        raise InputError("there is nothing to explain without a sample")
    losses = resolve(loss, targets, total)
    engine = Engine(model, precision=precision)
    with preserved_buffers(engine.model.modules()):
        for _ in range(2):  # Warms up and makes the plan; the second batch is looked at as well.
            engine.squared_norms(inputs, losses)
        routes: dict[int, str] = {}
        times: dict[int, float] = {}
        uses: dict[int, Use] = {}

        def time_it(use: Use, work: Callable[[], None]) -> None:
            uses[use.place], times[use.place] = use, _timed(engine, work)
            routes[use.place] = engine.routes.taken.get(use.place, "–")

        engine.observer = time_it
        seconds = _timed(engine, lambda: engine.squared_norms(inputs, losses))
        scratch: dict[int, int] = {}

        def weigh_it(use: Use, work: Callable[[], None]) -> None:
            scratch[use.place] = peak_bytes(work, engine.device)

        engine.observer = weigh_it  # On its own, as it takes time.
        engine.squared_norms(inputs, losses)
    layers = tuple(
        LayerCost(
            parameters=tuple(engine.named(roots_of(use.sources))),
            function=function_name(use.function),
            route=routes[_place_measured(use, uses)],
            given=use.given,
            returned=use.returned,
            seconds=times[place],
            share=times[place] / seconds,
            scratch_bytes=scratch[place],
        )
        for place, use in sorted(uses.items())
    )
    return Explanation(layers, tuple(engine.slow_names()), seconds, total)


def _place_measured(use: Use, uses: Mapping[int, Use]) -> int:
    """Return where a use was measured: with the last one to come that shares a parameter."""
    roots = roots_of(use.sources)
    shared = (p for p, u in uses.items() if not roots.isdisjoint(roots_of(u.sources)))
    return list(shared)[-1]


def _timed(engine: Engine, work: Callable[[], object]) -> float:
    cuda = engine.device.type == "cuda"
    if cuda:
        torch.cuda.synchronize(engine.device)
    start = time.perf_counter()
    work()
    if cuda:
        torch.cuda.synchronize(engine.device)
    return time.perf_counter() - start
