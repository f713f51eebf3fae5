from __future__ import annotations

import io
import os
import struct
import threading
import time
import tracemalloc
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from small_project import make_photos, open_project

from steepest.errors import DataError, InputError
from steepest.labelling.project import decoding
from steepest.labelling.project import pictures as pictures_module
from steepest.labelling.project.decoding import read_picture, read_square
from steepest.labelling.project.pictures import trim


def pixels_of(picture):
    return np.asarray(Image.open(io.BytesIO(picture.data)))


def write_mrc(path, volume):
    header = bytearray(1024)
    header[:16] = struct.pack("<4i", *volume.shape[::-1], 2)
    header[92:96] = struct.pack("<i", 80)
    header[212:214] = b"\x44\x44"
    path.write_bytes(bytes(header) + bytes(80) + volume.astype("<f4").tobytes())


def test_a_picture_is_small_cached_and_made_anew_when_the_file_changes(tmp_path):
    photos = make_photos(tmp_path / "photos", 3, side=64)
    with open_project(photos) as project:
        first = project.pictures.thumbnail("red-000.png", 32)
        assert first.media_type == "image/jpeg"
        assert pixels_of(first).shape == (32, 32, 3)
        (cached,) = (project.folder / "thumbnails").glob("*/*.jpg")
        cached.write_bytes(b"from the cache")
        assert project.pictures.thumbnail("red-000.png", 32).data == b"from the cache"
        os.utime(photos / "red-000.png", ns=(1, 1))
        again = project.pictures.thumbnail("red-000.png", 32)
        assert (again.data, again.etag != first.etag) == (first.data, True)


def test_paths_outside_of_the_folder_are_never_read(tmp_path):
    photos = make_photos(tmp_path / "photos", 3)
    secret = tmp_path / "secret.png"
    Image.new("RGB", (8, 8)).save(secret)
    with open_project(photos) as project:
        for sample in ("../secret.png", str(secret), "red-000.png/../../secret.png", ""):
            with pytest.raises(InputError, match="no sample"):
                project.pictures.thumbnail(sample)
        (photos / "red-000.png").unlink()
        (photos / "red-000.png").symlink_to(secret)
        with pytest.raises(DataError, match="outside"):
            project.pictures.path("red-000.png")
        with pytest.raises(DataError, match="outside"):
            project.pictures.thumbnail("red-000.png")


