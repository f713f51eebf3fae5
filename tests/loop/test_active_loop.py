"""The loop with a torch model: rounds, answers of every kind, and what is refused."""

from __future__ import annotations

import pytest
import torch
from loop_parts import Teacher, Trainer, make_points
from torch import nn

import steepest
from steepest.core.seeds import generator
from steepest.errors import InputError, PoolError
from steepest.labelling import Answers, ScriptedLabeller
from steepest.models import build
from steepest.pool import State
from steepest.strategies import Support
from steepest.strategies.networks.loss_head import make_loss_head


@pytest.fixture
def world():
    points, classes = make_points()
    return points, classes, Trainer(points), Teacher(classes)


def make(world, **options):
    points, _, trainer, teacher = world
    given = {"fit": trainer.fit, "label": teacher, "strategy": "margin", "progress": False}
    return steepest.ActiveLoop(points, **{**given, **options})


def test_each_round_asks_for_k_and_learns_from_all_labels(world):
    loop = make(world, evaluate=lambda: len(world[2].calls))
    records = loop.run(rounds=3, k=5)
    assert [r.number for r in records] == [1, 2, 3]
    assert [r.labelled for r in records] == [5, 10, 15]
    assert [r.metrics for r in records] == [{"metric": 1}, {"metric": 2}, {"metric": 3}]
    assert [r.strategy for r in records] == ["random", "margin", "margin"]
    assert [len(ids) for ids, _ in world[2].calls] == [5, 10, 15]
    asked = [i for r in records for i in r.asked]
    assert world[3].asked == asked
    assert len(set(asked)) == 15
    assert set(records[1].seconds) == {"choose", "label", "fit", "evaluate"}


def test_choices_are_those_of_select(world):
    points, classes, trainer, _ = world
    loop = make(world, labels={i: classes[i] for i in range(9)})
    picks = loop.ask(4)
    wanted = steepest.select(
        trainer.model, points, 4, "margin", labelled=range(9), seed=picks.seed, progress=False
    )
    assert picks == wanted
    assert loop.selection is picks


def test_labels_of_the_beginning_are_the_first_round(world):
    loop = make(world, labels={0: 0, 1: 1, 2: 2})
    records = loop.run(rounds=2, k=5)
    assert [(r.labelled, len(r.asked), r.strategy) for r in records] == [
        (3, 0, ""),
        (8, 5, "margin"),
    ]


def test_running_again_goes_on_and_does_nothing_twice(world):
    loop = make(world)
    first = loop.run(2, 5)
    assert loop.run(2, 5) == first
    assert len(world[2].calls) == 2
    assert loop.run(3, 5)[:2] == first


def test_the_same_seed_chooses_the_same_and_another_does_not(world):
    runs = [make(world, seed=seed).run(2, 5) for seed in (0, 0, 1)]
    assert [r.asked for r in runs[0]] == [r.asked for r in runs[1]]
    assert runs[0][0].asked != runs[2][0].asked


def test_a_model_that_is_trained_in_place_is_the_one_that_is_asked(world):
    trainer = world[2]
    model = nn.Linear(2, 3)

    def fit(ids, labels):
        model.load_state_dict(trainer.fit(ids, labels).state_dict())

    loop = make(world, fit=fit, model=model)
    loop.run(2, 5)
    assert loop.model is model
    assert len(loop.ask(3)) == 3


def test_ask_and_tell_by_hand(world):
    loop = make(world, label=None)
    picks = loop.ask(5)
    assert loop.waiting == picks.ids
    first, *rest = picks.ids
    loop.tell({first: 0, rest[0]: None}, who="ana")
    assert loop.pool.state(rest[0]) is State.SKIPPED
    assert loop.waiting == tuple(rest[1:])
    again = loop.ask(5)
    assert not set(again.ids) & set(picks.ids)
    assert loop.waiting == (*rest[1:], *again.ids)
    assert world[2].calls == [([first], [0])]
    assert loop.pool.history(first)[-1].who == "ana"
    loop.tell(Answers({again.ids[0]: 1}))
    assert loop.learn().labelled == 2
    assert loop.round == 3


