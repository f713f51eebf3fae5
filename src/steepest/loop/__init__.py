"""The labelling loop around your own trainer: choose, label, learn, again."""

from __future__ import annotations

from steepest.loop.active import ActiveLoop
from steepest.loop.round import Round
from steepest.loop.stopping import Flat, Reached

__all__ = ["ActiveLoop", "Flat", "Reached", "Round"]
