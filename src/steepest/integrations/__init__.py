"""Steepest inside other libraries: callbacks for trainers, and checks of labels.

Each module needs the library that it is named after, and is imported by itself, as in
``from steepest.integrations.lightning import ActiveLearning``.
"""

from __future__ import annotations

from steepest.integrations.next_samples import NextSamples

__all__ = ["NextSamples"]
