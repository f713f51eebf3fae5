"""Image files that came from others: what hides behind a harmless ending is not decoded."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from PIL import EpsImagePlugin, Image

import steepest
from steepest.data.image_decoding import check_image, read_pixels
from steepest.data.image_files import read_images, read_label_maps
from steepest.errors import DataError
from steepest.labelling.exchange.maps import read_map
from steepest.labelling.label_studio.pictures import Gallery
from steepest.labelling.project.decoding import read_picture

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\n%%EOF\n"


@pytest.fixture
def disguised(tmp_path, monkeypatch):
    """PostScript, which is decoded by starting a program, under the name of an image."""

    def start(*_args, **_named):
        pytest.fail("a program was started")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", start)
    path = tmp_path / "a.png"
    path.write_bytes(POSTSCRIPT)
    with Image.open(path) as image:
        assert image.format == "EPS"
    return path


def test_no_program_is_started_for_an_image(disguised):
    assert check_image(disguised) == "not an image"
    for read in (
        lambda: read_pixels(disguised, 3, None),
        lambda: read_images([disguised]),
        lambda: read_label_maps([disguised]),
        lambda: read_map(disguised),
        lambda: read_picture(disguised, 64),
        lambda: Gallery(disguised.parent).picture(disguised.name),
    ):
        with pytest.raises(DataError, match=r"a\.png"):
            read()


def test_every_reader_says_which_formats_it_reads():
    found = []
    for file in Path(steepest.__file__).parent.rglob("*.py"):
        calls = re.findall(r"Image\.open\(([^()]|\([^()]*\))*\)", text := file.read_text("utf-8"))
        named = re.findall(r"Image\.open\((?:[^()]|\([^()]*\))*formats=", text)
        found += [file.name] * (len(calls) - len(named))
    assert found == []


def test_a_tiff_file_with_pages_without_end_is_left_out_at_once(tmp_path):
    path = tmp_path / "a.tif"
    first, each = 8 + 64, 2 + 10 * 12 + 4
    pages = [_page(first + each * number if number < 500 else 0) for number in range(1, 501)]
    path.write_bytes(b"II*\0" + struct.pack("<I", first) + bytes(64) + b"".join(pages))
    assert "several pages" in check_image(path)


def _page(following: int) -> bytes:
    """Return a page of 8 × 8 grey pixels that says it is a smaller copy of another."""
    tags = {254: 1, 256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 8, 279: 64}
    fields = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return struct.pack("<H", len(tags)) + fields + struct.pack("<I", following)