def test_damaged_files_are_marked_and_not_given_out_until_they_change(tmp_path):
    photos = make_photos(tmp_path / "photos", 2, side=64)
    whole = (photos / "red-000.png").read_bytes()
    (photos / "red-000.png").write_bytes(whole[: len(whole) // 2])
    (photos / "green-001.png").write_bytes(b"<html>no image</html>")
    with open_project(photos) as project:
        for sample in ("red-000.png", "green-001.png"):
            with pytest.raises(DataError, match=f"{sample}: cannot be shown") as caught:
                project.pictures.thumbnail(sample)
            assert "\n" not in str(caught.value)
            with pytest.raises(DataError, match="cannot be shown"):
                project.pictures.thumbnail(sample)
        assert project.queue.next("ann") == []
        assert project.progress().unreadable == 2
        (photos / "red-000.png").write_bytes(whole)
        project.rescan()
        assert [task.sample for task in project.queue.next("ann")] == ["red-000.png"]
        assert pixels_of(project.pictures.thumbnail("red-000.png")).shape == (64, 64, 3)


def test_a_file_that_is_gone_is_missing_and_not_unreadable(tmp_path):
    photos = make_photos(tmp_path / "photos", 2)
    with open_project(photos) as project:
        kept = (photos / "red-000.png").rename(tmp_path / "kept.png")
        with pytest.raises(DataError, match="gone"):
            project.pictures.thumbnail("red-000.png")
        counts = project.progress()
        assert (counts.missing, counts.unreadable, counts.open) == (1, 0, 1)
        kept.rename(photos / "red-000.png")
        project.rescan()
        assert project.progress().open == 2


def test_decompression_bombs_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "_MOST_ARRAY_PIXELS", 1000)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    Image.new("L", (40, 30)).save(tmp_path / "bomb.png")
    with pytest.raises(DataError, match=r"1200 pixels\) exceeds limit of 1000 .*: save it smaller"):
        read_picture(tmp_path / "bomb.png", 64)
    np.save(tmp_path / "bomb.npy", np.zeros((2, 40, 30), np.uint8))
    with pytest.raises(DataError, match="more than 1000"):
        read_picture(tmp_path / "bomb.npy", 64)
    monkeypatch.setattr(decoding, "_MOST_ARRAY_BYTES", 100)
    np.savez_compressed(tmp_path / "bomb.npz", np.zeros((20, 20)))
    with pytest.raises(DataError, match="unpacked"):
        read_picture(tmp_path / "bomb.npz", 64)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    kind=st.sampled_from(["u1", ">i2", "<f4", "f8", "?"]),
    by_columns=st.booleans(),
    packed=st.booleans(),
)
def test_arrays_are_read_as_numpy_reads_them(tmp_path_factory, shape, kind, by_columns, packed):
    array = np.random.default_rng(0).integers(0, 99, shape).astype(kind)
    array = np.asfortranarray(array) if by_columns else array
    path = tmp_path_factory.mktemp("arrays") / ("a.npz" if packed else "a.npy")
    np.savez_compressed(path, array) if packed else np.save(path, array)
    coloured = len(shape) == 3 and shape[2] in (3, 4) and kind == "u1"
    expected = array[..., :3] if coloured else array
    while expected.ndim > 2 + coloured:
        expected = expected[len(expected) // 2]
    assert np.array_equal(decoding._read_array(path, path.suffix), expected)


def test_an_array_that_is_cut_short_while_it_is_read_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((4, 300, 300)))
    # Mapped into memory, it would end this process.
    monkeypatch.setattr(decoding, "_check_size", lambda *_: os.truncate(path, 200))
    with pytest.raises(DataError, match=r"a\.npy: truncated"):
        read_picture(path, 64)


def test_large_arrays_are_made_smaller_without_copies_of_the_whole(tmp_path):
    ramp = np.linspace(0, 1, 1500)
    array = ramp[:, None] + ramp
    np.save(tmp_path / "a.npy", array)
    tracemalloc.start()
    shown = np.asarray(read_picture(tmp_path / "a.npy", 64))[..., 0].astype(float)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * array.nbytes
    low, high = np.percentile(array, (0.5, 99.5))
    whole = Image.fromarray((255 * np.clip((array - low) / (high - low), 0, 1)).astype(np.uint8))
    expected = np.asarray(whole.resize((64, 64)), dtype=float)
    assert abs(shown - expected).max() < 8
    Image.fromarray(array.astype(np.float32)).save(tmp_path / "a.tif")
    again = np.asarray(read_picture(tmp_path / "a.tif", 64))[..., 0].astype(float)
    assert abs(again - expected).max() < 8


@pytest.mark.parametrize("shape", [(1, 65_536), (65_536, 1), (2, 65_536, 1)])
def test_arrays_with_a_side_that_is_too_long_are_refused(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.zeros(shape, np.uint8))
    with pytest.raises(DataError, match="side is longer than 65535: save it smaller"):
        read_picture(tmp_path / "a.npy", 64)


def test_of_a_volume_the_central_slice_is_shown(tmp_path):
    volume = np.zeros((5, 8, 10), np.float32)
    volume[2, :, 5:] = 7.0
    expected = np.zeros((8, 10), np.uint8)
    expected[:, 5:] = 255
    np.save(tmp_path / "v.npy", volume)
    np.savez(tmp_path / "v.npz", name=np.array(3), data=volume)
    write_mrc(tmp_path / "v.mrc", volume)
    for name in ("v.npy", "v.npz", "v.mrc"):
        shown = np.asarray(read_picture(tmp_path / name, 64))
        assert (shown == expected[..., None]).all()


