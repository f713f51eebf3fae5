"""Noise stability: how predictions move with the weights (Li and others, 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from steepest.core.seeds import generator
from steepest.errors import InputError, ModelError
from steepest.modules import batches
from steepest.modules.batches import logits_of
from steepest.strategies.algorithms.k_centre import k_centre
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice
from steepest.strategies.feature_rows import finite_rows
from steepest.strategies.view import PoolView

Weights = Mapping[str, Tensor]
"""Some of a model's parameters by name."""

TOGETHER_BYTES = 2**30
"""Bytes for the perturbed weights that are kept at the same time."""


@strategy("noise-stability")
@dataclass(frozen=True)
class NoiseStability(Strategy):
    """Samples whose predictions move far, and differently, when the weights are disturbed.

    Copies of the model get noise in every weight tensor W, ‖noise‖ = ``noise`` · ‖W‖ in a random
    direction. A sample is placed at v(x) = [(p_1 − p)/‖p‖, …, (p_M − p)/‖p‖] for the predictions
    p_m of the copies and p of the model: a random projection of the Jacobian. Then the farthest
    from the origin is taken, and again and again

        score(x) = distance of v(x) to the origin and to all taken before

    Where nothing moves, samples are drawn by the seed; public versions return the first ones.

    Attributes:
        copies: How many disturbed models look at each sample.
        noise: The length of the noise as a share of the weights'.
    """

    needs: ClassVar[Needs] = Needs.LOGITS
    dense: ClassVar[bool] = False

    copies: int = 50
    noise: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.copies < 1:
            raise InputError(f"noise-stability: copies must be at least 1, not {self.copies}")
        if not 0 <= self.noise < 1e6:
            raise InputError(
                f"noise-stability: noise must be a share of at least 0, not {self.noise}"
            )

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, the farthest first."""
        places = finite_rows(self.deviations(pool), pool.ids).to(pool.device)
        if not bool(places.any()):
            order = torch.randperm(len(pool), generator=generator(pool.seed, self.name, "draw"))
            return Choice(order[:k].numpy(), torch.zeros(k, dtype=torch.float64).numpy())
        picks = k_centre(places, k, centres=torch.zeros_like(places[:1]), progress=pool.progress)
        return Choice(picks.positions, picks.scores)

    def deviations(self, pool: PoolView) -> Tensor:
        """Return the effect of the noise on each sample's prediction [N, copies · C]."""
        model = getattr(pool.model, "_orig_mod", pool.model)
        size = sum(w.numel() * w.element_size() for w in weights_of(model).values())
        together = max(1, TOGETHER_BYTES // max(1, size))
        found: Tensor | None = None
        for start in range(0, self.copies, together):
            stop = min(start + together, self.copies)
            disturbed = [disturb(model, self.noise, pool.seed, m) for m in range(start, stop)]
            what = f"{self.name}: copies {start + 1} to {stop}"
            rows = pool.collect(partial(self._deviate, disturbed), what)["rows"]
            if together >= self.copies:
                return rows.flatten(1)
            if found is None:
                found = rows.new_empty(len(rows), self.copies, rows.shape[2])
            found[:, start:stop] = rows
        if found is None:
            raise ModelError("noise-stability looked at no copy of the model")
        return found.flatten(1)

    def _deviate(self, disturbed: Sequence[Weights], batch: Batch) -> Tensor:
        """Return (p_m − p)/‖p‖ for each of M copies [N, M, C]."""
        model = getattr(batch.model, "_orig_mod", batch.model)
        self.check_positions(batch.logits)
        p = batch.logits.double().softmax(1)
        moved = []
        for weights in disturbed:
            with torch.no_grad():
                outputs = batches.call(_Disturbed(model, weights), batch.inputs)
            logits = batch.task.distributions(logits_of(outputs))
            moved.append((logits.double().softmax(1) - p) / p.norm(dim=1, keepdim=True))
        return torch.stack(moved, dim=1).to(batch.logits.dtype)


class _Disturbed(nn.Module):
    """A model that runs with other weights, and has its own again afterwards."""

    def __init__(self, model: nn.Module, weights: Weights) -> None:
        super().__init__()
        self._model = [model]  # in a list, so that it does not become a part of this module
        self._weights = dict(weights)

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return torch.func.functional_call(self._model[0], self._weights, args, kwargs)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters that are called ``weight`` in their layer, by name.

    Raises:
        ModelError: If there is none.
    """
    found = {
        name: parameter.detach()
        for name, parameter in model.named_parameters()
        if name.rpartition(".")[2] == "weight" and parameter.is_floating_point()
    }
    if not found:
        raise ModelError(
            "noise-stability disturbs parameters called 'weight', and the model has none: use "
            "another strategy"
        )
    return found


def disturb(model: nn.Module, noise: float, seed: int, copy: int) -> dict[str, Tensor]:
    """Return a model's weights with noise.

    Args:
        model: Left as it is.
        noise: Length of the noise in each tensor, as a share of the tensor's own.
        seed: Seeds the directions.
        copy: The number of the copy; each has its own directions.
    """
    found = {}
    for name, weight in weights_of(model).items():
        draws = generator(seed, "noise stability", copy, name)
        direction = torch.randn(weight.shape, generator=draws, dtype=torch.float32).to(weight)
        length = direction.double().norm().clamp_min(torch.finfo(torch.float64).tiny)
        found[name] = weight + direction * (noise * weight.double().norm() / length).to(weight)
    return found