def test_learning_again_from_the_same_labels_is_no_new_round(world):
    loop = make(world, labels={0: 0, 1: 1})
    assert loop.learn() == loop.learn()
    assert len(loop.records) == 1


def test_a_corrected_label_is_learnt_from(world):
    loop = make(world, labels={0: 0, 1: 1})
    loop.learn()
    loop.pool.relabel([1], [2], cycle=loop.round, who="ben")
    assert loop.learn().number == 2
    assert world[2].calls[-1] == ([0, 1], [0, 2])


@pytest.mark.parametrize("kind", ["list", "tensor", "dict", "answers", "pairs", "labeller"])
def test_answers_of_every_kind(world, kind):
    classes = world[1]

    def pairs(ids):
        yield from ((i, classes[i]) for i in ids)

    label = {
        "list": lambda ids: [classes[i] for i in ids],
        "tensor": lambda ids: torch.tensor([classes[i] for i in ids]),
        "dict": lambda ids: {i: classes[i] for i in ids},
        "answers": lambda ids: Answers({i: classes[i] for i in ids}),
        "pairs": pairs,
        "labeller": ScriptedLabeller(dict(enumerate(classes))),
    }[kind]
    loop = make(world, label=label)
    assert [r.labelled for r in loop.run(2, 4)] == [4, 8]
    ids, labels = loop.pool.labelled()
    assert labels == [classes[i] for i in ids]
    giver = {"pairs": "pairs", "labeller": "script"}.get(kind, "label")
    assert loop.pool.history(ids[0])[-1].who == giver


def test_skipped_samples_never_come_again_and_others_take_their_place(world):
    def label(ids):
        return [None if i % 2 else world[1][i] for i in ids]

    loop = make(world, label=label)
    loop.run(20, 6)
    assert loop.pool.ids(State.SKIPPED) == list(range(1, 60, 2))
    assert loop.pool.ids(State.LABELLED) == list(range(0, 60, 2))
    assert loop.waiting == ()


def test_samples_without_an_answer_wait_and_count_for_the_next_round(world):
    classes, calls = world[1], []

    def label(ids):
        calls.append(ids)
        return {i: classes[i] for i in ids[:2]}

    loop = make(world, label=label)
    records = loop.run(2, 5)
    assert [len(ids) for ids in calls] == [5, 5]
    assert calls[1][:3] == calls[0][2:]
    assert [len(r.asked) for r in records] == [5, 2]


def test_run_returns_when_nobody_answers_and_goes_on_later(world):
    answers = {}
    loop = make(world, label=lambda ids: {i: answers[i] for i in ids if i in answers})
    assert loop.run(2, 5) == ()
    assert loop.run(2, 5) == ()
    assert len(loop.waiting) == 5
    answers.update(enumerate(world[1]))
    assert [r.labelled for r in loop.run(2, 5)] == [5, 10]


def test_start_may_choose_by_features_before_there_is_a_model(world):
    loop = make(world, start="core-set", features=world[0])
    assert loop.ask(4).strategy == "core-set"


def test_labels_reach_strategies_that_learn_from_them(world):
    loop = make(world, strategy="isal", labels={i: world[1][i] for i in range(12)})
    assert len(loop.ask(3)) == 3


@pytest.fixture
def maps():
    images = torch.randn(24, 1, 8, 8, generator=generator(0, "images"))
    model = build("small-cnn", 3, 1, seed=0)
    given = {"fit": lambda ids, labels: model, "strategy": "ll4al", "progress": False}
    return images, model, given


@pytest.mark.parametrize("options", [{}, {"training": "detached"}, {"training": "off"}])
def test_a_predicted_loss_is_fitted_to_the_labels_of_the_loop(maps, options):
    images, model, given = maps
    known = {i: i % 3 for i in range(10)}
    picks = steepest.ActiveLoop(images, labels=known, options=options, **given).ask(4)
    wanted = steepest.select(
        model, images, 4, "ll4al", options=options,
        labelled=known, seed=picks.seed, support=Support(targets=known), progress=False,
    )  # fmt: skip
    assert picks == wanted


