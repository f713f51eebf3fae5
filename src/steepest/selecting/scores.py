"""Scores of a pool, and where they come from."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from steepest.core.files import write_atomically
from steepest.core.seeds import SampleId
from steepest.core.tables import from_table, to_table
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.selecting.options import check_class_names, check_k
from steepest.selecting.provenance import Conditions
from steepest.selecting.regime import Regime, diagnose, warn_of_inversion
from steepest.selecting.selection import Selection
from steepest.selecting.shards import WHOLE, Shard
from steepest.strategies.algorithms import top_k
from steepest.strategies.algorithms.verdict import judge

D = TypeVar("D", bound=np.generic)

_ALIKE = ("strategy", "options", "seed", "model", "classes")
"""Fields that are equal in all shards of a pool."""

_REMEDIES = {
    "pool": "; the ids, or the values read from the same samples (--size, --mean, --std), differ",
    "device": ", on devices of one kind",
}


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """One finite score per sample; higher = label first.

    Attributes:
        ids: Ids [N].
        values: Scores [N].
        strategy: Name of the strategy.
        options: Its options.
        seed: Seeds every draw.
        model: Fingerprint of the model.
        regime: The diagnosis, or None for strategies that do not look at the model.
        entropies: Entropy of each prediction [N]; None for those strategies.
        classes: The number of classes; 0 for those strategies.
        predicted: The most likely class of each sample [N]; None for those strategies, and where a
            sample has more than one.
        gradients: Whether gradients were measured.
        shard: The part of the pool that was scored.
        conditions: How it was scored, if it is one of several shards.
    """

    ids: Sequence[SampleId]
    values: npt.NDArray[np.float64]
    strategy: str
    options: Mapping[str, Any]
    seed: int
    model: str
    regime: Regime | None
    entropies: npt.NDArray[np.float64] | None = None
    classes: int = 0
    gradients: bool = False
    shard: Shard = WHOLE
    predicted: npt.NDArray[np.intp] | None = None
    conditions: Conditions | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        part = "" if self.shard.count == 1 else f" of shard {self.shard}"
        scored = f"{counted(len(self), 'sample')}{part} by {self.strategy}"
        span = f": {self.values.min():.3g} to {self.values.max():.3g}" if len(self) else ""
        return f"<Scores: {scored}{span}>"

    def select(self, k: int, class_names: Sequence[str] = ()) -> Selection:
        """Choose the k highest scores, as ``steepest.select`` does of the same pool.

        Args:
            k: How many.
            class_names: The names of the classes [C] in the model's order, for the verdict.

        Raises:
            InputError: If k is less than 1 or exceeds the number of scores, or shards are missing.
        """
        if self.shard.count > 1:
            raise InputError(
                f"these are the scores of shard {self.shard} alone: choose from all of them, by "
                "Scores.merge([...]).select(k)"
            )
        best = top_k(self.values, self.ids, check_k(k, len(self), None), self.seed)
        if self.gradients:
            warn_of_inversion(self.regime, self.strategy)
        return Selection(
            ids=tuple(self.ids[i] for i in best),
            scores=tuple(float(self.values[i]) for i in best),
            strategy=self.strategy,
            options=self.options,
            seed=self.seed,
            model=self.model,
            regime=self.regime,
            candidates=len(self),
            verdict=judge(self.predicted, best, self.classes, names=check_class_names(class_names)),
        )

    @classmethod
    def merge(cls, parts: Iterable[Scores]) -> Scores:
        """Put the shards of a pool together, in any order.

        Returns:
            The result of scoring the whole pool in one run.

        Raises:
            InputError: If a shard is missing or there twice, or they differ in strategy, options,
                seed, model, samples, batch size, precision or kind of device.
        """
        found = sorted(parts, key=lambda part: part.shard.number)
        if not found:
            raise InputError("there are no scores to merge: give one for each shard")
        _check_complete([part.shard for part in found])
        for part in found[1:]:
            _check_alike(found[0], part)
        ids = tuple(name for part in found for name in part.ids)
        if len(set(ids)) < len(ids):
            raise InputError("shards have samples in common: make all of them from one pool")
        values = np.concatenate([part.values for part in found])
        entropies = _joined([part.entropies for part in found])
        return replace(
            found[0],
            ids=ids,
            values=values,
            entropies=entropies,
            predicted=_joined([part.predicted for part in found]),
            regime=diagnose(values, entropies, found[0].classes),
            shard=WHOLE,
        )

    def save(self, path: Path | str) -> None:
        """Write everything to an .npz file, in one step.

        Raises:
            InputError: If it has another name, or cannot be written there.
        """
        columns = {"values": self.values}
        if self.entropies is not None:
            columns["entropies"] = self.entropies
        if self.predicted is not None:
            columns["predicted"] = self.predicted.astype(np.float64)
        facts = {name: getattr(self, name) for name in (*_ALIKE, "gradients")}
        facts["shard"] = to_table(self.shard)
        if self.conditions is not None:
            facts["conditions"] = to_table(self.conditions)
        write_scores(Path(path), self.ids, columns, facts)

    @classmethod
    def load(cls, path: Path | str) -> Scores:
        """Read a file written by ``save``.

        Raises:
            InputError: If it is no such file.
        """
        ids, columns, facts = read_scores(Path(path))
        try:
            conditions = facts.pop("conditions", None)
            values, entropies = columns["values"], columns.get("entropies")
            predicted = columns.get("predicted")
            return cls(
                ids,
                values,
                regime=diagnose(values, entropies, facts["classes"]),
                entropies=entropies,
                predicted=None if predicted is None else predicted.astype(np.intp),
                shard=from_table(Shard, facts.pop("shard")),
                conditions=None if conditions is None else from_table(Conditions, conditions),
                **facts,
            )
        except (KeyError, TypeError) as error:
            raise InputError(f"{path} holds no scores saved by steepest ({error})") from error


def _joined(parts: Sequence[npt.NDArray[D] | None]) -> npt.NDArray[D] | None:
    """Return columns of parts as one of all; None if a part has none."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _check_complete(shards: Sequence[Shard]) -> None:
    counts = {shard.count for shard in shards}
    if len(counts) > 1:
        told = " and ".join(str(count) for count in sorted(counts))
        raise InputError(f"some scores are of {told} shards: merge those of one division")
    numbers, (count,) = [shard.number for shard in shards], counts
    twice = next((n for n in numbers if numbers.count(n) > 1), None)
    if twice is not None:
        raise InputError(f"shard {twice}/{count} is there twice: give each once")
    lacking = sorted(set(range(1, count + 1)) - set(numbers))
    if lacking:
        told = ", ".join(f"{n}/{count}" for n in lacking)
        raise InputError(f"scores of shard {told} are missing: make them, and merge all")


