"""Photos that are larger than Pillow takes as a whole."""

from __future__ import annotations

import pytest
from PIL import Image

from steepest.errors import DataError
from steepest.labelling.project import large_images
from steepest.labelling.project.decoding import read_picture
from steepest.labelling.project.large_images import MOST_JPEG_PIXELS, MOST_PIXELS


@pytest.fixture(autouse=True)
def low_limits(monkeypatch):
    monkeypatch.setattr(large_images, "MOST_PIXELS", 1000)
    monkeypatch.setattr(large_images, "MOST_JPEG_PIXELS", 40_000)


@pytest.fixture(params=[None, 1000], ids=["below Pillow's limit", "twice above Pillow's limit"])
def _pillow(request, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", request.param)


def draw(path, size=(200, 150), colour=(200, 40, 40), **how):
    Image.new("RGB", size, colour).save(path, **how)
    return path


def test_telephones_are_within_the_limit_of_jpeg_files():
    assert MOST_PIXELS < 12_000 * 9_000 < 16_384 * 12_288 < MOST_JPEG_PIXELS


@pytest.mark.usefixtures("_pillow")
def test_a_large_photo_is_decoded_smaller(tmp_path):
    shown = read_picture(draw(tmp_path / "photo.jpg"), 16)
    assert shown.size == (16, 12)
    assert shown.getpixel((8, 6))[0] > 180


@pytest.mark.usefixtures("_pillow")
def test_a_panorama_is_shown_in_any_size(tmp_path):
    path = draw(tmp_path / "panorama.jpg", (800, 40))
    assert [read_picture(path, side).size for side in (20, 100)] == [(20, 1), (100, 5)]


@pytest.mark.usefixtures("_pillow")
def test_a_large_photo_stands_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    assert read_picture(draw(tmp_path / "turned.jpg", exif=exif), 16).size == (12, 16)


@pytest.mark.usefixtures("_pillow")
@pytest.mark.parametrize(
    ("name", "size", "how"),
    [
        ("photo.png", (200, 150), {}),
        ("progressive.jpg", (200, 150), {"progressive": True}),
        ("larger.jpg", (300, 150), {}),
    ],
)
def test_what_cannot_be_decoded_smaller_is_refused(tmp_path, name, size, how):
    with pytest.raises(DataError, match=name):
        read_picture(draw(tmp_path / name, size, **how), 16)


def test_what_is_still_too_large_after_shrinking_is_refused(tmp_path):
    path = draw(tmp_path / "photo.jpg")
    with pytest.raises(DataError, match="200x150 pixels are more than 1000"):
        read_picture(path, 64)
    assert read_picture(path, 20).size == (20, 15)
