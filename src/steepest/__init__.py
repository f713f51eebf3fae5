"""Active learning by gradient norm: pick the samples that would move your model most."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from steepest import errors
from steepest.version import __version__

if TYPE_CHECKING:
    from steepest import influence as influence
    from steepest import strategies
    from steepest import tasks as tasks
    from steepest.experiment.config import Config, load_config
    from steepest.experiment.loop import Experiment
    from steepest.gradnorm import gradient_norms
    from steepest.labelling.project.classifier import load_classifier
    from steepest.loop import ActiveLoop
    from steepest.pool import Pool
    from steepest.selecting import Scores, Selection, score, select
    from steepest.strategies import Strategy
    from steepest.tasks import Task

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
    "load_classifier",
    "load_config",
    "score",
    "select",
    "strategies",
]

_PLACES = {
    "ActiveLoop": "loop",
    "Config": "experiment.config",
    "Experiment": "experiment.loop",
    "Pool": "pool",
    "Scores": "selecting",
    "Selection": "selecting",
    "Strategy": "strategies",
    "Task": "tasks",
    "gradient_norms": "gradnorm",
    "load_classifier": "labelling.project.classifier",
    "load_config": "experiment.config",
    "score": "selecting",
    "select": "selecting",
}
"""Where the public names are; importing torch takes seconds, so it waits until one is used."""


def _find(name: str) -> object:
    """Return a public name or a module of this package, imported when it is first asked for.

    Raises:
        AttributeError: If the name is unknown, or it needs a package that is not installed.
    """
    if name in _PLACES:
        value: object = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
        globals()[name] = value
        return value
    try:
        if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
            return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(str(error)) from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:
    # Hidden from type checkers, which would take every misspelt name for one that is found.
    __getattr__ = _find


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "influence", "tasks"})
