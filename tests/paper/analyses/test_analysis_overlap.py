"""Table 1: the true norms, the choices, and the level of chance."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from analysis_nets import TASK, net, points, trained
from torch import nn

from steepest.core.seeds import keyed_uniform
from steepest.core.tables import to_table
from steepest.errors import InputError
from steepest.paper.analyses.overlap import choose_by, count_overlaps, oracle_norms
from steepest.selecting.options import SelectionOptions
from steepest.selecting.samples import as_samples
from steepest.strategies import create


def overlaps(norms, ids, chosen, k, **more):
    return count_overlaps(
        norms, ids, chosen, **{"cycle": 0, "setting": "own run", "k": k, "seed": 0, **more}
    )


def test_the_true_norms_are_those_of_the_loss_with_the_label():
    model, some = net(), points(6)
    found = oracle_norms(model, TASK, some)
    for row in range(6):
        loss = nn.functional.cross_entropy(
            model(some.inputs[row : row + 1]), some.targets[row : row + 1]
        )
        slopes = torch.autograd.grad(loss, list(model.parameters()))
        lengths = torch.stack([slope.norm() for slope in slopes])
        assert found["l2"][row] == pytest.approx(float(lengths.norm()))
        assert found["tensor-sum"][row] == pytest.approx(float(lengths.sum()))


def test_a_choice_by_the_true_norm_overlaps_in_full_and_its_opposite_not_at_all():
    ids = [f"s{i}" for i in range(30)]
    values = keyed_uniform(0, "norms", ids)[:, 0]
    order = [ids[i] for i in np.argsort(-values)]
    rows = overlaps({"l2": values}, ids, {"oracle": order[:10], "worst": order[-10:]}, 10)
    assert [(row.method, row.overlap) for row in rows] == [("oracle", 10), ("worst", 0)]
    assert rows[0].chance == pytest.approx(100 / 30)


def test_random_choices_are_at_the_level_of_chance():
    ids, k, trials = list(range(200)), 20, 300
    norms = {"l2": keyed_uniform(1, "norms", ids)[:, 0]}
    draws = np.argsort(keyed_uniform(2, "trials", ids, columns=trials), axis=0)[:k]
    chosen = {f"random {t}": draws[:, t].tolist() for t in range(trials)}
    rows = overlaps(norms, ids, chosen, k)
    counts = np.array([row.overlap for row in rows])
    assert counts.mean() == pytest.approx(rows[0].chance, abs=4 * rows[0].chance_sd / trials**0.5)
    assert counts.std() == pytest.approx(rows[0].chance_sd, rel=0.2)


def test_a_method_without_a_choice_stays_in_the_table_with_its_reason():
    rows = overlaps({"l2": np.arange(4.0)}, [0, 1, 2, 3], {"qbc": "needs a committee"}, 2)
    assert (rows[0].overlap, rows[0].reason) == (None, "needs a committee")
    json.dumps(to_table(rows[0]), allow_nan=False)


@pytest.mark.parametrize("choice", [[0], [0, 0], [0, 9]])
def test_a_choice_of_other_samples_is_refused(choice):
    with pytest.raises(InputError, match="2 distinct samples of the 4 candidates"):
        overlaps({"l2": np.arange(4.0)}, [0, 1, 2, 3], {"mine": choice}, 2)


def test_every_strategy_chooses_from_the_same_candidates():
    model = trained(net(), points(30))
    samples = as_samples(points(60, seed=2).inputs)
    how = SelectionOptions(labelled=range(10), subset=25, seed=4, task=TASK, progress=False)
    names = ("random", "entropy", "entropy-gradnorm", "core-set")
    everything = choose_by(model, samples, 25, create("random"), how)
    for name in names:
        ids = choose_by(model, samples, 5, create(name), how)
        assert len(set(ids)) == 5
        assert set(ids) <= set(everything)


def test_strategies_that_need_more_than_the_model_say_so():
    model, samples = net(), as_samples(points(20).inputs)
    how = SelectionOptions(seed=0, task=TASK, progress=False)
    reasons = {"qbc": "committee", "ll4al": "trained along", "mc-dropout": "dropout"}
    for name, reason in reasons.items():
        assert reason in choose_by(model, samples, 3, create(name), how)
