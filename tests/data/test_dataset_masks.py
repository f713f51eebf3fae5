"""Images and masks of one's own: pairs, numbers, sizes, and errors with a remedy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from image_trees import noise, read_all, save, uniform
from PIL import Image

from steepest.data import from_arrays, load
from steepest.errors import DataError, InputError


def mask(seed, height=8, width=10):
    labels = noise(height, width, seed, channels=1) % 3
    labels[0] = 255
    return labels


def write(folder, count=5, image_end="png"):
    """Write so many images, each as bright as its mask's number."""
    for n in range(count):
        labels = mask(n)
        save(folder / "images" / f"{n}.{image_end}", np.repeat(labels[..., None], 3, axis=2))
        save(folder / "masks" / f"{n}.png", labels)
    return folder


def read(folder, **options):
    chosen = {"path": str(folder), "classes": ["a", "b", "c"], "workers": 0, **options}
    return load("masks", options=chosen)


def test_masks_are_found_by_name_and_a_share_is_for_testing(tmp_path):
    write(tmp_path, 4, "png")
    save(tmp_path / "images" / "deep" / "x.jpeg", noise(8, 10))
    save(tmp_path / "masks" / "deep" / "x.png", mask(9))
    data = read(tmp_path, test_share=0.4)
    assert (data.task, data.augmentation, data.classes) == ("segmentation", "flip", tuple("abc"))
    assert (data.train_images.shape, data.test_labels.shape) == ((3, 3, 8, 10), (2, 8, 10))
    maps = torch.cat([data.train_labels.unseal("test"), data.test_labels[:]])
    wanted = {mask(n).tobytes() for n in (0, 1, 2, 3, 9)}
    assert {part.numpy().tobytes() for part in maps} == wanted


def test_folders_for_training_and_testing(tmp_path):
    write(tmp_path / "train", 3)
    write(tmp_path / "val", 2)
    data = read(tmp_path)
    assert (len(data.train_images), len(data.test_images)) == (3, 2)


def test_a_palette_is_read_by_its_numbers(tmp_path):
    write(tmp_path)
    coloured = Image.fromarray(mask(0), mode="L").convert("P")
    coloured.putdata(mask(0).flatten().tolist())
    coloured.putpalette([200] * 768)
    coloured.save(tmp_path / "masks" / "0.png")
    data = read(tmp_path, test_share=0.2, seed=0)
    maps = torch.cat([data.train_labels.unseal("test"), data.test_labels[:]])
    assert mask(0).tobytes() in {part.numpy().tobytes() for part in maps}


def test_images_of_several_sizes_are_cut_with_their_masks(tmp_path):
    write(tmp_path)
    save(tmp_path / "images" / "9.png", np.repeat(mask(9, 20, 6)[..., None], 3, axis=2))
    save(tmp_path / "masks" / "9.png", mask(9, 20, 6))
    with pytest.raises(DataError, match=r"9\.png: 6x20 pixels, but .* has 10x8; set crop"):
        read(tmp_path)
    data = read(tmp_path, crop=7)
    assert data.augmentation == "own"
    draws = uniform(data.train_images)
    maps = data.train_labels.unseal_rows(data.ids, "test")
    for numbers in (None, draws):
        images, labels = (read_all(column, draws=numbers) for column in (data.train_images, maps))
        known = labels != 255
        assert torch.equal(images[:, 0][known], labels[known])


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("3.png", None, {}, r"images/3\.png: no mask masks/3\.png"),
        ("3.png", np.full((8, 10), 7, np.uint8), {}, r"masks/3\.png: 7 is no label"),
        ("3.png", noise(8, 10), {}, r"masks/3\.png: RGB pixels"),
        ("3.png", mask(3), {"classes": ["a"]}, "1 classes; give the names of 2"),
        ("3.png", mask(3), {"test_share": 0.01}, "5 images cannot be split so"),
        ("3.png", mask(3), {"path": "nowhere"}, "nowhere: no such folder; give FOLDER/images"),
    ],
)
def test_what_cannot_be_used_is_named(name, content, options, message, tmp_path):
    write(tmp_path)
    (tmp_path / "masks" / name).unlink()
    if content is not None:
        save(tmp_path / "masks" / name, content)
    with pytest.raises((DataError, InputError), match=message):
        read(tmp_path, **options)


def test_a_turned_image_is_refused_where_its_mask_may_be_upright(tmp_path):
    place, exif = write(tmp_path) / "images" / "0.png", Image.Exif()
    exif[0x0112] = 6  # On a side: the mask's size says that it is, too.
    save(place, noise(8, 10), exif=exif)
    data = read(tmp_path)
    seen = torch.cat([data.train_images[:], data.test_images[:]])
    assert any(torch.equal(i, torch.from_numpy(noise(8, 10)).permute(2, 0, 1)) for i in seen)
    exif[0x0112] = 3
    save(place, noise(8, 10), exif=exif)
    data = read(tmp_path)
    with pytest.raises(DataError, match=r"0\.png: its camera noted that it is to be turned"):
        torch.cat([data.train_images[:], data.test_images[:]])


def test_a_mask_of_another_size_than_its_image_is_refused(tmp_path):
    write(tmp_path)
    save(tmp_path / "masks" / "3.png", mask(3, 4, 5))
    data = read(tmp_path)
    columns = data.train_labels.unseal_rows(data.ids, "test"), data.test_labels
    with pytest.raises(DataError, match=r"masks/3\.png: 5x4 pixels instead of 10x8"):
        [read_all(column) for column in columns]


def test_black_and_white_masks_are_refused_before_white_is_ignored(tmp_path):
    write(tmp_path)
    maps = np.stack([np.where(mask(n) > 1, 255, 0) for n in range(5)])
    for n, labels in enumerate(maps.astype(np.uint8)):
        save(tmp_path / "masks" / f"{n}.png", labels)
    with pytest.raises(DataError, match=r"hold 0 and 255 alone.* save 1 instead"):
        read(tmp_path)
    images = np.zeros((5, 8, 10, 3), np.uint8)
    with pytest.raises(DataError, match=r"hold 0 and 255 alone.* give 1 instead"):
        from_arrays(images, maps, classes=("back", "front"), test_share=0.2)
