"""What picks by the data within a sample, or moves samples by number alone, costs no loop."""

from __future__ import annotations

import pytest
import torch
from test_data_orders import Net, batches

from steepest.gradnorm import GradientNorms, reference_norms


def within(net, x, lengths):
    return net.head(net.layers(x.sort(1).values + x.topk(6, 1).values))


def last_word(net, x, lengths):
    y = net.layers(x[:, None] * torch.arange(1, 10, dtype=x.dtype)[:, None])
    return net.head(y[torch.arange(len(x)), lengths - 1])


def last_word_time_first(net, x, lengths):
    y = net.layers(x * torch.arange(1, 10, dtype=x.dtype)[:, None, None])
    return net.head(y[lengths - 1, torch.arange(len(x)).type_as(lengths)])


def gathered_word(net, x, lengths):
    y = net.layers(x[:, None] * torch.arange(1, 10, dtype=x.dtype)[:, None])
    return net.head(y.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, 8))[:, 0])


def table(net, x, lengths):
    return net.head(net.layers(x + torch.eye(10, 6, dtype=x.dtype)[lengths]))


def marked(net, x, lengths):
    marks = torch.zeros(len(x), 10, dtype=x.dtype).scatter(1, lengths[:, None], 1)
    marks[torch.arange(len(x)), lengths] += 1
    return net.head(net.layers(x + marks[:, :6]))


def masked_out(net, x, lengths):
    x = x.masked_fill((lengths > 3)[:, None], 0.5)
    x[lengths < 3] = 0.25
    return net.head(net.layers(torch.where(x > 0, x, -x)))


def asked(net, x, lengths):
    if bool((lengths > 100).all()):
        raise ValueError
    y = net.layers(x[:, None] * torch.arange(1, 10, dtype=x.dtype)[:, None])
    y = y[:, : int(lengths.max())].chunk(2, dim=-1)
    y = torch.cat([y[0], y[1]], -1)
    return net.head(y[torch.arange(len(x))[:, None], lengths[:, None] - 1][:, 0])


def attended(net, x, lengths):
    """Products within a sample: of words with words, and of words with what weighs them."""
    y = net.layers(x[:, None] * torch.arange(1, 10, dtype=x.dtype)[:, None])
    weights = (y @ y.transpose(1, 2)).softmax(-1) * (lengths > 3)[:, None, None]
    return net.head(torch.einsum("nst,ntd->nsd", weights, y).bmm(y.transpose(1, 2))[..., :8].sum(1))


def halves(net, x, lengths):
    half = len(x) // 2
    return net.head(net.layers(torch.cat([x[:half], x[half:]])))


def constant(net, x, lengths):
    order = torch.arange(len(x))
    return net.head(net.layers(x[order].flip(1).roll(1, 1))[order[:]])


@pytest.mark.parametrize(
    "run",
    [within, last_word, last_word_time_first, gathered_word, table, marked, masked_out, asked,
     attended, halves, constant],
    ids=lambda run: run.__name__,
)  # fmt: skip
def test_what_leaves_the_samples_where_they_are_costs_no_loop(run):
    torch.manual_seed(0)
    model = Net(run).double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for batch in batches():
        truth = reference_norms(model, batch, norm="per-tensor")
        torch.testing.assert_close(norms(batch), truth, rtol=1e-9, atol=1e-13)
        # What samples would do differently, if they were alone, takes the loop.
        assert norms.engine.slow_names() == [] or run in {masked_out, asked}
