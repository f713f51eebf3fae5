from __future__ import annotations

import json

import pytest

from steepest.data.label_table import read_labels
from steepest.errors import InputError

IDS = ("cats/1.jpg", "cats/2.jpg", "dogs/1.jpg", "dogs/ä.png", "rest/x, y.jpg")

FORMS = {
    "with a heading": ("l.csv", "id,label\ncats/1.jpg,cat\ndogs/1.jpg,dog\n"),
    "without one": ("l.csv", "cats/1.jpg,cat\ndogs/1.jpg,dog\n"),
    "a heading of their own": ("l.csv", "photo name,breed\ncats/1.jpg,cat\ndogs/1.jpg,dog\n"),
    "other words and columns": (
        "l.csv", "split,category,file_name\na,cat,cats/1.jpg\na,dog,dogs/1.jpg\n",
    ),
    "the class first": ("l.csv", "cat,cats/1.jpg\ndog,dogs/1.jpg\n"),
    "the class first, with half a heading": ("l.csv", "label,x\ncat,cats/1.jpg\ndog,dogs/1.jpg\n"),
    "semicolons and a mark": ("l.csv", "\ufeffFilename;Class\r\ncats/1.jpg;cat\r\ndogs/1.jpg;dog"),
    "tabs": ("l.tsv", "image\tlabel\ncats/1.jpg\tcat\ndogs/1.jpg\tdog\n"),
    "backslashes": ("l.csv", "id,label\ncats\\1.jpg,cat\n.\\dogs\\1.jpg,dog\n"),
    "a folder above": ("l.csv", "id,label\nphotos/cats/1.jpg,cat\n./dogs/1.jpg,dog\n"),
    "without endings": ("l.csv", "id,label\ncats/1,cat\ndogs/1,dog\n"),
    "blank lines and no answer yet": (
        "l.csv", "id,label\n\ncats/1.jpg, cat \ncats/2.jpg,\ndogs/1.jpg,dog\n",
    ),
    "JSON lines": (
        "l.jsonl", '{"id": "cats/1.jpg", "label": "cat"}\n{"file": "dogs/1.jpg", "class": "dog"}\n',
    ),
    "one object": ("l.json", json.dumps({"cats/1.jpg": "cat", "dogs/1.jpg": "dog"})),
    "a list": (
        "l.json",
        json.dumps([{"image": "cats/1.jpg", "labels": ["cat"]}, {"id": "dogs/1.jpg", "y": "dog"}]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_labels_are_read_as_people_write_them(tmp_path, form):
    name, text = FORMS[form]
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    found = read_labels(tmp_path / name, IDS)
    assert found.labels == {"cats/1.jpg": "cat", "dogs/1.jpg": "dog"}
    assert found.unknown == ()


def test_names_are_found_by_their_end_where_that_is_clear(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text('id,label\n2.jpg,cat\n1.jpg,cat\na\u0308.png,dog\n"rest/x, y.jpg",dog\n')
    found = read_labels(path, IDS)
    assert found.labels == {"cats/2.jpg": "cat", "dogs/ä.png": "dog", "rest/x, y.jpg": "dog"}
    assert found.unknown == ("1.jpg",)  # of which there are two


def test_absolute_paths_are_those_below_the_folder(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text(f"id,label\n{tmp_path}/photos/cats/1.jpg,cat\n/elsewhere/rest/z.jpg,dog\n")
    found = read_labels(path, IDS, tmp_path / "photos")
    assert found.labels == {"cats/1.jpg": "cat"}
    assert found.unknown == ("/elsewhere/rest/z.jpg",)


def test_numbered_samples_go_by_their_number(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("id,label\n3,cat\n0,dog\n")
    assert read_labels(path, range(5)).labels == {3: "cat", 0: "dog"}


def test_what_was_skipped_and_what_waits_is_counted(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("id,label,skip\ncats/1.jpg,,blurred\ncats/2.jpg,,no\ndogs/1.jpg,dog,\n")
    found = read_labels(path, IDS)
    assert (found.labels, found.skipped, found.waiting) == (
        {"dogs/1.jpg": "dog"}, {"cats/1.jpg"}, 1,
    )  # fmt: skip


def test_files_are_put_together(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("cats/1.jpg,cat\ndogs/1.jpg,dog\n")
    second.write_text("cats/1.jpg,cat\ncats/2.jpg,cat\n")
    both = read_labels(first, IDS).and_also(read_labels(second, IDS), second)
    assert len(both.labels) == 3
    second.write_text("cats/1.jpg,dog\n")
    with pytest.raises(InputError, match=r"'cats/1.jpg' is 'dog' here and 'cat'"):
        read_labels(first, IDS).and_also(read_labels(second, IDS), second)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("l.csv", "id,label\nfoo.jpg,cat\n", r"none of its 1 row names .*'foo.jpg'.*'cats/1.jpg'"),
        ("l.csv", "id,label\ncats/1.jpg,cat\ncats/1.jpg,dog\n", r"line 3: .*'cat' in line 2"),
        ("l.csv", "cats/1.jpg\ncats/2.jpg\n", "one column"),
        ("l.csv", "a,b,c\n1,2,3\n", "call them id and label"),
        ("l.csv", "id,label\ncats/1.jpg\n", r"line 2: has 1 cell"),
        ("l.csv", "  \n", "is empty"),
        ("l.jsonl", "cats/1.jpg cat\n", "line 1: is no JSON"),
        ("l.json", '[{"id": "cats/1.jpg", "label": ["cat", "dog"]}]', "not one class"),
        ("l.xlsx", "id", r"read from \.csv"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=said):
        read_labels(tmp_path / name, IDS)
