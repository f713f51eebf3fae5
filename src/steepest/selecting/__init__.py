"""From a model and a pool to scores, and from scores to a selection."""

from steepest.selecting.ray_engine import OnRay
from steepest.selecting.regime import Regime
from steepest.selecting.score import score
from steepest.selecting.scores import Scores
from steepest.selecting.select import select
from steepest.selecting.selection import Selection

__all__ = ["OnRay", "Regime", "Scores", "Selection", "score", "select"]