def test_arrays_of_colours_and_wide_pixels_are_shown(tmp_path):
    colours = np.zeros((6, 7, 3), np.uint8)
    colours[..., 1] = 200
    np.save(tmp_path / "c.npy", colours)
    assert (np.asarray(read_picture(tmp_path / "c.npy", 64)) == colours).all()
    Image.fromarray(np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)).save(
        tmp_path / "wide.tif"
    )
    shown = np.asarray(read_picture(tmp_path / "wide.tif", 64))
    assert (shown.min(), shown.max()) == (0, 255)


def test_what_is_transparent_is_white(tmp_path):
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[:2, :, 3] = 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    shown = np.asarray(read_picture(tmp_path / "a.png", 64))
    assert (shown[:2].max(), shown[2:].min()) == (0, 255)


def test_threads_that_decode_leave_the_filters_of_warnings_as_they_were(tmp_path):
    photos = make_photos(tmp_path, 12)
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: read_picture(path, 8), sorted(photos.iterdir()) * 5))
    assert warnings.filters == before


def hostile_files(folder):
    np.save(folder / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(folder / "nan.npy", np.full((4, 4), np.nan))
    np.save(folder / "line.npy", np.zeros(4))
    np.save(folder / "text.npy", np.array([["a", "b"]]))
    (folder / "short.mrc").write_bytes(b"\0" * 100)
    (folder / "zero.mrc").write_bytes(b"\0" * 1024)
    header = bytearray(1024)
    header[:16] = struct.pack("<4i", 1000, 1000, 1000, 2)
    (folder / "cut.mrc").write_bytes(bytes(header))
    (folder / "empty.npz").write_bytes(b"")
    with zipfile.ZipFile(folder / "other.npz", "w") as packed:
        packed.writestr("readme.txt", "no array")
    (folder / "empty.jpg").touch()
    (folder / "script.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    return sorted(path.name for path in folder.iterdir())


def test_hostile_files_are_refused_in_one_line(tmp_path):
    for name in hostile_files(tmp_path):
        with pytest.raises(DataError) as caught:
            read_picture(tmp_path / name, 64)
        assert "\n" not in str(caught.value)
        assert str(tmp_path) not in str(caught.value)


def test_what_models_see_is_the_whole_picture_as_a_square(tmp_path):
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, 40:] = 255
    Image.fromarray(pixels).save(tmp_path / "half.png")
    square = read_square(tmp_path / "half.png", 8)
    assert square.shape == (3, 8, 8)
    assert square[:, :, 0].max() == 0
    assert square[:, :, -1].min() == 255


def test_a_cache_that_grew_too_large_loses_its_oldest_files(tmp_path):
    for number in range(8):
        path = tmp_path / "ab" / f"{number:032x}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, ns=(number, number))
    trim(tmp_path / "ab", 800)
    assert len(list(tmp_path.glob("*/*"))) == 8
    trim(tmp_path / "ab", 400)
    assert sorted(int(path.stem) for path in tmp_path.glob("*/*")) == [5, 6, 7]


def test_a_side_that_cannot_be_used_is_refused(tmp_path):
    photos = make_photos(tmp_path / "photos", 1)
    with open_project(photos) as project, pytest.raises(InputError, match="16 to 2048"):
        project.pictures.thumbnail("red-000.png", 4000)


def test_few_pictures_are_decoded_at_a_time_and_each_once(tmp_path, monkeypatch):
    guard, inside, most, made = threading.Lock(), set(), [], []

    def read_slowly(path, side):
        with guard:
            inside.add(threading.get_ident())
            most.append(len(inside))
            made.append((path.name, side))
        time.sleep(0.02)
        with guard:
            inside.discard(threading.get_ident())
        return read_picture(path, side)

    monkeypatch.setattr(pictures_module, "usable_cores", lambda: 2)
    monkeypatch.setattr(pictures_module, "read_picture", read_slowly)
    photos = make_photos(tmp_path / "photos", 6)
    with open_project(photos) as project:
        asked = [entry.name for entry in sorted(photos.glob("*.png"))] * 3
        with ThreadPoolExecutor(18) as people:
            shown = list(people.map(project.pictures.thumbnail, asked))
    assert max(most) <= 2
    assert len(shown) == 18
    # At most two can begin with the same one before it is there.
    assert len(made) <= 12
