"""Query by committee."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

from torch import Tensor, nn

from steepest.errors import InputError
from steepest.strategies.auxiliary_predictions import placed, predict
from steepest.strategies.base import Needs, Scorer, Strategy, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.disagreement import Measure, disagreement
from steepest.strategies.view import PoolView

_MEASURES: MappingProxyType[str, Measure] = MappingProxyType(
    {
        "js": "mutual-information",
        "variation-ratio": "variation-ratio",
        "mean-entropy": "mean-entropy",
    }
)


@strategy("qbc")
@dataclass(frozen=True)
class Qbc(Scorer):
    """Disagreement of a committee: score(x) = H(p̄) − mean_m H(p_m), p̄ = mean_m p_m.

    The members differ by their first weights and by the order of their training. The score is
    their Jensen-Shannon divergence, between 0 and log M. Metrics are those of the model itself,
    which is the first member, and not of the committee. For dense outputs the mean over
    positions.

    Attributes:
        size: Models M that an experiment trains in each cycle, the task's own included. In your
            own calls the committee is the model and ``support.members``, however many.
        measure: ``"js"``; ``"variation-ratio"``, 1 − f/M for the f members that agree on the
            most common class, ties ranked by entropy, a hundredth of a vote; or
            ``"mean-entropy"``, H(p̄).
    """

    needs: ClassVar[Needs] = Needs.LOGITS
    trains: ClassVar[str] = "a committee of models"

    size: int = 5
    measure: Literal["js", "variation-ratio", "mean-entropy"] = "js"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 2:
            raise InputError(f"qbc: size must be at least 2, not {self.size}")

    @property
    def members(self) -> int:
        """Number of models to train in each cycle."""
        return self.size

    def prepare(self, pool: PoolView) -> tuple[nn.Module, ...]:
        """Return the members beside the model, where the model is.

        Raises:
            InputError: If there are none.
        """
        if not pool.support.members:
            raise InputError(
                "qbc asks a committee: give further trained models by --member FILE, or in Python "
                "support=Support(members=[...]), or use 'bald', which draws them from dropout"
            )
        return tuple(placed(member, pool.device) for member in pool.support.members)

    def check(self, pool: PoolView) -> None:
        """Look at what the model makes of a few samples; the members are not trained yet."""
        Strategy.check(self, pool)

    def score(self, batch: Batch) -> Tensor:
        """Return the committee's disagreement [N]."""
        return disagreement(self._predictions(batch), _MEASURES[self.measure])

    def _predictions(self, batch: Batch) -> Iterator[Tensor]:
        yield batch.logits
        for number, member in enumerate(batch.prepared, start=1):
            yield predict(member, batch, f"member {number} of the committee")
