"""What Python takes as the shell does: tasks by name, outputs by name, folders without a scale."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import steepest
from steepest.data import ImageFolder
from steepest.errors import InputError, ModelError, SettingWarning, UnknownNameError
from steepest.tasks import MultiLabel, Segmentation


@pytest.fixture
def pool():
    return torch.randn(40, 3, 4, 4, generator=torch.Generator().manual_seed(0))


def flat(outputs):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(48, outputs))


def choose(model, pool, **more):
    return steepest.select(model, pool, 5, "margin", progress=False, **more)


def test_a_task_may_go_by_its_name(pool):
    by_name = choose(flat(4), pool, task="multi-label")
    assert by_name == choose(flat(4), pool, task=MultiLabel(4))
    assert by_name.ids != choose(flat(4), pool).ids
    scores = steepest.score(flat(4), pool, "margin", task="multi-label", progress=False)
    assert scores.select(5).ids == by_name.ids


@pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")
def test_a_task_by_name_takes_the_gradient_of_its_own_loss(pool):
    given = {"k": 5, "strategy": "entropy-gradnorm", "progress": False}
    net = nn.Conv2d(3, 4, 1)
    by_name = steepest.select(net, pool, task="segmentation", **given)
    assert by_name == steepest.select(net, pool, task=Segmentation(4), **given)


def test_a_task_by_a_wrong_name_or_of_a_model_without_classes_is_refused(pool):
    with pytest.raises(UnknownNameError, match="did you mean 'multi-label'"):
        choose(flat(4), pool, task="multilabel")
    with pytest.raises(ModelError, match="one logit for each sample"):
        choose(flat(1), pool, task="classification")


class Out(nn.Module):
    """As torchvision's nets for segmentation."""

    def __init__(self, key="out"):
        super().__init__()
        torch.manual_seed(0)
        self.net, self.key = nn.Conv2d(3, 4, 1), key

    def forward(self, x):
        return {self.key: self.net(x), "aux": x}


@pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")
@pytest.mark.parametrize("strategy", ["margin", "entropy-gradnorm"])
def test_logits_may_be_called_out(pool, strategy):
    picks = steepest.select(Out(), pool, 5, strategy, progress=False)
    plain = steepest.select(Out().net, pool, 5, strategy, progress=False)
    assert picks.ids == plain.ids
    with pytest.raises(ModelError, match="carries 'logits' or 'out'"):
        steepest.select(Out("found"), pool, 5, strategy, progress=False)


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(6):
        Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(tmp_path / f"{i}.png")
    return tmp_path


@pytest.mark.parametrize(
    "as_pool",
    [
        str,
        ImageFolder,
        lambda path: DataLoader(ImageFolder(path)),
        lambda path: Subset(ImageFolder(path), range(6)),
    ],
)
def test_a_folder_that_nobody_normalised_is_warned_of(photos, as_pool):
    pool = as_pool(photos)
    with pytest.warns(SettingWarning, match=r"scaled to 0\.\.1 only: give .*ImageFolder\(") as told:
        choose(flat(4), pool)
    assert [w.filename for w in told] == [__file__]
    with pytest.warns(SettingWarning, match="scaled"):
        steepest.score(flat(4), pool, "margin", progress=False)


def test_a_folder_that_says_its_scale_is_not_warned_of(photos):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choose(flat(4), ImageFolder(photos, mean=[0.0] * 3, std=[1.0] * 3))


def labelled_pool(labels):
    rows = torch.randn(len(labels), 4, generator=torch.Generator().manual_seed(0))
    return TensorDataset(rows, torch.as_tensor(labels))


def two_outputs():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 2)


@pytest.mark.parametrize(
    "labels", [[[0.2, 3.1]] * 6, [[-1.0, 2.0]] * 6, [[1.0, 1.0]] * 6, [[0.5]] * 6, [0.5] * 6]
)
def test_with_labels_that_are_no_classes_it_asks_for_the_task(labels):
    with pytest.raises(InputError, match="real numbers and no classes: give task="):
        steepest.select(two_outputs(), labelled_pool(labels), 2, "margin", progress=False)
    picks = steepest.select(
        two_outputs(), labelled_pool(labels), 2, "margin", task="multi-label", progress=False
    )
    assert len(picks) == 2


@pytest.mark.parametrize(
    "labels", [[[1.0, 0.0]] * 6, [[0.3, 0.7]] * 6, [1.0] * 6, [[1.0]] * 6, [1] * 6, [[5, 7]] * 6]
)
def test_classes_in_any_form_need_no_task(labels):
    assert len(steepest.select(two_outputs(), labelled_pool(labels), 2, progress=False)) == 2


def test_labels_by_name_are_looked_at_too():
    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            return {"input": torch.ones(4) * i, "y": torch.tensor([0.5, 1.5])}

    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = two_outputs()

        def forward(self, input):  # noqa: A002
            return self.layer(input)

    with pytest.raises(InputError, match="give task="):
        steepest.select(Named(), Rows(), 2, "margin", progress=False)
