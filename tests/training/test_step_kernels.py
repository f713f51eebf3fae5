"""The fused kernels of training give what plain formulas give in double precision."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from steepest.training.fast.kernels import formulas

pytest.importorskip("triton")

import interpreted
from triton_process import TritonProcess


@pytest.fixture(scope="module")
def kernels():
    found = TritonProcess(interpreted.find)
    yield found
    found.close()


def draw(*shape, seed=0, scale=1.0, offset=0.0):
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale + offset
    return values.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else values


def double(*tensors):
    return [None if t is None else t.double() for t in tensors]


def close(got, want, tolerance=1e-5):
    for mine, true in zip(got, want, strict=True):
        assert mine.shape == true.shape
        if true.numel():
            error = (mine.double() - true).norm() / true.norm().clamp_min(1e-12)
            assert float(error) < tolerance


SHAPES = [(4, 5, 3, 3), (2, 64, 8, 8), (3, 130, 5, 4), (70, 10)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_batches_are_normalised_forward_and_backward(kernels, shape, residual, relu):
    channels = shape[1]
    # A mean far from zero: squares would drown the variance.
    x = draw(*shape, scale=3.0, offset=100.0)
    weight, bias, mean, first, second, more = (
        draw(*s, seed=i)
        for i, s in enumerate([(channels,), (channels,), (channels,), shape, shape, shape], 1)
    )
    variance = draw(channels, seed=9).square()
    added = more if residual else None
    got = kernels.normed(x, weight, bias, mean, variance, 0.1, 1e-5, added, relu)
    true = double(x, weight, bias, mean, variance)
    want = (*formulas.normed(*true, 0.1, 1e-5, *double(added), relu), true[3], true[4])
    close(got, want)

    result = got[0] if residual and relu else None
    for other in (None, second):
        rest = (x, result, got[1], got[2], weight, bias)
        found = kernels.normed_backward(first, other, *rest, relu, residual)
        exact = double(x, result, want[1], want[2], weight, bias)
        exact[2], exact[3] = want[1], want[2]
        close(found, formulas.normed_backward(*double(first, other), *exact, relu, residual))


def test_many_shares_are_made_one_first(kernels):
    # The last of the shares is smaller than the others.
    x, first, more = (draw(530, 10, seed=i, offset=3.0 * (i == 0)) for i in range(3))
    state = [draw(10, seed=i).abs() + 0.5 for i in range(3, 7)]
    for residual in (None, more):
        uncut = formulas.normed(*double(x, *state), 0.1, 1e-5, *double(residual), False)[0]
        # On which side of the edge a number this close to it falls is a matter of rounding.
        first = first.where(uncut.abs() > 1e-4, 0.0)
        mine = [t.clone() for t in state]
        got, parts = kernels.normed_in_many_parts(x, *mine, 0.1, 1e-5, residual, True)
        assert parts > 64
        true = double(x, *state)
        want = (*formulas.normed(*true, 0.1, 1e-5, *double(residual), True), *true[3:])
        close(got, want)
        result = None if residual is None else got[0]
        keep = residual is not None
        rest = (x, result, *got[1:3], *state[:2])
        found = kernels.normed_backward_in_many_parts(first, residual, *rest, True, keep)
        exact = (*double(x, result), *want[1:3], *double(*state[:2]))
        close(found, formulas.normed_backward(*double(first, residual), *exact, True, keep))


def test_the_formulas_are_those_of_torch():
    x = draw(6, 3, 4, 4).double().requires_grad_()
    weight, bias, mean = (draw(3, seed=i).double().requires_grad_() for i in range(3))
    running = [mean.detach().clone(), mean.detach().square()]
    own = [t.clone() for t in running]
    residual, g = draw(6, 3, 4, 4, seed=5).double(), draw(6, 3, 4, 4, seed=6).double()
    want = functional.batch_norm(x, *running, weight, bias, True, 0.1, 1e-5) + residual
    want = want.relu()
    got, *stats = formulas.normed(x, weight, bias, *own, 0.1, 1e-5, residual, True)
    torch.testing.assert_close([got, *own], [want, *running])
    gradients = torch.autograd.grad(want, [x, weight, bias], g)
    found = formulas.normed_backward(g, None, x, got, *stats, weight, bias, True, False)
    torch.testing.assert_close(list(found[:3]), list(gradients))


def test_nan_passes_the_relu(kernels):
    x = draw(4, 3, 2, 2)
    x[1, 2, 0, 1] = float("nan")
    state = [torch.ones(3), torch.zeros(3), torch.zeros(3), torch.ones(3)]
    result = kernels.normed(x, *state, 0.1, 1e-5, None, True)[0]
    assert bool(result[:, 2].isnan().all())
    assert not bool(result[:, :2].isnan().any())


def test_other_layouts_are_normalised_too(kernels):
    x = draw(4, 6, 3, 5)
    state = [draw(6, seed=i).abs() for i in range(4)]
    copies = [t.clone() for t in state]
    want = kernels.normed(x, *state, 0.1, 1e-5, None, False)
    close(kernels.normed(x.contiguous(), *copies, 0.1, 1e-5, None, False), double(*want))


@pytest.mark.parametrize(
    ("images", "outputs", "kernel", "stride", "padding"),
    [((2, 3, 8, 7), 10, 3, 1, 1), ((3, 1, 9, 9), 64, 5, 2, 2), ((2, 3, 16, 16), 70, 3, 1, 1)],
)
def test_few_channels_are_convolved(kernels, images, outputs, kernel, stride, padding):
    x, weight = draw(*images), draw(outputs, images[1], kernel, kernel, seed=1)
    true = weight.double().requires_grad_()
    want = functional.conv2d(x.double(), true, None, stride, padding)
    close([kernels.few_channels(x, weight, stride, padding)], [want.detach()])
    g = draw(*want.shape, seed=2)
    (gradient,) = torch.autograd.grad(want, [true], g.double())
    found = kernels.few_channels_weight(g, x, kernel, stride, padding)
    close([found], [gradient])
    assert found.stride() == formulas.few_channels_weight(g, x, kernel, stride, padding).stride()


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_descent_is_that_of_torch(kernels, nesterov, dtype):
    sizes = (5, 2048, 5000)
    weights = [draw(n, seed=n) for n in sizes]
    gradients = [draw(n, seed=n + 1).to(dtype) for n in sizes]
    speeds = [draw(n, seed=n + 2) for n in sizes]
    copies = [torch.zeros(5, dtype=torch.float16), None, torch.zeros(5000, dtype=torch.float16)]
    options = {"momentum": 0.9, "weight_decay": 0.01, "nesterov": nesterov}
    mine = [torch.nn.Parameter(w.clone()) for w in weights]
    optimizer = torch.optim.SGD(mine, 0.1, **options)
    for p, g, s in zip(mine, gradients, speeds, strict=True):
        p.grad = g.float()
        optimizer.state[p]["momentum_buffer"] = s.clone()
    optimizer.step()
    found, moved, copied = kernels.descend(
        weights, speeds, gradients, copies, 0.1, *options.values()
    )
    close(found, [p.detach().double() for p in mine])
    close(moved, [optimizer.state[p]["momentum_buffer"].double() for p in mine])
    close([copied[0], copied[2]], [found[0].double(), found[2].double()], 1e-3)


def test_steps_by_kernels_are_the_plain_steps(kernels):
    state, losses, count = kernels.train_small_net(3, True)
    want, plain, _ = kernels.train_small_net(3, False)
    assert count == 4
    assert losses == pytest.approx(plain, rel=1e-4)
    for name, value in want.items():
        torch.testing.assert_close(state[name], value, rtol=1e-3, atol=1e-4)


def test_the_same_input_gives_the_same_bits(kernels):
    first, again = (kernels.train_small_net(2, True)[0] for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)
