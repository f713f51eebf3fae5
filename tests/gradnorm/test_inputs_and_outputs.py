"""What goes in and comes out of a model: what is refused says how to put it right."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import steepest
from steepest.errors import InputError, ModelError, ProbabilitiesWarning
from steepest.gradnorm import GradientNorms
from steepest.modules.losses import entropy

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def classifier(classes: int = 3) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, classes)).eval()


def told_by(act) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        act()
    return told


class TestProbabilities:
    @pytest.mark.parametrize("options", [{}, {"microbatch": 2}, {"precision": "fp32"}])
    @pytest.mark.parametrize("loss", ["entropy", "expected", "pseudo-label", "cross-entropy"])
    def test_a_softmax_is_told_of_where_norms_were_asked_for(self, loss, options):
        model = nn.Sequential(classifier(), nn.Softmax(1)).eval()
        targets = torch.arange(6) % 3 if loss == "cross-entropy" else None
        (told,) = told_by(
            lambda: steepest.gradient_norms(model, X, loss, targets=targets, **options)
        )
        assert (told.category, Path(told.filename)) == (ProbabilitiesWarning, Path(__file__))

    def test_many_batches_are_told_of_once(self):
        norms = GradientNorms(nn.Sequential(classifier(), nn.Softmax(1)).eval())
        told = told_by(lambda: [norms(X), norms(X)])
        assert [Path(one.filename) for one in told] == [Path(__file__)]

    @pytest.mark.parametrize("ending", [nn.Identity(), nn.LogSoftmax(1), nn.Sigmoid()])
    def test_logits_are_measured_without_a_word(self, ending):
        model = nn.Sequential(classifier(), ending).eval()
        assert not told_by(lambda: steepest.gradient_norms(model, X))

    def test_a_loss_of_ones_own_may_take_probabilities(self):
        model = nn.Sequential(classifier(), nn.Softmax(1)).eval()
        assert not told_by(lambda: steepest.gradient_norms(model, X, lambda p: p.square().sum(1)))


class Carries(nn.Module):
    """Returns sure logits in something that does not call them so."""

    def __init__(self, carry) -> None:
        super().__init__()
        self.inner, self.carry = classifier(), carry
        with torch.no_grad():
            self.inner[2].weight.mul_(75)

    def forward(self, x: Tensor):
        return self.carry(self.inner(x))


@pytest.mark.parametrize(
    ("carry", "read"),
    [
        (lambda z: (z, z.sum(1)), lambda out: entropy(out[0])),
        (lambda z: {"scores": z, "other": [z.exp()]}, lambda out: entropy(out["scores"])),
        (lambda z: SimpleNamespace(scores=z), lambda out: entropy(out.scores)),
    ],
    ids=["tuple", "dict", "object"],
)
def test_sure_samples_have_their_norm_whatever_carries_the_logits(carry, read):
    x = 3 * X
    exact = steepest.gradient_norms(Carries(carry).double().eval(), x.double(), read)
    assert 1e-30 < exact.min() < 1e-22  # Whose square single precision does not hold.
    found = steepest.gradient_norms(Carries(carry).eval(), x, read)
    torch.testing.assert_close(found.double(), exact, rtol=1e-3, atol=0)


class Takes(nn.Module):
    """Takes more than the data."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = classifier()

    def forward(self, x, more=None):
        return self.inner(x)


GRAPH = SimpleNamespace(x=X, edge_index=torch.zeros(2, 3, dtype=torch.long))


@pytest.mark.parametrize(
    ("more", "remedy"),
    [
        (True, "found bool in 'more': what is the same for all samples belongs into a module"),
        (0.5, "found float in 'more': what is the same for all samples"),
        (torch.tensor(2), "found Tensor in 'more': what is the same for all samples"),
        (None, "found NoneType in 'more': leave it out"),
        (GRAPH, "give the tensors of the graphs padded to one size"),
        (torch.arange(4)[None], r"found \[6, 1\]: repeat what is the same .* \.expand\(6, …\)"),
    ],
    ids=["flag", "number", "scalar", "none", "graph", "position_ids"],
)
def test_inputs_that_are_no_samples_come_with_a_remedy(more, remedy):
    with pytest.raises(InputError, match=remedy):
        steepest.gradient_norms(Takes().eval(), {"x": X, "more": more})


def test_a_graph_batch_for_all_inputs_comes_with_a_remedy():
    with pytest.raises(InputError, match="a graph in each row"):
        steepest.gradient_norms(Takes().eval(), GRAPH)


def test_one_logit_is_told_of_the_other():
    with pytest.raises(ModelError, match=r"\[N, 1\].*torch\.cat\(\[torch\.zeros_like\(z\), z\]"):
        steepest.gradient_norms(classifier(1), X)
    with pytest.raises(ModelError, match=r"\[N\].*torch\.stack\(\[torch\.zeros_like\(z\), z\]"):
        steepest.gradient_norms(nn.Sequential(classifier(1), nn.Flatten(0)).eval(), X)


def test_a_model_that_fails_on_few_samples_is_told_of_all():
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = classifier()

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x.view(6, 4))

    with pytest.raises(ModelError, match=r"\[N, 4\] torch.float32, N = .* of the 6 samples given"):
        steepest.gradient_norms(Whole().eval(), X)


def test_a_model_that_fails_on_all_samples_is_told_of_these():
    with pytest.raises(ModelError, match=r"\[N, 4\] torch.float32, N = 6 .*trained on$"):
        steepest.gradient_norms(nn.Linear(5, 3).eval(), X)


def test_layers_that_a_copy_leaves_in_training_mode_are_told_of_it():
    class Fresh(nn.Identity):
        """Is made anew by a copy, as layers of einops are."""

        def __setstate__(self, state):
            self.__init__()

    model = copy.deepcopy(nn.Sequential(classifier(), Fresh()).eval())
    with pytest.raises(ModelError, match=r"call model.eval\(\) again, .* copy.deepcopy"):
        steepest.gradient_norms(model, X)
    assert steepest.gradient_norms(model.eval(), X).shape == (6,)
    with pytest.raises(ModelError, match=r"call model.eval\(\) first$"):
        steepest.gradient_norms(model.train(), X)
