"""What torch functions move, along which dimensions, and whether the data decides it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from steepest.gradnorm.orders import Orders, first_disorder
from steepest.gradnorm.origins import Origins


class Pass(TorchFunctionMode):
    """Notes every call, as a watch does."""

    def __init__(self, data: list[Tensor], constants: tuple[Tensor, ...] = ()) -> None:
        super().__init__()
        self.origins = Origins(data, constants)
        self.orders = Orders(self.origins, len(data[0]))

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.orders.note(func, args, kwargs or {}, 0)
        self.origins.note(func, args, kwargs or {}, result)
        self.orders.note_made(func, result, 0)
        return result


def orders_of(run, samples: int) -> Orders:
    x = torch.arange(samples * 12.0).reshape(samples, 4, 3)
    ids = torch.arange(samples) % 3
    with Pass([x, ids]) as seen:
        run(x, ids)
    return seen.orders


def dims_of(run) -> list[tuple[tuple[int, ...], bool]]:
    return [(move.dims, move.by_data) for move in orders_of(run, 2).moves]


def one(samples: Tensor) -> Tensor:
    return torch.arange(len(samples))


MOVES = {
    "an order": (lambda x, i: x[i], (0,), True),
    "an order behind others": (lambda x, i: x[..., None, i], (2,), True),
    "a mask of words": (lambda x, i: x[x[..., 0] > 3], (0, 1), True),
    "a mask behind": (lambda x, i: x[:, x[0, :, 0] > 1], (1,), True),
    "a number": (lambda x, i: x[1], (0,), False),
    "a list": (lambda x, i: x[:, [1, 0]], (1,), False),
    "a part": (lambda x, i: x[:, 1:], (1,), False),
    "a bound": (lambda x, i: x[: i.max()], (0,), True),
    "made by hand": (lambda x, i: x[torch.tensor([1, 0])], (0,), False),
    "chance": (lambda x, i: x[torch.randperm(2)], (0,), True),
    "gather": (lambda x, i: x.gather(-2, x.long() % 2), (1,), True),
    "gather by name": (lambda x, i: torch.gather(x, index=x.long() % 2, dim=2), (2,), True),
    "take": (lambda x, i: x.take(i), (0, 1, 2), True),
    "index_select": (lambda x, i: x.index_select(1, i), (1,), True),
    "sort": (lambda x, i: x.sort(1, descending=True), (1,), True),
    "sort by place": (lambda x, i: torch.sort(x, 0, True), (0,), True),
    "sort the last": (lambda x, i: x.sort(), (2,), True),
    "topk": (lambda x, i: x.topk(2, 1), (1,), True),
    "unique": (lambda x, i: torch.unique(x, dim=1), (1,), True),
    "unique of all": (lambda x, i: x.unique(), (0, 1, 2), True),
    "scatter": (lambda x, i: torch.zeros(2, 4, 3).scatter_(1, x.long() % 4, x), (1,), True),
    "index_add": (lambda x, i: torch.zeros(3, 4, 3).index_add(0, i, x), (0,), True),
    "items set": (lambda x, i: torch.zeros(3, 4, 3).__setitem__(i, x), (0,), True),
    "repeats": (lambda x, i: x.repeat_interleave(i, 0), (0,), True),
    "flip": (lambda x, i: x.flip(0, -1), (0, 2), False),
    "roll": (lambda x, i: x.roll(1, 1), (1,), False),
    "split": (lambda x, i: x.split(1), (0,), False),
    "chunk": (lambda x, i: x.chunk(3, dim=-1), (2,), False),
    "rows of a table": (lambda x, i: torch.nn.functional.embedding(i, x[:, 0].T), (0,), True),
    "a product": (lambda x, i: x.transpose(1, 2) @ x, (2,), True),
    "a product by name": (lambda x, i: torch.bmm(input=x.mT, mat2=x), (2,), True),
    "a layer by name": (lambda x, i: torch.nn.functional.linear(x, weight=x[0]), (2,), True),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_are_seen_with_their_dimensions(name):
    run, dims, by_data = MOVES[name]
    assert (dims, by_data) in dims_of(run)


def test_a_sum_of_products_moves_along_what_is_summed():
    assert dims_of(lambda x, i: torch.einsum("ntc,nsc->nts", x, x * 2)) == [
        ((2,), True),
        ((2,), True),
    ]
    assert dims_of(lambda x, i: torch.einsum("n...c, n...d", x, x * 2))[0] == ((0,), True)


@pytest.mark.parametrize(
    "run",
    [
        lambda x, i: x[:],
        lambda x, i: x[:, None, ...],
        lambda x, i: x[one(x)],
        lambda x, i: x[one(x).view(-1, 1).to(i), 0:],
        lambda x, i: torch.eye(5)[i],
        lambda x, i: torch.zeros(len(x), 5).scatter_(1, i[:, None], 1.0),
        lambda x, i: x.masked_fill(x > 3, 0.0),
        lambda x, i: x.__setitem__(x > 3, 0.0),
        lambda x, i: x.repeat_interleave(2, 0),
        lambda x, i: torch.where(x > 3, x, -x).cumsum(0),
        lambda x, i: x.transpose(0, 1).reshape(-1, 3) @ torch.eye(3),
        lambda x, i: i.argsort(),
    ],
)
def test_what_moves_nothing_is_left_alone(run):
    small, large = orders_of(run, 2), orders_of(run, 5)
    assert first_disorder(small, large) is None
    assert not any(move.by_data and move.dims == (0,) for move in small.moves)


@pytest.mark.parametrize(
    ("run", "asked"),
    [
        (lambda x, i: i.tolist(), True),
        (lambda x, i: int(i.max()), True),
        (lambda x, i: bool((x > 0).all()), True),
        (lambda x, i: x[i > 0].shape, True),
        (lambda x, i: torch.where(i > 0), True),
        (lambda x, i: len(i), False),
        (lambda x, i: torch.where(i > 0, i, -i), False),
        (lambda x, i: int(torch.arange(5).sum()), False),
        (lambda x, i: bool(torch.zeros_like(x).any()), False),
    ],
)
def test_questions_about_the_data_are_noticed(run, asked):
    assert orders_of(run, 2).asked == asked


def test_moves_by_number_count_once_the_host_knows_values():
    def cut(x, i):
        return x[:1]

    def asked(x, i):
        return x[:1] if int(i.max()) < 9 else x

    assert first_disorder(orders_of(cut, 2), orders_of(cut, 5)) is None
    assert first_disorder(orders_of(asked, 2), orders_of(asked, 5)) == 0


@pytest.mark.parametrize(
    "turned",
    [
        lambda x, i: x.flip(0),
        lambda x, i: x.roll(1, 0),
        lambda x, i: x[len(x) - 1 - torch.arange(len(x))],
        lambda x, i: x[torch.arange(len(x) - 1, -1, -1)],
        lambda x, i: torch.index_select(x, 0, len(x) - 1 - torch.arange(len(x))),
        lambda x, i: torch.stack(x.unbind()[::-1]),
        lambda x, i: torch.cat(x.split(1)[::-1]),
        lambda x, i: x[:, None] * x,
        lambda x, i: torch.kron(x[:, 0, 0], x[:, 0, 1]),
    ],
)
def test_turned_samples_and_samples_met_by_samples_count_always(turned):
    assert first_disorder(orders_of(turned, 2), orders_of(turned, 5)) == 0


@pytest.mark.parametrize(
    "kept",
    [
        lambda x, i: x.flip(1),
        lambda x, i: x[:, 3 - torch.arange(4)],
        lambda x, i: x.chunk(2, dim=1),
        lambda x, i: torch.cat([x, 2 * x]).chunk(2),
        lambda x, i: x[torch.arange(len(x)).repeat_interleave(2)],
        lambda x, i: x[torch.arange(len(x))],
        lambda x, i: x.unsqueeze(2) * x.unsqueeze(1),
        lambda x, i: torch.ones(len(x), len(x)),
    ],
)
def test_what_is_turned_within_samples_or_repeated_does_not(kept):
    assert first_disorder(orders_of(kept, 2), orders_of(kept, 5)) is None


def test_a_pass_that_moves_more_than_the_other_is_in_disorder():
    def more(x, i):
        return [x[:, i[0]] for _ in x]

    assert first_disorder(orders_of(more, 2), orders_of(more, 5)) == 0


def test_values_written_into_a_constant_make_it_vary():
    order = torch.arange(4)
    with Pass([torch.ones(4)], (order,)) as seen:
        assert seen.origins.are_steady(order)
        order[1:].copy_(torch.ones(3))
        assert not seen.origins.vary(order)
        order[:1].copy_(torch.rand(1))
    assert seen.origins.vary(order)
    assert not seen.origins.are_new(order)
    assert seen.origins.are_new(torch.ones(2))


def test_a_call_in_unknown_words_may_move_everything():
    data = torch.ones(3, 2)
    orders = Orders(Origins([data], ()), 2)
    orders.note(torch.gather, (), {"what": data, "where": torch.zeros(3)}, 0)
    assert [move.dims for move in orders.moves] == [(0, 1), (0,)]
