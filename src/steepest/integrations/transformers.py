"""A callback for Hugging Face's Trainer: the model chooses the next samples after training."""

from __future__ import annotations

from typing import Any

from steepest.integrations.next_samples import NextSamples

try:
    from transformers import TrainerCallback
    from transformers.utils import logging
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "steepest.integrations.transformers needs transformers: run pip install transformers"
    ) from error

__all__ = ["ActiveLearning"]

_log = logging.get_logger("transformers.steepest")


class ActiveLearning(NextSamples, TrainerCallback):  # type: ignore[misc]
    """Chooses the next samples to label at the end of each training run.

    The samples and the last metrics become a round of the labelling project; the numbers of
    labelled and waiting samples are added to the trainer's history. The best checkpoint chooses if
    the trainer loads it at the end. With several processes, the first one chooses. Models that are
    sharded over processes (FSDP, DeepSpeed's stage 3) cannot choose.

    Args and attributes are those of ``steepest.integrations.NextSamples``.
    """

    def on_train_begin(
        self,
        args: Any,  # noqa: ANN401, ARG002
        state: Any,  # noqa: ANN401
        control: Any,  # noqa: ANN401, ARG002
        model: Any = None,  # noqa: ANN401
        **_: Any,  # noqa: ANN401
    ) -> None:
        """Check that the model takes the pool's samples."""
        if state.is_world_process_zero:
            self.rehearse(model)

    def on_train_end(
        self,
        args: Any,  # noqa: ANN401, ARG002
        state: Any,  # noqa: ANN401
        control: Any,  # noqa: ANN401, ARG002
        model: Any = None,  # noqa: ANN401
        **_: Any,  # noqa: ANN401
    ) -> None:
        """Choose the next samples, and log how many there are."""
        if not state.is_world_process_zero:
            return
        self.after_training(model, {k: v for entry in state.log_history for k, v in entry.items()})
        state.log_history.append({**self.counts(), "step": state.global_step})
        _log.info(self.summary())
