"""Choosing without a model of one's own: features of a pretrained net, and a probe on the labels.

Before there are labels of two classes nothing can be fitted. Then the picks are those that cover
the pool best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.core.seeds import SampleId, random_subset
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.features.table import FeatureTable
from steepest.selecting.choosing import choose_from
from steepest.selecting.options import DEFAULT_STRATEGY, SelectionOptions, check_k
from steepest.selecting.regime import warn_if_inverted
from steepest.selecting.samples import as_samples
from steepest.selecting.selection import Selection
from steepest.strategies import Needs, Scorer, Strategy, Support, create
from steepest.strategies.algorithms.verdict import Verdict
from steepest.training.probes import Probe, fit_probe

WITH_LABELS = DEFAULT_STRATEGY
COLD = "max-herding"
"""Default strategies once a probe can be fitted, and before."""

_WITNESSES = 20_000
_RANDOM_DRAWS = 5
_BLOCK = 2048


@dataclass(frozen=True, eq=False)
class PretrainedChoice:
    """A selection on features, with notes.

    Attributes:
        selection: The chosen samples.
        table: Features of the whole pool.
        probe: The head fitted to the labels; None until two classes are labelled.
        classes: Names of the classes, in the probe's order.
        labels: The number of the class of each labelled sample, by id.
        probabilities: Of each class for each pick [k, C]; None without a probe.
        stands_for: How many candidates are nearer to each pick than to any other pick or labelled
            sample, the pick itself included [k]; an estimate for large pools.
    """

    selection: Selection
    table: FeatureTable
    probe: Probe | None
    classes: tuple[str, ...]
    labels: Mapping[SampleId, int]
    probabilities: Tensor | None
    stands_for: tuple[int, ...]


def choose_on_features(
    table: FeatureTable,
    k: int,
    strategy: Strategy | None,
    how: SelectionOptions,
    labels: Mapping[SampleId, Any] | None = None,
) -> PretrainedChoice:
    """Choose k samples by their features and the labels.

    Args:
        table: Features of the pool, labelled samples included.
        k: How many to choose.
        strategy: The strategy; None is the default.
        how: Options of the selection; the samples that it names as labelled are left out.
        labels: The class of each labelled sample, by id: names, or numbers.

    Raises:
        InputError: If k is too large, or the strategy needs a model before there is one.
    """
    numbers, names = number_labels(labels or {}, how.class_names)
    known = {sample: number for sample, number in numbers.items() if sample in table}
    probe = _fit(table, known, len(names), how.seed)
    chosen = strategy or create(COLD if probe is None else WITH_LABELS)
    if probe is None:
        _check_cold(chosen, known)
    taken = {*(how.labelled or ()), *known}
    free = sum(sample not in taken for sample in table.ids)
    support = how.support or Support()
    how = replace(
        how,
        labelled=taken,
        class_names=names if probe is not None else (),
        support=support if support.targets else replace(support, targets=known),
    )
    model = probe if probe is not None else _untaught(table, max(2, len(names)))
    samples = as_samples(table.rows, table.ids)
    selection = choose_from(model, samples, check_k(k, free, how.subset), chosen, how).selection
    places = _unit_rows(table, model)
    at = table.positions(selection.ids)
    if probe is None:
        selection = replace(
            selection, regime=None, verdict=_coverage(table, places, at, taken, how.seed)
        )
    else:
        warn_if_inverted(selection.regime, chosen)
    return PretrainedChoice(
        selection=selection,
        table=table,
        probe=probe,
        classes=names,
        labels=known,
        probabilities=None if probe is None else probe.probabilities(table.rows[at]),
        stands_for=_stands_for(table, places, at, taken, how.seed),
    )


def number_labels(
    labels: Mapping[SampleId, Any], class_names: Sequence[str] = ()
) -> tuple[dict[SampleId, int], tuple[str, ...]]:
    """Return labels as numbers of classes, and the classes' names.

    Args:
        labels: A name or a number for each sample; None is no label.
        class_names: The names in the order of their numbers; by default those that are there,
            sorted.

    Raises:
        InputError: If a label is no class.
    """
    given = {sample: label for sample, label in labels.items() if label is not None}
    for sample, label in given.items():
        if isinstance(label, bool) or not isinstance(label, (str, int, np.integer)) or label == "":
            raise InputError(f"sample {sample!r} has the label {label!r}: give one class, by name")
    if not class_names:
        # Numbers among themselves keep their order: 2 before 10.
        plain = all(str(label).isdecimal() for label in given.values())
        found = {str(label) for label in given.values()}
        class_names = sorted(found, key=int if plain else str)
    places = {name: number for number, name in enumerate(class_names)}
    numbers = {}
    for sample, label in given.items():
        if str(label) in places:
            numbers[sample] = places[str(label)]
        elif not isinstance(label, str) and 0 <= int(label) < len(class_names):
            numbers[sample] = int(label)
        else:
            raise InputError(
                f"sample {sample!r} is labelled {label!r}, which is none of the classes "
                f"{', '.join(class_names)}"
            )
    return numbers, tuple(class_names)


def _fit(
    table: FeatureTable, known: Mapping[SampleId, int], classes: int, seed: int
) -> Probe | None:
    if len(set(known.values())) < 2:
        return None
    return fit_probe(table.of(known), list(known.values()), classes, ids=list(known), seed=seed)


def _untaught(table: FeatureTable, classes: int) -> Probe:
    """Return a probe that has no opinion, on features that are centred as a fitted one's are."""
    probe = Probe(table.rows.shape[1], classes)
    rows = table.rows.double()
    mean = rows.mean(0)
    with torch.no_grad():
        probe.mean.copy_(mean)
        spread = rows.square().sum(1).mean() - mean.square().sum()
        probe.scale.fill_(float(spread.clamp_min(0).sqrt()) or 1.0)
        probe.head.weight.zero_()
        probe.head.bias.zero_()
    return probe.eval()


