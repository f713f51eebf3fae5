"""Tasks by name: losses with and without labels, predictions and metrics."""

from __future__ import annotations

from steepest.tasks.base import TASKS, Losses, Metric, Task
from steepest.tasks.classification import Classification
from steepest.tasks.multi_label import MultiLabel
from steepest.tasks.segmentation import IGNORED, Segmentation

__all__ = [
    "IGNORED",
    "TASKS",
    "Classification",
    "Losses",
    "Metric",
    "MultiLabel",
    "Segmentation",
    "Task",
]
