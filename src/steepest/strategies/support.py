"""Inputs of a strategy beside the model and the pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from steepest.errors import InputError


@dataclass(frozen=True, eq=False)
class Support:
    """More than one model and one pool, for the strategies that ask for it.

    An experiment fills in what its strategy declares to need; in your own calls you do.

    Attributes:
        targets: What the task learns from of the labelled samples, by id: a class index, or a map
            of them. Samples of the pool that have one are labelled, and never chosen.
        labelled: The labelled samples as a separate pool, if they are not in the pool that is
            chosen from; what is learnt of labelled samples is learnt of these alone.
        members: Further models of the same task, trained apart from the model: a committee.
        previous: The model of the cycle before.
        untrained: A model that has not learnt anything yet, where there is no cycle before.
        extra: Modules trained along with the model at the strategy's own wish.
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

    def __post_init__(self) -> None:
        for name in ("targets", "features"):
            given = getattr(self, name)
            if not isinstance(given, Mapping):
                raise InputError(
                    f"Support: {name} must be given by id, as dict(zip(ids, {name})), not as "
                    f"{type(given).__name__}"
                )

    def targets_of(self, ids: Iterable[Any]) -> Tensor:
        """Return the targets of some samples as one tensor [N, ...].

        Raises:
            InputError: If they are no numbers, or of different shapes.
        """
        try:
            return torch.stack([torch.as_tensor(self.targets[i]) for i in ids])
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                "Support: targets must be numbers of classes, or maps of them of one size"
            ) from error


NO_SUPPORT = Support()
