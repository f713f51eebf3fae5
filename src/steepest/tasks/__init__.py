"""Tasks by name: losses, predictions and metrics."""

from __future__ import annotations

from steepest.tasks.base import TASKS, Metric, Task
from steepest.tasks.classification import Classification

__all__ = ["TASKS", "Classification", "Metric", "Task"]
