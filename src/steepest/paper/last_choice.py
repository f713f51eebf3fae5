"""The choice a strategy would make after the last cycle, where the loop stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from steepest.core.seeds import SampleId
from steepest.experiment.protocol import extra_seed, selection_seed
from steepest.experiment.start import fresh_model
from steepest.experiment.views import scored_at_once
from steepest.modules.weights import load_weights
from steepest.selecting.options import SelectionOptions
from steepest.selecting.select import choose_from
from steepest.strategies import Needs, Strategy, Support, create
from steepest.training.augment import normalise

if TYPE_CHECKING:
    from steepest.paper.found import FinishedRun
    from steepest.paper.workspace import Workspace


def choose_after_last(work: Workspace, run: FinishedRun) -> list[SampleId] | None:
    """Let a run's strategy choose once more, as the loop would in one more cycle.

    Returns:
        Ids, best first; None if the strategy takes models that the last cycle did not train.
    """
    cycle, config = run.cycles - 1, run.config
    strategy = create(config.strategy.name, config.strategy.options)
    if strategy.members > 1:
        return None
    data, model = work.data(run), work.model(run, cycle)
    labelled = work.labelled(run, cycle)
    how = SelectionOptions(
        labelled=labelled,
        subset=config.loop.candidates,
        seed=selection_seed(run.seed, cycle),
        task=work.task(run),
        batch_size=scored_at_once(data, work.device),
        progress=work.progress,
        support=_support(work, run, strategy, model, labelled),
    )
    k = min(config.loop.k, len(data.ids) - len(labelled))
    return list(choose_from(model, work.samples(run), k, strategy, how).selection.ids)


def _support(
    work: Workspace,
    run: FinishedRun,
    strategy: Strategy,
    model: nn.Module,
    labelled: list[SampleId],
) -> Support:
    targets: dict[SampleId, Any] = {}
    if Needs.TARGETS in strategy.needs:
        rows = work.labels(run, labelled, "what the last model was trained on")
        targets = dict(zip(labelled, rows, strict=True))
    previous = untrained = None
    if Needs.PREVIOUS in strategy.needs and run.cycles > 1:
        previous = work.model(run, run.cycles - 2)
    elif Needs.PREVIOUS in strategy.needs:
        options = strategy.model_options()
        untrained = fresh_model(run.config.model, work.data(run), run.seed, options)
        untrained.to(work.device)
    return Support(
        targets=targets,
        previous=previous,
        untrained=untrained,
        extra=_extra(work, run, strategy, model),
    )


def _extra(
    work: Workspace, run: FinishedRun, strategy: Strategy, model: nn.Module
) -> nn.Module | None:
    """Return what was trained along with the model in the last cycle."""
    data, last = work.data(run), run.cycles - 1
    few = normalise(data.train_images[:2], data.mean, data.std).to(work.device)
    extra = strategy.make_extra(model, few, extra_seed(run.seed, last))
    if extra is not None:
        load_weights(extra, run.weights(last, "extra"))
        extra.to(work.device).eval()
    return extra
