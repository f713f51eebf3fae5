"""Another model, trained from nothing on what a run has chosen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from steepest.core.seeds import derive
from steepest.data.alterations import take
from steepest.experiment.config import ModelPart
from steepest.experiment.start import fresh_model
from steepest.training import Checkpoint, evaluate, fit

if TYPE_CHECKING:
    from steepest.paper.found import FinishedRun
    from steepest.paper.workspace import Workspace


def train_on_choice(work: Workspace, run: FinishedRun, model_name: str) -> dict[str, Any]:
    """Train a fresh model on the last labelled set of a run, by the run's recipe, and test it.

    The result is remembered, and a training that was cut short goes on from its last checkpoint.

    Args:
        work: Where results are kept.
        run: Whose choice is learnt from.
        model_name: Which model.

    Returns:
        ``metrics`` on the test set, the number of ``labels``, and ``seconds``.
    """
    key = f"retrained/{model_name}/{run.key}"
    return dict(work.remember(f"{key}/result", lambda: _train(work, run, model_name, key)))


def _train(work: Workspace, run: FinishedRun, model_name: str, key: str) -> dict[str, Any]:
    data, task = work.data(run), work.task(run)
    ids = sorted(int(i) for i in work.labelled(run, -1))
    model = fresh_model(ModelPart(name=model_name), data, derive(run.seed, "retrained model"))
    checkpoint = Checkpoint(work.folder(key) / "training.safetensors")
    result = fit(
        model,
        task,
        take(data.train_images, ids),
        data.train_labels.unseal_rows(ids, "training on what a run has bought"),
        run.config.training,
        mean=data.mean,
        std=data.std,
        augmentation=data.augmentation,
        seed=derive(run.seed, "retraining"),
        device=work.device,
        progress=work.progress,
        checkpoint=checkpoint,
    )
    metrics = evaluate(
        model,
        task,
        data.test_images,
        data.test_labels,
        mean=data.mean,
        std=data.std,
        device=work.device,
    )
    checkpoint.path.unlink(missing_ok=True)
    kept = {k: v for k, v in metrics.items() if not isinstance(v, float) or math.isfinite(v)}
    return {"metrics": kept, "labels": len(ids), "seconds": result.seconds}
