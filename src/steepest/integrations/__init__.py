"""Steepest inside other libraries: callbacks of trainers, data sets, label checks.

Each module needs the library that it is named after, and is imported by itself, as in
``from steepest.integrations.lightning import ActiveLearning``.
"""

from __future__ import annotations

__all__: list[str] = []
