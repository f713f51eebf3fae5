"""Shared base of strategies that train a graph network to tell labelled samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from steepest.errors import InputError
from steepest.strategies.algorithms.graph_network import Fitting, fit_graph_network
from steepest.strategies.base import Needs, Strategy
from steepest.strategies.feature_rows import all_feature_rows
from steepest.strategies.view import PoolView

_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Nodes:
    """Outputs of a graph network for the candidates and the labelled samples.

    Attributes:
        hidden: Features inside the network [n, H].
        logits: Of being labelled [n].
    """

    hidden: Tensor
    logits: Tensor


@dataclass(frozen=True)
class GraphTraining(Strategy):
    """A graph network that learns to tell labelled samples from others.

    Attributes:
        balance: Weight of the unlabelled samples' loss, λ.
        hidden: Width of the hidden layer.
        epochs: Steps of training; each sees all samples.
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
        super().__post_init__()
        least = {"hidden": 1, "epochs": 0, "balance": 0, "weight_decay": 0}
        for option, bound in least.items():
            if not getattr(self, option) >= bound:
                raise InputError(
                    f"{self.name}: {option} must be at least {bound}, not {getattr(self, option)}"
                )
        if not self.rate > 0:
            raise InputError(f"{self.name}: rate must be more than 0, not {self.rate}")
        if not 0 <= self.dropout < 1:
            raise InputError(
                f"{self.name}: dropout must be at least 0 and below 1, not {self.dropout}"
            )

    def prepare(self, pool: PoolView) -> Nodes:
        """Train the graph network on the candidates and the labelled samples.

        Raises:
            InputError: If no sample is labelled.
        """
        if pool.labelled is None or len(pool.labelled) == 0:
            raise InputError(
                f"{self.name} learns to tell labelled samples from others, and none is labelled: "
                "name some by --labelled FILE, or in Python labelled=…, or begin with 'random' or "
                "'typiclust'"
            )
        # A training makes roundings grow, and they differ with the size of a batch.
        rows, labelled = all_feature_rows(pool, self.name, _AT_ONCE)
        how = Fitting(self.epochs, self.rate, self.weight_decay, self.dropout, self.balance)
        return Nodes(
            *fit_graph_network(
                rows, labelled, pool.seed, hidden=self.hidden, fitting=how, progress=pool.progress
            )
        )
