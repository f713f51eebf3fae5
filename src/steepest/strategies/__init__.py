"""One file per strategy; dropping a file in here is enough for it to be found and tested."""

from steepest.strategies.base import Needs, Scorer, Strategy, create, names, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice
from steepest.strategies.support import Support
from steepest.strategies.view import PoolView

__all__ = [
    "Batch",
    "Choice",
    "Needs",
    "PoolView",
    "Scorer",
    "Strategy",
    "Support",
    "create",
    "names",
    "strategy",
]
