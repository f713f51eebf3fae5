"""How people really use the page: double clicks, many classes, other keyboards, slow reading."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "labelling" / "web"))

from drawn_shapes import draw_shapes
from label_server import LabelServer
from test_label_browser import CHROMIUM, OPTIONS, asked, browser, enter, wait_until_seen

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Chromium is not installed"),
]
MANY = ("bobcat", "cat", "catfish", *(f"kind {number}" for number in range(20)))
OFTEN = ("--classes", ",".join(MANY))


@pytest.fixture
def photos(tmp_path):
    return draw_shapes(tmp_path / "photos", 30, 60)


def said(page):
    return page.locator(".strip strong").inner_text()


def labelled(page):
    page.reload()
    page.wait_for_load_state("load")
    return int(page.inner_text("#panel .big").split()[0])


def write(page, text):
    """Look for a class by letters, and take it."""
    before = asked(page)
    wait_until_seen(page)
    page.keyboard.press("/")
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    page.wait_for_function("was => document.querySelector('#sample')?.value !== was", arg=before)


def test_the_second_half_of_a_double_click_does_not_answer_the_next_image(photos):
    with LabelServer(photos, *OPTIONS) as server, browser() as chromium:
        page = enter(chromium, server, "ann")
        first = asked(page)
        page.locator(".choice").nth(1).click()
        page.wait_for_function("was => document.querySelector('#sample').value !== was", arg=first)
        second = asked(page)
        page.evaluate("shownAt = seenAt = performance.now()")
        page.evaluate("document.querySelectorAll('.choice')[1].click()")
        page.evaluate("document.querySelector('[data-key=s]').click()")
        page.wait_for_timeout(400)
        assert asked(page) == second
        page.locator(".choice").nth(1).click()
        page.wait_for_function("was => document.querySelector('#sample').value !== was", arg=second)
        assert labelled(page) == 2
        assert page.complaints == []


def test_an_image_that_is_not_there_yet_can_be_skipped_and_not_answered(photos):
    with LabelServer(photos, *OPTIONS) as server, browser() as chromium:
        page = enter(chromium, server, "bo")
        page.evaluate("seenAt = 0")
        page.keyboard.press("1")
        page.wait_for_timeout(300)
        assert labelled(page) == 0
        wait_until_seen(page)
        before = asked(page)
        page.evaluate("seenAt = 0")
        page.keyboard.press("s")
        page.wait_for_function("was => document.querySelector('#sample').value !== was", arg=before)


def test_letters_find_the_whole_name_first_and_nothing_is_answered_without_any(photos):
    with LabelServer(photos, *OFTEN) as server, browser() as chromium:
        page = enter(chromium, server, "cy")
        first = asked(page)
        for typed in ("", "no such class", "  "):
            page.keyboard.press("/")
            page.keyboard.type(typed)
            page.keyboard.press("Enter")
            page.wait_for_timeout(100)
            assert asked(page) == first
            page.keyboard.press("Escape")
        for typed, expected in (("cat", "cat"), ("catf", "catfish"), ("bob", "bobcat")):
            write(page, typed)
            assert said(page) == expected
        write(page, "7")  # not the key of a class
        assert said(page) == "kind 7"
        assert page.complaints == []


def test_enter_that_ends_a_composition_answers_nothing(photos):
    with LabelServer(photos, *OFTEN) as server, browser() as chromium:
        page = enter(chromium, server, "di")
        before = asked(page)
        page.keyboard.press("/")
        page.keyboard.type("cat")
        page.evaluate(
            "document.querySelector('#find').dispatchEvent(new KeyboardEvent('keydown', "
            "{key: 'Enter', isComposing: true, bubbles: true}))"
        )
        page.wait_for_timeout(200)
        assert (asked(page), page.input_value("#find")) == (before, "cat")


def test_the_digits_row_works_on_keyboards_that_need_shift_for_digits(photos):
    with LabelServer(photos, *OPTIONS) as server, browser() as chromium:
        page = enter(chromium, server, "ed")
        before = asked(page)
        page.evaluate(
            "document.body.dispatchEvent(new KeyboardEvent('keydown', "
            "{key: 'é', code: 'Digit2', bubbles: true}))"
        )
        page.wait_for_function("was => document.querySelector('#sample').value !== was", arg=before)
        assert said(page) == "square"


@pytest.mark.parametrize("several", [False, True])
def test_in_the_grid_every_class_can_be_reached_by_letters(photos, several):
    options = (*OFTEN, "--multi-label") if several else OFTEN
    with LabelServer(photos, *options) as server, browser() as chromium:
        page = enter(chromium, server, "flo")
        page.keyboard.press("g")
        page.wait_for_selector(".cell:focus")
        page.wait_for_load_state("load")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("/")
        page.keyboard.type("kind 19")
        page.keyboard.press("Enter")
        if several:
            page.wait_for_selector(".cell:focus-within input:checked", state="attached")
            page.keyboard.press("Enter")
        page.wait_for_selector(".cell.done")
        assert page.locator(".cell.done strong").inner_text() == "kind 19"
        assert page.locator(".cell").nth(1).get_attribute("class") == "cell done"
        assert page.complaints == []


def test_figures_that_are_fetched_anew_leave_the_focus_where_it_was(photos):
    with LabelServer(photos, *OPTIONS) as server, browser() as chromium:
        page = enter(chromium, server, "gus")
        page.goto(f"{server.base}/progress")
        page.wait_for_load_state("load")
        here = page.get_by_role("link", name="Labelled", exact=True)
        here.focus()
        with page.expect_response("**/figures*"):
            pass
        page.evaluate("latest.clear()")  # as if something had changed
        page.evaluate("document.querySelector('#panel a').dataset.old = 'yes'")
        page.wait_for_function("() => !document.querySelector('#panel a').dataset.old")
        assert page.evaluate("document.activeElement.textContent") == "Labelled"
        assert page.complaints == []


def test_while_nothing_waits_the_page_can_be_left_by_keys(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 2, 60)
    with LabelServer(photos, *OPTIONS) as server, browser() as chromium:
        page = enter(chromium, server, "hal")
        for _ in range(2):
            wait_until_seen(page)
            with page.expect_response("**/answer"):
                page.keyboard.press("1")
        page.wait_for_selector("text=Nothing waits for you")
        for _ in range(2):
            with page.expect_response("**/task"):
                pass
        page.locator("a", has_text="Export the labels").focus()
        for _ in range(2):
            with page.expect_response("**/task"):
                pass
        page.wait_for_timeout(200)
        assert page.evaluate("document.activeElement.textContent") == "Export the labels"
