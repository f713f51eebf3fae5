"""The list of classes while a project goes on."""

from __future__ import annotations

import unicodedata

import pytest
from small_project import make_names, open_project

from steepest.errors import InputError, UnknownNameError

COMPOSED, APART = unicodedata.normalize("NFC", "café"), unicodedata.normalize("NFD", "café")


@pytest.fixture
def project(tmp_path):
    with open_project(make_names(tmp_path / "photos", 3)) as project:
        yield project


def test_a_class_that_is_renamed_keeps_its_labels_and_its_place(project):
    project.queue.answer("ann", "red-000.png", ["red"])
    project.rename_class("red", "crimson")
    assert project.classes() == ("crimson", "green", "blue")
    assert project.labels() == [("red-000.png", ("crimson",))]
    assert project.queue.history()[0].labels == ("crimson",)
    project.queue.answer("bo", "blue-002.png", ["crimson"])
    with pytest.raises(UnknownNameError):
        project.queue.answer("bo", "blue-002.png", ["red"])


def test_capital_letters_of_a_class_can_be_changed(project):
    project.rename_class("red", "Red")
    assert project.classes()[0] == "Red"


@pytest.mark.parametrize("new", ["green", "GREEN", "a/b", "", ".hidden"])
def test_a_name_that_cannot_be_its_own_is_refused(project, new):
    with pytest.raises(InputError):
        project.rename_class("red", new)
    assert project.classes() == ("red", "green", "blue")


def test_a_class_that_is_not_there_cannot_be_renamed(project):
    with pytest.raises(UnknownNameError, match="did you mean 'green'"):
        project.rename_class("gren", "x")


def test_both_ways_to_write_a_letter_mean_the_same_class(project):
    project.add_class(APART)
    project.add_class(COMPOSED)
    assert project.classes() == ("red", "green", "blue", APART)
    project.queue.answer("ann", "red-000.png", [COMPOSED])
    assert project.labels() == [("red-000.png", (APART,))]
    with pytest.raises(InputError, match="there already"):
        project.rename_class("red", COMPOSED)
    with pytest.raises(InputError, match="capital letters alone"):
        project.add_class(COMPOSED.upper())
