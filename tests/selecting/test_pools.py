"""Every kind of pool gives the same choice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import steepest
from steepest.errors import (
    InputError,
    ModelError,
    NonFiniteError,
    SettingWarning,
    SkippedFilesWarning,
    UnknownNameError,
)

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5))


@pytest.fixture
def x():
    return torch.randn(20, 3, 2, 2, generator=torch.Generator().manual_seed(1))


class Dicts(Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"input": self.x[i], "labels": i}


class Overflowing(nn.Module):
    def forward(self, x):
        return x.flatten(1) * 100


def test_all_kinds_of_pool_agree(model, x):
    pools = {
        "tensor": x,
        "array": x.numpy(),
        "dataset": TensorDataset(x),
        "labelled dataset": TensorDataset(x, torch.arange(20)),
        "loader": DataLoader(TensorDataset(x), batch_size=3, shuffle=True),
        "list": list(x),
    }
    picks = {
        name: steepest.select(model, pool, 7, progress=False).ids for name, pool in pools.items()
    }
    assert set(picks.values()) == {picks["tensor"]}


def test_dicts_are_passed_by_keyword_without_labels(x):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(12, 5)

        def forward(self, *, input):  # noqa: A002
            return {"logits": self.layer(input.flatten(1))}

    assert len(steepest.select(Named(), Dicts(x), 4, progress=False)) == 4


def leave_a_mark(worker):
    Path(f"worker-{worker}").touch()


def test_worker_processes_change_nothing(model, x, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    alone = steepest.select(model, x, 5, progress=False)
    loader = DataLoader(TensorDataset(x), num_workers=2, worker_init_fn=leave_a_mark)
    helped = steepest.select(model, loader, 5, progress=False, batch_size=4)
    assert helped.ids == alone.ids
    assert {path.name for path in tmp_path.iterdir()} == {"worker-0", "worker-1"}


def test_a_folder_of_images_is_named_by_its_paths(tmp_path, model):
    rng = np.random.default_rng(0)
    for i in range(6):
        pixels = rng.integers(0, 255, (2, 2, 3), dtype=np.uint8)
        (tmp_path / "sub").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "sub" / f"{i}.png")
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    with (
        pytest.warns(SkippedFilesWarning, match=r"broken\.jpg"),
        pytest.warns(SettingWarning, match="scaled to"),
    ):
        picks = steepest.select(model, tmp_path, 3, progress=False)
    assert set(picks.ids) <= {f"sub/{i}.png" for i in range(6)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, x: steepest.select(m, x, 21), "k = 21, but only 20"),
        (lambda m, x: steepest.select(m, x, 18, labelled=range(3)), "only 17"),
        (lambda m, x: steepest.select(m, x, 5, subset=4), "subset of 4"),
        (lambda m, x: steepest.select(m, x, 0), "at least 1"),
        (lambda m, x: steepest.select(m, x, 2.5), "whole number"),
        (lambda m, x: steepest.select(m, x[:0], 1), "pool is empty"),
        (lambda m, x: steepest.select(m, [], 1), "pool is empty"),
        (lambda m, x: steepest.select(m, 3, 1), "type int is not known"),
        (lambda m, x: steepest.score(m, x, labelled=[77]), "77 is not in the pool"),
        (lambda m, x: steepest.score(m, x, labelled=range(20)), "labelled already"),
        (lambda m, x: steepest.score(m, x, subset=0), "subset must be"),
        (lambda m, x: steepest.score(m, x, batch_size=0), "batch_size must be"),
        (lambda m, x: steepest.score(m, x, ids=[1, 2]), "2 ids for 20"),
        (lambda m, x: steepest.score(m, x, ids=[1] * 20), "distinct"),
        (lambda m, x: steepest.score(m, (x * 50).byte()), "raw bytes"),
        (lambda m, x: steepest.score(m, x, "entropi"), "did you mean 'entropy'"),
        (lambda m, x: steepest.score(m, x, subset=True), "subset must be"),
        (lambda m, x: steepest.select(m, x, 1, subset="9"), "subset must be"),
        (lambda m, x: steepest.score(m, x, ids=set(range(20))), "ids are a set; give a list"),
        (lambda m, x: steepest.score(m, x, ids=[0, 0, *range(18)]), "0 is there more than once"),
        (lambda m, x: steepest.score(m, x, ids=[(i, 0) for i in range(20)]), "str"),
        (lambda m, x: steepest.score(m, x, labelled="abc"), "labelled is a str: give a list"),
        (lambda m, x: steepest.score(m, x, labelled=3), "labelled is a int: give a list"),
        (lambda m, x: steepest.score(m, x, labelled=torch.tensor(3)), "single number"),
        (lambda m, x: steepest.score(m, x, labelled=[True] * 20), "no mask"),
        (lambda m, x: steepest.score(m, x, labelled=["1"]), "'1' .* ids are such as 0"),
        (lambda m, x: steepest.score(m, x, precision=torch.half), "unknown precision"),
        (lambda m, x: steepest.score(m, x, options=["norm"]), "options are a list"),
        (lambda m, x: steepest.score(m, x, task=3), "task must be"),
        (lambda m, x: steepest.score(m, x, task="segmentaton"), "did you mean 'segmentation'"),
        (lambda m, x: steepest.score(m, x, support={"targets": {}}), "support must be"),
        (lambda m, x: steepest.score(m, x, progress="no"), "progress must be"),
    ],
)
def test_bad_arguments_get_one_line(call, message, model, x):
    with pytest.raises(InputError, match=message) as caught:
        call(model, x)
    assert "\n" not in str(caught.value)


def test_streams_without_an_index_are_refused(model):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([])

    with pytest.raises(InputError, match="map-style"):
        steepest.score(model, Stream())


def test_nan_is_named_by_the_samples_id(model, x):
    x[3, 0, 0, 0] = float("nan")
    names = [f"photo-{i}" for i in range(20)]
    with pytest.raises(NonFiniteError, match="'photo-3'"):
        steepest.score(model, x, ids=names, progress=False)
    x[3, 0, 0, 0] = 1e38
    with pytest.raises(NonFiniteError, match="score of sample 'photo-3'"):
        steepest.score(Overflowing(), x, "entropy", ids=names, progress=False)


def test_nan_weights_are_refused(model, x):
    model[1].weight.data[0, 0] = float("nan")
    with pytest.raises(NonFiniteError, match=r"1\.weight"):
        steepest.score(model, x, progress=False)
    with pytest.raises(NonFiniteError, match="score of sample 0"):
        steepest.score(model, x, "margin", progress=False)


def test_a_model_without_logits_is_refused(x):
    class Words(nn.Module):
        def forward(self, x):
            return "cat"

    with pytest.raises(ModelError, match="neither a tensor nor carries"):
        steepest.score(Words(), x, "entropy", progress=False)


def test_running_out_of_memory_halves_the_batch(model, x, monkeypatch):
    expected = steepest.score(model, x, "entropy", progress=False).values
    seen = []
    forward = model.forward

    def tight(batch):
        seen.append(len(batch))
        if len(batch) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(batch)

    monkeypatch.setattr(model, "forward", tight)
    found = steepest.score(model, x, "entropy", progress=False, batch_size=16).values
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert seen[:3] == [16, 8, 4]
    assert max(seen[3:]) <= 2


@pytest.mark.parametrize("strategy", ["entropy-gradnorm", "noise-stability"])
def test_a_model_in_a_wrapper_for_several_devices_is_asked_itself(strategy, model, x):
    wrapped = nn.DataParallel(model)
    found = steepest.select(wrapped, x, 4, strategy, progress=False)
    assert found == steepest.select(model, x, 4, strategy, progress=False)
    assert wrapped.training


def test_another_device_is_reached_by_a_copy(model, x):
    assert steepest.score(model, x, device="cpu", progress=False).model
    assert next(model.parameters()).device.type == "cpu"


def test_precision_is_passed_on_and_checked():
    model, pool = nn.Linear(4, 3), torch.randn(6, 4)
    scores = [
        steepest.score(model, pool, "egl", precision=p, progress=False).values
        for p in ("fp32", "tf32")
    ]
    np.testing.assert_allclose(*scores, rtol=1e-2)
    with pytest.raises(UnknownNameError, match="did you mean 'bf16'"):
        steepest.score(model, pool, "egl", precision="bf61", progress=False)
