"""FiftyOne: the ``labels.json`` of a ``FiftyOneImageClassificationDataset``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from steepest.core.files import write_atomically
from steepest.errors import InputError
from steepest.labelling.formats.base import (
    FORMATS,
    LabelFormat,
    LabelSet,
    Row,
    class_name,
    read_table,
)


@FORMATS.register("fiftyone")
class FiftyOne(LabelFormat):
    """Class numbers by file names without their endings, as FiftyOne keeps them."""

    empty = True
    stems = True

    def write(self, labels: LabelSet, path: Path) -> None:
        """Write one file."""
        numbers = {name: number for number, name in enumerate(labels.classes)}
        found: dict[str, object] = {}
        for sample, names in labels.labels.items():
            stem = str(Path(str(sample)).with_suffix(""))
            if stem in found:
                raise InputError(
                    f"two samples are called {stem!r} but for their ending, which FiftyOne leaves "
                    "out; rename one, or take another --format"
                )
            targets = [numbers[name] for name in names]
            found[stem] = targets if labels.multi_label else targets[0]
        table = {"classes": list(labels.classes), "labels": found}
        write_atomically(path, json.dumps(table, ensure_ascii=False) + "\n")

    def read(self, path: Path) -> Iterator[Row]:
        """Read class numbers or names, one or several for each image."""
        table = read_table(path, "FiftyOne", ("labels",))
        classes, found = table.get("classes"), table["labels"]
        if not isinstance(found, dict) or not isinstance(classes, (list, type(None))):
            raise InputError(f"{path}: is not of the type FiftyOneImageClassificationDataset")
        names = None if classes is None else dict(enumerate(classes))
        for sample, target in found.items():
            where = f"image {sample!r}"
            if target is None:
                yield Row(where, sample, None)
                continue
            several = target if isinstance(target, list) else [target]
            yield Row(where, sample, [_name(one, names, f"{path}, {where}") for one in several])


def _name(target: object, names: dict[int, object] | None, where: str) -> str:
    """Return the class of a target: a number, a name, or an object around one of them."""
    one = target.get("label") if isinstance(target, dict) else target
    if isinstance(one, str):
        return one
    return class_name(names or {}, one, where)
