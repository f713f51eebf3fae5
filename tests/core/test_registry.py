"""Things found by name in the files of a package."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from steepest.core.registry import Registry
from steepest.errors import InputError, UnknownNameError


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A registry whose package holds one file per bird."""
    package = tmp_path / "birds"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from steepest.core.registry import Registry\nBIRDS = Registry('bird', 'birds')\n"
    )
    for name in ("wren", "robin"):
        (package / f"{name}.py").write_text(
            f"from birds import BIRDS\nBIRDS.register({name!r})(lambda: {name!r})\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("birds", "birds.wren", "birds.robin"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    birds = __import__("birds").BIRDS
    yield birds
    for module in [name for name in sys.modules if name.split(".")[0] == "birds"]:
        del sys.modules[module]


def test_a_file_in_the_package_is_enough(registry):
    assert registry.names() == ["robin", "wren"]
    assert registry.get("wren")() == "wren"


def test_nothing_is_imported_before_a_name_is_asked_for(registry):
    assert "birds.wren" not in sys.modules
    registry.get("robin")
    assert "birds.wren" in sys.modules


def test_an_unknown_name_is_an_error_with_the_nearest_one(registry):
    with pytest.raises(UnknownNameError, match=r"unknown bird 'wern': did you mean 'wren'\?") as e:
        registry.get("wern")
    assert e.value.known == ["robin", "wren"]
    assert isinstance(e.value, InputError)


def test_a_name_is_given_once(registry):
    sing = registry.get("wren")
    with pytest.raises(ValueError, match="two entries for bird 'wren'"):
        registry.register("wren")(object())
    assert registry.get("wren") is sing


def test_a_broken_file_is_not_passed_over(registry, tmp_path):
    (tmp_path / "birds" / "cuckoo.py").write_text("import a_package_that_is_not_there\n")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
            registry.names()


def test_the_decorator_gives_back_what_it_files():
    registry: Registry[Any] = Registry("thing", "steepest")
    thing = object()
    assert registry.register("it")(thing) is thing


def test_what_is_outside_of_the_package_is_asked_for_elsewhere(registry):
    with pytest.raises(UnknownNameError, match="unknown bird 'zoo:Emu'"):
        registry.get("zoo:Emu")
    registry._outside = lambda name: f"from {name}"
    assert registry.get("zoo:Emu") == "from zoo:Emu"
    assert "birds.wren" in sys.modules
    assert registry.names() == ["robin", "wren"]
