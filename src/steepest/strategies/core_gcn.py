"""CoreGCN: k-centre in the space of a graph network."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from steepest.strategies.algorithms.k_centre import k_centre
from steepest.strategies.base import strategy
from steepest.strategies.choice import Choice
from steepest.strategies.graph_training import GraphTraining, Nodes
from steepest.strategies.view import PoolView


@strategy("core-gcn")
@dataclass(frozen=True)
class CoreGCN(GraphTraining):
    """Samples farthest from all labelled ones, as a graph network sees them.

    A graph network learns to tell labelled samples from others, as for ``uncertain-gcn``. Its
    hidden features f and its output o place each sample at u = [f, o]; then, greedily,

        score(x) = distance of u(x) to the nearest labelled or chosen sample
    """

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, the farthest first."""
        nodes: Nodes = pool.prepared
        places = torch.cat([nodes.hidden, nodes.logits[:, None]], dim=1)
        picks = k_centre(
            places[: len(pool)], k, centres=places[len(pool) :], progress=pool.progress
        )
        return Choice(picks.positions, picks.scores)
