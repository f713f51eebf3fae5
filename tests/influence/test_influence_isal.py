from __future__ import annotations

import pytest
import torch
from influence_nets import (
    SEGMENTATION,
    TASK,
    conv_net,
    draw,
    images,
    labels,
    maps,
    seeded,
    segmenter,
)
from model_state import same, snapshot
from torch import nn

from steepest.errors import InputError
from steepest.influence import (
    Examples,
    hold_out,
    influence_on_test,
    isal_direction,
    isal_scores,
    leave_one_out,
    summed_gradient,
    vectors,
)

QUIET = {"progress": False}


def test_the_split_is_keyed_by_id_and_complete():
    ids = [f"{i}.png" for i in range(20)]
    kept, held = hold_out(ids, share=0.25, seed=3)
    assert len(held) == 5
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(20))
    turned = ids[::-1]
    _, again = hold_out(turned, share=0.25, seed=3)
    assert {turned[i] for i in again.tolist()} == {ids[i] for i in held.tolist()}
    _, other = hold_out(ids, share=0.25, seed=4)
    assert other.tolist() != held.tolist()


def test_both_parts_of_a_split_hold_at_least_one():
    assert [len(part) for part in hold_out([7, 9], share=0.01)] == [1, 1]
    assert [len(part) for part in hold_out([7, 9], share=0.99)] == [1, 1]
    for ids, share in (([1], 0.5), ([1, 2], 0.0), ([1, 2], 1.0)):
        with pytest.raises(InputError, match="give at least two"):
            hold_out(ids, share=share)


def test_the_direction_is_over_parameters_that_are_not_one_dimensional():
    model = conv_net()
    s = isal_direction(model, TASK, images(), images(4, seed=1), damping=0.1, **QUIET)
    assert list(s.vector) == ["0.weight", "4.weight", "7.weight"]
    assert set(s.excluded) == {"1.weight", "1.bias", "4.bias", "7.bias"}
    assert s.converged
    assert s.damping == 0.1


def test_scores_are_influences_with_the_models_own_labels():
    model = conv_net()
    before = snapshot(model)
    s = isal_direction(model, TASK, images(), images(4, seed=1), damping=0.1, **QUIET)
    pool = images(6, seed=2)
    scores = isal_scores(model, TASK, Examples(pool.inputs), s, batch_size=4, **QUIET)
    own = Examples(pool.inputs, model(pool.inputs).argmax(1))
    assert torch.allclose(scores, influence_on_test(model, TASK, own, s, **QUIET).values)
    assert same(before, snapshot(model))


def test_with_ever_more_damping_scores_rank_by_gradient_products():
    model = conv_net()
    train, held, pool = images(), images(4, seed=1), images(9, seed=2)
    s = isal_direction(model, TASK, train, held, damping=1e8, **QUIET)
    scores = isal_scores(model, TASK, pool, s, **QUIET)
    v = summed_gradient(model, TASK, held, layers="no-vectors")
    products = []
    for x in pool.inputs:
        own = Examples(x[None], model(x[None]).argmax(1))
        g = summed_gradient(model, TASK, own, layers="no-vectors")
        products.append(vectors.dot(v, g))
    assert scores.argsort().tolist() == torch.tensor(products).argsort().tolist()


def test_scores_predict_what_adding_a_sample_does():
    decay = 0.02
    y = labels(40)
    centres = 1.5 * torch.eye(3, 4, dtype=torch.float64)
    x = centres[y] + draw(40, 4, purpose="noise")
    held = Examples(centres[labels(30, 1)] + draw(30, 4, seed=1), labels(30, 1))
    pool = 1.5 * draw(12, 4, seed=2)
    start = seeded(nn.Linear(4, 3, bias=False))
    fitted = leave_one_out(
        start, TASK, Examples(x, y), held, weight_decay=decay, rows=[], **QUIET
    ).model
    s = isal_direction(fitted, TASK, Examples(x, y), held, damping=0.0, weight_decay=decay, **QUIET)
    scores = isal_scores(fitted, TASK, Examples(pool), s, **QUIET)
    effects = []
    for sample in pool:
        own = fitted(sample[None]).argmax(1)
        more = Examples(torch.cat([x, sample[None]]), torch.cat([y, own]))
        found = leave_one_out(fitted, TASK, more, held, weight_decay=decay, rows=[40], **QUIET)
        effects.append(float(found.effects))
    table = torch.stack([scores, torch.tensor(effects, dtype=torch.float64)])
    assert float(torch.corrcoef(table)[0, 1]) > 0.9


def test_label_maps_can_be_scored():
    model = segmenter()
    s = isal_direction(model, SEGMENTATION, maps(), maps(2, seed=1), damping=0.1, **QUIET)
    scores = isal_scores(model, SEGMENTATION, Examples(maps(3, seed=2).inputs), s, **QUIET)
    assert scores.shape == (3,)
    assert bool(torch.isfinite(scores).all())
