"""The outcome of choosing, complete enough to be audited later; saved as CSV or JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steepest.errors import InputError
from steepest.files import write_atomically
from steepest.parsing import parse_json
from steepest.scoring.regime import Regime
from steepest.seeds import SampleId
from steepest.tables import from_table, to_table

_COLUMNS = ["rank", "id", "score", "strategy", "seed", "model", "details"]


@dataclass(frozen=True)
class Selection:
    """k chosen samples, best first.

    Attributes:
        ids: Ids [k].
        scores: Scores [k].
        strategy: Name of the strategy.
        options: Its options.
        seed: Seeded every draw.
        model: Fingerprint of the model that was asked.
        regime: The diagnosis, or None for strategies that do not look at the model.
        candidates: The number of samples that were scored.
    """

    ids: tuple[SampleId, ...]
    scores: tuple[float, ...]
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    model: str = ""
    regime: Regime | None = None
    candidates: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks [k]: 1 is the most wanted."""
        return tuple(range(1, len(self.ids) + 1))

    def to_json(self, path: Path | str) -> None:
        """Write everything as one JSON object."""
        write_atomically(Path(path), json.dumps(to_table(self), indent=1) + "\n")

    def to_csv(self, path: Path | str) -> None:
        """Write one row per sample; what holds for all is a JSON text in the first row."""
        write_atomically(Path(path), self._csv_text())

    def save(self, path: Path | str) -> None:
        """Write CSV or JSON, whichever the file's name says."""
        {".csv": self.to_csv, ".json": self.to_json}[_suffix(Path(path))](path)

    @classmethod
    def load(cls, path: Path | str) -> Selection:
        """Read what ``save`` wrote.

        Raises:
            InputError: If the file is not such a file.
        """
        path = Path(path)
        read = {".csv": _read_csv, ".json": _read_json}[_suffix(path)]
        try:
            return from_table(cls, read(path))
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            raise InputError(f"{path} is no selection saved by steepest ({error})") from error

    def _csv_text(self) -> str:
        import io

        table = to_table(self)
        details = {name: table[name] for name in ("options", "regime", "candidates")}
        kinds = ["str" if isinstance(name, str) else "int" for name in self.ids]
        details["id_type"] = kinds if len(set(kinds)) > 1 else (kinds or ["int"])[0]
        text = io.StringIO()
        # Python's csv leaves a lone carriage return bare, and reads it as the end of a row.
        broken = any(isinstance(name, str) and "\r" in name for name in self.ids)
        rows = csv.writer(
            text, lineterminator="\n", quoting=csv.QUOTE_ALL if broken else csv.QUOTE_MINIMAL
        )
        rows.writerow(_COLUMNS)
        for rank, (name, value) in enumerate(zip(self.ids, self.scores, strict=True), start=1):
            shared = [self.strategy, self.seed, self.model]
            rows.writerow(
                [rank, name, repr(value), *shared, json.dumps(details) if rank == 1 else ""]
            )
        return text.getvalue()


def _suffix(path: Path) -> str:
    if path.suffix not in (".csv", ".json"):
        raise InputError(f"{path}: a selection is saved as .csv or .json")
    return path.suffix


def _read_json(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
    return table


def _read_csv(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    details = parse_json(rows[0]["details"])
    told, kinds = details.pop("id_type"), {"int": int, "str": str}
    as_ids = [kinds[kind] for kind in ([told] * len(rows) if isinstance(told, str) else told)]
    return {
        "ids": [as_id(row["id"]) for as_id, row in zip(as_ids, rows, strict=True)],
        "scores": [float(row["score"]) for row in rows],
        "strategy": rows[0]["strategy"],
        "seed": int(rows[0]["seed"]),
        "model": rows[0]["model"],
        **details,
    }
