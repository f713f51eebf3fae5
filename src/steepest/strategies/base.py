"""Base classes of strategies, and their registry."""

from __future__ import annotations

import dataclasses
import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from torch import Tensor, nn

from steepest.core.own_code import import_own_class
from steepest.core.registry import Registry
from steepest.core.seeds import SampleId
from steepest.core.tables import check_choices, from_table, to_table
from steepest.errors import InputError, NonFiniteError, SteepestError, in_one_line
from steepest.strategies.algorithms import top_k
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice
from steepest.strategies.view import PoolView

if TYPE_CHECKING:
    from steepest.training.auxiliary_head import Extra


def _import_strategy(name: str) -> type[Strategy]:
    """Import a strategy of the user's own; without its own name, the class's is taken.

    Raises:
        InputError: If there is no such class, or it is not a complete strategy.
    """
    base: type[Strategy] = Strategy  # type: ignore[type-abstract]
    found = import_own_class("strategy", name, base, "steepest.strategies.Strategy or Scorer")
    own = vars(found).get("name")
    # An inherited name would be that of another strategy.
    found.name = own if isinstance(own, str) and own else found.__name__
    if found.name in STRATEGIES.names() and STRATEGIES.get(found.name) is not found:
        raise InputError(
            f"strategy {name!r} calls itself {found.name!r}, the name of another strategy: give it "
            "another name"
        )
    return found


STRATEGIES: Registry[type[Strategy]] = Registry("strategy", "steepest.strategies", _import_strategy)
"""Classes by name, and by ``package.module:Class``."""


class Needs(enum.Flag):
    """Inputs that a strategy asks for; nothing else is computed."""

    NOTHING = 0
    LOGITS = enum.auto()
    GRADIENTS = enum.auto()
    FEATURES = enum.auto()
    MAPS = enum.auto()
    DRAWS = enum.auto()
    LABELLED = enum.auto()
    TARGETS = enum.auto()
    PREVIOUS = enum.auto()


