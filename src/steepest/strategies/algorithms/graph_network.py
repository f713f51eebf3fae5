"""A small graph network that tells labelled from unlabelled samples.

The graph joins every two of n samples by the cosine of their features. It is never built: with
unit rows X [n, D] its normalised adjacency Â = A diag(1/d) + I, A = XXᵀ − I, takes any S [n, F] to

    ÂS = X (Xᵀ (S/d)) − S/d + S

in O(n·D·F) time and O(n·F) memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steepest.core.progress import Progress, SilentProgress
from steepest.core.seeds import derive, generator
from steepest.strategies.algorithms.distances import tiles


class SimilarityGraph:
    """n nodes, joined by the cosines of their features.

    d_j is the sum of the similarities of node j, as published, but at least the sum of their
    squares. For features without negative entries cosines are in [0, 1], so that changes
    nothing; with negative entries the plain sum may be 0 or less, and dividing by it would blow
    nodes up. A node that is like no other one sends nothing.

    Args:
        features: [n, D]; a row of zeros is like no other.
    """

    def __init__(self, features: Tensor) -> None:
        self.rows = F.normalize(features, dim=1)
        self._own = torch.cat([part.square().sum(1) for part in self._parts()])
        sums = self.rows @ self.rows.sum(0) - self._own
        gram = self.rows.T @ self.rows
        squares = torch.cat([((part @ gram) * part).sum(1) for part in self._parts()])
        degrees = torch.maximum(sums, squares - self._own.square())
        small = len(features) * torch.finfo(features.dtype).eps
        self._shares = torch.where(degrees > small, 1 / degrees.clamp_min(small), 0)

    def __len__(self) -> int:
        return len(self.rows)

    def spread(self, signals: Tensor) -> Tensor:
        """Return ÂS [n, F] for signals S [n, F]."""
        scaled = signals * self._shares[:, None]
        return self.rows @ (self.rows.T @ scaled) - self._own[:, None] * scaled + signals

    def spread_features(self) -> Tensor:
        """Return ÂX [n, D], with tiles instead of whole tables in between."""
        inner = self.rows.new_zeros((self.rows.shape[1], self.rows.shape[1]))
        starts = list(tiles(len(self), self.rows[:1].nbytes))
        for part in starts:
            inner += self.rows[part].T @ (self.rows[part] * self._shares[part, None])
        made = torch.empty_like(self.rows)
        for part in starts:
            kept = 1 - self._own[part] * self._shares[part]
            torch.addcmul(self.rows[part] @ inner, self.rows[part], kept[:, None], out=made[part])
        return made

    def _parts(self) -> Iterator[Tensor]:
        return (self.rows[part] for part in tiles(len(self.rows), self.rows[:1].nbytes))


@dataclass(frozen=True)
class Fitting:
    """Training options of a graph network.

    Attributes:
        epochs: Steps; each sees all nodes.
        rate: Learning rate of Adam.
        weight_decay: Of Adam.
        dropout: Share of the hidden numbers that are dropped in a step.
        balance: Weight of the unlabelled nodes' loss, λ.
    """

    epochs: int = 200
    rate: float = 1e-3
    weight_decay: float = 5e-4
    dropout: float = 0.3
    balance: float = 1.2


class GraphNetwork(nn.Module):
    """Two layers: f = ReLU(ÂXW₁ + b₁), o = Â(fW₂) + b₂.

    Args:
        features: D.
        hidden: Width of f.
        seed: Decides the first weights.
    """

    def __init__(self, features: int, hidden: int, seed: int) -> None:
        super().__init__()
        random = generator(seed, "graph network", "weights")

        def drawn(*shape: int) -> nn.Parameter:
            unit = torch.rand(shape, generator=random, dtype=torch.float64)
            return nn.Parameter((2 * unit - 1) / shape[-1] ** 0.5)

        self.first, self.first_bias = drawn(features, hidden), drawn(hidden)
        self.second, self.second_bias = drawn(hidden, 1), drawn(1)

    def forward(
        self, graph: SimilarityGraph, spread: Tensor, kept: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return hidden features [n, H] and the logit of being labelled [n].

        Args:
            graph: The nodes.
            spread: ÂX [n, D]; it never changes, so it is made once.
            kept: The dropout factors of the hidden features [n, H].
        """
        hidden = torch.addmm(self.first_bias, spread, self.first).relu()
        hidden = hidden if kept is None else hidden * kept
        return hidden, (graph.spread(hidden @ self.second) + self.second_bias)[:, 0]


def separation_loss(logits: Tensor, labelled: int, balance: float) -> Tensor:
    """Return −mean log s over labelled nodes − λ mean log(1 − s) over the others.

    Args:
        logits: Of s [n]; the labelled nodes are the last ones.
        labelled: How many they are.
        balance: λ.
    """
    free = len(logits) - labelled
    return F.softplus(-logits[free:]).mean() + balance * F.softplus(logits[:free]).mean()


def fit_graph_network(
    features: Tensor,
    labelled: int,
    seed: int,
    *,
    hidden: int = 128,
    fitting: Fitting | None = None,
    progress: Progress | None = None,
) -> tuple[Tensor, Tensor]:
    """Train a graph network and return its output for all nodes.

    Global random state is neither read nor changed.

    Args:
        features: Of unlabelled and then labelled samples [n, D], finite.
        labelled: How many of them are labelled; at least one, and not all.
        seed: Decides weights and dropout.
        hidden: Width of the hidden layer, H.
        fitting: How it is trained.
        progress: Told of each epoch.

    Returns:
        Hidden features [n, H] and logits of being labelled [n], without dropout.
    """
    with torch.inference_mode(mode=False), torch.enable_grad():
        return _fit(features, labelled, seed, hidden, fitting or Fitting(), progress)


def _fit(
    features: Tensor,
    labelled: int,
    seed: int,
    hidden: int,
    how: Fitting,
    progress: Progress | None,
) -> tuple[Tensor, Tensor]:
    graph = SimilarityGraph(features)
    spread = graph.spread_features()
    network = GraphNetwork(features.shape[1], hidden, seed).to(features)
    optimiser = torch.optim.Adam(network.parameters(), lr=how.rate, weight_decay=how.weight_decay)
    random = torch.Generator(features.device).manual_seed(derive(seed, "graph network", "dropout"))
    shape, share = (len(features), hidden), 1 - how.dropout
    with (progress or SilentProgress()).task("training the graph network", how.epochs) as step:
        for _ in range(how.epochs):
            kept = None
            if how.dropout:
                kept = features.new_empty(shape).bernoulli_(share, generator=random).div_(share)
            _, logits = network(graph, spread, kept)
            optimiser.zero_grad()
            separation_loss(logits, labelled, how.balance).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            step.advance()
    with torch.no_grad():
        made: tuple[Tensor, Tensor] = network(graph, spread)
    return made
