"""From a model and a pool to scores, and from scores to a selection."""

from steepest.scoring.regime import Regime
from steepest.scoring.score import score
from steepest.scoring.scores import Scores
from steepest.scoring.select import select
from steepest.scoring.selection import Selection

__all__ = ["Regime", "Scores", "Selection", "score", "select"]
