from __future__ import annotations

import os
import pickle
import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from steepest.data import ImageFolder
from steepest.errors import DataError, InputError, SkippedFilesWarning


def save(path, array, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(array)).save(path, **options)


def noise(height=6, width=8, channels=3):
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def test_ids_are_sorted_relative_paths_with_forward_slashes(tmp_path):
    for name in ["b.png", "sub/deeper/a.JPG", "a.bmp", "sub/z.tiff", "c.webp", "d.gif"]:
        save(tmp_path / name, noise())
    (tmp_path / "notes.txt").write_text("not an image")
    folder = ImageFolder(tmp_path)
    assert folder.ids == ["a.bmp", "b.png", "c.webp", "d.gif", "sub/deeper/a.JPG", "sub/z.tiff"]
    assert len(folder) == 6
    assert folder.skipped == []


def test_hidden_files_and_folders_are_passed_over_in_silence(tmp_path):
    save(tmp_path / "sub" / "a.png", noise())
    # A project of `steepest label` beside the photos, and what a Mac leaves beside each file.
    save(tmp_path / ".steepest" / "thumbnails" / "a.png", noise(3, 4))
    save(tmp_path / "sub" / ".cache" / "b.jpg", noise(3, 4))
    (tmp_path / "sub" / "._a.png").write_bytes(b"no image")
    (tmp_path / ".link").symlink_to(tmp_path / "sub")
    folder = ImageFolder(tmp_path)
    assert folder.ids == ["sub/a.png"]
    assert folder.skipped == []


def test_a_folder_may_be_hidden_itself(tmp_path):
    save(tmp_path / ".photos" / "a.png", noise())
    assert ImageFolder(tmp_path / ".photos").ids == ["a.png"]


def test_pixels_are_colours_from_0_to_1(tmp_path):
    save(tmp_path / "a.png", noise())
    image = ImageFolder(tmp_path)[0]
    assert image.dtype == torch.float32
    assert torch.equal(image, torch.from_numpy(noise()).permute(2, 0, 1) / 255)


def test_grey_is_one_channel(tmp_path):
    save(tmp_path / "a.png", noise(channels=1))
    assert torch.equal(
        ImageFolder(tmp_path, channels=1)[0][0], torch.tensor(noise(channels=1)) / 255
    )
    assert list(ImageFolder(tmp_path)[0].shape) == [3, 6, 8]


def test_images_are_resized(tmp_path):
    save(tmp_path / "a.png", noise(6, 8))
    save(tmp_path / "b.png", noise(12, 9))
    square, oblong = ImageFolder(tmp_path, 5), ImageFolder(tmp_path, (4, 7))
    assert [list(square[i].shape) for i in range(2)] == [[3, 5, 5]] * 2
    assert [list(oblong[i].shape) for i in range(2)] == [[3, 4, 7]] * 2


def test_without_a_size_all_must_be_equal(tmp_path):
    save(tmp_path / "a.png", noise(6, 8))
    save(tmp_path / "b.png", noise(8, 6))
    with pytest.raises(DataError, match=r"b\.png: 6x8 pixels, but a\.png has 8x6; give a size"):
        ImageFolder(tmp_path)


def test_images_are_normalised(tmp_path):
    save(tmp_path / "a.png", noise())
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.5)
    plain = ImageFolder(tmp_path)[0]
    wanted = (plain - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    assert torch.allclose(ImageFolder(tmp_path, mean=mean, std=std)[0], wanted)


def test_unreadable_images_are_left_out_counted_and_named(tmp_path):
    save(tmp_path / "good.png", noise())
    for number in range(5):
        (tmp_path / f"bad{number}.jpg").write_bytes(b"nonsense")
    with pytest.warns(
        SkippedFilesWarning, match=r"5 of 6 images .*bad0\.jpg \(not an image\).*2 more"
    ):
        folder = ImageFolder(tmp_path)
    assert folder.ids == ["good.png"]
    assert folder.skipped == [(f"bad{number}.jpg", "not an image") for number in range(5)]


def test_the_warning_points_at_the_caller(tmp_path):
    save(tmp_path / "good.png", noise())
    (tmp_path / "bad.png").write_bytes(b"")
    with pytest.warns(SkippedFilesWarning) as caught:
        ImageFolder(tmp_path)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "tif", "bmp", "gif"])
