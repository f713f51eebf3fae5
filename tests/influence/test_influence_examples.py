from __future__ import annotations

import pytest
import torch
from influence_nets import draw, labels

from steepest.data.streamed import Streamed
from steepest.errors import InputError, NonFiniteError, UnknownNameError
from steepest.influence import Examples, ImageExamples
from steepest.influence.ekfac import draw_labels
from steepest.influence.objective import loss_function
from steepest.tasks import Classification, MultiLabel, Segmentation


class Ramp:
    """Reads row r as an image full of r."""

    draws = 0

    def __call__(self, row, draw):
        return torch.full((1, 2, 2), row, dtype=torch.uint8)


def test_examples_are_read_in_the_same_order_every_time():
    examples = Examples(draw(5, 2), labels(5))
    first, again = list(examples.batches(2)), list(examples.batches(2))
    assert [len(y) for _, y in first] == [2, 2, 1]
    assert torch.equal(torch.cat([x for x, _ in first]), examples.inputs)
    assert torch.equal(torch.cat([y for _, y in again]), examples.targets)


def test_examples_can_be_read_by_rows_and_in_other_forms():
    pair = {"a": draw(5, 2), "b": draw(5, 3)}
    ((inputs, targets),) = Examples(pair, labels(5)).batches(9, torch.tensor([4, 1]))
    assert torch.equal(inputs["b"], pair["b"][[4, 1]])
    assert torch.equal(targets, labels(5)[[4, 1]])
    assert next(iter(Examples((pair["a"], pair["b"])).batches(2)))[1] is None


@pytest.mark.parametrize("streamed", [False, True])
def test_images_of_a_data_set_are_normalised_from_memory_or_disk(streamed):
    column = Streamed(Ramp(), 5, (1, 2, 2), torch.uint8)
    images = column if streamed else column[torch.arange(5)]
    source = ImageExamples(images, torch.arange(5), mean=(0.5,), std=(0.25,))
    found = list(source.batches(2, torch.tensor([3, 0, 4])))
    means = torch.cat([x.mean((1, 2, 3)) for x, _ in found])
    assert torch.allclose(means, (torch.tensor([3.0, 0.0, 4.0]) / 255 - 0.5) / 0.25)
    assert torch.cat([y for _, y in found]).tolist() == [3, 0, 4]
    assert len(source) == 5


def test_examples_that_cannot_be_used_are_refused():
    with pytest.raises(InputError, match="2 targets for 3"):
        Examples(draw(3, 2), labels(2))
    with pytest.raises(InputError, match="no examples"):
        Examples(draw(0, 2))
    with pytest.raises(NonFiniteError):
        Examples(torch.tensor([[torch.nan]]))


def test_losses_with_and_without_labels_are_those_of_the_task():
    task, logits, y = Classification(3, label_smoothing=0.1), draw(4, 3), labels(4)
    assert torch.equal(loss_function(task)(logits, y), task.training_loss(logits, y))
    assert torch.equal(loss_function(task, "entropy")(logits, None), task.entropy(logits))
    assert torch.equal(loss_function(task, "expected")(logits, None), task.expected_loss(logits))
    own = loss_function(task, "pseudo-label")(logits, y)
    assert torch.equal(own, task.training_loss(logits, logits.argmax(1)))


def test_the_pseudo_label_of_several_labels_is_whether_each_is_there():
    task, logits = MultiLabel(3), draw(4, 3)
    found = loss_function(task, "pseudo-label")(logits, None)
    assert torch.allclose(found, task.training_loss(logits, logits > 0))


def test_losses_refuse_what_they_cannot_do():
    with pytest.raises(UnknownNameError, match="did you mean 'entropy'"):
        loss_function(Classification(3), "entrop")
    with pytest.raises(InputError, match="needs targets"):
        loss_function(Classification(3))(draw(2, 3), None)
    with pytest.raises(InputError, match="one value each"):
        loss_function(Classification(3), lambda z, _: z.sum())(draw(2, 3), None)


def test_labels_are_drawn_as_often_as_they_are_likely_and_by_the_row_alone():
    logits = torch.tensor([[0.0, 1.0, -1.0]]).expand(4000, 3)
    drawn, positions = draw_labels(logits, range(4000), seed=0)
    shares = torch.bincount(drawn, minlength=3) / 4000
    assert positions == 1
    assert torch.allclose(shares, logits[0].softmax(0), atol=0.03)
    part, _ = draw_labels(logits[:10], range(100, 110), seed=0)
    assert torch.equal(part, drawn[100:110])


def test_labels_of_maps_are_drawn_pixel_by_pixel():
    logits = draw(2, 3, 4, 5)
    logits[:, 1, :2] += 100
    drawn, positions = draw_labels(Segmentation(3).distributions(logits), range(2), seed=0)
    assert drawn.shape == (2, 4, 5)
    assert positions == 20
    assert bool((drawn[:, :2] == 1).all())
    assert len(drawn[:, 2:].unique()) > 1
