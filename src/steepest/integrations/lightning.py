"""A callback for Lightning: the model chooses the next samples after a fit."""

from __future__ import annotations

from typing import Any

from steepest.integrations.next_samples import NextSamples

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError:
    try:
        from pytorch_lightning import Callback
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "steepest.integrations.lightning needs Lightning: run pip install lightning"
        ) from error

__all__ = ["ActiveLearning"]


class ActiveLearning(NextSamples, Callback):  # type: ignore[misc]
    """Chooses the next samples to label at the end of each fit.

    The samples and the metrics of the fit become a round of the labelling project; the numbers of
    labelled and waiting samples go to the trainer's loggers. With several processes, the first one
    chooses. Modules that are sharded over processes (FSDP, DeepSpeed's stage 3) cannot choose.

    Args and attributes are those of ``steepest.integrations.NextSamples``.
    """

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ANN401
        """Check that the module takes the pool's samples."""
        if trainer.is_global_zero:
            self.rehearse(pl_module)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ANN401
        """Choose the next samples, and log how many there are."""
        if trainer.interrupted or trainer.fast_dev_run or not trainer.is_global_zero:
            return
        self.after_training(pl_module, trainer.callback_metrics)
        for logger in trainer.loggers:
            logger.log_metrics(self.counts(), step=trainer.global_step)
        from lightning_utilities.core.rank_zero import rank_zero_info

        rank_zero_info(self.summary())
