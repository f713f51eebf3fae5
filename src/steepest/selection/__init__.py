"""Choosing by scores and features: functions that know no model."""

from steepest.selection.ranking import rank_correlation
from steepest.selection.top_k import random_subset, top_k

__all__ = ["random_subset", "rank_correlation", "top_k"]
