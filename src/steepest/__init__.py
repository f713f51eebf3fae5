"""Active learning by gradient norm: pick the samples that would move your model most."""

from steepest import errors, strategies
from steepest.experiment.config import Config, load_config
from steepest.experiment.loop import Experiment
from steepest.gradnorm import gradient_norms
from steepest.loop import ActiveLoop
from steepest.pool import Pool
from steepest.scoring import Scores, Selection, score, select
from steepest.strategies import Strategy
from steepest.tasks import Task
from steepest.version import __version__

__all__ = [
    "ActiveLoop",
    "Config",
    "Experiment",
    "Pool",
    "Scores",
    "Selection",
    "Strategy",
    "Task",
    "__version__",
    "errors",
    "gradient_norms",
    "load_config",
    "score",
    "select",
    "strategies",
]
