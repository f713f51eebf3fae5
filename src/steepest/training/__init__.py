"""Training: the recipe, augmentation, the fit loop and evaluation."""

from __future__ import annotations

from steepest.training.augment import AUGMENTATIONS, CropFlip, normalise
from steepest.training.auxiliary_head import Extra
from steepest.training.checkpoint import Checkpoint
from steepest.training.evaluate import evaluate, predict_logits
from steepest.training.fit import FitResult, fit
from steepest.training.recipe import Recipe

__all__ = [
    "AUGMENTATIONS",
    "Checkpoint",
    "CropFlip",
    "Extra",
    "FitResult",
    "Recipe",
    "evaluate",
    "fit",
    "normalise",
    "predict_logits",
]
