"""What a strategy can be given beside the model and the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Support:
    """More than one model and one pool, for the strategies that ask for it.

    An experiment fills in what its strategy declares to need; in your own calls you do.

    Attributes:
        targets: What the task learns from of the labelled samples, by id: a class index, or a map
            of them.
        labelled: The labelled samples as a pool of their own, if they are not in the pool that is
            chosen from.
        members: Further models of the same task, trained apart from the model: a committee.
        previous: The model of the cycle before.
        untrained: A model that has not learnt anything yet, where there is no cycle before.
        extra: What was trained along with the model at the strategy's own wish.
        features: Features of one's own for each sample of the pool, by id [D]; strategies that
            choose by features take them instead of the model's.
    """

    targets: Mapping[Any, Any] = field(default_factory=dict)
    labelled: Any = None
    members: Sequence[nn.Module] = ()
    previous: nn.Module | None = None
    untrained: nn.Module | None = None
    extra: nn.Module | None = None
    features: Mapping[Any, Tensor] = field(default_factory=dict)


NO_SUPPORT = Support()
