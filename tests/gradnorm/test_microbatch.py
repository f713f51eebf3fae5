"""Samples in flight at once: any number gives the same, and ``"auto"`` makes do with what fits."""

from __future__ import annotations

from itertools import chain
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch._C._functorch import get_unwrapped, is_batchedtensor

import steepest
from steepest.errors import InputError, ModelError
from steepest.gradnorm import GradientNorms
from steepest.gradnorm import norms as measuring
from steepest.gradnorm.engine import Engine
from steepest.gradnorm.norms import bytes_kept, samples_that_fit


class Limited(nn.Module):
    """A net that runs out of memory for more samples than a limit, and notes what it saw.

    The first feature of a sample is its number. Notes are kept apart from the module: what a
    forward pass sets on a module is put back. Samples that go through the net one by one, all at
    the same time, take the memory of as many.
    """

    def __init__(self, limit: int, error: Exception | None = None) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)
        self.error = error or torch.OutOfMemoryError("out of memory")
        self.notes = SimpleNamespace(limit=limit, limits_to_come=[], refused=[], seen=[])

    def forward(self, x: Tensor) -> Tensor:
        notes = self.notes
        numbers = (get_unwrapped(x) if is_batchedtensor(x) else x)[..., 0].flatten().int().tolist()
        if len(numbers) > notes.limit:
            notes.refused.append(len(numbers))
            raise self.error
        notes.seen.append(numbers)
        if len(numbers) == notes.limit and notes.limits_to_come:
            notes.limit = notes.limits_to_come.pop(0)
        return self.head(self.body(x).tanh())


def samples(n: int) -> Tensor:
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(1))
    x[:, 0] = torch.arange(n)
    return x


def make(limit: int = 1000, error: Exception | None = None) -> Limited:
    torch.manual_seed(0)
    return Limited(limit, error).eval()


@pytest.fixture
def free(monkeypatch):
    """Set the free memory, in bytes."""

    def set_to(number):
        monkeypatch.setattr(measuring, "free_bytes", lambda _device: number)

    set_to(2**40)
    return set_to


@pytest.mark.parametrize("microbatch", ["auto", 1, 7, 100])
def test_the_result_does_not_depend_on_it(microbatch):
    model, x = make(), samples(20)
    whole = steepest.gradient_norms(model, x)
    split = steepest.gradient_norms(model, x, microbatch=microbatch)
    torch.testing.assert_close(split, whole, rtol=1e-5, atol=0)


def test_auto_halves_until_it_fits_and_measures_each_sample_once(free):
    x = samples(20)
    whole = steepest.gradient_norms(make(), x)
    model = make(limit=6)
    found = GradientNorms(model, microbatch="auto")(x)
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=0)
    assert model.notes.refused == [8, 10]  # Eight are run side by side first.
    assert all(size <= 6 for size in map(len, model.notes.seen))
    batches = [seen for seen in model.notes.seen if len(seen) == 5][-4:]
    assert list(chain(*batches)) == list(range(20))


def test_parts_that_are_done_are_kept_when_memory_shrinks_half_way(free):
    x = samples(40)
    whole = steepest.gradient_norms(make(), x)
    model = make(limit=20)
    norms = GradientNorms(model, microbatch="auto")
    norms(samples(8))  # Finds out about the model.
    model.notes.seen, model.notes.refused = [], []
    norms._microbatch = 20
    model.notes.limits_to_come = [7]  # After the first batch of 20, no more than 7 fit.
    torch.testing.assert_close(norms(x), whole, rtol=1e-5, atol=0)
    assert model.notes.refused == [20, 10]
    batches = [seen for seen in model.notes.seen if len(seen) > 1]
    assert list(map(len, batches)) == [20, 5, 5, 5, 5]
    assert list(chain(*batches)) == list(range(40))


def test_what_fitted_is_remembered_for_the_next_batch(free):
    model = make(limit=6)
    norms = GradientNorms(model, microbatch="auto")
    norms(samples(20))
    model.notes.refused = []
    norms(samples(20))
    assert model.notes.refused == []