def test_a_head_that_was_trained_along_asks_for_no_labels(maps):
    images, model, given = maps
    support = Support(extra=make_loss_head(model, images[:2], seed=1))
    known = {0: "cat", 1: "dog"}  # Nothing could be fitted to these.
    picks = steepest.ActiveLoop(images, labels=known, support=support, **given).ask(3)
    assert len(set(picks.ids)) == 3
    with pytest.raises(InputError, match="as numbers of classes"):
        steepest.ActiveLoop(images, labels=known, **given).ask(3)


def test_support_may_be_a_function(world):
    before = nn.Linear(2, 3)
    support = lambda: Support(previous=before)  # noqa: E731
    loop = make(world, strategy="tod", support=support, labels={0: 0, 1: 1, 2: 2})
    assert len(loop.ask(3)) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": lambda ids, labels: 3}, "fit returned int"),
        ({"fit": lambda ids, labels: None}, "fit returned NoneType"),
        ({"label": lambda ids: [1]}, "1 label for 4 samples"),
        ({"label": lambda ids: 7}, "label returned a int"),
        ({"label": lambda ids: {59: 1, 58: 1, 57: 1, 56: 1, 55: 1}}, "not asked about"),
        ({"label": lambda ids: iter([3])}, "yield pairs"),
        ({"label": lambda ids: torch.eye(3).long()[[0] * len(ids)]}, "no row of 0 and 1"),
        ({"label": None}, "give label="),
        ({"evaluate": lambda: "good"}, "finite number"),
        ({"evaluate": lambda: float("nan")}, "finite number"),
        ({"start": "margin"}, "there is none before the first labels"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(world, options, message):
    with pytest.raises(InputError, match=message) as caught:
        make(world, **options).run(1, 4)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": 3}, "fit must be a function, not a int"),
        ({"label": 3}, "label must be a function"),
        ({"evaluate": 0.5}, "evaluate must be a function"),
        ({"labels": torch.zeros(60)}, "give labels by id"),
        ({"subset": 0.5}, "subset must be"),
        ({"batch_size": "64"}, "batch_size must be"),
        ({"precision": "half"}, "unknown precision"),
        ({"device": "gpu"}, "device 'gpu' is not known"),
        ({"task": "segmentation"}, "task must be"),
        ({"support": {}}, "support must be"),
    ],
)
def test_what_would_fail_after_the_first_labels_is_refused_before(world, options, message):
    with pytest.raises(InputError, match=message):
        make(world, **options)


def test_bad_arguments_are_refused_at_once(world):
    with pytest.raises(InputError, match="rounds must be a whole number"):
        make(world).run(1.5, 4)
    with pytest.raises(InputError, match="no pool"):
        steepest.ActiveLoop(fit=world[2].fit)
    with pytest.raises(InputError, match="features of shape"):
        make(world, features=torch.zeros(3, 2))
    with pytest.raises(InputError, match="none for sample 7: one for each"):
        make(world, features={i: torch.zeros(2) for i in range(60) if i != 7})
    with pytest.raises(InputError, match="none for sample 0"):
        make(world, features={})
    with pytest.raises(InputError, match="not in the pool"):
        make(world, labels={99: 1})
    with pytest.raises(InputError, match="nothing is labelled"):
        make(world).learn()
    with pytest.raises(InputError, match="at least 1"):
        make(world).run(1, 0)
    with pytest.raises(InputError, match="lower k"):
        make(world).ask(61)


def test_an_answer_that_contradicts_is_refused_whole(world):
    loop = make(world, labels={0: 0})
    with pytest.raises(PoolError, match="use relabel"):
        loop.tell({1: 1, 0: 2})
    assert loop.pool.state(1) is State.UNLABELLED
