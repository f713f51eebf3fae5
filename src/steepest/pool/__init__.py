"""Pools: the state of each sample, since when and by whom."""

from __future__ import annotations

from steepest.core.lock import FileLock
from steepest.pool.pool import Pool
from steepest.pool.states import Event, State, Verb
from steepest.pool.values import Label

__all__ = ["Event", "FileLock", "Label", "Pool", "State", "Verb"]
