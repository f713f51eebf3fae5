"""How many samples are looked at together where nobody said it."""

import pytest
import torch
from torch import nn

import steepest
from steepest.errors import ModelError
from steepest.selecting.batch_sizes import MANY, MOST, suited_batch_size
from steepest.selecting.samples import as_samples
from steepest.strategies import Needs
from steepest.strategies.view import Lens


def suited(model, few, count=MANY, needs=Needs.LOGITS, device="cpu"):
    lens = Lens(model=model, device=torch.device(device))
    return suited_batch_size(lens, as_samples(few), count, needs)


def rows_seen(model):
    """Return where the sizes of the batches that a model is shown are noted."""
    sizes = []
    model.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    return sizes


@pytest.mark.parametrize("strategy", ["margin", "egl"])
def test_many_rows_for_a_small_model_are_not_looked_at_by_the_dozen(strategy):
    torch.manual_seed(0)
    model, pool = (
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)),
        20 * torch.randn(MANY, 4),
    )
    sizes = rows_seen(model)
    picks = steepest.select(model, pool, 5, strategy, progress=False)
    assert max(sizes) == MOST
    again = steepest.select(model, pool, 5, strategy, batch_size=64, progress=False)
    assert picks.ids == again.ids


def test_shards_have_the_same_batches_without_being_told():
    torch.manual_seed(0)
    model, pool = nn.Linear(4, 3), torch.randn(MANY, 4)
    parts = [steepest.score(model, pool, "entropy", shard=f"{i}/3") for i in (1, 2, 3)]
    whole = steepest.score(model, pool, "entropy")
    assert steepest.Scores.merge(parts).values.tolist() == whole.values.tolist()


def test_the_size_follows_from_what_layers_put_out():
    # 4 read, 4000 and 96 put out: 4100 numbers for a sample, and 256 samples make a million.
    model = nn.Sequential(nn.Linear(4, 4000), nn.Linear(4000, 96))
    assert suited(model, torch.randn(2, 4), needs=Needs.GRADIENTS) == 128
    model = nn.Sequential(nn.Linear(4, 3996), nn.Linear(3996, 96))
    assert suited(model, torch.randn(2, 4), needs=Needs.GRADIENTS) == 256
    convolution = nn.Sequential(nn.Conv2d(1, 64, 1), nn.Flatten(), nn.Linear(64 * 256, 2))
    assert suited(convolution, torch.randn(2, 1, 16, 16), needs=Needs.GRADIENTS) == 64


class Own(nn.Module):
    """Computes what no hook sees."""

    def __init__(self):
        super().__init__()
        self.wide, self.last = nn.Parameter(torch.randn(4, 50_000)), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(x) + (x @ self.wide).sum(1, keepdim=True)


class Borrowing(nn.Module):
    """Takes the weights of a layer that it does not call."""

    def __init__(self):
        super().__init__()
        self.wide, self.last = nn.Linear(4, 50_000), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(x) + (x @ self.wide.weight.T).sum(1, keepdim=True)


def test_what_is_not_seen_keeps_the_usual_size():
    few = torch.randn(2, 4)
    assert suited(Own(), few) == 256
    assert suited(Borrowing(), few) == 256
    assert suited(nn.Linear(4, 3), few) == MOST


def test_few_samples_and_strategies_without_a_model_are_not_tried():
    model = nn.Linear(4, 3)
    sizes = rows_seen(model)
    assert suited(model, torch.randn(2, 4), count=MANY - 1) == 256
    assert suited(model, torch.randn(2, 4), needs=Needs.NOTHING) == 256
    assert sizes == []


def test_the_trial_leaves_the_model_as_found_and_its_failure_to_the_first_batch():
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).train()
    suited(model, torch.randn(2, 4))
    assert all(layer.training for layer in model.modules())
    assert not any(layer._forward_hooks for layer in model.modules())
    with pytest.raises(ModelError, match="256"):
        steepest.select(model, torch.randn(MANY, 5), 5, "margin", progress=False)
