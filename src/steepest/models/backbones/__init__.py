"""Pretrained nets by name, with the preprocessing that they were trained with."""

from __future__ import annotations

from steepest.models.backbones.base import Backbone
from steepest.models.backbones.find import DEFAULT, DEFAULT_TEXT, find_backbone, names_code

__all__ = ["DEFAULT", "DEFAULT_TEXT", "Backbone", "find_backbone", "names_code"]
