"""Nets that do what a watcher from outside is easily misled by, each in a line or a few.

Every net has a body and a head, not all of them used, and further parts of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Net(nn.Module):
    """A body [5 -> 8], a head [8 -> 3], further parts, and a function that runs them.

    Args:
        run: Takes the net and a batch.
        parts: Modules, and tensors, which become parameters.
    """

    def __init__(self, run: Callable[..., Any], **parts: Tensor | nn.Module) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(5, 8), nn.Linear(8, 3)
        for name, part in parts.items():
            setattr(self, name, nn.Parameter(part) if isinstance(part, Tensor) else part)
        self.run = run

    def forward(self, x: Tensor) -> Any:
        return self.run(self, x)


def own_leaf(net, x):
    return net.head(net.body(x.clone().requires_grad_()).relu())


def expand_as(net, x):
    y = net.body(x)
    return net.head(torch.cat([net.p.expand_as(y[:, :1]), y], 1).mean(1))


def broadcast(net, x):
    y, p = torch.broadcast_tensors(net.body(x), net.p)
    return net.head(y * p)


def part_added(net, x):
    y = net.body(x) * 1
    y[:, :4].add_(net.p)
    return net.head(y)


def transposed_added(net, x):
    y = net.body(x)
    y.t().add_(net.p[:, None])
    return net.head(y)


def multiplied(net, x):
    y = net.body(x) * 1
    y.mul_(net.p)
    return net.head(y)


def filled(net, x):
    y = (net.body(x) * 1).masked_fill_(x[:, :1] > 0, net.p)
    return net.head(y)


def items_set(net, x):
    y = net.body(x) * 1
    y[x[..., 0] > 0] = net.p
    return net.head(y.mean(1))


def tokens_replaced(net, x):
    y, keep = net.body(x), x[..., 0] > 0
    tokens = net.p.expand(len(x), x.shape[1], -1).clone()
    tokens[~keep] = y[~keep]
    return net.head(tokens.mean(1))


def weight_filled(net, x):
    weight = torch.zeros(8, 5, dtype=x.dtype)
    weight[:4] = net.p
    weight[4:] = net.p * 2
    return net.head(F.linear(x, weight).relu())


def activations_moved(net, x):
    y = net.body(x)
    y += net.p
    return net.head(y.relu_())


def inputs_moved(net, x):
    x += net.p
    return net.head(net.body(x).tanh())


def inputs_scaled_for_a_loop(net, x):
    x.mul_(2)
    return net.head(net.body(x + torch.stack([net.p] * len(x))))


def fourier(net, x):
    y = torch.fft.rfft(net.body(x)) * torch.view_as_complex(net.p)
    return net.head(torch.fft.irfft(y, n=8))


def rotated(net, x):
    y = torch.view_as_complex(net.body(x).view(-1, 4, 2))
    y = y * torch.polar(torch.ones(4, dtype=net.p.dtype), net.p)
    return net.head(torch.view_as_real(y).flatten(1))


def result_hooked(net, x):
    y = net.body(x)
    if y.requires_grad:
        y.register_hook(lambda g: g * 0.1)
    return net.head(y.relu())


def weight_hooked(net, x):
    weight = net.body.weight * 1
    if weight.requires_grad:
        weight.register_hook(lambda g: g * 0.1)
    return net.head(F.linear(x, weight).relu())


def time_first(net, x):
    y = net.body(x.transpose(0, 1).reshape(-1, 5)).relu()
    return net.head(y.view(x.shape[1], len(x), -1).mean(0))


def in_order_of(net, x):
    order = x[:, 0].argsort(stable=True)
    return net.head(net.body(x[order])[order.argsort()])


def dispatched(net, x):
    chosen, shares = net.gate(x).argmax(1), net.gate(x).softmax(1)
    y = torch.zeros(len(x), 8, dtype=x.dtype)
    for number, expert in enumerate(net.experts):
        mine = (chosen == number).nonzero()[:, 0]
        y = y.index_add(0, mine, expert(x[mine]) * shares[mine, number : number + 1])
    return net.head(y)


def tokens_kept(net, x):
    keep = x[..., 0] > 0
    y = torch.zeros(len(x), x.shape[1], 8, dtype=x.dtype)
    y[keep] = net.body(x[keep])
    return net.head(y.mean(1))


def view_kept(net, x):
    if not hasattr(net, "kept"):
        net.kept = net.p.t()
    return net.head(F.linear(x, net.kept).relu())


def view_kept_by_size(net, x):
    if x.shape[1:] not in net.sizes:
        net.sizes[x.shape[1:]] = net.p.flip(0)
    return net.head(net.body(x) + net.sizes[x.shape[1:]])


def buffer_filled(net, x):
    if net.ones is None:
        net.ones = torch.ones(8, dtype=x.dtype)
    net.calls = getattr(net, "calls", 0) + 1
    return net.head(net.body(x) * net.ones)


def inner_gradient(net, x):
    slope = torch.func.grad(lambda v: F.linear(v, net.body.weight).tanh().sum())
    return net.out(x - torch.vmap(slope)(x))


def inner_tangent(net, x):
    ones = torch.ones_like(x)
    return net.head(torch.func.jvp(lambda v: net.body(v).tanh(), (x,), (ones,))[1])


def inner_backward(net, x):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        energy = net.head(net.body(x).tanh()).sum()
        (slope,) = torch.autograd.grad(energy, x, create_graph=True)
    return net.out(slope)


def bag(net, x):
    return net.head(net.words(x, per_sample_weights=net.p.expand(len(x), -1)))


def spoken(net, x):
    return net.head(net.words(x)).mean(1)


def biased(net, x):
    return F.linear(x, net.w, net.p)


def summed(net, x):
    return torch.addmm(net.p, x, net.w)


def scored(net, x):
    return net.head(net.body(x) * F.linear(x, net.p)[:, None])


def compared(net, x):
    return net.head(F.linear(net.p, x).t())


def with_experts() -> Net:
    experts = nn.ModuleList(nn.Linear(5, 8) for _ in range(3))
    return Net(dispatched, gate=nn.Linear(5, 3), experts=experts)


def with_sizes() -> Net:
    net = Net(view_kept_by_size, p=torch.randn(8))
    net.sizes = {}
    return net


def with_buffer() -> Net:
    net = Net(buffer_filled)
    net.register_buffer("ones", None)
    return net


def vectors(n: int) -> Tensor:
    return torch.randn(n, 5)


def tokens(n: int) -> Tensor:
    return torch.randn(n, 4, 5)


def ids(n: int) -> Tensor:
    return torch.randint(0, 9, (n, 4))


def in_falling_order(n: int) -> Tensor:
    x = torch.randn(n, 5)
    x[:, 0] = -torch.arange(n).float()
    return x


def mostly_blank(n: int) -> Tensor:
    x = torch.zeros(n, 4, 5)
    x[-1] = torch.randn(4, 5)
    return x


HARD: dict[str, tuple[Callable[[], Net], Callable[[int], Any]]] = {
    "a leaf of its own": (lambda: Net(own_leaf), vectors),
    "expand_as": (lambda: Net(expand_as, p=torch.randn(1, 1, 8)), tokens),
    "broadcast_tensors": (lambda: Net(broadcast, p=torch.randn(8)), vectors),
    "part of a result added to": (lambda: Net(part_added, p=torch.randn(4)), vectors),
    "transposed view added to": (lambda: Net(transposed_added, p=torch.randn(8)), vectors),
    "mul_": (lambda: Net(multiplied, p=torch.randn(8)), vectors),
    "mul_ by ones": (lambda: Net(multiplied, p=torch.ones(8)), vectors),
    "masked_fill_": (lambda: Net(filled, p=torch.tensor(0.3)), vectors),
    "items set to a parameter": (lambda: Net(items_set, p=torch.randn(8)), tokens),
    "items of a parameter set": (lambda: Net(tokens_replaced, p=torch.randn(8)), tokens),
    "weight filled in place": (lambda: Net(weight_filled, p=torch.randn(4, 5)), vectors),
    "activations += ": (lambda: Net(activations_moved, p=torch.randn(8)), vectors),
    "inputs += ": (lambda: Net(inputs_moved, p=torch.randn(5)), vectors),
    "inputs scaled and a loop": (lambda: Net(inputs_scaled_for_a_loop, p=torch.ones(5)), vectors),
    "fourier filter": (lambda: Net(fourier, p=torch.randn(5, 2)), vectors),
    "complex rotation": (lambda: Net(rotated, p=torch.randn(4)), vectors),
    "hook on a result": (lambda: Net(result_hooked), vectors),
    "hook on a derived weight": (lambda: Net(weight_hooked), vectors),
    "time first": (lambda: Net(time_first), tokens),
    "time first, blank samples": (lambda: Net(time_first), mostly_blank),
    "sorted": (lambda: Net(in_order_of), in_falling_order),
    "experts": (with_experts, vectors),
    "tokens dropped": (lambda: Net(tokens_kept), tokens),
    "view kept": (lambda: Net(view_kept, p=torch.randn(5, 8)), vectors),
    "copies kept by size": (with_sizes, vectors),
    "buffer of None filled": (with_buffer, vectors),
    "linear with one bias": (lambda: Net(biased, w=torch.randn(3, 5), p=torch.ones(1)), vectors),
    "addmm with one bias": (lambda: Net(summed, w=torch.randn(5, 3), p=torch.ones(1)), vectors),
    "weight without rows": (lambda: Net(scored, p=torch.randn(5)), vectors),
    "prototypes as input": (lambda: Net(compared, p=torch.randn(8, 5)), vectors),
    "gradient inside": (lambda: Net(inner_gradient, out=nn.Linear(5, 3)), vectors),
    "tangent inside": (lambda: Net(inner_tangent), vectors),
    "backward inside": (lambda: Net(inner_backward, out=nn.Linear(5, 3)), vectors),
    "weighted bag": (
        lambda: Net(bag, words=nn.EmbeddingBag(9, 8, mode="sum"), p=torch.randn(4)),
        ids,
    ),
    "renormed words": (lambda: Net(spoken, words=nn.Embedding(9, 8, max_norm=1.0)), ids),
}
