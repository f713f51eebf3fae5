"""UncertainGCN: samples that a graph network is least sure are unlabelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from steepest.errors import InputError
from steepest.selection import top_k
from steepest.selection.graph_network import Fitting, fit_graph_network
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.choice import Choice
from steepest.strategies.feature_rows import all_feature_rows
from steepest.strategies.view import PoolView

_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Nodes:
    """What a graph network made of candidates and then labelled samples.

    Attributes:
        hidden: Features inside the network [n, H].
        logits: Of being labelled [n].
        labelled: How many are, the last ones.
    """

    hidden: Tensor
    logits: Tensor
    labelled: int


@strategy("uncertain-gcn")
@dataclass(frozen=True)
class UncertainGCN(Strategy):
    """Samples about which a graph network doubts whether they are labelled.

    A graph network of two layers learns, from the similarities of their features, which samples
    are labelled: s near 1, and which are not: s near 0. Then

        score(x) = −|s(x) − margin|

    Attributes:
        margin: The s that is wanted most.
        balance: Weight of the unlabelled samples' loss, λ.
        hidden: Width of the hidden layer.
        epochs: Steps of training; each sees all samples.
        rate: Learning rate of Adam.
        weight_decay: Of Adam.
        dropout: Share of the hidden numbers that are dropped in training.
    """

    needs: ClassVar[Needs] = Needs.FEATURES | Needs.LABELLED
    trains: ClassVar[str] = "a graph network"

    margin: float = 0.1
    balance: float = 1.2
    hidden: int = 128
    epochs: int = 200
    rate: float = 1e-3
    weight_decay: float = 5e-4
    dropout: float = 0.3

    def __post_init__(self) -> None:
        check_fitting(self.name, self.hidden, self.fitting())
        if not 0 <= self.margin <= 1:
            raise InputError(f"uncertain-gcn: margin must be from 0 to 1, not {self.margin}")

    def fitting(self) -> Fitting:
        """Return how the network is trained."""
        return Fitting(self.epochs, self.rate, self.weight_decay, self.dropout, self.balance)

    def prepare(self, pool: PoolView) -> Nodes:
        """Train the graph network."""
        return train_on(pool, self.name, self.hidden, self.fitting())

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return the k samples nearest the margin."""
        nodes: Nodes = pool.prepared or self.prepare(pool)
        shares = nodes.logits[: len(pool)].double().sigmoid()
        values = -(shares - self.margin).abs().cpu().numpy()
        best = top_k(values, pool.ids, k, pool.seed)
        # Not as scores of all: a doubt about labels is no measure of how sure the model is.
        return Choice(best, values[best])


def train_on(pool: PoolView, name: str, hidden: int, fitting: Fitting) -> Nodes:
    """Train a graph network on the candidates and the labelled samples of a pool.

    Raises:
        InputError: If no sample is labelled.
    """
    if pool.labelled is None or len(pool.labelled) == 0:
        raise InputError(
            f"{name} learns to tell labelled samples from others, and none is labelled: name some "
            "by --labelled FILE, or in Python labelled=…, or begin with 'random' or 'typiclust'"
        )
    # A training makes roundings grow, and they differ with the size of a batch.
    rows, labelled = all_feature_rows(pool, name, _AT_ONCE)
    made = fit_graph_network(
        rows, labelled, pool.seed, hidden=hidden, fitting=fitting, progress=pool.progress
    )
    return Nodes(*made, labelled)


def check_fitting(name: str, hidden: int, how: Fitting) -> None:
    """Refuse options that no network can be trained with.

    Raises:
        InputError: Naming the option.
    """
    least = {"hidden": (hidden, 1), "epochs": (how.epochs, 0), "balance": (how.balance, 0)}
    least |= {"weight_decay": (how.weight_decay, 0)}
    for option, (value, bound) in least.items():
        if not value >= bound:
            raise InputError(f"{name}: {option} must be at least {bound}, not {value}")
    if not how.rate > 0:
        raise InputError(f"{name}: rate must be more than 0, not {how.rate}")
    if not 0 <= how.dropout < 1:
        raise InputError(f"{name}: dropout must be at least 0 and below 1, not {how.dropout}")
