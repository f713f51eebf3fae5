"""Models by name: plain modules, one file each, their features, and their weights on disk."""

from __future__ import annotations

from steepest.models.base import MODELS, build, check_options, names
from steepest.modules.features import Features, extract_features, find_penultimate
from steepest.modules.fingerprint import fingerprint
from steepest.modules.weights import LoadReport, load_weights, save_weights

__all__ = [
    "MODELS",
    "Features",
    "LoadReport",
    "build",
    "check_options",
    "extract_features",
    "find_penultimate",
    "fingerprint",
    "load_weights",
    "names",
    "save_weights",
]
