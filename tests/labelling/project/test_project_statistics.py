from __future__ import annotations

import importlib

import numpy as np
import pytest
from scipy.optimize import nnls
from small_project import Clock, make_names, open_project

from steepest.errors import InputError
from steepest.labelling.project import statistics
from steepest.labelling.project.statistics.curve import CurvePoint, paired_interval
from steepest.labelling.project.statistics.forecast import _POWERS, fit_power_law
from steepest.labelling.project.statistics.people import cohen_kappa, fleiss_kappa


def points(error, labels, tested=2000):
    rows = []
    for version, n in enumerate(labels, start=1):
        right = round((1 - error(n)) * tested)
        interval = statistics.binomial_interval(right, tested)
        rows.append(CurvePoint(version, n, tested, right, *interval, 0.0))
    return rows


LABELS = (50, 80, 120, 180, 260, 400)


def test_a_power_law_is_drawn_out_to_where_it_leads():
    curve = points(lambda n: 2.0 * n**-0.5, LABELS)
    found = statistics.forecast_curve(curve, 0.92, available=100_000, share=0.2)
    assert found.status == "estimate"
    assert found.low < 625 < found.high
    assert 480 < found.total_labels < 850
    assert found.labels_now == 400
    assert found.more == -(-(found.total_labels - 400) // 0.8)
    assert str(found.total_labels) in found.message


def test_few_test_samples_make_the_interval_wider():
    def width(tested):
        curve = points(lambda n: 2.0 * n**-0.5, LABELS, tested)
        found = statistics.forecast_curve(curve, 0.92, available=10**9)
        return (found.high or 10**9) - found.low

    assert width(200) > 2 * width(5000)


def test_a_floor_above_the_target_is_out_of_reach():
    curve = points(lambda n: 0.2 + 2.0 * n**-0.7, LABELS, 5000)
    found = statistics.forecast_curve(curve, 0.95, available=100_000)
    assert found.status == "out-of-reach"
    assert "out of reach" in found.message
    assert found.total_labels is None


def test_more_labels_than_samples_are_out_of_reach():
    curve = points(lambda n: 2.0 * n**-0.5, LABELS)
    assert statistics.forecast_curve(curve, 0.92, available=450).status == "out-of-reach"


def test_what_is_reached_needs_no_more():
    curve = points(lambda n: 2.0 * n**-0.5, LABELS)
    found = statistics.forecast_curve(curve, 0.85, available=1000)
    assert found.status == "reached"
    assert found.message.endswith("(95 % interval 88.6% to 91.2%)")


def test_few_tests_do_not_settle_that_a_target_is_reached():
    curve = points(lambda n: 2.0 * n**-0.5, LABELS, 30)
    found = statistics.forecast_curve(curve, 0.85, available=1000)
    assert found.status == "reached"
    low = statistics.binomial_interval(27, 30)[1]
    assert low < 0.85
    assert found.message.endswith("so that it may still be below 85.0%)")


@pytest.mark.parametrize(("labels", "tested"), [((), 100), (LABELS[:3], 100), (LABELS, 9)])
def test_too_few_points_say_so(labels, tested):
    curve = points(lambda n: 2.0 * n**-0.5, labels, tested)
    found = statistics.forecast_curve(curve, 0.95, available=1000)
    assert found.status == "too-few"
    assert "too early" in found.message


def test_a_target_that_may_or_may_not_be_reached_is_left_open():
    curve = points(lambda n: 0.04 + 2.0 * n**-0.5, LABELS, 60)
    found = statistics.forecast_curve(curve, 0.95, available=20_000)
    assert found.status == "too-few"
    assert "of the curves that fit the tests, 46% get to 95.0%" in found.message


def drawn(error, random):
    """Draw what tests would say: one in five images, from 40 labels to 200."""
    rows = []
    for version, n in enumerate((40, 80, 120, 160, 200), start=1):
        right = n // 4 - random.binomial(n // 4, error(n))
        interval = statistics.binomial_interval(right, n // 4)
        rows.append(CurvePoint(version, n, n // 4, right, *interval, 0.0))
    return rows


def test_what_is_within_reach_is_seldom_called_out_of_reach():
    # 90 % takes 2,154 labels of the 5,000, but five small tests often look like a floor.
    random, said = np.random.default_rng(0), []
    for _ in range(60):
        curve = drawn(lambda n: n**-0.3, random)
        said.append(statistics.forecast_curve(curve, 0.9, available=5000).status)
    assert said.count("out-of-reach") <= 6
    assert said.count("estimate") > 6


def test_a_curve_that_does_not_fall_promises_nothing():
    curve = points(lambda _: 0.3, LABELS, 3000)
    assert statistics.forecast_curve(curve, 0.95, available=10**6).status == "out-of-reach"


@pytest.mark.parametrize("target", [0.0, 1.0, 95])
def test_targets_that_are_no_accuracy_are_refused(target):
    with pytest.raises(InputError, match="accuracy"):
        statistics.forecast_curve([], target, available=10)


def test_the_fit_finds_the_parameters_of_exact_curves():
    labels = np.array(LABELS, dtype=float)
    errors = np.stack([1.5 * labels**-0.5, 3.0 * labels**-0.9 + 0.1])
    a, b, c = fit_power_law(labels, errors, np.ones(6))
    assert a == pytest.approx([1.5, 3.0], rel=0.05)
    assert b == pytest.approx([0.5, 0.9], abs=0.01)
    assert c == pytest.approx([0.0, 0.1], abs=2e-3)


def test_the_fit_is_the_best_that_is_not_below_zero():
    labels, random = np.array(LABELS, dtype=float), np.random.default_rng(0)
    # The last one falls faster than any power that is tried: without a bound, to below 0.
    errors = np.vstack([random.uniform(0.05, 0.4, (5, 6)), 500 * labels**-2])
    weights = random.uniform(10, 100, 6)
    roots = np.sqrt(weights / weights.sum())
    for curve, a, b, c in zip(errors, *fit_power_law(labels, errors, weights), strict=True):
        fits = [
            nnls(np.stack([labels**-power, np.ones(6)], 1) * roots[:, None], curve * roots)[1]
            for power in _POWERS
        ]
        misses = np.linalg.norm((a * labels**-b + c - curve) * roots)
        assert misses == pytest.approx(min(fits), rel=1e-9)
        assert min(a, c) >= 0


def test_intervals_are_wilsons():
    share, low, high = statistics.binomial_interval(8, 10)
    assert share == 0.8
    assert (low, high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert statistics.binomial_interval(0, 0) == (None, None, None)
    assert statistics.binomial_interval(0, 5)[1] == 0.0


def test_kappas_are_those_of_textbooks():
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)
    groups = [["a"] * 3, ["a", "a", "b"], ["b"] * 3, ["a", "b", "b"]]
    assert fleiss_kappa(groups) == pytest.approx(1 / 3)
    assert cohen_kappa([("y", "y")] * 3) is None
    assert fleiss_kappa([]) is None


@pytest.fixture
def project(tmp_path):
    photos = make_names(tmp_path / "photos", 12)
    with open_project(photos, clock=Clock(), overlap=2) as project:
        project.clock = project.queue._clock
        yield project


def test_agreement_of_people_counts_shared_samples_alone(project):
    samples = [state.sample for state in project.queue.samples()]
    for place, sample in enumerate(samples[:8]):
        project.queue.answer("ann", sample, ["red" if place < 4 else "blue"])
        project.queue.answer("bob", sample, ["red" if place < 3 else "blue"])
    project.queue.answer("cid", samples[9], ["red"])
    found = statistics.annotator_agreement(project)
    (pair,) = found.pairs
    assert (found.samples, found.raw) == (8, 7 / 8)
    assert (pair.first, pair.second, pair.samples, pair.raw) == ("ann", "bob", 8, 7 / 8)
    assert pair.cohen_kappa == pytest.approx((7 / 8 - 0.5) / 0.5)
    assert 0.7 < found.fleiss_kappa < pair.cohen_kappa


def test_a_dispute_that_was_settled_stays_a_disagreement(project):
    samples = [state.sample for state in project.queue.samples()][:8]
    for place, sample in enumerate(samples):
        project.queue.answer("ann", sample, ["red" if place < 4 else "blue"])
        project.queue.answer("bob", sample, ["red" if place in {0, 1, 4, 5} else "blue"])
    before = statistics.annotator_agreement(project)
    assert (before.raw, before.fleiss_kappa) == (0.5, 0.0)
    # One gives way, and a third decides the others: neither answers without knowing of the split.
    for sample in samples[2:4]:
        project.queue.answer("bob", sample, ["red"])
    for sample in samples[4:6]:
        project.queue.answer("cid", sample, ["blue"])
    assert [one.sample for one in project.queue.samples(state="disputed")] == []
    assert statistics.annotator_agreement(project) == before


def test_agreement_counts_what_was_not_taken_back_and_the_file_that_is_there(project):
    first, second, third = [state.sample for state in project.queue.samples()][:3]
    for sample in (first, second, third):
        project.queue.answer("ann", sample, ["red"])
        project.queue.answer("bob", sample, ["blue"])
        project.queue.undo("bob")
    project.queue.answer("bob", first, ["red"])
    found = statistics.annotator_agreement(project)
    assert (found.samples, found.raw) == (1, 1.0)
    with project.store.writing() as connection:  # As after "ask again" about a replaced file.
        last = connection.execute("SELECT max(number) FROM answers").fetchone()[0]
        connection.execute("UPDATE images SET asked_again = ? WHERE id = ?", (last, first))
        connection.execute(
            "DELETE FROM current WHERE image = (SELECT number FROM images WHERE id = ?)", (first,)
        )
    assert statistics.annotator_agreement(project).samples == 0
    project.queue.answer("ann", first, ["green"])
    project.queue.answer("bob", first, ["blue"])
    found = statistics.annotator_agreement(project)
    assert (found.samples, found.raw) == (1, 0.0)
    with project.store.writing() as connection:  # As after "keep labels": they hold as they are.
        last = connection.execute("SELECT max(number) FROM answers").fetchone()[0]
        connection.execute("UPDATE images SET asked_again = ? WHERE id = ?", (last, first))
    assert statistics.annotator_agreement(project).samples == 1


def test_agreement_on_several_classes_is_the_mean_of_the_classes(tmp_path):
    photos = make_names(tmp_path / "photos", 4)
    with open_project(photos, multi_label=True, overlap=2) as project:
        said = {"ann": (["red"], [], ["red", "blue"], []), "bob": (["red"], [], ["red"], [])}
        for person, answers in said.items():
            for state, labels in zip(project.queue.samples(), answers, strict=True):
                project.queue.answer(person, state.sample, labels)
        found = statistics.annotator_agreement(project)
        assert found.raw == 3 / 4
        # Red agrees wholly, blue not beyond chance, and green was never named.
        assert found.pairs[0].cohen_kappa == pytest.approx((1.0 + 0.0) / 2)


def test_speed_leaves_out_breaks_and_what_was_taken_back(project):
    samples = [state.sample for state in project.queue.samples()]
    for sample, pause in zip(samples[:5], (0, 2, 2, 1000, 2), strict=True):
        project.clock.now += pause
        project.queue.answer("ann", sample, ["red"])
    project.clock.now += 2
    project.queue.answer("ann", samples[6], ["red"])
    project.queue.undo("ann")
    found = statistics.speed(project)
    assert found.annotators["ann"] == found.total
    assert (found.total.labels, found.total.active_seconds) == (5, 6.0)
    assert found.total.per_minute == pytest.approx(30.0)
    project.queue.answer("bob", samples[0], ["red"])
    assert statistics.speed(project).annotators["bob"].per_minute is None


def test_the_balance_counts_samples_by_class(project):
    project.queue.answer("ann", "red-000.png", ["red"])
    project.queue.answer("ann", "red-003.png", ["red"])
    project.queue.answer("ann", "blue-002.png", ["blue"])
    assert statistics.class_balance(project) == {"red": 2, "green": 0, "blue": 1}


def pick(project, sample, probabilities, strategy, rank):
    with project.store.writing() as connection:
        connection.execute("INSERT OR IGNORE INTO batches VALUES (1, 0, 'margin', 4, 'f', 9)")
        connection.execute(
            "INSERT INTO picks SELECT 1, ?, number, 1.0, ?, ? FROM images WHERE id = ?",
            (rank, strategy, probabilities, sample),
        )


def test_agreement_with_predictions_is_that_at_the_time(project):
    pick(project, "red-000.png", "[0.9, 0.1, 0.0]", "margin", 1)
    pick(project, "green-001.png", "[0.9, 0.1, 0.0]", "validation", 2)
    pick(project, "blue-002.png", "[0.0, 0.1, 0.9]", "validation", 3)
    for task in project.queue.next("ann", 3):
        project.queue.answer("ann", task.sample, [task.sample.split("-")[0]])
    found = statistics.agreement_with_predictions(project)
    assert (found.answers, found.agreed) == (3, 2)
    assert (found.random_answers, found.random_agreed) == (2, 1)
    assert found.low < found.share < found.high
    project.queue.answer("ann", "green-001.png", ["red"])
    assert statistics.agreement_with_predictions(project).agreed == 2


@pytest.fixture
def trusted(monkeypatch):
    """Let models be believed from the first label on."""
    module = importlib.import_module("steepest.labelling.project.statistics.suspicious")
    monkeypatch.setattr(module, "earned_certainty", lambda judged, share: 0.0)


def test_what_models_say_is_shown_from_the_certainty_on_that_came_true_often_enough():
    def earned(*said):
        return statistics.earned_certainty(said, 0.8, fewest=4)

    right, wrong = (0.9, True), (0.6, False)
    assert earned(right, right, right) is None
    assert earned(right, right, right, right, wrong) == 0.6
    assert earned(right, right, right, right, wrong, wrong) == 0.9
    assert earned(*[(0.9, False)] * 4, *[(0.5, True)] * 20) == 0.5
    # Those that are equally sure come together, whichever was first.
    assert earned(*[(0.7, True)] * 4, *[(0.7, False)] * 4) is None


def by_number(sample):
    return sample.rpartition("-")[2]


def answer_all(project, count, truth_of, probabilities):
    """Label images of which a model had said something before."""
    samples = sorted((s.sample for s in project.queue.samples(limit=100)), key=by_number)[:count]
    for rank, sample in enumerate(samples, start=1):
        pick(project, sample, probabilities(sample), "margin", rank)
    for task in project.queue.next("ann", count):
        project.queue.answer("ann", task.sample, [truth_of(task.sample)])


def test_doubts_are_few_and_come_from_models_that_are_mostly_right(tmp_path):
    known = {"red": "[0.9, 0.05, 0.05]", "green": "[0.05, 0.9, 0.05]", "blue": "[0.1, 0.1, 0.8]"}
    with open_project(make_names(tmp_path / "photos", 60), lease_seconds=1e6) as project:
        wrong = {"red-000.png", "green-001.png", "blue-002.png", "red-003.png"}

        def answered(sample):
            said = sample.split("-")[0]
            return (
                {"red": "green", "green": "blue", "blue": "red"}[said] if sample in wrong else said
            )

        answer_all(project, 30, answered, lambda sample: known[sample.split("-")[0]])
        found = statistics.suspicious(project)
        # One in ten, and those first whose evidence is strongest.
        assert [doubt.sample for doubt in found] == ["green-001.png", "red-000.png", "red-003.png"]
        assert all(doubt.labels != doubt.predicted for doubt in found)
    with open_project(make_names(tmp_path / "others", 60), lease_seconds=1e6) as project:
        answer_all(project, 30, answered, lambda sample: known["red"])
        assert statistics.suspicious(project) == []


def test_hints_are_shown_once_such_predictions_came_true(tmp_path):
    with open_project(make_names(tmp_path / "photos", 60), lease_seconds=1e6) as project:
        assert statistics.hint_certainty(project) is None

        def said(sample):
            return "[0.95, 0.03, 0.02]" if sample.startswith("red") else "[0.6, 0.3, 0.1]"

        answer_all(project, 60, lambda sample: sample.split("-")[0], said)
        assert statistics.hint_certainty(project) == 0.95
        while project.queue.undo("ann"):
            pass
        assert statistics.hint_certainty(project) is None


def test_confident_disagreement_before_the_label_is_suspicious(project, trusted):
    pick(project, "red-000.png", "[0.05, 0.05, 0.9]", "margin", 1)
    pick(project, "green-001.png", "[0.5, 0.4, 0.1]", "margin", 2)
    pick(project, "blue-002.png", "[0.0, 0.1, 0.9]", "margin", 3)
    for task in project.queue.next("ann", 3):
        project.queue.answer("ann", task.sample, [task.sample.split("-")[0]])
    (doubt,) = statistics.suspicious(project)
    assert (doubt.sample, doubt.predicted, doubt.source) == ("red-000.png", ("blue",), "pick")
    assert (doubt.label_probability, doubt.probability, doubt.version) == (0.05, 0.9, 4)
    assert len(statistics.suspicious(project, margin=0.05)) == 2
    assert statistics.suspicious(project, limit=0) == []


def test_where_several_classes_are_allowed_the_least_likely_one_is_doubted(tmp_path, trusted):
    photos = make_names(tmp_path / "photos", 4)
    with open_project(photos, multi_label=True) as project:
        pick(project, "red-000.png", "[0.9, 0.8, 0.1]", "margin", 1)
        pick(project, "green-001.png", "[0.4, 0.6, 0.1]", "margin", 2)
        pick(project, "blue-002.png", "[0.1, 0.2, 0.3]", "margin", 3)
        for sample in ("red-000.png", "green-001.png", "blue-002.png"):
            project.queue.answer("ann", sample, [sample.split("-")[0]])
        red, blue = statistics.suspicious(project)
    assert (red.sample, red.labels, red.predicted) == ("red-000.png", ("red",), ("red", "green"))
    assert (red.label_probability, red.probability) == pytest.approx((0.2, 0.8))
    assert (blue.sample, blue.predicted) == ("blue-002.png", ())
    assert (blue.label_probability, blue.probability) == pytest.approx((0.3, 0.7))


def test_what_somebody_else_looked_at_again_is_not_suspicious_any_more(project, trusted):
    pick(project, "red-000.png", "[0.05, 0.05, 0.9]", "margin", 1)
    project.queue.answer("ann", "red-000.png", ["red"])
    assert len(statistics.suspicious(project)) == 1
    project.change_settings(overlap=1)
    project.queue.answer("bob", "red-000.png", ["red"])
    assert statistics.suspicious(project) == []


def test_an_empty_project_has_empty_statistics(project):
    assert statistics.learning_curve(project) == []
    assert statistics.agreement_with_predictions(project).share is None
    assert statistics.speed(project).total.per_minute is None
    assert statistics.annotator_agreement(project).raw is None
    assert statistics.suspicious(project) == []
    assert statistics.forecast(project, 0.9).status == "too-few"
    assert statistics.last_doubling(project) is None


def test_a_doubling_is_judged_by_what_both_models_were_tested_on(tmp_path):
    right, wrong = "[1.0, 0.0, 0.0]", "[0.0, 1.0, 0.0]"
    with open_project(make_names(tmp_path / "photos", 40)) as project:
        ids = [one.sample for one in project.queue.samples()]
        for sample in ids[:12]:
            project.queue.answer("ann", sample, ["red"])
        with project.store.writing() as connection:
            for version, labels in ((1, 9), (2, 20), (3, 40), (4, 41)):
                connection.execute(
                    """INSERT INTO trainings (version, status, reason, requested_at, labels,
                    validation) VALUES (?, 'done', '', 0, ?, 12)""",
                    (version, labels),
                )
            numbers = [
                row["number"] for row in connection.execute("SELECT number FROM images ORDER BY id")
            ]
            # The last of twelve and all others are seen by one of the two models alone.
            told = [(2, k, right if k < 4 else wrong) for k in range(11)]
            told += [(4, k, right if 0 < k < 9 else wrong) for k in range(12)]
            connection.executemany(
                "INSERT INTO opinions VALUES (?, ?, 'validation', ?)",
                [(version, numbers[k], text) for version, k, text in told],
            )
        found = statistics.last_doubling(project)
        assert (found.labels_before, found.labels, found.tested) == (20, 41, 11)
        assert (found.better, found.worse, found.gain) == (5, 1, 4 / 11)
        assert found.low < 0 < found.gain < found.high
        for number, tested in ((numbers[0], 10), (numbers[1], None)):
            with project.store.writing() as connection:
                connection.execute("DELETE FROM opinions WHERE image = ?", (number,))
            found = statistics.last_doubling(project)
            assert (None if found is None else found.tested) == tested


def test_intervals_of_paired_shares_are_those_of_agresti_and_min():
    gain, low, high = paired_interval(20, 5, 98)
    assert gain == pytest.approx(15 / 98)
    # 15.0 of 100 points, and 1.96 times the root of (0.26 - 0.15²) / 100.
    assert (low, high) == (pytest.approx(0.0545, abs=1e-4), pytest.approx(0.2455, abs=1e-4))
    assert paired_interval(0, 0, 10)[1] < 0 < paired_interval(0, 0, 10)[2]
    assert -1 <= paired_interval(0, 1, 1)[1] < paired_interval(1, 0, 1)[2] <= 1
