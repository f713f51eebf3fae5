"""Habits of published language models: exact, and in one batched pass where that can be had."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from steepest.gradnorm import GradientNorms, reference_norms

END = 2


class Words(nn.Module):
    """A table of words, two layers and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.body = nn.Embedding(20, 6), nn.Linear(6, 6)
        self.dense, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def states(self, ids: Tensor) -> Tensor:
        return self.body(self.words(ids)).tanh()


class LastEnd(Words):
    """Looks at the last end of a sentence, as BART and T5 do: all must have as many."""

    def forward(self, ids: Tensor) -> Tensor:
        ends = ids.eq(END)
        if len(torch.unique_consecutive(ends.sum(1))) > 1:
            raise ValueError("all sentences must have as many ends")
        picked = self.states(ids)[ends, :].view(len(ids), -1, 6)[:, -1]
        return self.head(self.dense(picked).tanh())


class AnyEnd(Words):
    """Adds up over however many ends a sentence has."""

    def forward(self, ids: Tensor) -> Tensor:
        ends = ids.eq(END)
        picked = self.dense(self.states(ids)[ends]).tanh()
        owners = ends.nonzero()[:, 0]
        summed = torch.zeros(len(ids), 6, dtype=picked.dtype).index_add(0, owners, picked)
        return self.head(summed)


class FoldedEnd(Words):
    """The same, of all words of the batch in one list."""

    def forward(self, ids: Tensor) -> Tensor:
        picked = self.states(ids).flatten(0, 1)[ids.eq(END).flatten()]
        return self.head(self.dense(picked).tanh().view(len(ids), -1, 6).mean(1))


class Everywhere(Words):
    """Ends look at all words, and are put back where they were, as in Longformer."""

    def __init__(self, *, words_first: bool = False) -> None:
        super().__init__()
        self.words_first = words_first

    def forward(self, ids: Tensor) -> Tensor:
        states, (rows, columns) = self.states(ids), ids.eq(END).nonzero(as_tuple=True)
        counts = ids.eq(END).sum(1)
        local = torch.arange(int(counts.max())) < counts[:, None]
        places = local.nonzero(as_tuple=True)
        if self.words_first:
            ends = states.new_zeros(local.shape[1], len(ids), 6)
            ends[places[::-1]] = states.transpose(0, 1)[columns, rows]
            ends = ends.transpose(0, 1)
        else:
            ends = states.new_zeros(*local.shape, 6)
            ends[places] = states[rows, columns]
        looked = (self.dense(ends) @ states.transpose(1, 2)).softmax(-1) @ states
        states = states.clone()
        states[rows, columns] = looked[places]
        return self.head(states.mean(1))


def sentences(ends: list[int], seed: int) -> Tensor:
    """Return ids [N, 7] with so many ends each, in any place."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 20, (len(ends), 7), generator=draw)
    for row, count in zip(ids, ends, strict=True):
        row[torch.randperm(7, generator=draw)[:count]] = END
    return ids


def check(measure: GradientNorms, model: nn.Module, ids: Tensor) -> None:
    torch.testing.assert_close(measure(ids), reference_norms(model, ids, norm="per-tensor"))


@pytest.mark.parametrize("kind", [LastEnd, FoldedEnd])
@pytest.mark.parametrize("count", [1, 2])
def test_words_picked_by_a_mask_are_told_by_sample(kind, count):
    torch.manual_seed(0)
    model = kind().double().eval()
    measure = GradientNorms(model, norm="per-tensor")
    for seed, samples in enumerate((6, 4, 9, 6)):
        check(measure, model, sentences([count] * samples, seed))
        assert measure.engine.slow_names() == []
    check(measure, model, sentences([3 - count] * 6, 4))


@pytest.mark.parametrize("words_first", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_places_found_by_number_are_told_by_sample(count, words_first):
    torch.manual_seed(0)
    model = Everywhere(words_first=words_first).double().eval()
    measure = GradientNorms(model, norm="per-tensor")
    for seed, samples in enumerate((6, 4, 9, 6)):
        check(measure, model, sentences([count] * samples, seed))
        assert measure.engine.slow_names() == []


@pytest.mark.parametrize("kind", [AnyEnd, Everywhere])
def test_more_places_of_some_samples_are_noticed_in_any_batch(kind):
    torch.manual_seed(0)
    model = kind().double().eval()
    measure = GradientNorms(model, norm="per-tensor")
    for seed, ends in enumerate(
        [[1] * 6, [1] * 6, [1, 1, 2, 1, 1, 1], [1, 2, 1, 1, 2, 1], [2] * 6]
    ):
        check(measure, model, sentences(ends, seed))


class Prompted(Words):
    """Puts words of its own in front, whose numbers are in a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.own = {"default": torch.tensor([3, 1, 4])}

    def forward(self, ids: Tensor) -> Tensor:
        own = self.own["default"].unsqueeze(0).expand(len(ids), -1)
        if ids.eq(0).any():
            raise ValueError("no word has the number 0")
        own = own[: len(ids)].contiguous()
        return self.head(self.dense(self.states(torch.cat([own, ids], 1)).mean(1)).tanh())


class Distances(Words):
    """Scores by distance, made of a table by a projection, as in DeBERTa."""

    def __init__(self, *, read_before: bool = False) -> None:
        super().__init__()
        self.table, self.project = nn.Embedding(4, 6), nn.Linear(6, 6)
        self.read_before = read_before

    def forward(self, ids: Tensor) -> Tensor:
        heads = self.project(self.table.weight[None]).view(1, 4, 2, 3)
        scores = heads.permute(0, 2, 1, 3)
        first = heads[0, 0, 0] if self.read_before else 0
        scores /= torch.tensor(3.0).sqrt()
        states = self.states(ids).view(len(ids), 7, 2, 3).transpose(1, 2)
        mixed = (states @ scores.transpose(2, 3)).softmax(-1) @ scores
        return self.head(self.dense((mixed + first).transpose(1, 2).flatten(2).mean(1)))


class Repeated(Words):
    """The heads of a sample are folded with the samples, and a table is copied for each."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(2, 5, 3))

    def forward(self, ids: Tensor) -> Tensor:
        heads = self.states(ids).view(len(ids), 7, 2, 3).transpose(1, 2).flatten(0, 1)
        copies = self.table.repeat(len(ids), 1, 2)
        mixed = torch.bmm(heads, copies[:, :, :3].transpose(1, 2)).softmax(-1) @ copies[:, :, 3:]
        return self.head(self.dense(mixed.view(len(ids), 2, 7, 3).mean(2).flatten(1)))


@pytest.mark.parametrize("kind", [Prompted, Distances, Repeated])
def test_what_language_models_do_with_parameters_takes_one_pass(kind):
    torch.manual_seed(0)
    model = kind().double().eval()
    measure = GradientNorms(model, norm="per-tensor")
    for seed, samples in enumerate((6, 6, 3)):
        check(measure, model, sentences([1] * samples, seed))
        assert measure.engine.slow_names() == []


def test_a_part_that_was_read_before_it_was_scaled_in_place_is_right():
    torch.manual_seed(0)
    model = Distances(read_before=True).double().eval()
    check(GradientNorms(model, norm="per-tensor"), model, sentences([1] * 6, 0))
