"""Strategies of the user's own, named ``package.module:Class`` where a strategy's name goes."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError, UnknownNameError
from steepest.strategies import Choice, Scorer, Strategy, create, names
from steepest.strategies.base import STRATEGIES
from steepest.strategies.choice import checked

MODULE = '''
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from steepest.strategies import Scorer, Strategy
from steepest.strategies.base import strategy
from steepest.strategies.margin import Margin

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass(frozen=True)
class Gini(Scorer):
    """Impurity: score(x) = 1 - sum p^2."""

    name: ClassVar[str] = "gini"

    temperature: float = 1.0

    def __post_init__(self):
        if self.temperature <= 0:
            raise ValueError("no such\\ntemperature")

    def score(self, batch):
        return 1 - (batch.logits / self.temperature).softmax(1).square().sum(1)


class Plain(Gini):
    pass


class Wider(Margin):
    pass


@dataclass(frozen=True)
class Impostor(Gini):
    name: ClassVar[str] = "margin"


@dataclass(frozen=True)
class Vague(Gini):
    much: Decimal = 1


@strategy("own-registered")
@dataclass(frozen=True)
class Registered(Gini):
    pass


class Unfinished(Scorer):
    pass


def function():
    return Gini()


ready = Gini()
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a module into the current directory, and forget it afterwards."""
    (tmp_path / "own_ways.py").write_text(MODULE)
    (tmp_path / "torn_ways.py").write_text("class Broken(:\n")
    clash = "from steepest.strategies import *\nfrom steepest.strategies.base import strategy\n"
    (tmp_path / "clashing_ways.py").write_text(f"{clash}@strategy('margin')\nclass A(Scorer): 0\n")
    monkeypatch.chdir(tmp_path)
    names()
    monkeypatch.setattr(STRATEGIES, "_entries", dict(STRATEGIES._entries))
    path = list(sys.path)
    yield "own_ways"
    assert sys.path == path
    for module in ("own_ways", "clashing_ways"):
        sys.modules.pop(module, None)


def problem():
    torch.manual_seed(0)
    return nn.Linear(4, 3), torch.randn(20, 4)


def test_it_is_made_with_its_options_and_is_in_no_list(own):
    made = create("own_ways:Gini", {"temperature": 2})
    assert (made.name, made.options()) == ("gini", {"temperature": 2.0})
    assert create("own_ways:Gini", made.options()) == made
    assert not {"gini", "own_ways:Gini"} & set(names())


def test_it_scores_as_the_object_does(own):
    model, pool = problem()
    picks = steepest.select(
        model, pool, 5, "own_ways:Gini", options={"temperature": 2.0}, progress=False
    )
    same = steepest.select(
        model, pool, 5, create("own_ways:Gini", {"temperature": 2.0}), progress=False
    )
    assert picks == same
    assert (picks.strategy, picks.options) == ("gini", {"temperature": 2.0})
    assert len(steepest.score(model, pool, "own_ways:Gini", progress=False).values) == 20


def test_a_loop_takes_it(own):
    model, pool = problem()
    loop = steepest.ActiveLoop(
        pool,
        fit=lambda _ids, _labels: model,
        label=lambda ids: dict.fromkeys(ids, 0),
        strategy="own_ways:Plain",
        options={"temperature": 3.0},
        progress=False,
    )
    assert [done.strategy for done in loop.run(rounds=2, k=3)] == ["random", "Plain"]
    assert loop.selection.options == {"temperature": 3.0}


@pytest.mark.parametrize(
    ("name", "called"),
    [("Gini", "gini"), ("Plain", "Plain"), ("Wider", "Wider"), ("Registered", "own-registered")],
)
def test_a_name_of_its_own_counts_and_else_that_of_the_class(own, name, called):
    assert create(f"own_ways:{name}").name == called
    assert create("margin").name == "margin"


def test_noise_can_be_added_to_it(own):
    model, pool = problem()
    noisy = {"of": "own_ways:Gini", "of_options": {"temperature": 2.0}}
    assert create("stochastic", noisy).scorer == create("own_ways:Gini", {"temperature": 2.0})
    assert len(steepest.select(model, pool, 4, "stochastic", options=noisy, progress=False)) == 4


