"""Configuration of an experiment: frozen, validated and read from TOML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from steepest.core.parsing import parse_toml
from steepest.core.tables import from_table, to_table
from steepest.data.loading import check_options
from steepest.errors import ConfigError, SteepestError, UnknownNameError
from steepest.models.base import check_options as check_model_options
from steepest.strategies import create
from steepest.tasks.base import TASKS
from steepest.training.recipe import Recipe

Init = Literal["warm", "cold", "shrink-perturb"]


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@dataclass(frozen=True, kw_only=True)
class DataPart:
    """The data set."""

    name: str = field(metadata=_help("a built-in data set, or package.module:function"))
    options: Mapping[str, Any] = field(default_factory=dict, metadata=_help("its options"))
    limit: int | None = field(
        default=None,
        metadata=_help(
            "maximum number of training and of test samples; the same ones in every run"
        ),
    )
    imbalance: float = field(
        default=1.0,
        metadata=_help(
            "ratio of the shares of the first and the last class that are kept for training; "
            "other classes lie between; the same in every run; test samples are kept"
        ),
    )
    label_noise: float = field(
        default=0.0,
        metadata=_help(
            "share of training labels replaced by another class, the same in every run; test "
            "labels are kept"
        ),
    )

    backbone: str | None = field(
        default=None,
        metadata=_help("a pretrained net; its features, computed once, replace the images"),
    )
    dimensions: int | None = field(
        default=None,
        metadata=_help("number of principal components of the features to keep; default: all"),
    )

    def __post_init__(self) -> None:
        if self.dimensions is not None and (self.dimensions < 1 or self.backbone is None):
            raise ConfigError(
                "[data] dimensions must be at least 1, and belongs to the features of a backbone"
            )
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"[data] limit must be at least 1, not {self.limit}")
        if not 1 <= self.imbalance < math.inf:
            raise ConfigError(f"[data] imbalance must be at least 1, not {self.imbalance}")
        if not 0 <= self.label_noise < 1:
            raise ConfigError(
                f"[data] label_noise is a share from 0 to below 1, not {self.label_noise}"
            )


@dataclass(frozen=True, kw_only=True)
class ModelPart:
    """The model."""

    name: str = field(
        metadata=_help(
            "a built-in model, backbone:NAME for a pretrained net with a new head, or "
            "package.module:factory"
        )
    )
    options: Mapping[str, Any] = field(default_factory=dict, metadata=_help("its options"))
    weights: str | None = field(
        default=None, metadata=_help("a file of initial weights for every new model")
    )
    layers: tuple[str, ...] = field(
        default=(), metadata=_help("layers to take from the file; default: all")
    )


@dataclass(frozen=True, kw_only=True)
class TaskPart:
    """The task."""

    name: str = field(default="classification", metadata=_help("the task, or package.module:Class"))
    options: Mapping[str, Any] = field(default_factory=dict, metadata=_help("its options"))


@dataclass(frozen=True, kw_only=True)
class StrategyPart:
    """The strategy."""

    name: str = field(default="entropy-gradnorm", metadata=_help("the strategy"))
    options: Mapping[str, Any] = field(default_factory=dict, metadata=_help("its options"))


@dataclass(frozen=True, kw_only=True)
class Loop:
    """The cycle: how many labels, how often, from where."""

    initial: int = field(metadata=_help("random labels before the first training run"))
    k: int = field(metadata=_help("labels added after each training run but the last"))
    cycles: int = field(metadata=_help("number of training runs"))
    subset: int | None = field(
        default=None, metadata=_help("size of the random subset that is scored; default: 10 · k")
    )
    init: Init = field(
        default="warm",
        metadata=_help(
            "weights at the start of a training run: those of the last cycle (warm), new ones "
            "(cold), or a mixture (shrink-perturb)"
        ),
    )
    shrink: float = field(default=0.4, metadata=_help("shrink-perturb: factor on the old weights"))
    perturb: float = field(default=0.1, metadata=_help("shrink-perturb: factor on the new weights"))
    keep_weights: Literal["last", "all"] = field(
        default="last", metadata=_help("keep the weights of the last cycle or of all")
    )

    def __post_init__(self) -> None:
        for name in ("initial", "k", "cycles"):
            if getattr(self, name) < 1:
                raise ConfigError(f"[loop] {name} must be at least 1, not {getattr(self, name)}")
        if self.subset is not None and self.subset < self.k:
            raise ConfigError(
                f"[loop] subset = {self.subset} is less than k = {self.k}: make it at least k"
            )

    @property
    def candidates(self) -> int:
        """The size of the random subset that is scored."""
        return 10 * self.k if self.subset is None else self.subset


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that decides an experiment's outcome."""

    name: str = field(default="experiment", metadata=_help("title of the report"))
    seed: int = field(
        default=0, metadata=_help("random seed of the initial set, weights, order and draws")
    )
    device: str = field(default="auto", metadata=_help("cpu, cuda, cuda:1 … or auto"))
    threads: int = field(
        default=1,
        metadata=_help(
            "CPU threads of one run, at most the number of cores; more are faster for large nets "
            "and change rounding"
        ),
    )
    data: DataPart = field(metadata=_help("the data set"))
    model: ModelPart = field(metadata=_help("the model"))
    task: TaskPart = field(default_factory=TaskPart, metadata=_help("the task"))
    strategy: StrategyPart = field(default_factory=StrategyPart, metadata=_help("the strategy"))
    loop: Loop = field(metadata=_help("the cycle"))
    training: Recipe = field(default_factory=Recipe, metadata=_help("the training recipe"))

    def __post_init__(self) -> None:
        # Names and options are checked before anything long begins.
        create(self.strategy.name, self.strategy.options)
        if ":" not in self.task.name:  # Code is not run merely because a folder names it.
            TASKS.get(self.task.name)
        check_options(self.data.name, self.data.options)
        check_model_options(self.model.name, self.model.options)
        if self.threads < 1:
            raise ConfigError(f"threads must be at least 1, not {self.threads}")

    def to_table(self) -> dict[str, Any]:
        """Return the configuration as plain tables."""
        return to_table(self)

    def with_strategy(self, name: str, seed: int) -> Config:
        """Return the same experiment under another strategy and seed.

        Options are kept if the strategy is the configured one.
        """
        part = self.strategy if name == self.strategy.name else StrategyPart(name=name)
        return replace(self, strategy=part, seed=seed)


