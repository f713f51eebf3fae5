"""Every preset runs from end to end in its smallest size.

Where the data folder has a data set, on real data; otherwise on generated files of its format.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from steepest.cli.main import main
from steepest.experiment.config import load_config, presets
from steepest.tasks import TASKS

DATA = os.environ.get("STEEPEST_DATA")
HERE = Path(DATA) if DATA else None

FOLDERS = {
    "cifar10": ("cifar10", []),
    "caltech101": ("caltech101_64", ["data.options.source=shards"]),
    "camvid": ("camvid_240x180", ["data.options.source=shards"]),
    "cifar10-features": ("cifar10", []),
    "caltech101-features": ("caltech101_64", ["data.options.source=shards"]),
}
"""Where real data is, and what has to be said to read it in that form."""

ALIKE = {
    "cifar100": "cifar10",
    "svhn": "cifar10",
    "camvid": "cityscapes",
    "50c-snr005": "50c-clean",
}
"""Presets whose model and strategy meet in another one's run: here a cheaper strategy does."""


def pixels(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def expect(monkeypatch, name, md5=None, **changes):
    """Have a reader expect other counts, and other sums of its files."""
    module = importlib.import_module(f"steepest.data.{name}")
    files = tuple(
        replace(file, md5=(md5 or {}).get(file.name, file.md5)) for file in module.HOLDING.files
    )
    monkeypatch.setattr(module, "HOLDING", replace(module.HOLDING, files=files, **changes))


def write_cifar(root, monkeypatch, *, folder, files, key, edition):
    for name, count in files.items():
        labels = (np.arange(count) % 10).tolist()
        batch = {b"data": pixels(count, 3072), key: labels}
        (root / folder).mkdir(exist_ok=True)
        (root / folder / name).write_bytes(pickle.dumps(batch, 2))
    expect(monkeypatch, edition.pop("module"), **edition)


def write_cifar10(root, monkeypatch):
    files = {f"data_batch_{n}": 10 for n in range(1, 6)} | {"test_batch": 20}
    edition = {"module": "cifar10", "train_count": 50, "test_count": 20}
    write_cifar(
        root, monkeypatch, folder="cifar-10-batches-py", files=files, key=b"labels", edition=edition
    )


def write_cifar100(root, monkeypatch):
    edition = {"module": "cifar100", "train_count": 40, "test_count": 20, "classes": 10}
    files = {"train": 40, "test": 20}
    folder = "cifar-100-python"
    write_cifar(root, monkeypatch, folder=folder, files=files, key=b"fine_labels", edition=edition)
    names = [f"class {n}".encode() for n in range(10)]
    (root / folder / "meta").write_bytes(pickle.dumps({b"fine_label_names": names}, 2))


def write_svhn(root, monkeypatch):
    sums = {}
    for name, count in (("train", 40), ("test", 20)):
        path = root / f"{name}_32x32.mat"
        labels = (np.arange(count) % 10 + 1).astype(np.uint8)[:, None]
        savemat(path, {"X": pixels(32, 32, 3, count), "y": labels})
        sums[path.name] = hashlib.md5(path.read_bytes()).hexdigest()
    expect(monkeypatch, "svhn", sums, train_count=40, test_count=20)


def write_caltech101(root, monkeypatch):
    for name in ("ant", "bonsai", "crab"):
        for number in range(10):
            path = root / "101_ObjectCategories" / name / f"image_{number:04d}.jpg"
            save(path, pixels(40, 50, 3, seed=number))
    expect(monkeypatch, "caltech101", classes=3, train_count=27, test_count=3)


def write_camvid(root, monkeypatch):
    for split, count in (("train", 8), ("val", 2), ("test", 4)):
        for number in range(count):
            image = pixels(360, 480, 3, seed=number)
            save(root / "CamVid" / split / f"{number}.png", image)
            save(root / "CamVid" / f"{split}annot" / f"{number}.png", image[..., 0] % 12)
    expect(monkeypatch, "camvid", train_count=8, test_count=4, counts={"val": 2})


def write_imagenet(root, monkeypatch):
    for split, count in (("train", 6), ("val", 3)):
        for name in ("n01", "n02"):
            for number in range(count):
                path = root / "imagenet" / split / name / f"{name}_{number}.JPEG"
                save(path, pixels(70 + number, 90, 3, seed=number))
    expect(monkeypatch, "imagenet", train_count=12, test_count=6, classes=2)


def write_cityscapes(root, monkeypatch):
    for split, count in (("train", 8), ("val", 3)):
        for number in range(count):
            image = pixels(80, 160, 3, seed=number)
            name = f"bonn/bonn_{number:06d}_000019"
            save(root / "cityscapes/leftImg8bit" / split / f"{name}_leftImg8bit.png", image)
            ids = image[..., 0] % 34
            save(root / "cityscapes/gtFine" / split / f"{name}_gtFine_labelIds.png", ids)
    expect(
        monkeypatch, "cityscapes", train_count=8, test_count=3, counts={"height": 80, "width": 160}
    )


GENERATED = {
    "cifar10": write_cifar10,
    "cifar10-small": write_cifar10,
    "cifar100": write_cifar100,
    "svhn": write_svhn,
    "caltech101": write_caltech101,
    "camvid": write_camvid,
    "cifar10-features": write_cifar10,
    "caltech101-features": write_caltech101,
    "imagenet": write_imagenet,
    "cityscapes": write_cityscapes,
}


def test_every_preset_with_files_of_its_own_can_be_generated():
    built_in = {"digits", "digits-features", "50c-clean", "50c-snr005"}
    assert set(GENERATED) | built_in == set(presets())


@pytest.mark.parametrize(("preset", "other"), ALIKE.items())
def test_those_that_are_alike_have_one_model_and_strategy(preset, other):
    one, another = load_config(preset), load_config(other)
    assert (one.model.name, one.strategy) == (another.model.name, another.strategy)
    assert one.task == another.task


@pytest.mark.parametrize("preset", presets())
def test_it_runs_from_end_to_end(preset, tmp_path, monkeypatch, capsys):
    changes = []
    folder, told = FOLDERS.get(preset, ("", []))
    if HERE is not None and folder and (HERE / folder).is_dir():
        changes = told
    elif preset in GENERATED:
        (tmp_path / "data").mkdir()
        GENERATED[preset](tmp_path / "data", monkeypatch)
        monkeypatch.setenv("STEEPEST_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("STEEPEST_FEATURES", str(tmp_path / "features"))
    out = tmp_path / "run"
    changes = ["device=cpu", "threads=1", *changes]  # More threads than cores would wait.
    if preset in ALIKE:
        changes += ["strategy.name=margin", "strategy.options={}"]
    settings = [part for change in changes for part in ("--set", change)]
    code = main(["run", preset, "--smoke", "--quiet", "--out", str(out), *settings])
    assert code == 0, capsys.readouterr().err
    lines = (out / "records.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    config = load_config(preset, variant="smoke")
    assert len(records) == config.loop.cycles
    headline = TASKS.get(config.task.name).headline
    assert headline in lines[-1]
    assert not (out / "training.safetensors").exists()
    assert main(["report", str(out)]) == 0
