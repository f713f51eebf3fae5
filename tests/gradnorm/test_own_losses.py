"""Losses of the user's own: which are refused, and how."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import steepest
from steepest.errors import InputError, ModelError
from steepest.gradnorm import GradientNorms, explain, reference_norms

N, CLASSES = 8, 3
LABELS = torch.arange(N) % CLASSES


class Embeds(nn.Module):
    """Returns two views of every sample, and no logits."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 5), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.one(x).tanh(), self.two(x).tanh()


def embeds() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return Embeds().double().eval(), torch.randn(N, 4, dtype=torch.float64)


def classifies() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, CLASSES))
    return model.double().eval(), torch.randn(N, 4, dtype=torch.float64)


def info_nce(views: tuple[Tensor, Tensor]) -> Tensor:
    similar = F.normalize(views[0]) @ F.normalize(views[1]).T
    return F.cross_entropy(similar, torch.arange(len(similar)), reduction="none")


def divided(logits: Tensor) -> Tensor:
    return logits.square().sum(1) / len(logits)


def above_the_mean(logits: Tensor) -> Tensor:
    values = logits.square().sum(1)
    return values - values.mean().detach()


def weighted(logits: Tensor) -> Tensor:
    weights = logits.detach().amax(1).exp()
    return weights / weights.sum() * logits.square().sum(1)


def neighbour(logits: Tensor) -> Tensor:
    return (logits - logits.roll(1, 0).detach()).square().sum(1) + logits.square().sum(1)


@pytest.mark.parametrize("options", [{}, {"microbatch": 4}, {"verify": 2}, {"norm": "per-tensor"}])
@pytest.mark.parametrize("loss", [divided, above_the_mean, weighted, neighbour])
def test_a_loss_that_mixes_samples_is_refused(loss, options):
    model, x = classifies()
    with pytest.raises(InputError, match="a loss that looks at each sample by itself"):
        steepest.gradient_norms(model, x, loss, **options)
    with pytest.raises(InputError, match="a loss that looks at each sample by itself"):
        steepest.gradient_norms(model.float(), x.float(), loss, **options)


def test_negatives_from_the_batch_are_refused():
    model, x = embeds()
    with pytest.raises(InputError, match="takes no other samples of the batch for negatives"):
        steepest.gradient_norms(model, x, info_nce)
    with pytest.raises(InputError, match="takes no other samples"):
        explain(model, x, info_nce)


def test_negatives_that_are_the_same_for_all_are_fine():
    model, x = embeds()
    negatives = torch.randn(6, 5, dtype=torch.float64)

    def loss(views: tuple[Tensor, Tensor]) -> Tensor:
        own = (views[0] * views[1]).sum(1, keepdim=True)
        similar = torch.cat([own, views[0] @ negatives.T], dim=1)
        return similar.logsumexp(1) - similar[:, 0]

    found = steepest.gradient_norms(model, x, loss, norm="per-tensor", verify=2)
    torch.testing.assert_close(found, reference_norms(model, x, loss, norm="per-tensor"))


def test_a_loss_that_mixes_is_refused_where_a_loop_would_not_show_it():
    model, x = classifies()
    for parameter in model.parameters():
        parameter.register_hook(lambda g: g)
    with pytest.raises(InputError, match="each sample by itself"):
        steepest.gradient_norms(model, x, divided)


def test_it_is_refused_with_the_second_batch_if_the_first_had_one_sample():
    model, x = classifies()
    norms = GradientNorms(model, divided)
    norms(x[:1])
    with pytest.raises(InputError, match="each sample by itself"):
        norms(x)


def test_a_loss_that_mixes_labels_is_refused():
    model, x = classifies()

    def balanced(logits: Tensor, targets: Tensor) -> Tensor:
        weights = torch.bincount(targets, minlength=CLASSES)[targets]
        return F.cross_entropy(logits, targets, reduction="none") / weights

    with pytest.raises(InputError, match="each sample by itself"):
        steepest.gradient_norms(model, x, balanced, targets=torch.zeros(N, dtype=torch.long))


