"""The list of mutations fits the sources, and what runs them tells a noticed fault from another."""

from __future__ import annotations

import ast
import shutil

import pytest
from mutants import ROOT, Mutation, read_mutations, try_mutation

MUTATIONS = read_mutations()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_each_stands_in_its_file_once_and_leaves_python(mutation):
    text = (ROOT / mutation.path).read_text(encoding="utf-8")
    changed = mutation.put_into(text)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    files = [ROOT / "tests" / test.split("::")[0] for test in mutation.tests]
    assert files
    assert all(file.is_file() for file in files)


def test_none_stands_in_the_list_twice():
    assert len({(m.file, m.old, m.new) for m in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize(
    ("new", "said"),
    [("return 5", "failed"), ("return 2  # Two.", "passed"), ("import nix", "failed")],
)
def test_a_fault_that_no_test_notices_survives(new, said, tmp_path, monkeypatch):
    folder = tmp_path / "src" / "steepest"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "two.py").write_text("def two():\n    return 2\n")
    (tmp_path / "tests").mkdir()
    test = "from steepest.two import two\n\n\ndef test_it():\n    assert two() == 2\n"
    (tmp_path / "tests" / "test_two.py").write_text(test)
    copy = tmp_path / "copy"
    for part in ("src", "tests"):
        shutil.copytree(tmp_path / part, copy / part)
    monkeypatch.setattr("mutants.ROOT", tmp_path)
    mutation = Mutation("two.py", "return 2", new, ("test_two.py",))
    assert try_mutation(copy, mutation)[0] == said
    assert (copy / "src" / "steepest" / "two.py").read_text().endswith("return 2\n")
    assert (
        try_mutation(copy, Mutation("two.py", "def two", "def zwei", mutation.tests))[0] == "broken"
    )


def test_what_stands_there_twice_is_refused():
    with pytest.raises(ValueError, match="2 times, not once"):
        Mutation("a.py", "x", "y", ()).put_into("x + x")
