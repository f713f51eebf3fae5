"""The list of mutations fits the sources, and what runs them tells a noticed fault from another."""

from __future__ import annotations

import ast

import pytest
from mutants import ROOT, Mutation, find_test, read_mutations, try_mutation

MUTATIONS = read_mutations()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_each_has_its_place_and_leaves_python(mutation):
    place = mutation.find()
    text = (ROOT / place.path).read_text(encoding="utf-8")
    changed = ast.parse(place.put(text, mutation.new))
    assert ast.dump(changed) != ast.dump(ast.parse(text))
    assert mutation.tests
    for test in mutation.tests:
        find_test(test)


def test_none_stands_in_the_list_twice():
    assert len({(m.at, m.old, m.new) for m in MUTATIONS}) == len(MUTATIONS)


@pytest.fixture
def tree(tmp_path):
    """A copy of a tree with one function and its test."""
    folder = tmp_path / "src" / "steepest"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "two.py").write_text("def two():\n    return 2\n\n\ndef three():\n    return 3\n")
    (tmp_path / "tests").mkdir()
    test = "from steepest.two import two\n\n\ndef test_it():\n    assert two() == 2\n"
    (tmp_path / "tests" / "test_two.py").write_text(test)
    return tmp_path


@pytest.mark.parametrize(
    ("new", "said"),
    [("return 5", "failed"), ("return 2  # Two.", "passed"), ("import nix", "failed")],
)
def test_a_fault_that_no_test_notices_survives(new, said, tree):
    before = (tree / "src" / "steepest" / "two.py").read_text()
    assert try_mutation(tree, Mutation("two", "return 2", new, ("test_two.py",)))[0] == said
    assert (tree / "src" / "steepest" / "two.py").read_text() == before


def test_tests_that_do_not_run_notice_nothing(tree):
    mutation = Mutation("two", "def two", "def zwei", ("test_two.py",))
    assert try_mutation(tree, mutation)[0] == "broken"


@pytest.mark.parametrize(
    "wrapped",
    ["add(first, second)", "add(\n            first,  # One.\n            second,\n        )"],
)
def test_it_is_found_wherever_its_file_and_its_lines_are(wrapped, tree):
    mutation = Mutation("Sums.add", "add(first, second)", "0", ())
    folder = tree / "src" / "steepest" / "deep"
    folder.mkdir()
    method = "class Sums:\n    def add(self):\n        x = 'é'\n        return {}\n"
    text = f"{method}\n\ndef add():\n    add(first, second)\n"
    (folder / "sums.py").write_text(text.format(wrapped))
    place = mutation.find(tree)
    assert place.path == (folder / "sums.py").relative_to(tree)
    assert place.put((folder / "sums.py").read_text(), mutation.new) == text.format("0")


def test_a_test_is_found_in_any_folder(tree):
    (tree / "tests" / "deep").mkdir()
    (tree / "tests" / "test_two.py").rename(tree / "tests" / "deep" / "test_two.py")
    assert find_test("test_two.py::test_it", tree) == "tests/deep/test_two.py::test_it"


@pytest.mark.parametrize(
    ("mutation", "times"),
    [
        (Mutation("two", "return 3", "", ()), 0),
        (Mutation("four", "return 2", "", ()), 0),
        (Mutation("two", "2", "", ()), 2),
    ],
)
def test_what_is_not_there_exactly_once_is_refused(mutation, times, tree):
    (tree / "src" / "steepest" / "again.py").write_text("def two():\n    return 2\n")
    with pytest.raises(ValueError, match=f"{times} times, not once"):
        mutation.find(tree)


def test_names_of_tests_are_there_once(tree):
    with pytest.raises(ValueError, match="0 files of tests are called test_three"):
        find_test("test_three.py", tree)
