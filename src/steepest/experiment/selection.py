"""Selection of samples in a cycle, and its fields in the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from steepest.core.journal import read_journal
from steepest.core.seeds import SampleId
from steepest.core.wording import counted
from steepest.data.sealed import readings_recorded
from steepest.errors import RunFolderError
from steepest.experiment.auxiliary_models import AuxiliaryModels
from steepest.experiment.building import pool_view, scored_at_once
from steepest.experiment.folder import RunFolder
from steepest.experiment.record import Cost, Record, Wish, added, cost_of
from steepest.experiment.seeding import selection_seed
from steepest.experiment.setup import Setup, divergence_named
from steepest.pool import Pool
from steepest.selecting.choosing import Outcome, choose_from
from steepest.selecting.options import SelectionOptions, check_k
from steepest.strategies import Needs
from steepest.strategies.base import Strategy

SHOWN = 8
"""Number of the highest and lowest scores that a record keeps."""


def fields_of(outcome: Outcome | None, members: Cost | None) -> dict[str, Any]:
    """Return the fields of a record that are about the choice.

    Args:
        outcome: The choice; None in the last cycle, which makes none.
        members: The cost of training a committee.
    """
    if outcome is None:
        chosen = ("selected", "selected_scores", "wanted", "unwanted")
        nothing = dict.fromkeys(("regime", "scoring", "auxiliary"))
        return {"subset": 0, **dict.fromkeys(chosen, ()), **nothing}
    selection = outcome.selection
    return {
        "subset": selection.candidates,
        "selected": selection.ids,
        "selected_scores": selection.scores,
        "wanted": _wishes(selection.ids, selection.scores),
        "unwanted": _wishes(*zip(*outcome.lowest, strict=True)),
        "regime": selection.regime,
        "scoring": cost_of(outcome.choosing),
        "auxiliary": added(members, cost_of(outcome.preparing)),
    }


def select_samples(
    setup: Setup, model: nn.Module, pool: Pool, cycle: int, models: AuxiliaryModels
) -> Outcome:
    """Choose from the unlabelled samples by a cycle's model."""
    options = SelectionOptions(
        labelled=pool.taken(),
        subset=setup.config.loop.candidates,
        seed=selection_seed(setup.config.seed, cycle),
        task=setup.task,
        batch_size=scored_at_once(setup.data, setup.device),
        progress=setup.progress,
        support=models.support(setup.targets(pool)),
    )
    samples = pool_view(setup.data)
    k = check_k(setup.config.loop.k, len(samples) - len(pool.taken()), options.subset)
    with divergence_named(setup.config.training.lr, certain=False):
        return choose_from(model, samples, k, setup.strategy, options, lowest=SHOWN)


def check_longer(setup: Setup, out: Path) -> None:
    """Refuse to let a complete run go on for more cycles where its last choice cannot be made.

    Raises:
        RunFolderError: If the strategy needs models that the run has not kept.
    """
    entries, _ = read_journal(out / "records.jsonl")
    if not entries or entries[-1].get("selected") or len(entries) >= setup.config.loop.cycles:
        return
    strategy = setup.strategy
    plain = type(strategy).make_extra is Strategy.make_extra
    if strategy.members > 1 or Needs.PREVIOUS in strategy.needs or not plain:
        raise RunFolderError(
            f"{out} holds a complete run of {counted(len(entries), 'cycle')}, and {strategy.name} "
            "needs more models to choose than such a run keeps: it cannot be made longer; choose "
            "another --out"
        )


def choose_after_the_end(setup: Setup, folder: RunFolder, pool: Pool) -> tuple[SampleId, ...]:
    """Make the choice that the last cycle of a shorter run left out, if there is one.

    It is that of a run that was to be longer from the beginning: weights are kept as they are, and
    draws depend on seed and cycle alone.

    Returns:
        The ids that are to be labelled.
    """
    records, cycles = folder.records, setup.config.loop.cycles
    if not records or records[-1].selected or len(records) >= cycles:
        return ()
    last: Record = records[-1]
    model = setup.fresh_model(setup.config.seed)
    folder.load_model(model, last.cycle)
    model.to(setup.device).eval()
    models = AuxiliaryModels(setup, folder, last.cycle, model)
    with readings_recorded() as purposes:
        outcome = select_samples(setup, model, pool, last.cycle, models)
    known = tuple(dict.fromkeys((*last.purposes, *purposes)))
    record = replace(last, **fields_of(outcome, None), purposes=known)
    folder.amend(record)
    return record.selected


def _wishes(ids: Sequence[SampleId] = (), scores: Sequence[float] = ()) -> tuple[Wish, ...]:
    pairs = zip(ids[:SHOWN], scores[:SHOWN], strict=True)
    return tuple(Wish(id=name, score=value) for name, value in pairs)
