"""Features of a pretrained net, computed once and kept."""

from __future__ import annotations

from steepest.features.folder import folder_features
from steepest.features.images import image_features
from steepest.features.pool import pool_features
from steepest.features.store import FeatureStore
from steepest.features.table import FeatureTable
from steepest.features.texts import text_features

__all__ = [
    "FeatureStore",
    "FeatureTable",
    "folder_features",
    "image_features",
    "pool_features",
    "text_features",
]
