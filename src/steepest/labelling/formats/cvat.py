"""CVAT: an XML file of the format *CVAT for images 1.1*, with labels as tags."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from steepest.core.files import write_atomically
from steepest.errors import InputError
from steepest.labelling.formats.base import (
    FORMATS,
    LabelFormat,
    LabelSet,
    Row,
    boxes_refused,
    read_text,
)

_SHAPES = frozenset(
    {"box", "cuboid", "ellipse", "mask", "points", "polygon", "polyline", "skeleton", "track"}
)


@FORMATS.register("cvat")
class Cvat(LabelFormat):
    """Tags of images."""

    suffixes = (".xml",)

    def write(self, labels: LabelSet, path: Path) -> None:
        """Write one file."""
        classes = "".join(
            f"<label><name>{escape(name)}</name><attributes></attributes></label>"
            for name in labels.classes
        )
        lines = [
            '<?xml version="1.0" encoding="utf-8"?>\n<annotations><version>1.1</version>',
            f"<meta><task><labels>{classes}</labels></task></meta>",
        ]
        for number, (sample, names) in enumerate(labels.labels.items()):
            tags = "".join(f'<tag label={quoteattr(n)} source="manual"></tag>' for n in names)
            lines.append(f'<image id="{number}" name={quoteattr(str(sample))}>{tags}</image>')
        write_atomically(path, "\n".join([*lines, "</annotations>\n"]))

    def read(self, path: Path) -> Iterator[Row]:
        """Read the tags of images."""
        reader = _Reader(path)
        yield from reader.rows


class _Reader:
    """Reads a file; entities are refused, since they can be made to fill the memory."""

    def __init__(self, path: Path) -> None:
        self.rows: list[Row] = []
        self._path = path
        self._names: list[str] = []
        self._image: str | None = None
        parser = self._parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._refuse
        try:
            parser.Parse(read_text(path).encode(), True)
        except expat.ExpatError as error:
            raise InputError(f"{path}: is no XML ({error})") from error
        if not self._root:
            raise InputError(f"{path}: is no file of CVAT; export CVAT for images 1.1")

    _root = False

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        where = f"line {self._parser.CurrentLineNumber}"
        if tag == "annotations":
            self._root = True
        elif tag in _SHAPES:
            raise boxes_refused(f"{self._path}, {where}", f"a {tag}")
        elif tag == "image":
            self._image, self._names = attributes.get("name", ""), []
        elif tag == "tag" and self._image is not None:
            self._names.append(attributes.get("label", ""))

    def _end(self, tag: str) -> None:
        if tag == "image":
            where = f"line {self._parser.CurrentLineNumber}"
            self.rows.append(Row(where, self._image, self._names or None))
            self._image = None

    def _refuse(self, *_: object) -> None:
        raise InputError(f"{self._path}: declares a document type, which CVAT does not write")
