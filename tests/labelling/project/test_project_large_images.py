"""Photos that are larger than Pillow takes as a whole, wherever they are read."""

from __future__ import annotations

import struct
import warnings
import zlib

import pytest
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from steepest.data import image_decoding
from steepest.data.file_table import list_files
from steepest.data.folder import ImageFolder
from steepest.data.image_decoding import MOST_JPEG_PIXELS
from steepest.data.image_view import ViewReader
from steepest.errors import DataError, SkippedFilesWarning
from steepest.labelling.label_studio.pictures import Gallery
from steepest.labelling.project import decoding
from steepest.labelling.project.decoding import read_picture


def files_beside(path):
    return list_files(path.parent.parent, [path.parent.name], (".jpg", ".png", ".webp"))


READERS = {
    "page": lambda path: read_picture(path, 16),
    "folder": lambda path: ImageFolder(path.parent, size=16)[0],
    "folder, as large as it is": lambda path: ImageFolder(path.parent)[0],
    "classes": lambda path: ViewReader(files_beside(path), 16, 18)(0, None),
    "label studio": lambda path: Gallery(path.parent).picture(path.name),
}


@pytest.fixture(autouse=True)
def low_limits(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    monkeypatch.setattr(image_decoding, "MOST_JPEG_PIXELS", 40_000)
    monkeypatch.setattr(decoding, "_LARGE", 1000)


@pytest.fixture(params=READERS.values(), ids=READERS)
def read(request):
    return request.param


def draw(path, size=(200, 150), colour=(200, 40, 40), **how):
    Image.new("RGB", size, colour).save(path, **how)
    return path


def test_telephones_are_within_the_limit_of_jpeg_files():
    assert MOST_JPEG_PIXELS > 16_384 * 12_288


def test_all_read_the_photos_that_the_page_shows_and_in_silence(tmp_path, read):
    path = draw(tmp_path / "photo.jpg")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(path) is not None


@pytest.mark.parametrize(
    ("name", "size", "how"),
    [
        ("photo.png", (200, 150), {}),
        ("progressive.jpg", (200, 150), {"progressive": True}),
        ("larger.jpg", (300, 150), {}),
    ],
)
def test_all_refuse_what_the_page_refuses_with_the_same_remedy(tmp_path, read, name, size, how):
    path = draw(tmp_path / name, size, **how)
    said = rf"{name}.*\({size[0] * size[1]} pixels\) exceeds limit of 2000 pixels: save it smaller"
    with pytest.raises(DataError, match=said):
        read(path)


def write_tiled(path, side, tile):
    """Write a TIFF file of one tile, as Pillow itself cannot."""
    data = zlib.compress(bytes(tile * 16))
    values = {256: side, 257: 16, 258: 8, 259: 8, 262: 1, 277: 1, 322: tile, 323: 16}
    values |= {324: 14 + 12 * 10, 325: len(data)}
    entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in sorted(values.items())]
    head = struct.pack("<2sHIH", b"II", 42, 8, len(entries))
    path.write_bytes(head + b"".join(entries) + bytes(4) + data)


@pytest.mark.parametrize(
    ("name", "size", "most", "said"),
    [
        ("thin.png", (1, 65_536), 1 << 20, "1x65536 pixels; no side may be longer than 65535"),
        ("wide.png", (65_536, 1), 1 << 20, "65536x1 pixels; no side may be longer than 65535"),
        ("canvas.webp", (40, 30), 1000, "40x30 pixels; a WebP file may have 1000"),
    ],
)
def test_all_refuse_small_files_that_fill_the_memory(
    tmp_path, monkeypatch, read, name, size, most, said
):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
    with pytest.raises(DataError, match=rf"{name}.*{said}: save it smaller"):
        read(draw(tmp_path / name, size))


def test_tiles_that_are_far_larger_than_the_image_are_refused(tmp_path):
    write_tiled(tmp_path / "tiled.tif", 16, 4096)
    assert read_picture(tmp_path / "tiled.tif", 16).size == (16, 16)
    write_tiled(tmp_path / "tiled.tif", 16, 4112)
    with pytest.raises(DataError, match="tiles that are far larger than the image: save it"):
        read_picture(tmp_path / "tiled.tif", 16)


def test_a_folder_names_those_that_it_leaves_out(tmp_path):
    draw(tmp_path / "photo.jpg")
    draw(tmp_path / "photo.png")
    with pytest.warns(SkippedFilesWarning, match=r"photo\.png .*: save it smaller"):
        assert ImageFolder(tmp_path, size=16).ids == ["photo.jpg"]


def test_a_large_photo_is_decoded_smaller(tmp_path, monkeypatch):
    asked = []
    draft = JpegImageFile.draft
    monkeypatch.setattr(
        JpegImageFile,
        "draft",
        lambda image, mode, size: asked.append(size) or draft(image, mode, size),
    )
    shown = read_picture(draw(tmp_path / "photo.jpg"), 16)
    assert shown.size == (16, 12)
    assert shown.getpixel((8, 6))[0] > 180
    assert asked[0] == (16, 12)
    asked.clear()
    seen = ImageFolder(tmp_path, size=16)[0]
    assert asked == [(48, 48)]
    assert seen[0].min() > 180 / 255


def test_a_panorama_is_shown_in_any_size(tmp_path):
    path = draw(tmp_path / "panorama.jpg", (800, 40))
    assert [read_picture(path, side).size for side in (20, 100)] == [(20, 1), (100, 5)]


def test_a_large_photo_stands_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    assert read_picture(draw(tmp_path / "turned.jpg", exif=exif), 16).size == (12, 16)
