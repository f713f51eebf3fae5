"""Training: the recipe, augmentation, the fit loop and evaluation."""

from __future__ import annotations

from steepest.training.augment import AUGMENTATIONS, CropFlip, normalise
from steepest.training.evaluate import predict_logits
from steepest.training.fit import FitResult, fit
from steepest.training.recipe import Recipe

__all__ = [
    "AUGMENTATIONS",
    "CropFlip",
    "FitResult",
    "Recipe",
    "fit",
    "normalise",
    "predict_logits",
]
