"""Padding counts nowhere: models that classify tokens are measured on real ones alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import steepest
from steepest.errors import InputError, ModelError
from steepest.gradnorm import GradientNorms, reference_norms

LENGTHS = (6, 3, 5, 3, 1)
VOCABULARY, CLASSES = 11, 4


class Tagger(nn.Module):
    """Gives each token logits [N, C, L] that depend on the whole text, but not on its padding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 5)
        self.head = nn.Linear(5, CLASSES)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        real = attention_mask[..., None].to(self.words.weight)
        words = self.words(input_ids)
        mean = (words * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
        return self.head((words + mean).tanh()).transpose(1, 2)


class Sentiment(Tagger):
    """Gives each text one row of logits."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        real = attention_mask[:, None].to(self.words.weight)
        each = super().forward(input_ids, attention_mask)
        return (each * real).sum(2) / real.sum(2)


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return Tagger().double().eval()


def texts(length: int = max(LENGTHS), *, left: bool = False) -> dict[str, Tensor]:
    """Return the same texts, padded to a length with words that are never the same."""
    words = torch.randint(0, VOCABULARY, (len(LENGTHS), 6), generator=made(1))
    ids = torch.randint(0, VOCABULARY, (len(LENGTHS), length), generator=made(length))
    mask = torch.zeros(len(LENGTHS), length, dtype=torch.long)
    for row, count in enumerate(LENGTHS):
        place = slice(length - count, length) if left else slice(count)
        ids[row, place], mask[row, place] = words[row, :count], 1
    return {"input_ids": ids, "attention_mask": mask}


def tags(length: int = max(LENGTHS)) -> Tensor:
    found = torch.full((len(LENGTHS), length), -100)
    drawn = torch.randint(0, CLASSES, (len(LENGTHS), 6), generator=made(2))
    for row, count in enumerate(LENGTHS):
        found[row, :count] = drawn[row, :count]
    return found


def made(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def alone(row: int) -> dict[str, Tensor]:
    return {name: tensor[row : row + 1, : LENGTHS[row]] for name, tensor in texts().items()}


@pytest.mark.parametrize("loss", ["entropy", "expected", "pseudo-label", "cross-entropy"])
def test_a_text_has_the_norm_that_it_has_alone(model, loss):
    given = loss == "cross-entropy"
    one_by_one = [
        steepest.gradient_norms(
            model, alone(row), loss, targets=tags()[row : row + 1, :count] if given else None
        )
        for row, count in enumerate(LENGTHS)
    ]
    for length in (6, 9):
        targets = tags(length) if given else None
        found = steepest.gradient_norms(model, texts(length), loss, targets=targets, verify=5)
        torch.testing.assert_close(found, torch.cat(one_by_one))
        slow = reference_norms(model, texts(length), loss, targets=targets)
        torch.testing.assert_close(slow, torch.cat(one_by_one))


@pytest.mark.parametrize("options", [{"microbatch": 2}, {"norm": "per-tensor"}])
def test_options_hold_without_padding(model, options):
    found = steepest.gradient_norms(model, texts(), **options)
    norm = options.get("norm", "l2")
    torch.testing.assert_close(found, reference_norms(model, texts(), norm=norm))


def test_padding_may_stand_in_front(model):
    there = steepest.gradient_norms(model, texts(8, left=True))
    torch.testing.assert_close(there, steepest.gradient_norms(model, texts(8)))


def test_tokens_without_a_label_do_not_count(model):
    labels = tags()
    labels[0, 2:] = -100
    found = steepest.gradient_norms(model, texts(), "cross-entropy", targets=labels)

    def by_hand(logits: Tensor, targets: Tensor) -> Tensor:
        log_p = logits.log_softmax(1).gather(1, targets.clamp_min(0)[:, None])[:, 0]
        known = targets >= 0
        return -(log_p * known).sum(1) / known.sum(1)

    torch.testing.assert_close(
        found, steepest.gradient_norms(model, texts(), by_hand, targets=labels)
    )
    labels[1] = -100
    assert steepest.gradient_norms(model, texts(), "cross-entropy", targets=labels)[1] == 0


def test_a_text_has_one_label_that_must_be_known():
    model = Sentiment().eval()
    with pytest.raises(InputError, match="targets run from -100 to 1"):
        steepest.gradient_norms(
            model, texts(), "cross-entropy", targets=torch.tensor([0, 1, -100, 1, 1])
        )


def test_a_text_without_tokens_is_named(model):
    inputs = texts()
    inputs["attention_mask"][3] = 0
    with pytest.raises(InputError, match="text 3 of the batch holds nothing but padding"):
        steepest.gradient_norms(model, inputs)


def test_classes_that_are_last_are_noticed_by_the_mask():
    class Last(Tagger):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return super().forward(input_ids, attention_mask).transpose(1, 2)

    with pytest.raises(ModelError, match=r"logits \[N, 6, 4\] .* return logits.transpose\(1, 2\)"):
        steepest.gradient_norms(Last().eval(), texts())


def test_a_model_of_whole_texts_is_shown_the_batch_as_it_is():
    torch.manual_seed(0)
    seen: list[int] = []

    class Noting(Sentiment):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            seen.append(input_ids.shape[1])
            return super().forward(input_ids, attention_mask)

    measure = GradientNorms(Noting().double().eval())
    found = measure(texts(9))
    assert set(seen) == {9}
    torch.testing.assert_close(found, measure(texts(6)))
