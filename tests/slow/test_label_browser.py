"""The labelling page in a real browser, by its keys.

It needs Chromium and the extra ``steepest[browser]``. Run as a program, it takes the pictures of
docs/label.md: ``python tests/slow/test_label_browser.py docs/images``.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "labelling" / "web"))

from drawn_shapes import SHAPES, draw_shapes, truth
from label_server import LabelServer, samples_in

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
SWITCHES = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Chromium is not installed"),
]
OPTIONS = ("--classes", ",".join(SHAPES), "--retrain-every", "12", "--epochs", "3")


@contextmanager
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as tools:
        chromium = tools.chromium.launch(executable_path=CHROMIUM, args=list(SWITCHES))
        yield chromium
        chromium.close()


def enter(chromium, server, name, **context):
    """Open the page as somebody, and note every complaint of the browser."""
    page = chromium.new_context(viewport={"width": 1280, "height": 860}, **context).new_page()
    page.complaints = []
    page.on("console", lambda message: note(page, message))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda request: check_address(page, server, request.url))
    page.goto(server.url)
    page.fill("#name", name)
    page.press("#name", "Enter")
    page.wait_for_selector("#photo")
    page.wait_for_load_state("load")
    wait_until_seen(page)
    return page


def note(page, message):
    # The address with the token is answered by an error, so that browsers do not suggest it.
    if "/?token=" not in message.location["url"]:
        page.complaints.append(message.text)


def wait_until_seen(page):
    """Wait as long as people need to see an image: what comes sooner was meant for another."""
    page.wait_for_function(
        "() => typeof ready !== 'undefined' && ready && !busy && !isTooEarly('/answer')"
    )


def check_address(page, server, address):
    if not address.startswith((server.base, "data:")):
        page.complaints.append(f"asked for {address}")


def asked(page):
    return page.input_value("#sample")


def key_of(sample):
    return str(1 + SHAPES.index(truth(sample)))


def press(page, key, address):
    """Press a key and wait for what it brings."""
    before = asked(page)
    wait_until_seen(page)
    with page.expect_response(f"**{address}*"):
        page.keyboard.press(key)
    page.wait_for_function("was => document.querySelector('#sample')?.value !== was", arg=before)
    page.wait_for_function("() => document.querySelector('#photo')?.complete !== false")
    return before


def test_label_skip_undo_retrain_and_reload(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 60, 60)
    with LabelServer(photos, *OPTIONS) as server, browser() as chromium:
        page = enter(chromium, server, "ann")
        assert "token" not in page.url
        first = asked(page)
        press(page, key_of(first), "/answer")
        assert page.locator(".strip strong").inner_text() == truth(first)
        skipped = press(page, "s", "/skip")
        assert press(page, "u", "/undo") != skipped
        assert asked(page) == skipped
        held = asked(page)
        page.reload()
        page.wait_for_load_state("load")
        assert asked(page) == held
        press(page, "b", "/again")
        assert asked(page) == first
        assert page.locator('[aria-pressed="true"]').inner_text().endswith(truth(first))
        page.keyboard.press("Escape")
        page.wait_for_selector("article:not(.again)")
        page.wait_for_load_state("load")
        answered = 1
        # The first picks may come early or late; a model follows the first finished batch.
        while answered < 50 and not page.locator("#panel .curve").count():
            press(page, key_of(asked(page)), "/answer")
            answered += 1
        page.wait_for_selector("#panel .curve", timeout=120_000)
        assert re.search(r"Model \d", page.inner_text("#panel"))
        page.reload()
        page.wait_for_load_state("load")
        assert page.inner_text("#panel .big").startswith(f"{answered} ")
        assert page.complaints == []
        assert server.end()[0] == 0


def test_the_address_with_the_token_is_not_in_the_history_that_people_see(tmp_path):
    playwright = pytest.importorskip("playwright.sync_api")
    photos = draw_shapes(tmp_path / "photos", 5)
    with LabelServer(photos, *OPTIONS) as server, playwright.sync_playwright() as tools:
        chromium = tools.chromium.launch_persistent_context(
            tmp_path / "profile",
            executable_path=CHROMIUM,
            headless=False,
            args=["--headless=new", *SWITCHES[1:]],  # the old kind keeps no history
        )
        page = chromium.pages[0]
        page.goto(server.url)
        page.wait_for_selector("#name")
        assert page.url == f"{server.base}/"
        page.go_back()
        assert page.url == "about:blank"
        chromium.close()
    with closing(sqlite3.connect(tmp_path / "profile" / "Default" / "History")) as history:
        seen = {row[0] for row in history.execute("SELECT url FROM urls WHERE NOT hidden")}
    assert seen == {f"{server.base}/"}


def test_zoom_help_and_grid_work_without_a_mouse(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 20, 60)
    with LabelServer(photos, *OPTIONS) as server, browser() as chromium:
        page = enter(chromium, server, "bo")
        page.keyboard.press("z")
        page.wait_for_selector("#zoom[open]")
        page.wait_for_function("() => document.querySelector('#zoom output').textContent")
        before = page.inner_text("#zoom output")
        page.keyboard.press("+")
        assert page.inner_text("#zoom output") != before
        page.keyboard.press("1")  # answers nothing while zoomed
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        page.wait_for_selector("#help[open]")
        page.keyboard.press("Escape")
        assert "0 of 20" in page.inner_text("#panel .big").replace("\n", " ")
        page.keyboard.press("g")
        page.wait_for_selector(".cell:focus")
        page.wait_for_load_state("load")
        page.keyboard.press("ArrowRight")
        sample = page.locator(".cell:focus [name=sample]").input_value()
        assert sample == page.locator(".cell [name=sample]").nth(1).input_value()
        with page.expect_response("**/answer"):
            page.keyboard.press(key_of(sample))
        page.wait_for_selector(".cell.done")
        assert page.locator(".cell.done strong").inner_text() == truth(sample)
        assert page.complaints == []


def test_several_classes_are_switched_by_keys_and_sent_by_enter(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 8, 60)
    with LabelServer(photos, *OPTIONS, "--multi-label") as server, browser() as chromium:
        page = enter(chromium, server, "cy")
        page.keyboard.press("2")
        page.keyboard.press("4")
        page.keyboard.press("1")
        page.keyboard.press("1")
        assert page.inner_text("[data-send] span") == "Send square, star"
        press(page, "Enter", "/answer")
        assert page.locator(".strip strong").inner_text() == "square, star"
        assert page.complaints == []


def test_a_lost_server_is_said_and_the_answer_not_claimed(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 8, 60)
    with LabelServer(photos, *OPTIONS) as server, browser() as chromium:
        page = enter(chromium, server, "di")
        server.kill()
        before = asked(page)
        page.keyboard.press("1")
        page.wait_for_selector("#alert:not([hidden])")
        assert "Not saved" in page.inner_text("#alert")
        assert asked(page) == before


def take_pictures(folder: Path) -> None:
    """Label drawn shapes for a while, with a few mistakes, and show the pages."""
    with tempfile.TemporaryDirectory() as scratch:
        photos = draw_shapes(Path(scratch) / "shapes", 400, 240)
        options = ("--classes", ",".join(SHAPES))
        with LabelServer(photos, *options) as server, browser() as chromium:
            _work_a_while(server.person("ann"))
            page = enter(chromium, server, "bo")
            for _ in range(3):
                press(page, key_of(asked(page)), "/answer")
            page.wait_for_timeout(4000)  # figures are fetched every few seconds
            _shoot(page, folder / "label-one.png")
            for key, name in (("g", "grid"), ("r", "review"), ("p", "progress")):
                page.keyboard.press(key)
                page.wait_for_selector(f"main.page-{name}")
                page.wait_for_load_state("networkidle")
                if name == "progress":
                    page.emulate_media(color_scheme="dark")
                _shoot(page, folder / f"label-{name}.png", 460 if name == "review" else 860)


def _shoot(page, path: Path, height: int = 860) -> None:
    page.set_viewport_size({"width": 1280, "height": height})
    page.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").save(path, optimize=True)
    page.set_viewport_size({"width": 1280, "height": 860})


def _work_a_while(person) -> None:
    chance = random.Random(0)
    person.wait_for("/panel", "Batch 1")
    for _ in range(5):
        page = person.get("/task")
        for _ in range(35):
            sample = samples_in(page)[0]
            label = truth(sample) if chance.random() > 0.03 else chance.choice(SHAPES)
            page = person.post("/answer", sample=sample, label=label)
        person.wait_for("/panel", "Train now")
    person.wait_for("/files", "has predictions")


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]))
