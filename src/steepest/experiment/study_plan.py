"""A study of several comparisons, written down in one TOML file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steepest.core.parsing import parse_toml
from steepest.core.tables import from_table
from steepest.errors import ConfigError, InputError, SteepestError, UnknownNameError
from steepest.experiment.comparison_runs import Comparing
from steepest.experiment.config import Config, load_config, presets
from steepest.experiment.variants import Variant, check_folder_name, parse_variants


@dataclass(frozen=True)
class Group:
    """One comparison of a plan, or a part of one: groups of one name add to the same comparison.

    Attributes:
        name: Names its folder.
        config: The experiment; its strategy and seed are replaced.
        variants: The strategies, ``random`` not necessarily among them.
        seeds: One run of each strategy per seed.
    """

    name: str
    config: Config
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]

    def below(self, out: Path) -> Comparing:
        """Return the comparison in its folder."""
        return Comparing(self.config, self.variants, self.seeds, out / self.name)

    def part(self, labels: Collection[str] | None, seeds: Collection[int] | None) -> Group:
        """Return the group with some of its strategies and seeds; None stands for all."""
        return replace(
            self,
            variants=tuple(v for v in self.variants if labels is None or v.label in labels),
            seeds=tuple(seed for seed in self.seeds if seeds is None or seed in seeds),
        )


@dataclass(frozen=True)
class Plan:
    """Comparisons to make, one after another.

    Attributes:
        name: The name of the study.
        groups: In the order in which they are to be made.
    """

    name: str
    groups: tuple[Group, ...]

    def below(self, out: Path) -> list[Comparing]:
        """Return the comparisons, each in a folder of its name."""
        return [group.below(out) for group in self.groups]

    def part(
        self,
        groups: Collection[str] | None = None,
        labels: Collection[str] | None = None,
        seeds: Collection[int] | None = None,
    ) -> Plan:
        """Return a plan of some of its runs, such as those that one machine is to do.

        Args:
            groups: Names of groups; all of them if not given.
            labels: Names of strategies; all of them if not given. ``random`` is added to
                each comparison that is left, as to any.
            seeds: Seeds; all of them if not given.

        Raises:
            UnknownNameError: If there is no such group, or none of the groups has such a strategy
                or seed.
            InputError: If no group has a strategy of these with a seed of these.
        """
        _check_known("group", groups, {group.name for group in self.groups})
        left = [group for group in self.groups if groups is None or group.name in groups]
        _check_known("strategy", labels, {v.label for group in left for v in group.variants})
        _check_known("seed", seeds, {seed for group in left for seed in group.seeds})
        cut = (group.part(labels, seeds) for group in left)
        found = tuple(group for group in cut if group.variants and group.seeds)
        if not found:
            raise InputError(
                "no group of the plan has a strategy of these under a seed of these: "
                "the list of its runs (--list) says which there are"
            )
        return replace(self, groups=found)


def _check_known(
    kind: str, wanted: Collection[str] | Collection[int] | None, known: Collection[str | int]
) -> None:
    for name in wanted or ():
        if name not in known:
            raise UnknownNameError(kind, str(name), map(str, known))


def read_plan(path: Path | str) -> Plan:
    """Read a plan; everything in it is checked, and nothing is begun.

    Raises:
        ConfigError: If it cannot be read, or a group is not valid; names the group.
    """
    path = Path(path)
    try:
        table = parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise ConfigError(f"{path} cannot be read ({reason})") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    try:
        head = from_table(_PlanTable, table)
    except SteepestError as error:
        raise ConfigError(f"{path} is not a plan: {error}") from error
    if not head.group:
        raise ConfigError(f"{path} has no [[group]]: each is one comparison")
    groups = tuple(_read_group(part, number, path) for number, part in enumerate(head.group, 1))
    _check_names(groups, path)
    return Plan(head.name, groups)


def _check_names(groups: Sequence[Group], path: Path) -> None:
    """Refuse groups of one name that cannot be one comparison."""
    for number, group in enumerate(groups):
        for other in groups[:number]:
            # Some file systems take names that differ in case alone for one.
            if group.name.lower() == other.name.lower() and (
                (group.name, group.config) != (other.name, other.config)
                or _meanings(group.variants, other.variants)
            ):
                raise ConfigError(
                    f"{path} has two groups {group.name!r}: groups of one name are one comparison, "
                    "and take the same configuration and the same meaning of a label"
                )


def _meanings(some: Sequence[Variant], others: Sequence[Variant]) -> bool:
    """Say whether a label means one thing here and another there."""
    known = {variant.label: variant for variant in others}
    return any(known.get(variant.label, variant) != variant for variant in some)


@dataclass(frozen=True, kw_only=True)
class _PlanTable:
    name: str
    group: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class _GroupTable:
    name: str
    config: str
    strategies: tuple[str, ...]
    seeds: int | tuple[int, ...]
    set: tuple[str, ...] = ()
    variant: str | None = None


def _read_group(table: Mapping[str, Any], number: int, path: Path) -> Group:
    try:
        part = from_table(_GroupTable, table)
        check_folder_name("name", part.name)
        group = Group(
            name=part.name,
            config=load_config(_source(part.config, path), part.set, part.variant),
            variants=parse_variants(part.strategies),
            seeds=_read_seeds(part.seeds),
        )
        group.below(Path())  # Says what else keeps it from being a comparison.
    except SteepestError as error:
        where = table.get("name", number)
        raise ConfigError(f"{path}, group {where!r}: {error}") from error
    return group


def _source(config: str, path: Path) -> str | Path:
    """Return the name of a preset, or a file relative to the plan."""
    file = path.parent / config
    is_file = config not in presets() and (file.suffix == ".toml" or file.exists())
    return file if is_file else config


def _read_seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not chosen or len(set(chosen)) < len(chosen) or min(chosen) < 0:
        words = seeds if isinstance(seeds, int) else list(seeds)
        raise ConfigError(
            f"seeds = {words}: give a number of seeds, or a list of distinct ones, none negative"
        )
    return chosen
