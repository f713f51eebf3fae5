from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from image_trees import noise, save
from PIL import Image

from steepest.data.file_table import list_files
from steepest.data.image_view import ViewReader, centre_box, random_box, see
from steepest.errors import DataError

SIDE = st.integers(1, 3000)
NUMBER = st.floats(0, 1, exclude_max=True)


def pixels(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def smooth(height, width):
    rows, columns = np.mgrid[0:height, 0:width]
    planes = rows * 255 / height, columns * 255 / width, 128 + 0 * rows
    return np.stack(planes, axis=2).astype(np.uint8)


@pytest.mark.parametrize(("height", "width"), [(37, 50), (50, 37), (64, 64), (33, 200)])
def test_the_centre_is_what_resizing_and_cropping_leave(height, width):
    image, size, shorter = Image.fromarray(noise(height, width)), 14, 16
    across, down = (int(shorter * side / min(height, width)) for side in (width, height))
    left, top = round((across - size) / 2), round((down - size) / 2)
    resized = image.resize((across, down), Image.Resampling.BILINEAR)
    wanted = pixels(resized.crop((left, top, left + size, top + size))).int()
    box = centre_box(width, height, size, shorter)
    # Reducing a large image first costs a little exactness.
    close = 1 if max(height, width) < 100 else 12
    assert int((see(image, box, size).int() - wanted).abs().max()) <= close


@given(SIDE, SIDE, st.integers(1, 300), st.floats(1, 2))
def test_the_centre_box_lies_inside(width, height, size, more):
    left, top, right, bottom = centre_box(width, height, size, int(size * more))
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height


@given(SIDE, SIDE, st.tuples(NUMBER, NUMBER, NUMBER, NUMBER))
def test_a_random_box_lies_inside_and_is_neither_long_nor_small(width, height, draws):
    left, top, right, bottom = random_box(width, height, *draws)
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    assert 0.7499 < (right - left) / (bottom - top) < 1.3334
    if 0.75 <= width / height <= 4 / 3:
        area = (right - left) * (bottom - top) / (width * height)
        assert area == pytest.approx(0.08 + 0.92 * draws[0], rel=1e-6)


def test_each_draw_decides_one_thing():
    base = {"area": 0.2, "ratio": 0.5, "top": 0.1, "left": 0.1}
    left, top, right, bottom = random_box(100, 100, **base)
    assert random_box(100, 100, **base | {"left": 0.9})[0] > left
    assert random_box(100, 100, **base | {"left": 0.9})[1] == top
    assert random_box(100, 100, **base | {"top": 0.9})[1] > top
    wide = random_box(100, 100, **base | {"ratio": 0.99})
    assert wide[2] - wide[0] > right - left
    assert wide[3] - wide[1] < bottom - top
    large = random_box(100, 100, **base | {"area": 0.9})
    assert (large[2] - large[0]) * (large[3] - large[1]) == pytest.approx((0.08 + 0.92 * 0.9) * 1e4)


@pytest.fixture
def reader(tmp_path):
    def make(size=8, shorter=8):
        return ViewReader(list_files(tmp_path, ["a"], (".jpg", ".png", ".tiff")), size, shorter)

    return make


def test_the_last_draw_mirrors(tmp_path, reader):
    save(tmp_path / "a" / "1.png", noise(20, 24))
    draw = torch.tensor([0.3, 0.6, 0.2, 0.7, 0.49], dtype=torch.float64)
    mirrored = reader()(0, draw)
    draw[4] = 0.5
    assert torch.equal(mirrored.flip(2), reader()(0, draw))
    assert mirrored.shape == (3, 8, 8)
    assert mirrored.dtype == torch.uint8


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_photos_are_turned_upright(tmp_path, reader, suffix):
    exif = Image.Exif()
    exif[0x0112] = 6
    save(tmp_path / "a" / "1.png", noise(20, 30))
    save(tmp_path / "a" / f"2.{suffix}", np.rot90(noise(20, 30), 1), exif=exif)
    assert torch.equal(reader()(0, None), reader()(1, None))
    draw = torch.tensor([0.1, 0.6, 0.9, 0.1, 0.4])
    assert torch.equal(reader()(0, draw), reader()(1, draw))


def test_a_large_photo_is_decoded_small_and_looks_the_same(tmp_path, reader):
    exif = Image.Exif()
    exif[0x0112] = 8
    save(tmp_path / "a" / "1.jpg", smooth(600, 800), quality=95)
    save(tmp_path / "a" / "2.jpg", np.rot90(smooth(600, 800), -1), quality=95, exif=exif)
    with Image.open(tmp_path / "a" / "1.jpg") as image:
        see(image, (0, 0, 800, 600), 8)
        assert image.size == (100, 75)
    wanted = see(Image.fromarray(smooth(600, 800)), centre_box(800, 600, 8, 8), 8).int()
    for row in range(2):
        assert int((reader()(row, None).int() - wanted).abs().max()) <= 3


def test_any_kind_of_image_becomes_colours(tmp_path, reader):
    grey = noise(10, 10, channels=1)
    save(tmp_path / "a" / "1.png", grey)
    save(tmp_path / "a" / "2.png", grey.astype(np.uint16) * 257)
    Image.fromarray(noise(10, 10)).convert("CMYK").save(tmp_path / "a" / "3.jpg")
    Image.fromarray(noise(10, 10)).quantize(8).save(tmp_path / "a" / "4.png", transparency=b"\x00")
    views = [reader()(row, None) for row in range(4)]
    assert torch.equal(views[0], views[1])
    assert all(view.shape == (3, 8, 8) for view in views)


def test_a_damaged_image_is_one_line(tmp_path, reader):
    save(tmp_path / "a" / "1.jpg", noise(64, 64))
    torn = (tmp_path / "a" / "1.jpg").read_bytes()[:-300]
    (tmp_path / "a" / "1.jpg").write_bytes(torn)
    (tmp_path / "a" / "2.png").write_bytes(b"nonsense")
    Image.fromarray(np.ones((9, 9), np.float32)).save(tmp_path / "a" / "3.tiff")
    Image.fromarray(np.ones((9, 9), np.int32)).save(tmp_path / "a" / "4.tiff")
    pages = [Image.fromarray(noise(9, 9)) for _ in range(2)]
    pages[0].save(tmp_path / "a" / "5.tiff", save_all=True, append_images=pages[1:])
    make = reader()
    for row, message in (
        (0, r"1\.jpg: cannot be read \(.*truncated"),
        (1, r"2\.png.*not an image"),
        (2, r"3\.tiff: cannot be read \(F pixels, neither 8 nor 16 bits\)"),
        (3, r"4\.tiff: cannot be read \(I pixels"),
        (4, r"5\.tiff: cannot be read \(several pages"),
    ):
        with pytest.raises(DataError, match=message) as caught:
            make(row, None)
        assert "\n" not in str(caught.value)
    (tmp_path / "a" / "2.png").unlink()
    with pytest.raises(DataError, match=r"2\.png: cannot be read"):
        make(1, None)


def test_odd_metadata_is_not_warned_of(tmp_path, reader):
    save(
        tmp_path / "a" / "1.jpg", noise(20, 20), exif=b"Exif\x00\x00II*\x00\x08\x00\x00\x00\x05\x00"
    )
    assert reader()(0, None).shape == (3, 8, 8)
