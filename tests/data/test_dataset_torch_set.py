from __future__ import annotations

import multiprocessing
import random

import numpy as np
import pytest
import torch
from image_trees import noise, read_all, uniform
from PIL import Image
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset

from steepest.data import streamed
from steepest.data.image_view import IMAGENET_MEAN, centre_box, see
from steepest.data.torch_set import from_hugging_face, from_torch
from steepest.errors import DataError, InputError, UnknownNameError


class Items(Dataset):
    """A data set as torch has them; counts how often an image is decoded."""

    def __init__(self, images, labels, change=None):
        self.images = images
        self.given = labels
        self.change = change
        self.decoded = 0

    def __len__(self):
        return len(self.images)

    def __getitem__(self, row):
        self.decoded += 1
        image = self.images[row]
        return (image if self.change is None else self.change(image)), self.given[row]


class WithTargets(Items):
    @property
    def targets(self):
        return self.given


def photos(count, start=0, height=10, width=14):
    return [Image.fromarray(noise(height, width, start + n)) for n in range(count)]


def shuffle_pixels(image):
    """Draw from every global generator there is."""
    numbers = random.random(), np.random.rand(), float(torch.rand(()))  # noqa: NPY002
    return torch.tensor(numbers).reshape(3, 1, 1)


def global_states():
    numpy = np.random.get_state()  # noqa: NPY002
    return random.getstate(), numpy[1].tolist(), numpy[2], torch.get_rng_state().tolist()


def make(kind=WithTargets, labels=(0, 1, 2, 1), **options):
    train = kind(photos(4), list(labels))
    return train, from_torch(train, kind(photos(2, 9), [0, 1]), **{"workers": 0, **options})


