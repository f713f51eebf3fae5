"""The paper's A.2: of how many selected samples the gradient norm falls in the next cycle.

A selected sample is trained on, and it was selected for a high norm: both make its norm fall,
whatever the theory. Three kinds of samples that are not trained on say how much that is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steepest.core.seeds import SampleId, derive, random_subset
from steepest.errors import InputError
from steepest.gradnorm.norms import SampleNorm
from steepest.paper.analyses.ranking import highest
from steepest.paper.analyses.sample_norms import LossName
from steepest.strategies.algorithms.ranking import Values

SELECTED = "selected"
UNSELECTED = "not selected"
DRAWN = "not selected, drawn at random"
NEXT = "not selected, highest norms"
"""Groups of samples: the chosen ones, all others, K random others, the K with highest norm."""


@dataclass(frozen=True, kw_only=True)
class Falls:
    """One group of samples between two cycles.

    Attributes:
        cycle: Counted from 0: that of T(c); the norm falls if that under T(c+1) is not higher.
        loss: Which loss.
        norm: Which norm of its gradient.
        group: Which samples.
        samples: How many they are.
        fallen: Of how many the norm is not higher afterwards.
        share: ``fallen`` / ``samples``.
        before: Mean norm under T(c).
        after: Mean norm under T(c+1).
    """

    cycle: int
    loss: LossName
    norm: SampleNorm
    group: str
    samples: int
    fallen: int
    share: float
    before: float
    after: float


def control_groups(
    ids: Sequence[SampleId],
    before: Values,
    selected: Collection[SampleId],
    *,
    cycle: int,
    seed: int,
) -> dict[str, frozenset[SampleId]]:
    """Return the selected samples, and three groups of those that nothing was trained on.

    Args:
        ids: All samples without a label in cycle c [N], whether they were scored or not.
        before: Their norms under T(c) [N].
        selected: What was chosen then.
        cycle: Counted from 0.
        seed: Draws the random group, and breaks ties.

    Raises:
        InputError: If a selected sample is not among them, or nothing else is.
    """
    chosen = frozenset(selected)
    if not chosen or not chosen <= set(ids):
        raise InputError("the selected samples must be some of those without a label")
    rest = [row for row, name in enumerate(ids) if name not in chosen]
    if not rest:
        raise InputError("every sample was selected: there is nothing to compare with")
    others = [ids[row] for row in rest]
    size = min(len(chosen), len(others))
    own = derive(seed, "falls", cycle)
    drawn = random_subset(others, size, own, "control group")
    return {
        SELECTED: chosen,
        UNSELECTED: frozenset(others),
        DRAWN: frozenset(others[int(row)] for row in drawn),
        NEXT: highest(before[rest], others, size, own),
    }


def count_falls(
    ids: Sequence[SampleId],
    before: Values,
    after: Values,
    groups: Mapping[str, Collection[SampleId]],
    *,
    cycle: int,
    loss: LossName,
    norm: SampleNorm,
) -> list[Falls]:
    """Count in each group the samples whose norm is not higher afterwards.

    Args:
        ids: [N].
        before: Norms under T(c) [N].
        after: Norms under T(c+1) [N].
        groups: Ids by the name of the group.
        cycle: Counted from 0.
        loss: Which loss.
        norm: Which norm.

    Raises:
        InputError: If numbers of samples differ, or a group has a sample without a norm.
    """
    if not len(ids) == len(before) == len(after):
        raise InputError("norms before and after are of different samples: use one pool for both")
    places = {name: row for row, name in enumerate(ids)}
    found = []
    for group, members in groups.items():
        if not members or any(name not in places for name in members):
            raise InputError(f"the group {group!r} is empty or has samples without a norm")
        rows = np.array([places[name] for name in members])
        fallen = int((after[rows] <= before[rows]).sum())
        found.append(
            Falls(
                cycle=cycle,
                loss=loss,
                norm=norm,
                group=group,
                samples=len(rows),
                fallen=fallen,
                share=fallen / len(rows),
                before=float(before[rows].mean()),
                after=float(after[rows].mean()),
            )
        )
    return found
