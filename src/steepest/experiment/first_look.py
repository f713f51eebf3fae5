"""Does everything fit together? A look at two samples, before anything long begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steepest.core.own_code import own_failures_told
from steepest.core.wording import counted
from steepest.errors import ModelError, SteepestError
from steepest.experiment.parts import pool_view
from steepest.selecting.looking import looking_at
from steepest.selecting.options import SelectionOptions
from steepest.selecting.single_logit import single_logits_named
from steepest.training import predict_logits

if TYPE_CHECKING:
    from steepest.experiment.loop import Experiment


def check_fit(experiment: Experiment) -> None:
    """Let a fresh model and the strategy look at two samples, so that misfits show at once.

    Raises:
        ModelError: If the model's outputs are not what the data set has labels for.
        SteepestError: If the strategy has no meaning for the task, or misses something.
    """
    experiment.strategy.check_k(experiment.config.loop.k)
    data, classes = experiment.data, len(experiment.data.classes)
    model = experiment.fresh_model(experiment.config.seed)
    images = data.train_images[:2]
    device = experiment.device
    pair = pool_view(data).part(range(min(2, len(data.ids))))
    try:
        with single_logits_named(model, pair, experiment.task):
            logits = predict_logits(model, images, mean=data.mean, std=data.std, device=device)
    except ModelError as error:
        # Without an error of the model's own it did take them, and something else is wrong.
        if images.ndim > 2 or isinstance(error.__cause__, SteepestError | None):
            raise
        raise ModelError(
            f"{error}; {data.name} has features {list(images.shape[1:])} and no images: set "
            "model.name=mlp, or a function of your own"
        ) from error
    if logits.shape[1] != classes:
        raise ModelError(
            f"the model has {counted(logits.shape[1], 'output')}, but {data.name} has "
            f"{classes} classes: give the model that many outputs"
        )
    wanted = images.shape[2:] if data.train_labels.dense else ()
    if logits.shape[2:] != wanted:
        said = "one label for each pixel" if wanted else "one label for each sample"
        raise ModelError(
            f"the model gives logits {list(logits.shape)} for images {list(images.shape)}, but "
            f"{data.name} has {said}: choose a model for that"
        )
    how = SelectionOptions(task=experiment.task, progress=False)
    own = own_failures_told("strategy", experiment.config.strategy.name)
    with own, looking_at(model, pair, experiment.strategy, how) as view:
        experiment.strategy.check(view)
