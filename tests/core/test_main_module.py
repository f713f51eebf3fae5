"""Which main files can be run again, and how one is hidden."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from steepest.core.processes import main_can_be_imported, main_hidden


@pytest.fixture
def main(monkeypatch):
    """Return a main module as the interpreter makes one for what is typed in."""
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


def test_what_is_typed_in_cannot_be_imported(main):
    assert main.__spec__ is None
    assert not main_can_be_imported()


def test_the_standard_input_cannot_be_imported(main):
    main.__file__ = "<stdin>"
    assert not main_can_be_imported()


def test_a_script_can_be_imported(main, tmp_path):
    main.__file__ = str(tmp_path / "script.py")
    assert not main_can_be_imported()
    (tmp_path / "script.py").touch()
    assert main_can_be_imported()


def test_a_module_that_was_started_by_name_can_be_imported(main):
    main.__spec__ = ModuleSpec("package.__main__", None)
    assert main_can_be_imported()


def test_a_hidden_main_module_is_empty_and_comes_back(main):
    main.__file__ = "script.py"
    with pytest.raises(KeyError), main_hidden(True):  # noqa: PT012 - it comes back after an error
        hidden = sys.modules["__main__"]
        assert not hasattr(hidden, "__file__")
        raise KeyError
    assert sys.modules["__main__"] is main


def test_a_main_module_that_is_not_hidden_stays(main):
    with main_hidden(False):
        assert sys.modules["__main__"] is main