def pixels(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def test_images_of_pillow_become_bytes():
    train, data = make()
    assert torch.equal(data.train_images[:], torch.stack([pixels(i) for i in train.images]))
    assert data.test_images.shape == (2, 3, 10, 14)
    assert data.classes == ("0", "1", "2")
    assert (data.mean, data.augmentation, data.task) == (IMAGENET_MEAN, "own", "classification")
    assert data.train_labels.unseal("test").tolist() == [0, 1, 2, 1]
    assert data.test_labels.tolist() == [0, 1]


def test_labels_are_taken_without_decoding_where_they_are_known(one_compared):
    train, _ = make()
    assert train.decoded <= 3
    train, data = make(Items)
    assert train.decoded >= 4
    assert data.train_labels.unseal("test").tolist() == [0, 1, 2, 1]


@pytest.fixture
def one_compared(monkeypatch):
    """Let a single item vouch for a column, so that what is decoded beside it shows."""
    monkeypatch.setattr("steepest.data.torch_set._COMPARED", 1)


def test_a_column_that_only_the_first_item_agrees_with_is_not_believed():
    class Permuted(Items):
        targets = (0, 2, 1, 1)

    _, data = make(Permuted, labels=(0, 1, 2, 1))
    assert data.train_labels.unseal("test").tolist() == [0, 1, 2, 1]


def test_sixteen_bits_are_scaled_and_floats_are_refused():
    ramp = np.linspace(0, 65535, 64, dtype=np.uint16).reshape(8, 8)
    items = Items([Image.fromarray(ramp)] * 2, [0, 1])
    seen = from_torch(items, items, workers=0).train_images[[0]][0, 0]
    assert torch.equal(seen, torch.from_numpy((ramp // 257).astype(np.uint8)))
    for kind, mode in ((np.float32, "F"), (np.int32, "I")):
        wide = Items([Image.fromarray(ramp.astype(kind))] * 2, [0, 1])
        with pytest.raises(DataError, match=f"{mode} pixels, neither 8 nor 16 bits"):
            from_torch(wide, wide, workers=0)


@pytest.mark.parametrize("form", [lambda a: a, lambda a: torch.from_numpy(a.astype(np.int64))])
def test_whole_numbers_that_are_no_bytes_need_a_scale(form):
    wide = Items([form(np.full((4, 4), 60_000, np.uint16))] * 2, [0, 1])
    with pytest.raises(DataError, match=r"int.*not known what white is: give bytes"):
        from_torch(wide, wide, workers=0)
    data = from_torch(wide, wide, mean=[30_000.0], std=[10_000.0], workers=0)
    assert data.train_images[[0]].max() == 60_000


def test_a_column_that_items_contradict_is_not_believed():
    class Contrary(Items):
        targets = (2, 2, 2, 2)

    _, data = make(Contrary, labels=(0, 1, 2, 1))
    assert data.train_labels.unseal("test").tolist() == [0, 1, 2, 1]


def test_a_change_of_labels_is_made_to_the_column_too(one_compared):
    class Shifted(Items):
        def __init__(self, images, labels):
            super().__init__(images, [label + 1 for label in labels])
            self.targets = labels
            self.target_transform = lambda label: label + 1

    train, data = make(Shifted)
    assert data.train_labels.unseal("test").tolist() == [1, 2, 3, 2]
    assert train.decoded <= 3


def test_parts_and_joined_data_sets_are_seen_through(one_compared):
    train = WithTargets(photos(4), [0, 1, 2, 1])
    joined = ConcatDataset([Subset(train, [3, 2]), Subset(train, [0])])
    data = from_torch(joined, TensorDataset(torch.zeros(1, 3, 10, 14).byte(), torch.tensor([2])))
    assert data.train_labels.unseal("test").tolist() == [1, 2, 0]
    assert torch.equal(data.train_images[[1]][0], pixels(train.images[2]))
    assert train.decoded <= 4
    assert data.test_labels.tolist() == [2]


@pytest.mark.parametrize(
    ("image", "shape", "dtype"),
    [
        (torch.zeros(3, 4, 5, dtype=torch.uint8), (3, 4, 5), torch.uint8),
        (torch.zeros(1, 4, 5, dtype=torch.float64), (1, 4, 5), torch.float32),
        (torch.zeros(4, 5), (1, 4, 5), torch.float32),
        (torch.zeros(1, 3, 4, 5), (1, 3, 4, 5), torch.float32),
        (np.zeros((4, 5), dtype=np.uint8), (1, 4, 5), torch.uint8),
        (np.zeros((4, 5, 3), dtype=np.float32), (3, 4, 5), torch.float32),
        (Image.fromarray(noise(4, 5, channels=1)), (1, 4, 5), torch.uint8),
        (Image.fromarray(noise(4, 5)).convert("P"), (3, 4, 5), torch.uint8),
        (Image.fromarray(noise(4, 5)).convert("RGBA"), (3, 4, 5), torch.uint8),
    ],
)
def test_every_kind_of_image_is_taken(image, shape, dtype):
    items = Items([image, image], [0, 1])
    data = from_torch(items, items, workers=0)
    assert data.train_images.shape == (2, *shape)
    assert data.train_images[:].dtype == dtype
    assert dtype == torch.uint8 or (data.mean, data.std) == ((0.0,) * shape[0], (1.0,) * shape[0])


def test_images_are_resized_and_cut():
    train, data = make(size=6)
    wanted = torch.stack([see(i, centre_box(14, 10, 6, 6), 6) for i in train.images])
    assert torch.equal(data.train_images[:], wanted)
    grey = Items([image.convert("L") for image in train.images], [0, 1, 0, 1])
    assert from_torch(grey, grey, size=6, workers=0).train_images[:].shape == (4, 1, 6, 6)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_tensors_are_resized_as_images_are(dtype):
    train, wanted = make(size=6)
    items = Items([pixels(i).to(dtype) for i in train.images], [0, 1, 2, 1])
    found = from_torch(items, items, size=6, workers=0).train_images[:]
    assert found.dtype == dtype
    assert float((found.float() - wanted.train_images[:].float()).abs().max()) <= 2


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_data_set_draws_depends_on_the_row_and_the_draw_alone(workers):
    items = WithTargets([None] * 6, [0, 1] * 3, shuffle_pixels)
    data = from_torch(items, items, workers=workers)
    states = global_states()
    scored = read_all(data.train_images)
    assert torch.equal(scored, read_all(data.train_images, 3))
    assert len(scored.unique()) == 18
    first, second = (read_all(data.train_images, 2, uniform(data.train_images, s)) for s in (0, 1))
    assert torch.equal(first, read_all(data.train_images, 6, uniform(data.train_images, 0)))
    assert not (first == second).any()
    assert not (first == scored).any()
    assert global_states() == states


def test_workers_give_what_this_process_gives():
    items = WithTargets([None] * 6, [0, 1] * 3, shuffle_pixels)
    with_workers, alone = (from_torch(items, items, workers=n).train_images for n in (2, 0))
    numbers = uniform(alone)
    assert torch.equal(read_all(with_workers, 2, numbers), read_all(alone, 6, numbers))


def test_a_plain_twin_is_what_is_scored():
    plain = WithTargets(photos(3), [0, 1, 0])
    changed = WithTargets(plain.images, [0, 1, 0], turn)
    data = from_torch(changed, plain, plain=plain, workers=0)
    assert torch.equal(data.train_images[:], data.test_images[:])
    augmented = read_all(data.train_images, 3, uniform(data.train_images))
    assert torch.equal(augmented, data.train_images[:].flip(2, 3))


def turn(image):
    return image.transpose(Image.Transpose.ROTATE_180)


def test_names_of_classes_come_from_the_data_set_or_the_caller():
    class Named(WithTargets):
        classes = ("cat", "dog", "newt")

    assert make(Named)[1].classes == ("cat", "dog", "newt")
    assert make(Named, classes=["a", "b", "c", "d"])[1].classes == ("a", "b", "c", "d")
    with pytest.raises(DataError, match=r"outside 0\.\.1"):
        make(Named, classes=["a", "b"])


@pytest.mark.parametrize("kind", [Items, WithTargets])
def test_several_labels_each(kind):
    rows = [[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]]
    train = kind(photos(4), rows)
    data = from_torch(train, train, task="multi-label", workers=0)
    assert data.test_labels.tolist() == [[bool(x) for x in row] for row in rows]
    assert (data.task, data.classes) == ("multi-label", ("0", "1", "2"))
    with pytest.raises(DataError, match="not one class each"):
        from_torch(train, train, workers=0)


@pytest.mark.parametrize(
    "form",
    [
        Image.fromarray,
        torch.from_numpy,
        lambda a: a.astype(np.int64),
        lambda a: a.astype(np.uint16),
    ],
)
def test_label_maps(form):
    maps = [noise(10, 14, n, channels=1) % 3 for n in range(4)]
    train = Items(photos(4), [form(m) for m in maps])
    data = from_torch(train, train, classes="abc", task="segmentation", workers=0)
    assert np.array_equal(data.test_labels[:].numpy(), np.stack(maps))
    assert data.train_labels.dense
    with pytest.raises(InputError, match="give classes"):
        from_torch(train, train, task="segmentation")
    with pytest.raises(InputError, match="size is not for label maps"):
        from_torch(train, train, classes="abc", size=4, task="segmentation")


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (np.full((4, 4), -1), "outside 0..255"),
        (np.zeros((4, 4)), "not bytes"),
        (Image.fromarray(noise(4, 4)), "RGB pixels"),
        (np.zeros((4, 4), np.uint8), r"label maps are \[4, 4\] for images of \[10, 14\]"),
    ],
)
def test_label_maps_of_another_kind_are_refused(label, message):
    items = Items(photos(1), [label])
    with pytest.raises(DataError, match=message):
        from_torch(items, items, classes="ab", task="segmentation", workers=0)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (np.full((10, 14), 2, np.uint8), "sample 1: its label map says class 2, .* 0 to 1, and"),
        (Image.fromarray(noise(10, 14)), "sample 1: a label map has RGB pixels"),
    ],
)
def test_a_label_map_that_cannot_be_used_is_named(label, message):
    items = Items(photos(2), [np.full((10, 14), 255, np.uint8), label])
    data = from_torch(items, items, classes="ab", task="segmentation", workers=0)
    with pytest.raises(DataError, match=message):
        data.test_labels[:]


