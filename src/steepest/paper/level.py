"""Levels of reproduction: the paper's protocol, or a smoke test of the whole path.

``levels/NAME.toml`` says for each experiment of the paper which configuration is run for it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from steepest.core.tables import from_table
from steepest.errors import ConfigError, UnknownNameError
from steepest.experiment.config import Config, load_config, parse_setting
from steepest.experiment.variants import Variant
from steepest.paper.needed_runs import Need
from steepest.paper.scenes import SCENES, scenes_in
from steepest.strategies import create, names

LEVELS = ("smoke", "paper")
FREE = ("threads", "device", "training.amp", "training.compile", "training.cuda_graph")
"""Settings that change how fast a run is, and its roundings, but not the protocol."""

OPEN = (
    "model.weights",
    "model.layers",
    "model.options",
    "data.options",
    "loop.subset",
    "training.batch_size",
    "training.lr",
    "training.weight_decay",
)
"""Settings of a single experiment that the paper leaves open, or from which a preset departs."""


_FULL = "-full"
"""Ends the name of an experiment's twin that has all labels."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One experiment of the paper.

    Attributes:
        config: The preset that is run.
        set: What is changed in it.
        variant: The variant in use.
        seeds: How many seeds, where it is not the level's number.
        stand_in: A description of the substitute for the paper's data; empty for the data
            themselves.
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
    """Budget for the influence of one model's samples.

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
        """Unique key, safe in a path."""
        parts = (*self.dampings, self.iterations, self.learnt, self.tested, self.pool)
        return "-".join("all" if part is None else f"{part:g}" for part in parts)


@dataclass(frozen=True, kw_only=True)
class Level:
    """A size in which everything can be made.

    Attributes:
        name: The name.
        seeds: How many seeds.
        deeper: The model that is trained on what another one chose.
        strategies: Options by strategy, where they are not the defaults.
        settings: Experiments by name.
        effort: How much is spent on influence.
        changes: Settings for every run, such as ``training.amp=true``.
        own_changes: Settings for the runs of one experiment, by its name.
        own_options: Options of strategies that were requested, by the strategy's name.
        chosen: Seeds that were requested; the first ones if none were.
    """

    name: str
    seeds: int
    deeper: str
    effort: Effort
    strategies: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Setting]
    changes: tuple[str, ...] = field(default=())
    own_changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    own_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    chosen: tuple[int, ...] = field(default=())

    @property
    def comparable(self) -> bool:
        """Whether the numbers come from the paper's data."""
        return self.name == "paper"

    def resolve(self, setting: str) -> str:
        """Return the name of the experiment whose runs a setting takes.

        Raises:
            UnknownNameError: If there is none of that name.
        """
        if setting not in self.settings:
            raise UnknownNameError("setting", setting, self.settings)
        return self.settings[setting].same_as or setting

    def stand_ins(self, needs: Iterable[Need]) -> dict[str, str]:
        """Return which data stand in for those of the paper, by the experiment's name."""
        names = dict.fromkeys(need.setting.removesuffix(_FULL) for need in needs)
        found = {name: self.settings[self.resolve(name)].stand_in for name in names}
        return {name: stand for name, stand in found.items() if stand}

    def seeds_of(self, setting: str, most: int | None = None) -> tuple[int, ...]:
        """Return the seeds of an experiment, the first ones if only some are wanted."""
        own = self.settings[self.resolve(setting)].seeds
        seeds = self.chosen or range(self.seeds)
        return tuple(seeds)[: min(n for n in (own, most, len(seeds)) if n is not None)]

    def planned_seeds(self, setting: str, most: int | None = None) -> int:
        """Return how many seeds an experiment has, whatever was requested."""
        own = self.settings[self.resolve(setting)].seeds
        return min(n for n in (own, most, self.seeds) if n is not None)

    def variant(self, strategy: str, setting: str) -> Variant:
        """Return a strategy with its options in an experiment at this level."""
        here = self.settings[self.resolve(setting)].options
        usual = {**self.strategies.get(strategy, {}), **here.get(strategy, {})}
        options = {**usual, **self.own_options.get(strategy, {})}
        return Variant(strategy, strategy, options)

    def changes_of(self, setting: str) -> tuple[str, ...]:
        """Return what was set for an experiment alone; its twin takes what is about training."""
        name = self.resolve(setting)
        own = self.own_changes.get(name.removesuffix(_FULL), ())
        return tuple(c for c in own if not (name.endswith(_FULL) and c.startswith("loop.")))

    def config(self, setting: str, init: str | None, *, weights: bool, work: Path) -> Config:
        """Return the configuration of an experiment's runs.

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
        changes += [*self.changes, *self.changes_of(setting)]
        config = load_config(part.config, changes, part.variant)
        return replace(config, name=self.resolve(setting))


def load_level(name: str, changes: Sequence[str] = (), seeds: Sequence[int] | None = None) -> Level:
    """Read a level.

    Args:
        name: ``"smoke"`` or ``"paper"``.
        changes: Settings for every run, of those that leave the protocol as it is; for one
            experiment, of those that the paper leaves open, such as
            ``"caltech101:model.weights=resnet18.pth"``; and options of a strategy, such as
            ``"vaal:published=true"``.
        seeds: Those alone, as many as are wanted; None leaves it to the level.

    Raises:
        UnknownNameError: If there is none of that name, or no such experiment, strategy or option.
        ConfigError: If a change would change the protocol.
    """
    if name not in LEVELS:
        raise UnknownNameError("level", name, LEVELS)
    if seeds is not None and (not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds)):
        raise ConfigError("--seeds: give at least 1, each once, and none negative")
    file = resources.files("steepest.paper") / "levels" / f"{name}.toml"
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    parts = {key: from_table(Setting, part) for key, part in table["settings"].items()}
    level = from_table(Level, {**table, "name": name})
    level = replace(level, settings=parts, chosen=tuple(seeds or ()))
    for change in changes:
        level = _with_change(level, change)
    return level


def _with_change(level: Level, change: str) -> Level:
    """Return a level with one setting more."""
    (first, *rest), value = parse_setting(change)
    whose, colon, first = first.rpartition(":")
    key = ".".join([first, *rest])
    if not colon:
        _check_key(key, FREE, key)
        return replace(level, changes=(*level.changes, change))
    alone = [name for name, part in level.settings.items() if not part.same_as]
    experiments = [name for name in alone if not name.endswith(_FULL)]
    if whose in experiments:
        _check_key(key, (*FREE, *OPEN), f"{whose}:{key}")
        own = (*level.own_changes.get(whose, ()), change.partition(":")[2])
        return replace(level, own_changes={**level.own_changes, whose: own})
    if whose in names():
        options = {**level.own_options.get(whose, {}), key: value}
        create(whose, {**level.strategies.get(whose, {}), **options})
        return replace(level, own_options={**level.own_options, whose: options})
    raise UnknownNameError("data set or strategy", whose, [*experiments, *names()])


def _check_key(key: str, known: Sequence[str], said: str) -> None:
    """Refuse a setting that none of the known ones is, or holds as one of its options."""
    if any(key == name or key.startswith(f"{name}.") for name in known):
        return
    more = f"; of one data set, as in caltech101:model.weights=FILE, also {', '.join(OPEN)}"
    raise ConfigError(
        f"--set {said}: would change the paper's protocol; what may be set is "
        f"{', '.join(known)}{more if known == FREE else ''}"
    )
