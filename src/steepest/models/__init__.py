"""Models by name: plain modules, one file each, and their weights on disk."""

from __future__ import annotations

from steepest.models.base import MODELS, build, names
from steepest.models.fingerprint import fingerprint
from steepest.models.weights import load_weights, save_weights

__all__ = ["MODELS", "build", "fingerprint", "load_weights", "names", "save_weights"]