def test_volumes_have_label_maps_of_their_own_size():
    items = Items([torch.zeros(1, 2, 4, 6)] * 2, [torch.ones(2, 4, 6, dtype=torch.uint8)] * 2)
    data = from_torch(items, items, classes="ab", task="segmentation", workers=0)
    assert data.test_labels.shape == (2, 2, 4, 6)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (Items([torch.zeros(3, 4, 4), torch.zeros(3, 5, 4)], [0, 1]), "sample 1 has shape"),
        (Items([torch.zeros(3, 4, 4), "text"], [0, 1]), "type str, not an image"),
        (Items([torch.zeros(3, 4, 4)] * 2, [0, 0.5]), "a label is 0.5, not a whole number"),
        (Items([np.zeros((3, 9, 9))] * 2, [0, 1]), "no image"),
        ([torch.zeros(3, 4, 4)] * 2, "sample 0 is of type Tensor, not"),
        (Items([torch.zeros(3, 4, 4)] * 2, [0]), "sample 1 cannot be read .IndexError"),
    ],
)
def test_samples_that_cannot_be_used_are_one_line(items, message):
    with pytest.raises(DataError, match=message) as caught:
        from_torch(items, items, workers=0).train_images[:]
    assert "\n" not in str(caught.value)


def test_arguments_that_cannot_be_used_are_refused():
    items = WithTargets(photos(2), [0, 1])

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

        def __len__(self):
            return 1

    for odd in (Stream(), iter(()), 5):
        with pytest.raises(InputError, match="map style"):
            from_torch(odd, items)
    with pytest.raises(DataError, match="empty"):
        from_torch([], items)
    with pytest.raises(InputError, match="plain has 1 samples and train 2"):
        from_torch(items, items, plain=Subset(items, [0]))
    with pytest.raises(UnknownNameError, match="unknown task 'ranking'"):
        from_torch(items, items, task="ranking")
    with pytest.raises(InputError, match="size is 0"):
        from_torch(items, items, size=0)


