"""Choosing by scores and features: functions that know no model."""

from steepest.strategies.algorithms.ranking import rank_correlation
from steepest.strategies.algorithms.top_k import top_k

__all__ = ["rank_correlation", "top_k"]
