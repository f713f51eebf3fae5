"""Label files: read in every format, all of them or nothing, the same twice is once."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image
from small_exchange import IDS, journal, labels_of, make_folder

from steepest.errors import (
    DataError,
    InputError,
    JournalError,
    PoolError,
    RunFolderError,
    SteepestError,
)
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.exchange.ingest import ingest as ingest_labels
from steepest.labelling.exchange.rounds import Round
from steepest.labelling.exchange.vocabulary import Vocabulary
from steepest.labelling.label_studio.annotations import ingest_export
from steepest.pool import State, Verb
from steepest.selecting.selection import Selection

CSV = 'id,label\na.png,cat\n"b, c.png",dog\nä d.png,2\n'


def ingest(path, folder, **how):
    """Ingest a file as the command does, by its name."""
    take_in = ingest_export if path.suffix == ".json" else ingest_labels
    return take_in(path, folder, **how)


def take_twice(path, folder, **how):
    """Ingest a file, and check that it changes nothing the second time."""
    done = ingest(path, folder, **how)
    before = journal(folder), (folder.path / "labels.csv").stat().st_mtime_ns
    assert not ingest(path, folder, **how).anything
    assert (journal(folder), (folder.path / "labels.csv").stat().st_mtime_ns) == before
    return done


def test_a_table_gives_labels(folder, write):
    done = take_twice(write("labels.csv", CSV), folder, who="ana")
    assert (done.new, done.changed, done.skipped, done.waiting) == (3, 0, 0, 0)
    assert labels_of(folder) == {"a.png": 0, "b, c.png": 1, "ä d.png": 2}
    assert folder.read_pool().history("a.png")[-1].who == "ana"
    assert (folder.path / "labels.csv").read_text(encoding="utf-8") == CSV


@pytest.mark.parametrize(
    "content",
    [
        CSV.replace("\n", "\r\n"),
        b"\xef\xbb\xbf" + CSV.encode(),
        'ID; Label \na.png;cat\n"b, c.png";dog\nä d.png; 2 \n',
        "id\tlabel\na.png\tcat\nb, c.png\tdog\nä d.png\t2",
        'rank,note,label,id\n1,"two\nlines",cat,a.png\n\n2,,dog,"b, c.png"\n3,,2,ä d.png\n',
        CSV + "a.png,cat\ne.png,\n",
        CSV.replace("ä", "a\u0308"),
    ],
    ids=["windows", "mark", "semicolons", "tabs", "more columns", "repeated and empty", "accents"],
)
def test_tables_as_various_programs_write_them(folder, write, content):
    take_twice(write("labels.csv", content), folder)
    assert labels_of(folder) == {"a.png": 0, "b, c.png": 1, "ä d.png": 2}


def test_classes_are_known_with_accents_apart():
    words = Vocabulary("classification", ("chat", "zèbre"))
    assert words.number("ze\u0300bre") == 1
    assert Vocabulary("classification", ("chat", "ze\u0300bre")).number(" zèbre") == 1


def test_a_skip_sets_a_sample_aside_with_its_reason(folder, write):
    done = take_twice(write("l.csv", "id,label,skip\na.png,,too dark\nf.png,cat,\n"), folder)
    assert (done.new, done.skipped, done.waiting) == (1, 1, 2)
    pool = folder.read_pool()
    assert pool.state("a.png") is State.SKIPPED
    assert pool.history("a.png")[-1].reason == "too dark"


@pytest.mark.parametrize("box", ["FALSE", "no", "0", ""])
def test_a_box_that_is_not_ticked_skips_nothing(folder, write, box):
    done = ingest(write("l.csv", f"id,label,skip\na.png,,{box}\nf.png,cat,{box}\n"), folder)
    assert (done.new, done.skipped, done.waiting) == (1, 0, 3)


def test_a_box_that_is_not_ticked_skips_nothing_in_lines_of_json_either(folder, write):
    lines = '{"id": "a.png", "skip": "No"}\n{"id": "f.png", "label": "cat", "skip": "false"}\n'
    done = ingest(write("l.jsonl", lines), folder)
    assert (done.new, done.skipped, done.waiting) == (1, 0, 3)


def test_a_name_that_cannot_be_written_changes_nothing(folder, write):
    before = journal(folder)
    with pytest.raises(InputError, match="printable letters"):
        ingest(write("l.csv", "id,label\na.png,cat\n"), folder, who="\ud800")
    assert journal(folder) == before


def test_lines_of_json_give_labels_by_name_or_number(folder, write):
    lines = [
        {"id": "a.png", "label": "2"},
        {"id": "b, c.png", "label": 1, "note": "numbers are class numbers"},
        {"id": "e.png", "skip": True},
        {"id": "f.png", "label": None},
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    assert take_twice(write("labels.jsonl", text), folder).skipped == 1
    assert labels_of(folder) == {"a.png": 2, "b, c.png": 1}


def test_several_classes_are_separated_by_a_bar_and_a_bar_alone_says_none(tmp_path, write):
    folder = make_folder(tmp_path, "multi-label")
    take_twice(write("l.csv", 'id,label\na.png,dog| cat\n"b, c.png",|\nä d.png,2\n'), folder)
    assert labels_of(folder) == {"a.png": [0, 1], "b, c.png": [], "ä d.png": [2]}
    take_twice(folder.path / "labels.csv", folder)
    take_twice(write("l.jsonl", '{"id": "e.png", "label": []}\n'), folder)
    assert labels_of(folder)["e.png"] == []


def test_files_of_the_labelling_page_are_read(tmp_path, write):
    one = make_folder(tmp_path / "one")
    lines = '{"id": "a.png", "labels": ["dog"]}\n{"id": "e.png", "labels": null}\n'
    take_twice(write("one.jsonl", lines), one)
    take_twice(write("one.csv", 'id,labels,skip\n"b, c.png",cat,\ne.png,,\nf.png,,dark\n'), one)
    assert labels_of(one) == {"a.png": 1, "b, c.png": 0}
    several = make_folder(tmp_path / "several", "multi-label")
    take_twice(
        write("l.csv", 'id,label\na.png,dog; cat\n"b, c.png",;\nä d.png,cat;2|dog\n'), several
    )
    take_twice(write("l.jsonl", '{"id": "e.png", "labels": ["dog", "2"]}\n'), several)
    take_twice(write("m.csv", 'id;label\nf.png;"cat;dog"\n'), several)
    assert labels_of(several) == {
        "a.png": [0, 1],
        "b, c.png": [],
        "ä d.png": [0, 1, 2],
        "e.png": [1, 2],
        "f.png": [0, 1],
    }


def test_a_class_with_a_semicolon_in_its_name_is_one_class():
    words = Vocabulary("multi-label", ("a;b", "a", "b"))
    assert words.from_text("a;b") == [0]
    assert words.from_text("b;a") == [1, 2]
    assert words.from_text("a;b|b") == [0, 2]
    assert words.from_text(words.to_text([0, 1])) == [0, 1]


def test_samples_of_an_array_go_by_their_numbers(tmp_path, write):
    folder = make_folder(tmp_path, ids=range(12), picks=[3, 10])
    take_twice(write("l.csv", "id,label\n 10,cat\n3,dog\n"), folder)
    assert labels_of(folder) == {3: 1, 10: 0}
    with pytest.raises(InputError, match="line 2: there is no sample 'x'"):
        ingest(write("l.csv", "id,label\nx,cat\n"), folder)


BAD = {
    "empty": ("", "is empty"),
    "blank": ("\n \n", "is empty"),
    "header alone": ("id,label\n", "has no rows"),
    "no header": ("a.png,cat\n", r"line 1: needs one column named 'id'"),
    "column twice": ("id,label,label\na.png,cat,dog\n", "one column named 'label'"),
    "too few cells": ("id,label\nf.png,dog\na.png\n", "line 3: has 1 cell where the header has 2$"),
    "too many cells": ("id,label\nf.png,dog,cat\n", "line 2: has 3 cells .* put names with ','"),
    "open quote": ('id,label\nf.png,dog\n"a.png,cat\n', "line 3: is malformed"),
    "no UTF-8": (b"id,label\nf.png,dog\n\xff.png,cat\n", "line 3: is no UTF-8"),
    "unknown sample": ("id,label\nf.png,dog\nz.png,cat\n", "line 3: there is no sample 'z.png'"),
    "unknown class": ("id,label\nf.png,dog\na.png,cot\n", "line 3: unknown class 'cot'.*'cat'"),
    "two labels": (
        "id,label\na.png,cat\nf.png,cat\na.png,dog\n",
        r"line 4: 'dog' for sample 'a.png', but 'cat' at line 2",
    ),
    "label and skip": ("id,label,skip\na.png,cat,dark\n", "line 2: .*labelled and skipped"),
    "two classes": ("id,label\na.png,cat|dog\n", "line 2: unknown class"),
    "lines of no JSON": ("jsonl", '{"id": "f.png", "label": 0}\n{"id"\n', "line 2: is no JSON"),
    "lines of lists": ("jsonl", "[1]\n", "line 1: is not of the form"),
    "number of no class": ("jsonl", '{"id": "a.png", "label": 3}\n', "line 1: there is no class 3"),
    "fraction": ("jsonl", '{"id": "a.png", "label": 1.0}\n', "line 1: 1.0 is no class"),
    "truth": ("jsonl", '{"id": "a.png", "label": true}\n', "line 1: True is no class"),
    "several": ("jsonl", '{"id": "a.png", "label": [0, 1]}\n', "line 1: 2 classes"),
    "label and labels": (
        "jsonl",
        '{"id": "a.png", "label": "cat", "labels": ["dog"]}\n',
        "line 1: has label and labels",
    ),
    "no labels": ("jsonl", '{"id": "a.png", "labels": []}\n', "line 1: 0 classes"),
    "two label columns": ("id,label,labels\na.png,cat,dog\n", "one column named 'label'"),
    "odd skip": ("jsonl", '{"id": "a.png", "skip": 3}\n', "line 1: skip is 3"),
    "deep lines": ("jsonl", "[" * 100_000, "line 1: is no JSON"),
    "no text": (
        "jsonl",
        '{"id": "f.png", "label": 0}\n{"id": "a.png", "skip": "\\ud800"}\n',
        "line 2: reason .* is not valid Unicode",
    ),
    "no JSON": ("json", "{", "is no JSON"),
    "deep JSON": ("json", "[" * 100_000, "is no JSON"),
    "no export": ("json", "{}", "no export of Label Studio"),
    "no tasks": ("json", "[]", "holds no tasks"),
    "no annotations": (
        "json",
        '[{"id": 1, "data": {"steepest_id": "a.png"}, "annotations": [1]}]',
        "task 1: has no list of annotations",
    ),
    "not ours": ("json", '[{"id": 1, "data": {}, "annotations": []}]', "none of its 1 tasks"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_used_changes_nothing(folder, write, name):
    suffix, content, message = ("csv", *BAD[name]) if len(BAD[name]) == 2 else BAD[name]
    path = write(f"labels.{suffix}", content)
    before = journal(folder)
    with pytest.raises(InputError, match=message) as error:
        ingest(path, folder)
    assert str(path) in str(error.value)
    assert journal(folder) == before
    assert not (folder.path / "labels.csv").exists()


def test_files_of_unknown_kind_or_place_are_refused(folder, write, tmp_path):
    with pytest.raises(InputError, match="--format"):
        ingest(write("labels.xlsx", "id,label\n"), folder)
    with pytest.raises(InputError, match="cannot be read"):
        ingest(tmp_path / "nowhere.csv", folder)
    with pytest.raises(InputError, match="cannot be read"):
        ingest(tmp_path, folder, kind="csv")
    take_twice(write("labels.txt", "id,label\na.png,cat\n"), folder, kind="csv")


def test_what_is_on_record_is_replaced_only_on_request(folder, write):
    ingest(write("one.csv", "id,label,skip\na.png,cat,\ne.png,,dark\nf.png,dog,\n"), folder)
    second = write("two.csv", "id,label,skip\na.png,dog,\nf.png,,dark\ne.png,2,\nä d.png,2,\n")
    before = journal(folder)
    with pytest.raises(PoolError, match=r"line 2: .*'a.png' is labelled 'cat'.*--relabel"):
        ingest(second, folder)
    with pytest.raises(PoolError, match=r"line 2: .*'e.png' is skipped.*--relabel"):
        ingest(write("three.csv", "id,label\ne.png,2\n"), folder)
    assert journal(folder) == before
    done = take_twice(second, folder, relabel=True)
    assert (done.new, done.changed, done.skipped) == (1, 2, 1)
    assert labels_of(folder) == {"a.png": 1, "e.png": 2, "ä d.png": 2}
    assert [e.label for e in folder.read_pool().history("a.png") if e.verb != Verb.QUERY] == [0, 1]


@pytest.mark.parametrize("entries", range(4))
def test_a_crash_between_two_entries_leaves_nothing_of_the_file(
    folder, write, monkeypatch, entries
):
    path = write("l.csv", "id,label,skip\na.png,dog,\nf.png,,dark\ne.png,2,\nä d.png,2,\n")
    ingest(write("first.csv", "id,label,skip\na.png,cat,\ne.png,,dark\n"), folder)
    from steepest.pool import Pool

    before = journal(folder)
    written, commit = [], Pool._commit

    def crash(self, entry):
        if len(written) == entries:
            raise KeyboardInterrupt
        written.append(entry)
        commit(self, entry)

    monkeypatch.setattr(Pool, "_commit", crash)
    with pytest.raises(KeyboardInterrupt):
        ingest(path, folder, relabel=True)
    monkeypatch.undo()
    assert journal(folder) == before
    assert not (folder.path / "labels.csv").exists() or labels_of(folder) == {"a.png": 0}
    ingest(path, folder, relabel=True)
    assert labels_of(folder) == {"a.png": 1, "e.png": 2, "ä d.png": 2}
    assert folder.read_pool().state("f.png") is State.SKIPPED


def task(number, sample, *names, key, **more):
    value = {"choices": list(names)}
    said = {"id": number, "completed_by": 1, "result": [{"type": "choices", "value": value}]}
    data = {"steepest_id": sample, "steepest_pool": key}
    return {"id": number, "data": data, "annotations": [{**said, **more}]}


def test_an_export_of_label_studio_gives_labels(folder, write):
    key = folder.key(folder.read_pool())
    tasks = [
        task(1, "a.png", "dog", key=key),
        task(2, "b, c.png", was_cancelled=True, key=key),
        task(3, "e.png", "2", key=key),
    ]
    done = take_twice(write("export.json", json.dumps(tasks)), folder)
    assert (done.new, done.skipped) == (2, 1)
    assert labels_of(folder) == {"a.png": 1, "e.png": 2}


def test_label_maps_are_named_relative_to_the_file(tmp_path, write):
    folder = make_folder(tmp_path, "segmentation")
    pixels = np.array([[0, 1, 2], [255, 0, 0]], dtype=np.uint8)
    (tmp_path / "maps").mkdir()
    Image.fromarray(pixels).save(tmp_path / "maps" / "a.png")
    take_twice(write("l.csv", "id,label\na.png,maps/a.png\n"), folder)
    label = labels_of(folder)["a.png"]
    assert np.array_equal(folder.maps.load(label), pixels)
    assert not ingest(folder.path / "labels.csv", folder).anything
    Image.fromarray(pixels + 3).save(tmp_path / "maps" / "a.png")
    with pytest.raises(InputError, match="line 2: a pixel has class 3"):
        ingest(write("l.csv", "id,label\na.png,maps/a.png\n"), folder, relabel=True)
    for name in ("../secret.png", "/etc/passwd"):
        with pytest.raises(InputError, match=r"line 2: .*outside"):
            ingest(write("l.csv", f"id,label\ne.png,{name}\n"), folder)
    with pytest.raises(InputError, match=r"line 2: .*cannot be read"):
        ingest(write("l.csv", "id,label\ne.png,maps/none.png\n"), folder)


def test_every_error_is_one_of_ours_and_one_line(folder, write):
    for number, bad in enumerate(BAD.values()):
        suffix, content, _ = ("csv", *bad) if len(bad) == 2 else bad
        with pytest.raises(SteepestError) as error:
            ingest(write(f"{number}.{suffix}", content), folder)
        assert "\n" not in str(error.value)


@pytest.fixture
def answered(folder, write):
    """Return a loop with three answers, in an entry between others."""
    ingest(write("first.csv", CSV), folder)
    folder.commit(Round(Selection(("e.png", "f.png"), (2.0, 1.0), "margin", model="beef")))
    return folder


@pytest.mark.parametrize("left", [0, 50, 5000])
def test_a_damaged_file_says_where_the_labels_still_are(answered, write, left):
    file, table = answered.path / "labels.sqlite", answered.path / "labels.csv"
    labels = table.read_bytes()
    answered.store.close()
    content = file.read_bytes()[:left]
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"begin another loop and take .*labels\.csv into it"):
        ingest(write("more.csv", "id,label\ne.png,cat\n"), LoopFolder.open(answered.path))
    assert (file.read_bytes(), table.read_bytes()) == (content, labels)


def test_answers_that_are_in_the_table_alone_are_not_written_over(folder, write, tmp_path):
    """Somebody may have put an older copy of the project's file in place."""
    folder.store.copy_to(tmp_path / "old.sqlite")
    ingest(write("first.csv", CSV), folder)
    table = folder.path / "labels.csv"
    labels = table.read_bytes()
    folder.store.close()
    shutil.copyfile(tmp_path / "old.sqlite", folder.path / "labels.sqlite")
    folder = LoopFolder.open(folder.path)
    before = journal(folder)
    for told in ("e.png,cat", "a.png,dog"):
        with pytest.raises(JournalError, match=r"labels\.csv has 3 .*'cat' of sample 'a.png'"):
            ingest(write("more.csv", f"id,label\n{told}\n"), folder)
        assert table.read_bytes() == labels
        assert journal(folder) == before
    assert ingest(write("more.csv", CSV + "e.png,cat\n"), folder).new == 4
    folder.store.close()
    shutil.copyfile(tmp_path / "old.sqlite", folder.path / "labels.sqlite")
    folder = LoopFolder.open(folder.path)
    assert ingest(table, folder).new == 4
    table.write_text("nothing")
    with pytest.raises(JournalError, match=r"line 1: .*move the file away"):
        ingest(write("more.csv", "id,label\nf.png,cat\n"), folder)
    table.unlink()
    assert ingest(write("more.csv", "id,label\nf.png,cat\n"), folder).new == 1
    assert table.read_text(encoding="utf-8").count("\n") == 6