def test_data_sets_that_cannot_travel_are_read_here_by_default(monkeypatch):
    monkeypatch.setattr(streamed, "default_workers", lambda: 2)
    assert make(workers=None)[1].train_images.workers == 2
    items = Items(photos(2), [0, 1], lambda image: image)
    assert from_torch(items, items).train_images.workers == 0
    monkeypatch.setattr(Items, "__module__", "__main__")
    assert from_torch(Items(photos(2), [0, 1]), items).train_images.workers == 0
    assert multiprocessing.active_children() == []


class Feature:
    def __init__(self, names=None, feature=None):
        if names:
            self.names = names
        self.feature = feature


class Rows:
    """What a data set of Hugging Face looks like from outside."""

    def __init__(self, columns, features=None):
        self.columns = columns
        self.features = features
        self.column_names = list(columns)
        self.decoded = 0

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key):
        if isinstance(key, str):
            return self.columns[key]
        self.decoded += 1
        return {name: column[key] for name, column in self.columns.items()}


def rows(labels, feature=None, **names):
    image, label = names.get("image", "image"), names.get("label", "label")
    return Rows({image: photos(len(labels)), label: labels}, {label: feature})


def test_hugging_face_rows_are_read_by_column(one_compared):
    train = rows([0, 2, 1], Feature(["cat", "dog", "newt"]))
    data = from_hugging_face({"train": train, "validation": rows([1, 1])}, workers=0)
    assert data.classes == ("cat", "dog", "newt")
    assert data.train_labels.unseal("test").tolist() == [0, 2, 1]
    assert data.test_labels.tolist() == [1, 1]
    assert torch.equal(data.train_images[[2]][0], pixels(train.columns["image"][2]))
    assert train.decoded <= 4
    assert data.name == "hugging-face"


@pytest.mark.parametrize("workers", [0, 1])
def test_hugging_face_labels_may_be_names(workers):
    train, test = rows(["newt", "cat", "newt"], img="img"), rows(["cat"])
    data = from_hugging_face((train, test), workers=workers)
    assert data.classes == ("cat", "newt")
    assert data.train_labels.unseal("test").tolist() == [1, 0, 1]
    assert torch.equal(read_all(data.train_images), data.train_images[:])


def test_hugging_face_lists_are_several_labels():
    train = rows([[0, 2], []], Feature(feature=Feature(["a", "b", "c"])), label="tags")
    data = from_hugging_face((train, train), label="tags", task="multi-label", workers=0)
    assert data.test_labels.tolist() == [[True, False, True], [False, False, False]]


def test_hugging_face_label_maps():
    maps = [Image.fromarray(noise(10, 14, n, channels=1) % 2) for n in range(2)]
    train = rows(maps)
    data = from_hugging_face((train, train), classes="ab", task="segmentation", workers=0)
    assert np.array_equal(data.test_labels[:].numpy(), np.stack([np.array(m) for m in maps]))


def test_hugging_face_mistakes_are_one_line():
    train = rows([0, 1], Feature(["cat", "dog"]))
    with pytest.raises(UnknownNameError, match="unknown column 'img': did you mean 'image'"):
        from_hugging_face((train, train), image="img")
    with pytest.raises(InputError, match="splits are train; pass"):
        from_hugging_face({"train": train})
    with pytest.raises(InputError, match="give a dict of splits"):
        from_hugging_face(train)
    with pytest.raises(DataError, match="label -1 is none of the 2 classes"):
        from_hugging_face((train, rows([-1])))
    with pytest.raises(DataError, match="label None is none"):
        from_hugging_face((train, rows([None])))
    with pytest.raises(InputError, match="streaming=False"):
        from_hugging_face((iter([]), train))


def test_the_real_library_is_read():
    datasets = pytest.importorskip("datasets")
    if not hasattr(datasets, "Features"):
        pytest.skip("Hugging Face's library is not installed")
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    )
    made = datasets.Dataset.from_dict({"image": photos(3), "label": [0, 1, 1]}, features=features)
    data = from_hugging_face({"train": made, "test": made}, workers=1)
    assert data.classes == ("cat", "dog")
    assert torch.equal(read_all(data.train_images), torch.stack([pixels(i) for i in photos(3)]))