def test_a_strategy_of_the_package_goes_by_its_place_too():
    assert create("steepest.strategies.margin:Margin") == create("margin")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("own_ways:Absent", {}, "own_ways has no class 'Absent'"),
        ("own_ways:function", {}, "is no class that derives from steepest"),
        ("own_ways:ready", {}, "is no class that derives"),
        ("own_ways:dataclass", {}, "is no class that derives"),
        ("own_ways:Unfinished", {}, "'own_ways:Unfinished' has no score: implement it"),
        ("own_ways:Strategy", {}, "has no choose: implement it"),
        ("own_ways:Impostor", {}, "calls itself 'margin', the name of another strategy"),
        ("own_ways:Gini", {"temperature": "hot"}, "expected float"),
        ("own_ways:Gini", {"temperature": 0}, "cannot be built: ValueError: no such$"),
        ("own_ways:Vague", {}, "cannot be built: NameError"),
        ("clashing_ways:A", {}, "cannot be imported: ValueError: two entries for strategy 'marg"),
        ("torn_ways:Broken", {}, "cannot be imported: SyntaxError"),
        ("absent_ways:Gini", {}, "cannot be imported: ModuleNotFoundError"),
        ("own_ways:", {}, "write package.module:Class"),
        (":Gini", {}, "write package.module:Class"),
        ("own ways:Gini", {}, "write package.module:Class"),
        ("../own_ways:Gini", {}, "write package.module:Class"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(own, name, options, message):
    with pytest.raises(InputError, match=message) as caught:
        create(name, options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (lambda n: [0.5] * n, r"'odd' returned a list from score: return a tensor \[N\]"),
        (np.zeros, r"'odd' returned a ndarray from score: return a tensor \[N\]"),
        (lambda _n: None, "returned a NoneType from score"),
        (lambda n: torch.zeros(n, 3), r"shape \[20, 3\] for 20 samples: return a tensor \[20\]"),
    ],
)
def test_scores_that_are_no_tensor_of_one_each_are_one_clear_line(told, message):
    @dataclasses.dataclass(frozen=True)
    class Odd(Scorer):
        name = "odd"

        def score(self, batch):
            return told(len(batch))

    model, pool = problem()
    for use in (steepest.score, lambda *a, **o: steepest.select(a[0], a[1], 2, a[2], **o)):
        with pytest.raises(InputError, match=message):
            use(model, pool, Odd(), progress=False)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (None, "'odd' returned a NoneType from choose: return a steepest.strategies.Choice"),
        (([0, 1], [0.0, 0.0]), "returned a tuple from choose"),
        (Choice([0, 0], [1.0, 0.5]), "chose a sample twice: choose 2 distinct positions of 0 to"),
        (Choice([0], [1.0]), r"chose positions \[1\] where \[2\] are due"),
        (Choice([0, 20], [1.0, 0.5]), "chose a position that is none"),
        (Choice([0.0, 1.5], [1.0, 0.5]), "positions of type float64, not whole numbers"),
        (Choice([0, 1], [1.0]), r"scores \[1\] from choose: return \[2\], one for each of k"),
        (Choice([0, 1], [1.0, 0.5], np.zeros(3)), r"values \[3\] from choose: return \[20\]"),
        (Choice([0, 1], [1.0, 0.5], np.full(20, np.nan)), "values that are not finite"),
        (Choice([0, 1], [1.0, np.inf]), "scores that are not finite"),
    ],
)
def test_what_is_no_choice_of_k_samples_is_one_clear_line(told, message):
    @dataclasses.dataclass(frozen=True)
    class Odd(Strategy):
        name = "odd"

        def choose(self, pool, k):
            return told

    model, pool = problem()
    with pytest.raises(InputError, match=message):
        steepest.select(model, pool, 2, Odd(), progress=False)


def test_a_choice_may_be_of_lists_or_tensors():
    found = checked(Choice(torch.tensor([3, 1]), [1.0, 0.5]), candidates=4, k=2, strategy="own")
    assert found.positions.tolist() == [3, 1]
    assert found.scores.dtype == np.float64


def test_an_unknown_option_says_the_nearest(own):
    with pytest.raises(UnknownNameError, match="did you mean 'temperature'"):
        create("own_ways:Gini", {"temprature": 2.0})


def test_errors_of_the_package_are_not_dressed_up(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Faulty(STRATEGIES.get("margin")):
        def __post_init__(self):
            raise ZeroDivisionError

    monkeypatch.setitem(STRATEGIES._entries, "faulty", Faulty)
    with pytest.raises(ZeroDivisionError):
        create("faulty")


def test_the_same_seed_gives_the_same_choice_for_any_batch_size(own):
    model, pool = problem()
    chosen = [
        steepest.select(model, pool, 5, "own_ways:Gini", batch_size=size, progress=False)
        for size in (1, 7, 20)
    ]
    assert chosen[0].ids == chosen[1].ids == chosen[2].ids
    assert np.allclose(chosen[0].scores, chosen[2].scores)
