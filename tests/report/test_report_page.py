from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from fake_runs import make_entry, write_comparison, write_run

from steepest.core.journal import Journal
from steepest.experiment.report import write_report
from steepest.experiment.report.results import _corrected_note

VOID = {"meta", "img", "br"}
NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


class Checker(HTMLParser):
    """Collects what a page is made of, and complains about tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page_of(folder) -> str:
    return write_report(folder).html.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    return page_of(write_comparison(tmp_path_factory.mktemp("page")))


@pytest.fixture(scope="module")
def checked(page) -> Checker:
    return Checker(page)


def test_the_page_asks_for_nothing_from_outside(page, checked):
    assert set(re.findall(r"https?://[^\"'\s<)]+", page)) <= NAMESPACES
    assert not checked.of("link")
    assert not checked.of("script")
    assert "@import" not in page
    assert "//" not in "".join(re.findall(r"url\(([^)]*)\)", page))
    sources = [
        value
        for _, attributes in checked.tags
        for name, value in attributes.items()
        if name == "src"
    ]
    assert sources
    assert all(str(value).startswith("data:") for value in sources)
    targets = [v for _, a in checked.tags for name, v in a.items() if name.endswith("href")]
    assert all(str(value).startswith("#") for value in targets)


def test_ids_are_unique(checked):
    ids = [attributes["id"] for _, attributes in checked.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_tables_pictures_and_figures_are_accessible(checked):
    assert all(attributes.get("scope") in {"col", "row"} for attributes in checked.of("th"))
    assert all(attributes.get("alt") for attributes in checked.of("img"))
    assert len(checked.of("caption")) == len(checked.of("table")) > 4
    assert all(a.get("role") == "img" and a.get("aria-label") for a in checked.of("svg"))
    assert checked.of("html")[0]["lang"] == "en"
    assert len(checked.of("h1")) == 1
    assert len(checked.of("main")) == 1


def test_the_page_adapts_to_dark_screens_and_phones(page, checked):
    assert "prefers-color-scheme: dark" in page
    viewports = [a for a in checked.of("meta") if a.get("name") == "viewport"]
    assert viewports[0]["content"] == "width=device-width, initial-scale=1"


def test_the_header_says_what_was_run_where(checked):
    for said in (
        "digits",
        "0, 1, 2 (9 of 9 runs complete)",
        "40 to 100 in 4 cycles",
        "device cpu, threads 1, platform Linux-6.1-x86_64",
        "steepest 0.1.0, torch 2.13.0, python 3.11.7",
        "steepest compare digits --seeds 3",
        "margin reached random's final accuracy",
    ):
        assert said in checked.text


def test_every_section_is_there(checked):
    sections = [attributes["id"] for attributes in checked.of("section")]
    assert sections == [
        "curves", "results", "tests", "penalty", "classes", "regime", "choices", "gallery", "made",
    ]  # fmt: skip


def test_the_penalty_matrix_tells_its_orientation(checked):
    assert "a row's mean is how often it wins (higher is better)" in checked.text
    assert "a column's mean how often it is beaten (lower is better)" in checked.text


def test_numbers_that_are_no_tests_say_so(checked):
    assert "That is no test: a strategy no better than random reaches it" in checked.text
    assert "Of two equal strategies each wins 0.025 by chance." in checked.text
    assert "Faint lines are the single seeds." in checked.text


def test_the_caption_explains_bands_from_five_seeds_on(tmp_path):
    text = Checker(page_of(write_comparison(tmp_path, seeds=range(5)))).text
    assert "confidence intervals of the mean (Student's t), each budget by itself." in text
    assert "Faint lines" not in text


def test_few_seeds_are_told_in_the_tests(checked):
    assert "Wilcoxon's p cannot fall below 0.25" in checked.text
    assert "The intervals are not corrected" in checked.text


def test_the_correction_can_make_too_few_of_enough_seeds():
    assert _corrected_note([6]) == _corrected_note([7, 7]) == _corrected_note([6, 7]) == []
    (told,) = _corrected_note([6, 6])
    assert "n = 6 seeds and 2 strategies Wilcoxon's corrected p cannot fall below 0.0625" in told


def test_the_regime_is_explained_and_marked(checked):
    assert "vanishes where the prediction is uniform" in checked.text
    assert checked.text.count("0.200 ▼") == 2


def test_classes_have_names_and_untested_ones_a_dash(page):
    rows = re.findall(r'<tr><th scope="row">(\d)</th>(.*?)</tr>', page.split('id="classes"')[1])
    by_class = dict(rows[:10])
    assert list(by_class) == list("0123456789")
    assert "<td>–</td>" in by_class["0"]  # margin never tested class 0
    assert by_class["1"].count("background-color") == 3


def test_hostile_names_stay_text(tmp_path):
    strategies = ["<script>alert(1)", '"><img src=x onerror=alert(2)>', "random"]
    folder = write_comparison(
        tmp_path,
        strategies,
        seeds=(0, 1),
        cycles=2,
        name="</title><script>alert(3)</script>",
        data="<b>data</b>",
        command="steepest compare '</code><iframe>'",
    )
    hostile = page_of(folder)
    checked = Checker(hostile)
    assert not checked.of("script")
    assert not checked.of("iframe")
    assert not checked.of("img")
    assert not checked.of("b")
    assert "</title><script>alert(3)</script>" in checked.text
    assert "onerror" not in {name for _, attributes in checked.tags for name in attributes}


def test_an_incomplete_comparison_says_so_and_shows_what_is_there(tmp_path):
    folder = write_comparison(tmp_path, cut=[("margin", 1)], missing=[("random", 2)])
    checked = Checker(page_of(folder))
    assert "7 of 9 runs complete." in checked.text
    assert "Thin lines with markers are runs that are not in the statistics." in checked.text
    told = checked.text.replace("\u00a0", " ")
    assert "averaged over n = 1 to 2 seeds" in told
    assert "random: entropy-gradnorm 0, 1; margin 0; random 0, 1." in told


def test_a_comparison_without_a_complete_run_still_has_curves(tmp_path):
    runs = [(name, 0) for name in ("margin", "random")]
    folder = write_comparison(tmp_path, ("margin", "random"), seeds=(0,), cut=runs)
    checked = Checker(page_of(folder))
    sections = [attributes["id"] for attributes in checked.of("section")]
    assert sections == ["curves", "classes", "regime", "gallery", "made"]
    assert "No statistics yet" in checked.text


def test_a_comparison_that_has_not_begun_makes_a_page(tmp_path):
    folder = write_comparison(tmp_path, ("margin",), seeds=(0,), missing=[("margin", 0)])
    assert "0 of 1 run complete" in Checker(page_of(folder)).text


def test_a_single_run_has_no_comparison_tables(tmp_path):
    checked = Checker(page_of(write_run(tmp_path, "entropy-gradnorm", 3, cycles=3)))
    sections = [attributes["id"] for attributes in checked.of("section")]
    assert sections == ["curves", "results", "classes", "regime", "gallery", "made"]
    assert "labels saved" not in checked.text.lower()
    assert "entropy-gradnorm reached a test accuracy" in checked.text
    assert "steepest 0.1.0" in checked.text


def test_one_number_in_place_of_one_for_each_class_makes_no_table_of_classes(tmp_path):
    folder = tmp_path / "run"
    journal = Journal(folder / "records.jsonl")
    for cycle in range(2):
        entry = make_entry("margin", 0, cycle, 2)
        journal.append({**entry, "metrics": {**entry["metrics"], "per_class_accuracy": 0.5}})
    assert "by class" not in Checker(page_of(folder)).text
    assert "by class" in Checker(page_of(write_run(tmp_path / "whole", "margin", 0, cycles=2))).text


def test_what_strategies_choose_in_common_is_told_by_pair(page, checked):
    shown = page.split('id="choices"')[1].split("</section>")[0]
    tables = [re.findall(r"<td[^>]*>(.*?)</td>", part) for part in shown.split("<table>")[1:]]
    assert [len(cells) for cells in tables] == [9, 12]
    assert [cells[0] for cells in tables] == ["–", "–"]
    assert "In common of all that was chosen, n = 3" in checked.text
    assert "itself, other seed" in shown


def test_one_seed_has_no_other_seed_to_choose_alike(tmp_path):
    page = page_of(write_comparison(tmp_path, seeds=(0,), cycles=2))
    assert 'id="choices"' in page
    assert "itself, other seed" not in page