def test_sure_samples_do_not_pass_for_mixed_ones():
    model, x = classifies()
    with torch.no_grad():
        model[2].weight.mul_(1000)
    model, x = model.float(), x.float()

    def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits, targets, reduction="none")

    labels = model(x).argmax(1)
    found = steepest.gradient_norms(model, x, cross_entropy, targets=labels)
    truth = reference_norms(model, x, cross_entropy, targets=labels)
    # Logits in the hundreds are rounded to 3e-5, in a batch to others than alone, and p follows.
    torch.testing.assert_close(found, truth, rtol=1e-4, atol=0)


def test_a_model_that_mixes_is_not_blamed_on_the_loss():
    class Mixes(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x - x.mean(0))

    with pytest.raises(ModelError, match="the model's output for a sample changes"):
        steepest.gradient_norms(
            Mixes(4, 3).eval(), torch.randn(N, 4), lambda logits: logits.square().sum(1)
        )


@pytest.mark.parametrize(
    "loss",
    [
        lambda logits: F.cross_entropy(logits, LABELS, reduction="none"),
        lambda logits: (logits - F.one_hot(LABELS, CLASSES)).square().sum(1),
        lambda logits: logits[:, 0] * LABELS[:, None].double().mean(1),
        lambda logits: logits.gather(1, LABELS[:, None])[:, 0],
    ],
)
def test_labels_of_the_whole_batch_in_a_loss_are_told_where_to_go(loss):
    model, x = classifies()
    with pytest.raises(InputError, match="targets=") as caught:
        steepest.gradient_norms(model, x, loss)
    assert "reduction" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_so_are_labels_of_a_single_sample_too_many():
    model, x = classifies()

    def broadcast(logits: Tensor) -> Tensor:
        return (logits[:1, 0] - LABELS).square()

    with pytest.raises(InputError, match=r"one value per sample, but gave \[8\] for .*targets="):
        steepest.gradient_norms(model, x, broadcast)


def test_a_loss_that_wants_labels_and_gets_none_is_told_so():
    model, x = classifies()
    with pytest.raises(InputError, match=r"missing 1 required positional argument.*targets="):
        steepest.gradient_norms(model, x, lambda logits, targets: logits.sum(1) * targets)
    with pytest.raises(InputError, match=r"takes 1 positional argument.*loss\(outputs, targets\)"):
        steepest.gradient_norms(model, x, lambda logits: logits.sum(1), targets=LABELS)


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (lambda logits: logits.square(), r"\[N, 3\]: add up what belongs to a sample"),
        (lambda logits: logits[:, :1], r"\[N, 1\]: add up what belongs to a sample"),
        (lambda logits: logits.square().mean(), "a single number for all: use reduction='none'"),
        (lambda logits: float(logits.detach().mean()), "gave float: let it return a tensor"),
        (lambda logits: [logits], "gave list: let it return a tensor"),
    ],
)  # fmt: skip
def test_what_a_loss_returns_is_told_in_the_users_sizes(loss, says):
    model, x = classifies()
    with pytest.raises(InputError, match=says) as caught:
        steepest.gradient_norms(model, x, loss)
    assert ("reduction" in str(caught.value)) == ("reduction" in says)


def test_a_loss_that_takes_gradients_itself_is_measured():
    """As of a Jacobian penalty."""
    model, x = embeds()

    def loss(views: tuple[Tensor, Tensor]) -> Tensor:
        (slope,) = torch.autograd.grad(views[0].square().sum(), views[0], create_graph=True)
        return slope.square().sum(1) + views[1].square().sum(1)

    found = steepest.gradient_norms(model, x, loss, norm="per-tensor")
    torch.testing.assert_close(found, reference_norms(model, x, loss, norm="per-tensor"))