def _check_alike(first: Scores, other: Scores) -> None:
    for name in _ALIKE:
        here, there = getattr(first, name), getattr(other, name)
        if here != there:
            raise InputError(
                f"shard {other.shard} was scored with {name} {there!r}, and shard {first.shard} "
                f"with {here!r}: score all in the same way"
            )
    if first.conditions is None or other.conditions is None:
        older = first if first.conditions is None else other
        raise InputError(
            f"shard {older.shard} does not say how it was scored (batch size, precision, device, "
            "pool): score it again with this version"
        )
    if differing := first.conditions.difference(other.conditions):
        name, here, there = differing
        raise InputError(
            f"shard {other.shard} was scored with {name} {there!r}, and shard {first.shard} with "
            f"{here!r}: score all in the same way{_REMEDIES.get(name, '')}"
        )


Columns = dict[str, npt.NDArray[np.float64]]
"""Numbers by name, each [N]."""


def write_scores(
    path: Path, ids: Sequence[SampleId], columns: Columns, facts: Mapping[str, Any]
) -> None:
    """Write ids, columns [N] and the metadata common to all of them.

    Raises:
        InputError: If the name does not end in .npz, or the file cannot be written.
    """
    check_suffix(path)
    held = io.BytesIO()
    # As JSON, ids keep their kind: 7 is another one than "7".
    np.savez(held, ids=_bytes(list(ids)), facts=_bytes(facts), **columns)  # type: ignore[arg-type]
    write_atomically(path, held.getvalue())


def read_scores(path: Path) -> tuple[tuple[SampleId, ...], Columns, dict[str, Any]]:
    """Read a file written by ``write_scores``: ids, columns and facts.

    Raises:
        InputError: If it is no such file.
    """
    check_suffix(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            columns = {name: held[name] for name in held.files}
        ids = tuple(json.loads(columns.pop("ids").tobytes()))
        facts: dict[str, Any] = json.loads(columns.pop("facts").tobytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # damaged bytes make zip and numpy raise almost anything
        raise InputError(f"{path} holds no scores saved by steepest ({error})") from error
    return ids, columns, facts


def check_suffix(path: Path) -> None:
    """Refuse a name that says something else.

    Raises:
        InputError: Saying how the name has to end.
    """
    if path.suffix != ".npz":
        raise InputError(f"{path}: scores are saved as .npz")


def _bytes(value: object) -> npt.NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)