def presets() -> list[str]:
    """Return the names of the configurations that come with the package."""
    folder = resources.files("steepest") / "presets"
    return sorted(p.name[: -len(".toml")] for p in folder.iterdir() if p.name.endswith(".toml"))


VARIANTS = ("fast", "smoke")
"""Tables of the changes that a configuration makes for a quick run, and for a smoke test."""


def load_config(
    source: str | Path, changes: Sequence[str] = (), variant: str | None = None
) -> Config:
    """Read a configuration.

    Args:
        source: The path of a TOML file, or the name of a preset.
        changes: Settings that replace those of the file, such as ``"training.epochs=5"``.
        variant: ``"fast"`` or ``"smoke"``, to change what the table of that name says first.

    Raises:
        ConfigError: If the file is missing or not valid.
        UnknownNameError: For an unknown key or name; says the nearest.
    """
    text = _read(source)
    try:
        table = parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from error
    variants = {name: table.pop(name, None) for name in VARIANTS}
    if variant is not None:
        if variant not in VARIANTS:
            raise UnknownNameError("variant", variant, VARIANTS)
        if not isinstance(variants[variant], dict):
            raise ConfigError(f"{source} has no table [{variant}]: leave {variant!r} out")
        _merge(table, variants[variant])
    _drop_options(table, changes)
    for change in changes:
        change_setting(table, change)
    return from_table(Config, table)


def completed(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a stored configuration with settings that it does not know yet at their defaults."""
    try:
        return from_table(Config, table).to_table()
    except SteepestError:
        return table  # Of another version: then the difference is worth telling.


def _merge(table: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Put changes in place, table by table; options are replaced as a whole."""
    for key, value in changes.items():
        inside = table.get(key)
        if isinstance(value, dict) and isinstance(inside, dict) and key != "options":
            _merge(inside, value)
        else:
            table[key] = value


def _drop_options(table: dict[str, Any], changes: Sequence[str]) -> None:
    """Drop the options of what changes replace by something of another name."""
    for change in changes:
        path, name = parse_setting(change)
        part = table.get(path[0])
        if path[1:] == ["name"] and isinstance(part, dict) and part.get("name", name) != name:
            part.pop("options", None)


def _read(source: str | Path) -> str:
    if str(source) in presets():
        preset = resources.files("steepest") / "presets" / f"{source}.toml"
        return preset.read_text(encoding="utf-8")
    path = Path(source)
    if path.suffix != ".toml" and not path.exists():
        raise UnknownNameError("preset or configuration file", str(source), presets())
    if path.is_dir() or path.suffix.lower() == ".npz":
        kind = "folder" if path.is_dir() else "npz"
        raise ConfigError(
            f"{path} cannot be read as a configuration: name a preset, such as digits, and data of "
            f"your own by --set data.name={kind} --set data.options.path={path}"
        )
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise ConfigError(f"{path} cannot be read ({reason})") from error


def parse_setting(setting: str) -> tuple[list[str], Any]:
    """Read ``a.b=value``; the value is TOML, or a bare word taken as text.

    Raises:
        ConfigError: If it is not of that form.
    """
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{setting!r} is not a setting: write it as name=value")
    try:
        value = parse_toml(f"value = {text}")["value"]
    except ValueError:
        value = text.strip()
    return key.strip().split("."), value


def change_setting(table: dict[str, Any], change: str) -> None:
    """Put the value of ``a.b=value`` into the tables within a table, made as needed.

    Raises:
        ConfigError: If it is not of that form, or leads through a value.
    """
    (*path, last), value = parse_setting(change)
    for name in path:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{change!r}: {name!r} is a value, not a table")
    table[last] = value
