"""One file per strategy; dropping a file in here is enough for it to be found and tested."""

from steepest.strategies.base import Needs, Strategy, create, names, strategy
from steepest.strategies.batch import Batch

__all__ = ["Batch", "Needs", "Strategy", "create", "names", "strategy"]