def _check_cold(strategy: Strategy, known: Mapping[SampleId, int]) -> None:
    """Refuse scores of a model that has no opinion: picks would be drawn by lot."""
    if isinstance(strategy, Scorer) and strategy.needs != Needs.NOTHING:
        there = "all labels are of one class" if known else "there are no labels yet"
        raise InputError(
            f"{strategy.name} needs a model, and {there}: leave the strategy out, or label a few "
            f"samples of at least two classes; {COLD} chooses these"
        )


def _unit_rows(table: FeatureTable, probe: Probe) -> Tensor:
    """Return centred features of length 1 [N, D]."""
    return F.normalize((table.rows - probe.mean.to(table.rows)) / probe.scale, dim=1)


def _nearest(places: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Return the squared distance to the nearest centre, and which that is, for each row."""
    found = [(part @ centres.T).max(1) for part in torch.split(places, _BLOCK)]
    likeness = torch.cat([values for values, _ in found])
    return (2 - 2 * likeness).clamp_min(0), torch.cat([at for _, at in found])


def _witnesses(table: FeatureTable, taken: set[SampleId], seed: int) -> tuple[list[int], float]:
    """Return positions of candidates, or of a sample of them, and how many each represents."""
    free = [at for at, sample in enumerate(table.ids) if sample not in taken]
    if len(free) <= _WITNESSES:
        return free, 1.0
    drawn = random_subset([table.ids[at] for at in free], _WITNESSES, seed, "witnesses")
    return [free[at] for at in drawn], len(free) / _WITNESSES


def _stands_for(
    table: FeatureTable, places: Tensor, at: list[int], taken: set[SampleId], seed: int
) -> tuple[int, ...]:
    witnesses, each = _witnesses(table, taken, seed)
    old = [position for position, sample in enumerate(table.ids) if sample in taken]
    _, nearest = _nearest(places[witnesses], places[[*at, *old]])
    counts = torch.bincount(nearest, minlength=len(at))[: len(at)]
    return tuple(max(1, round(each * int(count))) for count in counts)


def _coverage(
    table: FeatureTable, places: Tensor, at: list[int], taken: set[SampleId], seed: int
) -> Verdict:
    """Say how well picks cover the pool, compared with as many random ones."""
    witnesses, _ = _witnesses(table, taken, seed)
    old = [position for position, sample in enumerate(table.ids) if sample in taken]
    free = [position for position, sample in enumerate(table.ids) if sample not in taken]
    looking = places[witnesses]

    def away(picks: Sequence[int]) -> float:
        return float(_nearest(looking, places[[*picks, *old]])[0].double().sqrt().mean())

    names = [table.ids[position] for position in free]
    draws = [
        random_subset(names, len(at), seed, f"coverage by chance, {draw}")
        for draw in range(_RANDOM_DRAWS)
    ]
    chance = float(np.mean([away([free[one] for one in drawn]) for drawn in draws]))
    closer = 1 - away(at) / chance if chance > 0 else 0.0
    picks = counted(len(at), "pick")
    if f"{closer:.0%}" in ("0%", "-0%") or closer < 0:
        covers = "covers" if len(at) == 1 else "cover"
        return Verdict(f"{picks} {covers} the pool no better than random ones would.")
    return Verdict(
        f"Candidates are {closer:.0%} nearer to the {picks} than to {len(at)} random ones."
    )
