"""The labelling page on a telephone, and its tables by keys."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "labelling" / "web"))

from drawn_shapes import draw_shapes
from label_server import LabelServer
from test_label_browser import CHROMIUM, OPTIONS, browser, enter

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Chromium is not installed"),
]
PAGES = ("/", "/grid", "/progress", "/review", "/history", "/images", "/files")
OUTSIDE = """() => [...document.querySelectorAll('nav a, button, .card')].filter(one => {
    const box = one.getBoundingClientRect();
    return box.width && (box.left < 0 || box.right > innerWidth + 0.5);
}).map(one => one.textContent.trim())"""


@pytest.fixture
def photos(tmp_path):
    return draw_shapes(tmp_path / "photos", 30, 60)


def test_on_a_telephone_nothing_is_cut_off_and_no_key_is_asked_for(photos):
    with LabelServer(photos, *OPTIONS) as server, browser() as chromium:
        page = enter(chromium, server, "ann", has_touch=True, is_mobile=True)
        page.set_viewport_size({"width": 390, "height": 844})
        for address in PAGES:
            page.goto(server.base + address)
            page.wait_for_load_state("load")
            assert page.locator("nav a:visible").count() == 7
            assert page.evaluate(OUTSIDE) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            # The button for help is named by its key.
            shown = page.locator("main kbd:visible").all_inner_texts()
            assert shown == []
            assert "keys" not in page.inner_text("main").lower()
        assert page.complaints == []


def test_a_wide_table_is_reached_by_keys_and_stays_where_it_was(photos):
    with LabelServer(photos, *OPTIONS) as server, browser() as chromium:
        page = enter(chromium, server, "a name that is as long as names may be on this page today")
        page.set_viewport_size({"width": 330, "height": 700})
        page.goto(f"{server.base}/progress")
        page.wait_for_load_state("load")
        page.evaluate("document.querySelector('.scroll table').style.width = '900px'")
        table = page.locator(".scroll[aria-label=Speed]")
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.className") == "scroll":
                break
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => document.querySelector('.scroll').scrollLeft > 0")
        page.evaluate("latest.clear(); document.querySelector('.scroll').dataset.old = 'yes'")
        page.wait_for_function("() => !document.querySelector('.scroll').dataset.old")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Speed"
        assert table.count() == 1
        assert page.complaints == []
