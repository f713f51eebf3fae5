"""How large everything is: the paper's protocol, or a trial of the whole path.

``levels/NAME.toml`` says for each experiment of the paper which configuration is run for it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from steepest.errors import ConfigError, UnknownNameError
from steepest.experiment.config import Config, load_config, parse_setting
from steepest.experiment.variants import Variant
from steepest.reproduce.scenes import SCENES, scenes_in
from steepest.tables import from_table

LEVELS = ("smoke", "paper")
FREE = ("threads", "device", "training.amp", "training.compile", "training.cuda_graph")
"""Settings that change how fast a run is, and its roundings, but not the protocol."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One experiment of the paper.

    Attributes:
        config: The preset that is run.
        set: What is changed in it.
        variant: Which of its variants is taken.
        seeds: How many seeds, where it is not the level's number.
        stand_in: What stands in for the paper's data, in words; empty for the data themselves.
        same_as: The experiment whose runs are taken instead of own ones.
        options: Options by strategy that differ from the level's here.
    """

    config: str = ""
    set: tuple[str, ...] = ()
    variant: str | None = None
    seeds: int | None = None
    stand_in: str = ""
    same_as: str = ""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is spent on the influence of one model's samples.

    Attributes:
        dampings: λ, beside λ → ∞.
        iterations: Products for each loss and curvature at most.
        learnt: Labelled samples that the curvature is of, at most: a fixed random part.
        tested: Test samples at most; None takes all.
        pool: Unlabelled samples that means are taken over, at most; None takes all.
    """

    dampings: tuple[float, ...]
    iterations: int
    learnt: int
    tested: int | None = None
    pool: int | None = None

    @property
    def key(self) -> str:
        """What tells it from any other; fit for a path."""
        parts = (*self.dampings, self.iterations, self.learnt, self.tested, self.pool)
        return "-".join("all" if part is None else f"{part:g}" for part in parts)


@dataclass(frozen=True, kw_only=True)
class Level:
    """A size in which everything can be made.

    Attributes:
        name: What it is called.
        seeds: How many seeds.
        deeper: The model that is trained on what another one chose.
        strategies: Options by strategy, where they are not the defaults.
        settings: Experiments by name.
        effort: How much is spent on influence.
        changes: Settings for every run, such as ``training.amp=true``.
        chosen: Seeds that were asked for; the first ones if none were.
    """

    name: str
    seeds: int
    deeper: str
    effort: Effort
    strategies: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Setting]
    changes: tuple[str, ...] = field(default=())
    chosen: tuple[int, ...] = field(default=())

    @property
    def comparable(self) -> bool:
        """Whether numbers are of the paper's data."""
        return self.name == "paper"

    def resolve(self, setting: str) -> str:
        """Return the name of the experiment whose runs a setting takes.

        Raises:
            UnknownNameError: If there is none of that name.
        """
        if setting not in self.settings:
            raise UnknownNameError("setting", setting, self.settings)
        return self.settings[setting].same_as or setting

    def seeds_of(self, setting: str, most: int | None = None) -> tuple[int, ...]:
        """Return the seeds of an experiment, the first ones if only some are wanted."""
        own = self.settings[self.resolve(setting)].seeds
        seeds = self.chosen or range(self.seeds)
        return tuple(seeds)[: min(n for n in (own, most, len(seeds)) if n is not None)]

    def planned_seeds(self, setting: str, most: int | None = None) -> int:
        """Return how many seeds an experiment has, whatever was asked for."""
        own = self.settings[self.resolve(setting)].seeds
        return min(n for n in (own, most, self.seeds) if n is not None)

    def variant(self, strategy: str, setting: str) -> Variant:
        """Return a strategy with its options in an experiment at this level."""
        here = self.settings[self.resolve(setting)].options
        options = {**self.strategies.get(strategy, {}), **here.get(strategy, {})}
        return Variant(strategy, strategy, options)

    def config(self, setting: str, init: str | None, *, weights: bool, work: Path) -> Config:
        """Return what is run for an experiment.

        Args:
            setting: Its name.
            init: Weights at the start of a training; None leaves them to the preset.
            weights: Whether the weights of every cycle are kept.
            work: Where data are put that are made for it.
        """
        part = self.settings[self.resolve(setting)]
        # A path may hold anything, quotes too: as a JSON text it is one in TOML as well.
        scenes = json.dumps(str(scenes_in(work)), ensure_ascii=False)
        changes = [text.replace(SCENES, scenes) for text in part.set]
        changes.append(f"loop.keep_weights={'all' if weights else 'last'}")
        if init is not None:
            changes.append(f"loop.init={init}")
        config = load_config(part.config, [*changes, *self.changes], part.variant)
        return replace(config, name=self.resolve(setting))


def load_level(name: str, changes: Sequence[str] = (), seeds: Sequence[int] | None = None) -> Level:
    """Read a level.

    Args:
        name: ``"smoke"`` or ``"paper"``.
        changes: Settings for every run, of those that leave the protocol as it is.
        seeds: Those alone, as many as are wanted; None leaves it to the level.

    Raises:
        UnknownNameError: If there is none of that name.
        ConfigError: If a change would change the protocol.
    """
    if name not in LEVELS:
        raise UnknownNameError("level", name, LEVELS)
    for change in changes:
        key = ".".join(parse_setting(change)[0])
        if key not in FREE:
            raise ConfigError(
                f"--set {key}: would change the paper's protocol; what may be set is "
                f"{', '.join(FREE)}"
            )
    if seeds is not None and (not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds)):
        raise ConfigError("--seeds: give at least 1, each once, and none negative")
    file = resources.files("steepest.reproduce") / "levels" / f"{name}.toml"
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    level = from_table(Level, {**table, "name": name, "changes": list(changes)})
    parts = {key: from_table(Setting, part) for key, part in table["settings"].items()}
    return replace(level, settings=parts, chosen=tuple(seeds or ()))
