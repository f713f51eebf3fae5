"""Check that data, model, task and strategy fit together, on two samples, before a run starts."""

from __future__ import annotations

from steepest.core.own_code import own_failures_told
from steepest.core.wording import counted
from steepest.errors import ModelError, SteepestError
from steepest.experiment.building import pool_view
from steepest.experiment.setup import Setup
from steepest.selecting.model_task import single_logits_named
from steepest.selecting.options import SelectionOptions
from steepest.selecting.pool_view import open_view
from steepest.training import predict_logits


def check_compatibility(setup: Setup) -> None:
    """Let a fresh model and the strategy look at two samples, so that misfits show at once.

    Raises:
        ModelError: If the model's outputs are not what the data set has labels for.
        SteepestError: If the strategy has no meaning for the task, or misses something.
    """
    setup.strategy.check_k(setup.config.loop.k)
    data, classes = setup.data, len(setup.data.classes)
    model = setup.fresh_model(setup.config.seed)
    images = data.train_images[:2]
    device = setup.device
    pair = pool_view(data).part(range(min(2, len(data.ids))))
    try:
        with single_logits_named(model, pair, setup.task):
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
    how = SelectionOptions(task=setup.task, progress=False)
    own = own_failures_told("strategy", setup.config.strategy.name)
    with own, open_view(model, pair, setup.strategy, how) as view:
        setup.strategy.check(view)
