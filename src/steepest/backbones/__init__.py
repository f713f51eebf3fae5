"""Pretrained nets by name, with the preprocessing that they were trained with."""

from __future__ import annotations

from steepest.backbones.base import Backbone
from steepest.backbones.find import DEFAULT, find_backbone

__all__ = ["DEFAULT", "Backbone", "find_backbone"]
