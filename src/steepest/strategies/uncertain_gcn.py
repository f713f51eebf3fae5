"""UncertainGCN: samples that a graph network is least sure are unlabelled."""

from __future__ import annotations

from dataclasses import dataclass

from steepest.errors import InputError
from steepest.strategies.algorithms import top_k
from steepest.strategies.base import strategy
from steepest.strategies.choice import Choice
from steepest.strategies.graph_training import GraphTraining, Nodes
from steepest.strategies.view import PoolView


@strategy("uncertain-gcn")
@dataclass(frozen=True)
class UncertainGCN(GraphTraining):
    """Samples about which a graph network doubts whether they are labelled.

    A graph network of two layers learns, from the similarities of their features, which samples
    are labelled: s near 1, and which are not: s near 0. Then

        score(x) = −|s(x) − margin|

    Attributes:
        margin: The s that is wanted most.
    """

    margin: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.margin <= 1:
            raise InputError(f"uncertain-gcn: margin must be from 0 to 1, not {self.margin}")

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return the k samples nearest the margin."""
        nodes: Nodes = pool.prepared
        shares = nodes.logits[: len(pool)].double().sigmoid()
        values = -(shares - self.margin).abs().cpu().numpy()
        best = top_k(values, pool.ids, k, pool.seed)
        # Not as scores of all: a doubt about labels is no measure of how sure the model is.
        return Choice(best, values[best])
