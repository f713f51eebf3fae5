"""The labelling page by the rules of axe, in both themes, on a screen and on a telephone."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "labelling" / "web"))

from drawn_shapes import SHAPES, draw_shapes, truth
from label_server import LabelServer, samples_in
from test_label_browser import CHROMIUM, browser, enter

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Chromium is not installed"),
    pytest.mark.skipif(
        find_spec("axe_playwright_python") is None, reason="axe-playwright-python is not installed"
    ),
]
PAGES = ("/", "/grid", "/progress", "/review", "/history", "/images", "/files", "/accept?above=90")
SIZES = ((1280, 860), (390, 844))
SERIOUS = {"serious", "critical"}


def read_axe() -> str:
    found = find_spec("axe_playwright_python")
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def answer_some(person, count):
    """Label images as somebody does who never errs, and wait for what models say of the rest."""
    person.wait_for("/panel", "Batch 1")
    page = person.get("/task")
    for _ in range(count):
        sample = samples_in(page)[0]
        page = person.post("/answer", sample=sample, label=truth(sample))
    person.wait_for("/panel", "Train now")
    person.wait_for("/files", "has predictions")


def test_no_page_has_a_serious_finding(tmp_path):
    photos, axe = draw_shapes(tmp_path / "photos", 80, 60), read_axe()
    found, wide = [], []
    with LabelServer(photos, "--classes", ",".join(SHAPES)) as server, browser() as chromium:
        answer_some(server.person("ann"), 40)
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
                        wide.append((address, width))
        assert page.complaints == []
    assert found == []
    assert wide == []


def test_sure_predictions_are_accepted_and_taken_back_by_keys(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 120, 60)
    with LabelServer(photos, "--classes", ",".join(SHAPES)) as server, browser() as chromium:
        answer_some(server.person("ann"), 60)
        page = enter(chromium, server, "bo")
        page.goto(f"{server.base}/accept?above=90")
        page.wait_for_load_state("load")
        boxes = page.locator("input[name=sample]")
        count = boxes.count()
        boxes.first.focus()
        page.keyboard.press("Space")
        with page.expect_navigation():
            page.get_by_role("button", name="Accept those ticked").press("Enter")
        assert f"bo accepted {count - 1}" in page.inner_text("main")
        with page.expect_navigation():
            page.get_by_role("button", name="Undo").first.press("Enter")
        assert "0 of them hold" in page.inner_text("main")
        assert page.complaints == []
