"""BAIT: samples that lower the expected loss over the pool most, class by class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from steepest.core.seeds import generator
from steepest.errors import InputError
from steepest.strategies.algorithms.design import greedy_design
from steepest.strategies.algorithms.distances import tiles
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice
from steepest.strategies.feature_rows import check_width, finite_rows
from steepest.strategies.gradnorm_design import design_rows, unit_scale
from steepest.strategies.view import PoolView


@strategy("bait")
@dataclass(frozen=True)
class Bait(Strategy):
    """Samples whose Fisher information lowers the expected loss over all candidates most.

    With features h brought to unit variance, z = (h, 1), predictions p, candidates U and labelled
    or chosen samples S, the last layer's Fisher information of a sample is

        I(x) = Σ_i p_i g_i g_iᵀ = VᵀV, g_i = (e_i − p) ⊗ z

    and each choice is the largest fall of tr(M⁻¹F):

        score(x) = tr((I + V M⁻¹Vᵀ)⁻¹ V M⁻¹F M⁻¹Vᵀ)

    where M = λ I + Σ_{s ∈ S} I(s) and F = (1/|U|) Σ_{x ∈ U} I(x). More than k samples are taken,
    and those whose loss costs least are given back.

    Attributes:
        classes: The sum over i is over so many likeliest classes.
        sketch: Gradients g of more numbers are brought down to so many by a random projection.
        oversample: How many samples are taken first, as a multiple of k.
        prior: λ, the weight of what is known without labels.
    """

    needs: ClassVar[Needs] = Needs.LOGITS | Needs.FEATURES | Needs.LABELLED
    dense: ClassVar[bool] = False

    classes: int = 5
    sketch: int = 512
    oversample: float = 2.0
    prior: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("classes", 1), ("sketch", 1), ("oversample", 1), ("prior", 1e-9)):
            value = getattr(self, name)
            if not (value >= least and math.isfinite(value)):
                raise InputError(f"bait: {name} must be at least {least} and finite, not {value}")

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, the one that lowers the expected loss most first."""
        samples = self._collect(pool)
        scaling = unit_scale(samples["features"])
        known = None
        if pool.labelled is not None and len(pool.labelled):
            there = self._collect(pool.labelled)
            check_width(there["features"], samples["features"], self.name)
            known = self._factors(there, scaling, pool.seed)
        found = greedy_design(
            self._factors(samples, scaling, pool.seed).to(pool.device),
            k,
            self.prior,
            known=known,
            spare=math.ceil((self.oversample - 1) * k),
            progress=pool.progress,
        )
        return Choice(found.positions, found.scores)

    def _collect(self, pool: PoolView) -> Mapping[str, Tensor]:
        found = pool.collect(self._measure, f"features for {self.name}")
        return {name: finite_rows(rows, pool.ids) for name, rows in found.items()}

    def _measure(self, batch: Batch) -> Mapping[str, Tensor]:
        features = batch.features  # First: they bring the logits along.
        self.check_positions(batch.logits)
        return {"features": features, "logits": batch.logits}

    def _factors(
        self, samples: Mapping[str, Tensor], scaling: tuple[Tensor, float], seed: int
    ) -> Tensor:
        """Return V [N, c, D'] of samples."""
        rows = samples["features"]
        p = samples["logits"].double().softmax(1)
        count = min(self.classes, p.shape[1])
        width = p.shape[1] * (rows.shape[1] + 1)
        sketch = TensorSketch(p.shape[1], rows.shape[1] + 1, self.sketch, seed)
        factors = rows.new_empty(len(rows), count, min(width, self.sketch))
        for part in tiles(len(rows), 16 * count * min(width, self.sketch)):
            z = design_rows(rows[part].to(rows), *scaling)
            shares, likeliest = p[part].topk(count, dim=1)
            residuals = -p[part, None].expand(-1, count, -1).clone()
            residuals.scatter_add_(2, likeliest[:, :, None], torch.ones_like(shares)[:, :, None])
            residuals *= shares.sqrt()[:, :, None]
            if width <= self.sketch:
                factors[part] = torch.einsum("nic,nd->nicd", residuals.to(z), z).flatten(2)
            else:
                factors[part] = sketch(residuals.to(z), z[:, None])
        return factors


class TensorSketch:
    """A random projection of a ⊗ b that keeps inner products in expectation (Pham and Pagh, 2013).

    Args:
        left: Length of a.
        right: Length of b.
        size: Length of the projection.
        seed: Decides the projection.
    """

    def __init__(self, left: int, right: int, size: int, seed: int) -> None:
        draws = generator(seed, "tensor-sketch")
        self.size = size
        self._places = [torch.randint(size, (n,), generator=draws) for n in (left, right)]
        self._signs = [torch.randint(2, (n,), generator=draws) * 2 - 1 for n in (left, right)]

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the projection of a ⊗ b [..., size] for a [..., left] and b [..., right]."""
        parts = []
        for row, places, signs in zip((a, b), self._places, self._signs, strict=True):
            counts = row.new_zeros(*row.shape[:-1], self.size)
            counts.index_add_(-1, places.to(row.device), row * signs.to(row))
            parts.append(torch.fft.rfft(counts))
        found: Tensor = torch.fft.irfft(parts[0] * parts[1], self.size)
        return found
