"""What accompanies a model through a cycle, where its strategy asks for it.

A committee of further models, a head that is trained along, the model of the cycle before: they
begin, carry over and are kept as the model itself is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from steepest.core.memory import measured
from steepest.core.seeds import SampleId, derive
from steepest.experiment.folder import RunFolder
from steepest.experiment.protocol import Member, extra_seed
from steepest.experiment.record import Cost
from steepest.experiment.start import starting_model
from steepest.modules.fingerprint import fingerprint
from steepest.pool import Pool
from steepest.strategies import Needs, Support
from steepest.training import Extra
from steepest.training.augment import normalise

if TYPE_CHECKING:
    from steepest.experiment.loop import Experiment


class Company:
    """The models beside the task's own in one cycle.

    Args:
        experiment: Whose strategy says what is needed.
        folder: Where it is kept from cycle to cycle.
        cycle: Which cycle begins.
        model: The task's model, before its training.
    """

    def __init__(
        self, experiment: Experiment, folder: RunFolder, cycle: int, model: nn.Module
    ) -> None:
        self._experiment = experiment
        self._folder = folder
        self._cycle = cycle
        self._members: list[nn.Module] = []
        self._previous: nn.Module | None = None
        self._untrained: nn.Module | None = None
        self.extra = self._make_extra(model)
        if Needs.PREVIOUS in experiment.strategy.needs:
            self._remember()

    def train_members(self, pool: Pool, training: Cost) -> Cost | None:
        """Train the rest of the committee, each from its own first weights and in its own order.

        Args:
            pool: Says what is labelled.
            training: What the model's own training cost.

        Returns:
            What theirs cost; None without a committee.
        """
        experiment, cycle = self._experiment, self._cycle
        if experiment.strategy.members < 2:
            return None
        numbers = range(1, experiment.strategy.members)
        self._members = [
            starting_model(experiment, self._folder, cycle, None, member) for member in numbers
        ]
        trainings = [
            (model, self._folder.checkpoint(member), ("training", cycle, "member", member))
            for member, model in zip(numbers, self._members, strict=True)
        ]
        together = experiment.side_by_side.train(
            experiment.fitting(pool),
            [
                {"model": m, "checkpoint": c, "seed": derive(experiment.config.seed, *purpose)}
                for m, c, purpose in trainings
            ],
            experiment.progress,
            training.peak_bytes,
        )
        if together is not None:
            return together
        with measured(experiment.device) as spent:
            # What was trained before a restart counts too, as for the model.
            seconds = sum(experiment.fit(m, pool, c, why).seconds for m, c, why in trainings)
        return Cost(seconds=seconds, peak_bytes=spent.peak_bytes)

    def support(self, targets: Mapping[SampleId, Any]) -> Support:
        """Return all of it as a strategy takes it."""
        return Support(
            targets=targets,
            members=tuple(self._members),
            previous=self._previous,
            untrained=self._untrained,
            extra=self.extra,
        )

    def save(self) -> dict[str, str]:
        """Keep it for the next cycle.

        Returns:
            The fingerprints of what is kept, for the record.
        """
        kept: dict[Member, nn.Module] = dict(enumerate(self._members, start=1))
        if self.extra is not None:
            kept["extra"] = self.extra
        for member, model in kept.items():
            self._folder.save_model(model, self._cycle, member)
        return {str(member): fingerprint(model) for member, model in kept.items()}

    def _make_extra(self, model: nn.Module) -> Extra | None:
        experiment, data = self._experiment, self._experiment.data
        images = data.train_images[:2]
        few = normalise(images, data.mean, data.std)
        seed = extra_seed(experiment.config.seed, self._cycle)
        device = next(model.parameters()).device
        extra = experiment.strategy.make_extra(model, few.to(device), seed)
        if extra is not None and self._cycle > 0 and experiment.config.loop.init == "warm":
            self._folder.load_model(extra, self._cycle - 1, "extra")
        return extra

    def _remember(self) -> None:
        """Bring back the model of the cycle before, which a warm start trains on from."""
        experiment = self._experiment
        fresh = experiment.fresh_model(experiment.config.seed)
        if self._cycle == 0:
            self._untrained = fresh.to(experiment.device)
            return
        self._folder.load_model(fresh, self._cycle - 1)
        self._previous = fresh.to(experiment.device)