@dataclasses.dataclass(frozen=True)
class Strategy(ABC):
    """A way to choose the next samples to label, without their labels.

    A subclass is a frozen dataclass in its own file; its fields are its options. It declares its
    needs and implements ``choose``. Most give every sample a score of its own: those are
    ``Scorer``s.

    ``needs`` and ``dense`` are class variables of most, and properties where options decide.

    Attributes:
        name: The name users type; set by the ``strategy`` decorator.
        trains: The auxiliary models trained for it, in a few words; empty if none.
        does_without_features: Whether it also works with models that have no feature layer.
    """

    name: ClassVar[str] = ""
    trains: ClassVar[str] = ""
    does_without_features: ClassVar[bool] = False

    def __post_init__(self) -> None:
        # Any other value would be taken in silence for one of those that are known.
        check_choices(self, f"strategy {self.name!r}")

    @property
    def needs(self) -> Needs:
        """Its needs from the pool and its batches, besides the result of ``make_extra``."""
        return Needs.LOGITS

    @property
    def needs_alone(self) -> Needs:
        """Its needs if no auxiliary model was trained."""
        return self.needs

    @property
    def dense(self) -> bool:
        """Whether it is defined for samples with many labels, such as one per pixel."""
        return True

    @abstractmethod
    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples of the pool, the most wanted first."""

    def prepare(self, pool: PoolView) -> Any:  # noqa: ANN401
        """Train auxiliary models for choosing; the result is ``pool.prepared``."""
        del pool

    def check(self, pool: PoolView) -> None:
        """Refuse a model or task that cannot be chosen for, by a look at a few samples.

        Args:
            pool: The few samples.

        Raises:
            SteepestError: With an alternative, in one line.
        """
        if self.needs != Needs.NOTHING:
            pool.collect(self._look, f"trying {self.name}")

    def check_k(self, k: int) -> None:
        """Refuse a number of samples that this strategy is not meant for.

        Raises:
            InputError: Naming what is.
        """
        del k

    @property
    def members(self) -> int:
        """Number of models to train in each cycle."""
        return 1

    def model_options(self) -> Mapping[str, Any]:
        """Return the model options that it requires, such as dropout."""
        return {}

    def make_extra(self, model: nn.Module, images: Tensor, seed: int) -> Extra | None:
        """Make the modules that are trained along with an experiment's model.

        Args:
            model: Before its training.
            images: A few inputs that it takes [N, ...].
            seed: Decides the first weights.
        """
        del model, images, seed
        return None

    def options(self) -> dict[str, Any]:
        """Return the options that rebuild this strategy by name."""
        return to_table(self)

    def _look(self, batch: Batch) -> Tensor:
        """Touch everything that is needed of a batch."""
        logits = batch.logits
        self.check_positions(logits)
        if Needs.FEATURES in self.needs:
            _ = batch.features
        if Needs.MAPS in self.needs:
            _ = batch.maps
        if Needs.DRAWS in self.needs:
            next(iter(batch.draws(1)))
        return logits.flatten(1)[:, 0]

    def check_positions(self, logits: Tensor) -> None:
        """Refuse logits with many positions if this strategy has no meaning for them.

        Raises:
            InputError: Naming strategies that do.
        """
        if logits.ndim > 2 and not self.dense:
            raise InputError(
                f"{self.name} has no meaning where a sample has many labels: use "
                "'entropy-gradnorm', 'entropy' or 'core-set'"
            )


@dataclasses.dataclass(frozen=True)
class Scorer(Strategy):
    """A measure of how much a sample is wanted; the highest scores are chosen.

    A subclass implements ``score``.
    """

    @abstractmethod
    def score(self, batch: Batch) -> Tensor:
        """Return one finite score per sample [N]; the highest are labelled first."""

    def score_all(self, pool: PoolView) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the scores of all samples of a pool [N].

        Raises:
            NonFiniteError: Naming the first sample whose score is not finite.
        """
        if self.needs == Needs.NOTHING:
            batch = pool.without_inputs()
            return self._checked(batch).numpy()
        return pool.collect(self._checked, f"scoring by {self.name}")["rows"].numpy()

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return the k highest scores; ties are broken by a draw keyed by id."""
        values = self.score_all(pool)
        best = top_k(values, pool.ids, k, pool.seed)
        return Choice(best, values[best], values)

    def check(self, pool: PoolView) -> None:
        """Score a few samples, so that errors come early."""
        if self.needs != Needs.NOTHING:
            self.score_all(pool)

    def _checked(self, batch: Batch) -> Tensor:
        if self.needs != Needs.NOTHING and not self.dense:
            self.check_positions(batch.logits)
        told = self.score(batch)
        if not isinstance(told, Tensor):
            raise InputError(
                f"strategy {self.name!r} returned a {type(told).__name__} from score: return a "
                "tensor [N], one score for each sample"
            )
        values = told.detach().double().cpu()
        if values.shape != (len(batch),):
            raise InputError(
                f"strategy {self.name!r} returned shape {list(values.shape)} for {len(batch)} "
                f"samples: return a tensor [{len(batch)}], one score for each"
            )
        _check_finite(values, batch.ids)
        if self.needs != Needs.NOTHING:
            # Whatever a strategy asks of a batch, how sure the model is belongs to the record.
            _ = batch.logits
        return values


def _check_finite(values: Tensor, ids: Any) -> None:  # noqa: ANN401
    finite = values.isfinite()
    if not bool(finite.all()):
        first: SampleId = ids[int((~finite).nonzero()[0])]
        raise NonFiniteError(
            f"the score of sample {first!r} is NaN or infinite: look at the model's weights and at "
            "that sample"
        )


S = TypeVar("S", bound=type[Strategy])


def strategy(name: str) -> Callable[[S], S]:
    """Register a strategy class under the name users type."""

    def file(cls: S) -> S:
        cls.name = name
        STRATEGIES.register(name)(cls)
        return cls

    return file


def create(name: str, options: Mapping[str, Any] | None = None) -> Strategy:
    """Build a strategy from its name and options.

    Args:
        name: One of ``names()``, or ``package.module:Class`` for one of the user's own; modules of
            the current directory are found too.
        options: Its options, checked against the fields of the class.

    Raises:
        UnknownNameError: For an unknown strategy or option; names the nearest.
        InputError: If a class of the user's own cannot be imported or built, or is no strategy.
    """
    kind, told = STRATEGIES.get(name), options or {}
    try:
        return from_table(kind, told, f"strategy {name!r}")
    except SteepestError:
        raise
    except Exception as error:
        if ":" not in name:
            raise
        raise InputError(f"strategy {name!r} cannot be built: {in_one_line(error)}") from error


def names() -> list[str]:
    """Return the names of all strategies."""
    return STRATEGIES.names()
