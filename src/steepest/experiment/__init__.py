"""The loop, its configuration, its records, and fair comparisons."""

from steepest.experiment.compare import compare
from steepest.experiment.config import Config, load_config, presets
from steepest.experiment.loop import Experiment
from steepest.experiment.record import Record

__all__ = ["Config", "Experiment", "Record", "compare", "load_config", "presets"]