def test_a_small_first_batch_does_not_make_the_next_ones_small(free):
    model = make()
    norms = GradientNorms(model, microbatch="auto")
    norms(samples(1))
    model.notes.seen = []
    x = samples(50)
    torch.testing.assert_close(norms(x), steepest.gradient_norms(make(), x), rtol=1e-5, atol=0)
    assert list(range(50)) in model.notes.seen


def test_targets_go_with_their_samples(free):
    x, targets = samples(20), torch.arange(20) % 3
    whole = steepest.gradient_norms(make(), x, "cross-entropy", targets=targets)
    found = steepest.gradient_norms(
        make(limit=6), x, "cross-entropy", targets=targets, microbatch="auto"
    )
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=0)


@pytest.mark.parametrize("microbatch", [None, 10])
def test_without_auto_a_lack_of_memory_says_how_to_go_on(microbatch):
    norms = GradientNorms(make(limit=9), microbatch=microbatch)
    with pytest.raises(InputError, match="do not fit into memory: use microbatch='auto'") as caught:
        norms(samples(20))
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
    assert "\n" not in str(caught.value)


def test_a_single_sample_that_does_not_fit_is_an_error(free):
    model = make(limit=0)
    with pytest.raises(InputError, match="use a smaller model or input"):
        GradientNorms(model, microbatch="auto")(samples(1))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_running_out_looks_different_on_other_devices(free, error):
    model = make(limit=6, error=error)
    assert len(GradientNorms(model, microbatch="auto")(samples(12))) == 12
    assert model.notes.refused


def test_other_errors_are_not_tried_again(free):
    model = make(limit=6, error=RuntimeError("something else"))
    with pytest.raises(ModelError, match="something else"):
        GradientNorms(model, microbatch="auto")(samples(20))
    assert len(model.notes.refused) == 1


def test_the_model_is_as_before_after_running_out(free):
    model = make(limit=6)
    model.register_buffer("count", torch.zeros(()))
    flags = [p.requires_grad for p in model.parameters()]
    with pytest.raises(InputError):
        GradientNorms(model)(samples(20))
    assert [p.requires_grad for p in model.parameters()] == flags
    assert model.count == 0


def test_auto_does_not_let_the_model_write_into_the_inputs(free):
    class Centred(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            x -= 0.5
            return super().forward(x)

    torch.manual_seed(0)
    x, model = samples(4), Centred(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).eval()
    given = x.clone()
    whole = steepest.gradient_norms(model, x)
    torch.testing.assert_close(steepest.gradient_norms(model, x, microbatch="auto"), whole)
    assert torch.equal(x, given)


@pytest.mark.parametrize("limit", [1, 2])
def test_one_or_two_samples_that_fit_are_enough(free, limit):
    x = samples(5)
    whole = steepest.gradient_norms(make(), x)
    found = GradientNorms(make(limit), microbatch="auto")(x)
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=0)


def known_net(width: int = 8) -> nn.Module:
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 3)).eval()


def test_a_forward_pass_keeps_activations_but_neither_inputs_nor_weights():
    # What tanh gives [3, 8], which the second layer takes as well.
    assert bytes_kept(Engine(known_net()), torch.randn(3, 4)) == 4 * 3 * 8
    double = known_net().double()
    assert bytes_kept(Engine(double), torch.randn(3, 4).double()) == 8 * 3 * 8


def test_a_single_sample_counts_as_one_however_many_there_are():
    engine, x = Engine(known_net()), torch.randn(1000, 4)
    assert bytes_kept(engine, x[:1]) == bytes_kept(engine, x[:1].clone())


def test_the_more_memory_is_free_the_more_samples_fit(free):
    engine, x = Engine(known_net(width=800)), torch.randn(40, 4)
    found = []
    for number in (0, 100_000, 200_000, 2**40):
        free(number)
        found.append(samples_that_fit(engine, x))
    assert found == sorted(found)
    assert found[0] == 1
    assert 1 < found[1] < found[2] < 40
    assert found[-1] > 40


@pytest.mark.parametrize("microbatch", [0, -3, 2.0, "all", True])
def test_what_is_no_number_of_samples_is_refused(microbatch):
    with pytest.raises(InputError, match="microbatch must be a whole number of at least 1 or 'aut"):
        GradientNorms(make(), microbatch=microbatch)
