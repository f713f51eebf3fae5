"""The figures on the page add up, and everybody can get at them."""

from __future__ import annotations

import re

import pytest
from drawn_shapes import draw_shapes
from web_pages import open_pages

from steepest.labelling.web import filters

FACT = re.compile(r'state=(\w+)">[^<]*</a></dt><dd>(\d+)</dd>')
PARTS = ("labelled", "skipped", "disputed", "unanswered")


@pytest.fixture
def photos(tmp_path):
    return draw_shapes(tmp_path / "photos", 9)


@pytest.mark.parametrize("overlap", [1, 2])
def test_every_image_is_in_one_of_the_four_parts(photos, overlap):
    names = sorted(path.name for path in photos.iterdir())
    (photos / names[6]).write_bytes((photos / names[7]).read_bytes())
    with open_pages(photos, overlap=overlap) as (project, client):
        queue = project.queue
        queue.answer("ann", names[0], ["cat"])
        queue.answer("ann", names[1], ["cat"])
        queue.answer("bo", names[1], ["dog"])
        queue.skip("bo", names[1])
        queue.answer("bo", names[1], ["dog"])
        queue.skip("ann", names[2])
        queue.skip("ann", names[3])
        (photos / names[0]).unlink()
        (photos / names[3]).unlink()
        (photos / names[4]).unlink()
        project.rescan()
        page = client.get("/figures").text
        facts = {state: int(count) for state, count in FACT.findall(page)}
        assert {part: facts[part] for part in PARTS} == {
            "labelled": 1,
            "skipped": 2,
            "disputed": 1,
            "unanswered": 5,
        }
        assert "<dd>9</dd>" in page
        for state, count in facts.items():
            listed = client.get("/images", params={"state": state}).text
            assert listed.count('class="tile"') == count
        seen = [s.sample for part in PARTS for s in queue.samples(state=part)]
        assert sorted(seen) == names


def test_tables_that_are_wider_than_the_window_can_be_reached_by_keys(photos):
    with open_pages(photos) as (_, client):
        page = client.get("/progress").text
        wide = re.findall(r'<div class="scroll"[^>]*>', page)
        assert wide
        assert all('tabindex="0" role="region" aria-label="' in one for one in wide)


@pytest.mark.parametrize("several", [False, True])
def test_the_classes_of_a_grid_say_their_keys(photos, several):
    with open_pages(photos, multi_label=several) as (_, client):
        page = client.get("/grid").text
        for key, name in (("1", "cat"), ("2", "dog"), ("3", "owl")):
            assert page.count(f"<kbd>{key}</kbd>{name}</") == 9
        assert page.count("<kbd>s</kbd>skip") == 9


def test_messages_become_sentences_with_shares_as_on_the_rest_of_the_page():
    said = "reached: 97.0% with 142 labels (95 % interval 84.7% to 99.5%)"
    expected = "Reached: 97.0 % with 142 labels (95 % interval 84.7 % to 99.5 %)."
    assert filters.sentence(said) == expected
