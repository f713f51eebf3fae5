"""The labelling loop around your own trainer: choose, label, learn, again."""

from __future__ import annotations

from steepest.loop.active import ActiveLoop
from steepest.loop.round import Round

__all__ = ["ActiveLoop", "Round"]