def test_a_label_that_was_taken_back_is_known_all_the_same(answered, write):
    with answered.open_pool() as pool:
        pool.unlabel(["a.png"], cycle=1, who="ana")
    assert ingest(write("more.csv", "id,label\ne.png,cat\n"), answered).new == 1
    assert "a.png" not in (answered.path / "labels.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("emptied", [False, True])
def test_a_loop_that_lost_its_file_is_not_begun_anew(folder, write, emptied):
    ingest(write("a.csv", "id,label\na.png,cat\n"), folder)
    table = (folder.path / "labels.csv").read_bytes()
    for file in folder.path.glob("labels.sqlite*"):
        file.unlink()
    if emptied:
        (folder.path / "labels.sqlite").touch()
    for attempt in (LoopFolder.open, lambda path: LoopFolder.find(path, IDS, folder.settings)):
        with pytest.raises(
            (DataError, RunFolderError), match=f"is {'empty' if emptied else 'gone'}.*labels.csv"
        ):
            attempt(folder.path)
    assert (folder.path / "labels.csv").read_bytes() == table


def test_labels_are_those_of_the_people_that_a_sheet_names(folder, write):
    ingest(write("a.csv", "id,label\na.png,cat\n"), folder, who="Ann Lee")
    sheet = (
        "id,label,skip,annotator\n"
        'e.png,dog,,ann  lee\n"b, c.png",cat,,Ben\nf.png,,dark,ANN LEE\nä d.png,2,,label-studio:7\n'
    )
    assert ingest(write("b.csv", sheet), folder, who="Cy").new == 3
    said = {e.id: e.who for e in journal(folder) if e.verb in (Verb.LABEL, Verb.SKIP)}
    assert said == {
        "a.png": "Ann Lee",
        "e.png": "Ann Lee",
        "b, c.png": "Ben",
        "f.png": "Ann Lee",
        "ä d.png": "Cy",
    }