def test_a_truncated_image_is_left_out(tmp_path, suffix):
    save(tmp_path / "good.png", noise(64, 64))
    torn = tmp_path / f"torn.{suffix}"
    save(torn, noise(64, 64))
    torn.write_bytes(torn.read_bytes()[: torn.stat().st_size // 2])
    with pytest.warns(SkippedFilesWarning, match=rf"1 of 2 images left out: torn\.{suffix} \("):
        folder = ImageFolder(tmp_path)
    assert folder.ids == ["good.png"]


@pytest.mark.parametrize("behind", [b"a film of the same moment", bytes(5000)])
@pytest.mark.parametrize("suffix", ["jpg", "tif", "bmp", "gif"])
def test_what_stands_behind_a_whole_image_does_no_harm(tmp_path, suffix, behind):
    photo = tmp_path / f"photo.{suffix}"
    save(photo, noise(64, 64))
    photo.write_bytes(photo.read_bytes() + behind)
    assert ImageFolder(tmp_path)[0].shape == (3, 64, 64)


def test_a_jpeg_that_is_torn_later_is_named_on_reading(tmp_path):
    torn = tmp_path / "torn.jpg"
    save(torn, noise(64, 64))
    folder = ImageFolder(tmp_path)
    torn.write_bytes(torn.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"torn\.jpg: cannot be read .*truncated"):
        folder[0]


def test_large_photos_are_read_in_silence_and_larger_ones_left_out_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    save(tmp_path / "large.png", noise(6, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ImageFolder(tmp_path)[0].shape == (3, 6, 8)
    save(tmp_path / "huge.png", noise(12, 8))
    said = r"huge\.png \(.*96 pixels.* exceeds limit of 80 pixels: save it smaller\)$"
    with pytest.warns(SkippedFilesWarning, match=said):
        assert ImageFolder(tmp_path).ids == ["large.png"]


def test_an_image_that_vanished_is_named(tmp_path):
    save(tmp_path / "a.png", noise())
    folder = ImageFolder(tmp_path)
    (tmp_path / "a.png").unlink()
    with pytest.raises(DataError, match=r"a\.png"):
        folder[0]


def test_missing_and_empty_folders_are_said(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        ImageFolder(tmp_path / "absent")
    with pytest.raises(DataError, match=r"no images in it$"):
        ImageFolder(tmp_path)
    (tmp_path / "pool.npy").touch()
    with pytest.raises(DataError, match=r"pool\.npy: is a file, and no folder of images"):
        ImageFolder(tmp_path / "pool.npy")
    (tmp_path / "pool.npy").unlink()
    (tmp_path / "bad.png").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"1 could not be read, such as bad\.png: not an image"):
        ImageFolder(tmp_path)


def test_a_folder_of_volumes_says_how_they_can_be_a_pool(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "map.MRC").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"no images in it, but volumes such as map\.MRC: save .*npy"
    ):
        ImageFolder(tmp_path)


def save_pages(path, *kinds):
    """Save a TIFF file with a page and others of the given kinds behind it."""
    first, *others = (Image.fromarray(noise()[:, :, i % 3]) for i in range(len(kinds) + 1))
    for page, kind in zip(others, kinds, strict=True):
        page.encoderinfo = {"tiffinfo": {0x00FE: kind}}
    first.save(path, save_all=True, append_images=others)


def test_several_pages_are_refused_and_small_copies_are_not(tmp_path):
    """What is on the other pages would be lost without a word."""
    save_pages(tmp_path / "one.tif")
    save_pages(tmp_path / "small.tif", 1, 4)
    save_pages(tmp_path / "stack.tif", 1, 0)
    with pytest.warns(
        SkippedFilesWarning, match=r"stack\.tif \(several pages: save each as a file"
    ):
        folder = ImageFolder(tmp_path)
    assert folder.ids == ["one.tif", "small.tif"]
    assert torch.equal(folder[0], folder[1])


def test_links_that_lead_outside_are_left_out(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    save(inside / "a.png", noise())
    save(outside / "secret.png", noise())
    (inside / "file.png").symlink_to(outside / "secret.png")
    (inside / "folder").symlink_to(outside)
    (inside / "same.png").symlink_to(inside / "a.png")
    (inside / "loop").symlink_to(inside)
    (inside / "round.png").symlink_to(inside / "round.png")
    with pytest.warns(SkippedFilesWarning, match="4 of 6"):
        folder = ImageFolder(inside)
    assert folder.ids == ["a.png", "same.png"]
    reasons = dict(folder.skipped)
    assert "outside" in reasons["file.png"]
    assert "outside" in reasons["folder"]
    assert reasons["loop"] == "link to a folder"
    assert set(reasons) == {"file.png", "folder", "loop", "round.png"}


def test_a_pipe_is_not_waited_for(tmp_path):
    save(tmp_path / "a.png", noise())
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.warns(SkippedFilesWarning, match="not a file"):
        assert ImageFolder(tmp_path).ids == ["a.png"]


def test_a_name_that_is_not_text_is_left_out(tmp_path):
    save(tmp_path / "a.png", noise())
    raw = os.fsencode(tmp_path) + b"/\xff.png"
    with open(raw, "wb") as file:  # noqa: PTH123 - the name is bytes
        file.write((tmp_path / "a.png").read_bytes())
    with pytest.warns(SkippedFilesWarning, match="UTF-8"):
        folder = ImageFolder(tmp_path)
    assert folder.ids == ["a.png"]
    folder.skipped[0][0].encode()


def test_photos_are_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    save(tmp_path / "a.png", noise(6, 8), exif=exif)
    wanted = torch.from_numpy(np.rot90(noise(6, 8), -1).copy()).permute(2, 0, 1) / 255
    assert torch.equal(ImageFolder(tmp_path)[0], wanted)


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "webp"])
def test_sizes_are_those_of_upright_photos(tmp_path, suffix):
    exif = Image.Exif()
    exif[0x0112] = 6
    save(tmp_path / f"a.{suffix}", noise(6, 8), exif=exif)
    save(tmp_path / f"b.{suffix}", noise(8, 6))
    assert [image.shape for image in ImageFolder(tmp_path)] == [(3, 8, 6)] * 2
    save(tmp_path / f"c.{suffix}", noise(6, 8))
    with pytest.raises(DataError, match=r"8x6 pixels, but a.* has 6x8"):
        ImageFolder(tmp_path)


def test_sixteen_bits_are_scaled_and_not_cut_off(tmp_path):
    save(tmp_path / "a.png", np.array([[0, 257 * 100], [257 * 200, 65535]], dtype=np.uint16))
    assert (ImageFolder(tmp_path, channels=1)[0] * 255).round().tolist() == [[[0, 100], [200, 255]]]


def test_floating_point_images_are_left_out(tmp_path):
    save(tmp_path / "a.png", noise())
    save(tmp_path / "b.tiff", np.zeros((6, 8), dtype=np.float32))
    with pytest.warns(SkippedFilesWarning, match="neither 8 nor 16 bits"):
        assert ImageFolder(tmp_path).ids == ["a.png"]


def test_transparent_palettes_are_read_without_a_warning(tmp_path):
    image = Image.fromarray(noise()).quantize(8)
    image.save(tmp_path / "a.png", transparency=bytes([0, 128, 255]))
    assert list(ImageFolder(tmp_path)[0].shape) == [3, 6, 8]


def test_workers_read_the_same_images(tmp_path):
    for number in range(3):
        save(tmp_path / f"{number}.png", noise() // (number + 1))
    folder = ImageFolder(tmp_path)
    other = pickle.loads(pickle.dumps(folder))
    batch = next(iter(DataLoader(other, batch_size=3)))
    assert torch.equal(batch, torch.stack([folder[i] for i in range(3)]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": 4}, "channels is 4"),
        ({"size": 0}, "size is 0"),
        ({"size": (3, 4, 5)}, "size is"),
        ({"mean": (0.5,)}, "mean has 1 values for 3"),
        ({"std": (0.5, 0.5, 0.0)}, "std must be above 0"),
    ],
)
def test_options_that_cannot_be_used_are_refused(tmp_path, options, message):
    save(tmp_path / "a.png", noise())
    with pytest.raises(InputError, match=message):
        ImageFolder(tmp_path, **options)
