"""CoreGCN: k-centre in the space of a graph network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from steepest.selection.graph_network import Fitting
from steepest.selection.k_centre import k_centre
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.choice import Choice
from steepest.strategies.uncertain_gcn import Nodes, check_fitting, train_on
from steepest.strategies.view import PoolView


@strategy("core-gcn")
@dataclass(frozen=True)
class CoreGCN(Strategy):
    """Samples farthest from all labelled ones, as a graph network sees them.

    A graph network learns to tell labelled samples from others, as for ``uncertain-gcn``. Its
    hidden features f and its output o place each sample at u = [f, o]; then, greedily,

        score(x) = distance of u(x) to the nearest labelled or chosen sample

    Attributes:
        balance: As for ``uncertain-gcn``, and so are the others.
        hidden: Width of the hidden layer.
        epochs: Steps of training.
        rate: Learning rate of Adam.
        weight_decay: Of Adam.
        dropout: Share of the hidden numbers that are dropped in training.
    """

    needs: ClassVar[Needs] = Needs.FEATURES | Needs.LABELLED
    trains: ClassVar[str] = "a graph network"

    balance: float = 1.2
    hidden: int = 128
    epochs: int = 200
    rate: float = 1e-3
    weight_decay: float = 5e-4
    dropout: float = 0.3

    def __post_init__(self) -> None:
        check_fitting(self.name, self.hidden, self.fitting())

    def fitting(self) -> Fitting:
        """Return how the network is trained."""
        return Fitting(self.epochs, self.rate, self.weight_decay, self.dropout, self.balance)

    def prepare(self, pool: PoolView) -> Nodes:
        """Train the graph network."""
        return train_on(pool, self.name, self.hidden, self.fitting())

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, the farthest first."""
        nodes: Nodes = pool.prepared or self.prepare(pool)
        places = torch.cat([nodes.hidden, nodes.logits[:, None]], dim=1)
        picks = k_centre(places[: len(pool)], k, centres=places[len(pool) :])
        return Choice(picks.positions, picks.distances)
