"""Features of a pretrained net, computed once and kept."""

from __future__ import annotations

from steepest.features.folder import folder_features
from steepest.features.pool import pool_features
from steepest.features.samples import image_features, text_features
from steepest.features.store import FeatureStore
from steepest.features.table import FeatureTable

__all__ = [
    "FeatureStore",
    "FeatureTable",
    "folder_features",
    "image_features",
    "pool_features",
    "text_features",
]
