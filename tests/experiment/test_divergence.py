"""A training that diverged is told as one, whatever the strategy makes of its model."""

from __future__ import annotations

import pytest
from small import config

from steepest.errors import NonFiniteError
from steepest.experiment import selection
from steepest.experiment.loop import Experiment


def run(tmp_path, **changes):
    small = {"loop__cycles": 2, "training__epochs": 1, "training__batch_size": 30}
    return Experiment(config(**{**small, **changes}), tmp_path / "run").run()


@pytest.mark.parametrize("strategy", ["random", "margin", "entropy-gradnorm"])
def test_logits_that_are_not_finite_are_noticed_before_anything_is_chosen(tmp_path, strategy):
    said = r"^the training diverged \(the model's logits are NaN or infinite\): "
    with pytest.raises(NonFiniteError, match=said + r"lower training\.lr, which is 1e\+15$"):
        run(tmp_path, strategy__name=strategy, training__lr=1e15)


def test_a_loss_that_is_not_finite_names_the_same_key(tmp_path):
    said = r"^the training diverged \(.* in epoch \d\): lower training\.lr, which is 1e\+38$"
    with pytest.raises(NonFiniteError, match=said):
        run(tmp_path, training__lr=1e38, training__optimizer="sgd", training__batch_size=8)


def test_a_sample_that_alone_has_no_score_may_be_at_fault_itself(tmp_path, monkeypatch):
    def choose_from(*_, **__):
        raise NonFiniteError("the score of sample 31 is NaN or infinite: look at it")

    monkeypatch.setattr(selection, "choose_from", choose_from)
    said = r"sample 31 .*: look at it; if the training diverged, lower training\.lr, which is 0\."
    with pytest.raises(NonFiniteError, match=said):
        run(tmp_path)
