"""Models that a strategy asks for beside the task's own.

A committee of further models, a head that is trained along, the model of the cycle before: they
start, carry over and are kept as the model itself is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from steepest.core.memory import measured
from steepest.core.seeds import SampleId, derive
from steepest.experiment.committee_training import SideBySide
from steepest.experiment.folder import RunFolder
from steepest.experiment.record import Cost
from steepest.experiment.seeding import Member, extra_seed
from steepest.experiment.setup import Setup
from steepest.modules.fingerprint import fingerprint
from steepest.pool import Pool
from steepest.strategies import Needs, Support
from steepest.training import Extra
from steepest.training.augment import normalise


class AuxiliaryModels:
    """The models beside the task's own in one cycle.

    Args:
        setup: The setup; its strategy declares the models needed.
        folder: Where it is kept from cycle to cycle.
        cycle: The cycle that begins.
        model: The task's model, before its training.
    """

    def __init__(self, setup: Setup, folder: RunFolder, cycle: int, model: nn.Module) -> None:
        self._setup = setup
        self._folder = folder
        self._cycle = cycle
        self._members: list[nn.Module] = []
        self._previous: nn.Module | None = None
        self._untrained: nn.Module | None = None
        self.extra = self._make_extra(model)
        if Needs.PREVIOUS in setup.strategy.needs:
            self._remember()

    def train_members(self, pool: Pool, training: Cost, side_by_side: SideBySide) -> Cost | None:
        """Train the rest of the committee, each from its own first weights and in its own order.

        Args:
            pool: The pool, with the labelled samples.
            training: The cost of the model's own training.
            side_by_side: Trains several at a time, where that is possible.

        Returns:
            The cost of their training; None without a committee.
        """
        setup, cycle = self._setup, self._cycle
        if setup.strategy.members < 2:
            return None
        numbers = range(1, setup.strategy.members)
        self._members = [
            setup.starting_model(self._folder, cycle, None, member) for member in numbers
        ]
        trainings = [
            (model, self._folder.checkpoint(member), ("training", cycle, "member", member))
            for member, model in zip(numbers, self._members, strict=True)
        ]
        together = side_by_side.train(
            setup.fitting(pool),
            [
                {"model": m, "checkpoint": c, "seed": derive(setup.config.seed, *purpose)}
                for m, c, purpose in trainings
            ],
            setup.progress,
            training.peak_bytes,
        )
        if together is not None:
            return together
        with measured(setup.device) as spent:
            # What was trained before a restart counts too, as for the model.
            seconds = sum(setup.fit(m, pool, c, why).seconds for m, c, why in trainings)
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
        setup, data = self._setup, self._setup.data
        images = data.train_images[:2]
        few = normalise(images, data.mean, data.std)
        seed = extra_seed(setup.config.seed, self._cycle)
        device = next(model.parameters()).device
        extra = setup.strategy.make_extra(model, few.to(device), seed)
        if extra is not None and self._cycle > 0 and setup.config.loop.init == "warm":
            self._folder.load_model(extra, self._cycle - 1, "extra")
        return extra

    def _remember(self) -> None:
        """Bring back the model of the cycle before, which a warm start trains on from."""
        setup = self._setup
        fresh = setup.fresh_model(setup.config.seed)
        if self._cycle == 0:
            self._untrained = fresh.to(setup.device)
            return
        self._folder.load_model(fresh, self._cycle - 1)
        self._previous = fresh.to(setup.device)
