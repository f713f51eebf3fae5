"""Published numbers: all there, each with a source, and those that count are right."""

from __future__ import annotations

from importlib import resources

import pytest

from steepest.errors import ConfigError
from steepest.paper.artefact import ARTEFACTS
from steepest.paper.published_numbers import Number, Published, Series, published, published_table
from steepest.strategies import names

FILES = sorted(
    path.name.removesuffix(".toml")
    for path in (resources.files("steepest.paper") / "published").iterdir()
)


@pytest.mark.parametrize("name", FILES)
def test_every_file_belongs_to_an_artefact_and_names_sources(name):
    assert name in ARTEFACTS.names()
    series = published(name).series
    assert series
    assert all(s.source and s.about["data"] for s in series)
    methods = {s.about["method"] for s in series if "method" in s.about}
    assert methods <= {*names(), "all labels"}


@pytest.mark.parametrize(
    ("name", "at", "about", "value"),
    [
        ("table-1", 10, {"method": "expected-gradnorm"}, 703),
        ("table-1", 40, {"method": "sraal"}, 2196),
        ("table-2", 6, {"quantity": "criterion"}, 2482),
        ("table-3", 15, {"method": "mc-dropout"}, 16.14),
        ("table-3", 40, {"method": "entropy-gradnorm"}, 5.65),
        ("table-4", 6, {"scheme": "entropy-gradnorm"}, 2250),
        ("table-6", 40, {"method": "expected-gradnorm", "quantity": "deeper"}, 94.1),
        ("table-6", 3, {"method": "entropy-gradnorm", "quantity": "class"}, 93.34),
        ("table-9", 40, {"data": "svhn", "method": "core-set"}, 26.61),
        ("figure-1", 40, {"data": "cifar10", "method": "entropy-gradnorm"}, 94.39),
        ("figure-1", 100, {"data": "cifar10", "method": "all labels"}, 93.16),
        ("figure-1", 20, {"data": "caltech101", "method": "sraal"}, 82.0),
        ("figure-2", 30, {"data": "imagenet", "method": "vaal"}, 53.3),
    ],
)
def test_numbers_are_those_of_the_paper(name, at, about, value):
    assert published(name).number(at, **about).value == value


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("table-1", 47643),
        ("table-2", 34364),
        ("table-3", 405.84),
        ("table-4", 14515 + 14516),
        ("table-6", 644.58 + 26032 + 961.9 + 961.25),
        ("table-9", 164.68),
    ],
)
def test_whole_tables_add_up_to_what_the_printed_ones_do(name, total):
    values = [value for series in published(name).series for value in series.values]
    assert sum(values) == pytest.approx(total, abs=1e-6)


def test_bounds_of_the_figure_are_what_the_gaps_leave():
    gaps, bounds = published("table-3"), published("figure-1").find(quantity="bound")
    assert bounds
    for series in bounds:
        for at, bound in zip(series.at, series.values, strict=True):
            gap = gaps.number(at, method=series.about["method"])
            assert bound == pytest.approx(100 - gap.value)


def test_a_gap_in_a_series_is_no_number_and_the_first_source_wins():
    told = Published(
        (
            Series(about={"method": "a"}, at=(1, 2), values=(float("nan"), 5.0), source="one"),
            Series(about={"method": "a"}, at=(1, 2), values=(3.0, 6.0), source="two"),
        )
    )
    assert told.number(1, method="a") == Number(3.0, "two")
    assert told.number(2, method="a") == Number(5.0, "one")
    assert told.number(3, method="a") is None
    assert told.number(1, method="b") is None
    assert len(published_table(told).rows) == 4


def test_series_without_source_or_with_too_few_values_are_refused():
    with pytest.raises(ConfigError):
        Series(about={}, at=(1.0,), values=(1.0,), source="")
    with pytest.raises(ConfigError):
        Series(about={}, at=(1.0, 2.0), values=(1.0,), source="here")


def test_what_nobody_has_published_is_empty():
    assert published("no-such-artefact").series == ()
