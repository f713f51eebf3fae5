"""cleanlab's label issues beside our own, on labels of which some are wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cleanlab")

from cleanlab.filter import find_label_issues

from steepest.errors import InputError
from steepest.integrations.cleanlab import compare_label_issues

sys.path.append(str(Path(__file__).parents[1] / "labelling/project"))
from small_project import CLASSES, make_names, open_project, truth

WRONG = {"red-000.png": "green", "green-001.png": "blue", "blue-002.png": "red"}
NAMES = [f"{CLASSES[number % 3]}-{number:03d}.png" for number in range(60)]


def probabilities(number):
    values = np.random.default_rng(number).dirichlet([1, 1, 1]) * 0.2
    values[number % 3] += 0.8
    return values.tolist()


@pytest.fixture
def project(tmp_path):
    """A project whose labels were all judged by a model that had not seen them."""
    with open_project(make_names(tmp_path / "photos", 60), lease_seconds=1e6) as project:
        for number, name in enumerate(NAMES):
            project.queue.answer("ann", name, [WRONG.get(name, truth(name))])
            with project.store.writing() as connection:
                image = connection.execute("SELECT number FROM images WHERE id = ?", (name,))
                told = json.dumps(probabilities(number))
                row = (1, image.fetchone()[0], "fold", told)
                connection.execute("INSERT INTO opinions VALUES (?, ?, ?, ?)", row)
        yield project


def test_both_find_the_wrong_labels_from_the_same_probabilities(project):
    found = compare_label_issues(project)
    assert found.judged == 60
    assert set(found.steepest) == set(WRONG)
    assert set() < set(found.cleanlab) <= set(WRONG)
    assert set(found.both) == set(found.cleanlab)


def test_cleanlab_is_given_each_label_with_its_own_probabilities(project):
    labels = np.array([CLASSES.index(WRONG.get(name, truth(name))) for name in NAMES])
    values = np.array([probabilities(number) for number in range(60)])
    options = {"filter_by": "low_self_confidence", "return_indices_ranked_by": "self_confidence"}
    expected = [NAMES[row] for row in find_label_issues(labels, values, **options)]
    found = compare_label_issues(project, filter_by="low_self_confidence")
    assert sorted(found.cleanlab) == sorted(expected)


def test_what_cannot_be_compared_is_refused(tmp_path):
    with (
        open_project(make_names(tmp_path / "a", 3)) as empty,
        pytest.raises(InputError, match="no model has judged"),
    ):
        compare_label_issues(empty)
    with (
        open_project(make_names(tmp_path / "b", 3), multi_label=True) as several,
        pytest.raises(InputError, match="several classes"),
    ):
        compare_label_issues(several)
