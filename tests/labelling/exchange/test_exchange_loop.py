"""The loop's folder: rounds are committed once, repeated requests repeat, others are refused."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from small_exchange import CLASSES, IDS, labels_of, make_folder
from torch import nn

from steepest.errors import InputError, JournalError, ModelError, RunFolderError
from steepest.labelling.exchange.export import check_export, export_labels, export_text
from steepest.labelling.exchange.folder import LoopFolder, Settings, read_names
from steepest.labelling.exchange.guesses import guess
from steepest.labelling.exchange.ingest import ingest
from steepest.labelling.exchange.maps import MapStore
from steepest.labelling.exchange.vocabulary import Vocabulary
from steepest.labelling.formats.coco import column_runs

SETTINGS = Settings("classification", CLASSES, "photos")


def test_a_kill_while_the_folder_is_made_is_mended(tmp_path):
    path = tmp_path / "loop"
    (path / ".steepest-scratch").mkdir(parents=True)
    (path / ".steepest-scratch" / "labels.sqlite").write_text("half")
    found = LoopFolder.find(path, IDS, SETTINGS)
    assert not found.begun
    found.begin(IDS)
    assert len(LoopFolder.open(path).read_pool()) == len(IDS)


@pytest.mark.parametrize(
    ("ids", "settings", "message"),
    [
        (IDS, Settings("classification", ("cat", "dog"), "photos"), "classes cat, dog, 2"),
        (IDS, Settings("multi-label", CLASSES, "photos"), "a loop of classification"),
        ([*IDS, "new.png"], SETTINGS, r"has sample new\.png too \(1 new\)"),
        (IDS[1:], SETTINGS, r"lacks sample a\.png \(1 gone\)"),
    ],
)
def test_another_loop_in_the_same_folder_is_refused(folder, ids, settings, message):
    with pytest.raises(RunFolderError, match=message):
        LoopFolder.find(folder.path, ids, settings)


def test_a_folder_of_something_else_is_refused(tmp_path, folder):
    with pytest.raises(RunFolderError, match="no labelling loop"):
        LoopFolder.open(tmp_path / "nowhere")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    with pytest.raises(RunFolderError, match="something else"):
        LoopFolder.find(tmp_path / "run", IDS, SETTINGS)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="no folder"):
        LoopFolder.open(tmp_path / "file")
    with folder.open_pool() as pool:
        pool.add_round(7, {"selection": 3})
    with pytest.raises(JournalError, match="round 7 is damaged"):
        folder.rounds()


@pytest.mark.parametrize("names", [(), ("",), ("cat", "cat"), ("a|b",), (" a",), ("a\nb",)])
def test_classes_that_files_cannot_hold_are_refused(names):
    with pytest.raises(InputError):
        Vocabulary("classification", names)


def test_a_label_map_has_room_for_255_classes():
    names = tuple(map(str, range(256)))
    assert len(Vocabulary("segmentation", names[:255]).names) == 255
    with pytest.raises(InputError, match="255 classes at most"):
        Vocabulary("segmentation", names)


def test_class_names_come_from_the_command_line_or_a_file(write):
    assert read_names("cat, dog") == ("cat", "dog")
    path = write("names.txt", "cat, tabby\n\ndog\n")
    assert read_names(f"@{path}") == ("cat, tabby", "dog")
    with pytest.raises(InputError, match="nowhere"):
        read_names("@nowhere")


def test_a_sheet_is_filled_in_and_taken_back(tmp_path, write):
    folder = make_folder(tmp_path)
    made = folder.rounds()[0]
    table, text = (export_text(kind, [(0, made)]) for kind in ("csv", "jsonl"))
    rows = list(csv.DictReader(table.splitlines()))
    assert [row["id"] for row in rows] == list(made.picks.ids)
    assert {row["label"] for row in rows} == {""}
    assert not ingest(write("l.csv", table), folder).anything
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["rank"] for line in lines] == [1, 2, 3]
    filled = "\n".join(json.dumps({**line, "label": "dog"}) for line in lines)
    ingest(write("l.jsonl", filled), folder)
    assert labels_of(folder) == dict.fromkeys(made.picks.ids, 1)
    with pytest.raises(InputError, match="ends in"):
        check_export("jsonl", tmp_path / "out.csv")


def test_ids_with_line_ends_come_back_from_a_table(tmp_path, write):
    odd = ["a\rb.png", "a\nb.png", "a\r\nb.png", 'a"b.png']
    folder = make_folder(tmp_path, ids=odd, picks=odd)
    sheet = export_text("csv", [(0, folder.rounds()[0])])
    rows = list(csv.DictReader(io.StringIO(sheet, newline="")))
    assert [row["id"] for row in rows] == odd
    text = io.StringIO()
    table = csv.DictWriter(text, rows[0], quoting=csv.QUOTE_ALL)
    table.writeheader()
    table.writerows({**row, "label": "cat"} for row in rows)
    assert ingest(write("a.csv", text.getvalue()), folder).new == 4
    assert ingest(folder.path / "labels.csv", folder).known == 4


def test_maps_become_coco_and_npz(tmp_path, write):
    folder = make_folder(tmp_path, "segmentation")
    pixels = np.array([[0, 0, 255], [1, 0, 255]], dtype=np.uint8)
    with folder.open_pool() as pool:
        pool.label(["a.png"], [folder.maps.save(pixels)], cycle=0, who="ana")
    assert export_labels(folder, "coco", tmp_path / "m.json") == (1, 0)
    coco = json.loads((tmp_path / "m.json").read_text())
    assert coco["images"] == [{"id": 1, "file_name": "a.png", "height": 2, "width": 3}]
    assert coco["categories"][1] == {"id": 2, "name": "dog"}
    first, second = coco["annotations"]
    assert first["segmentation"] == {"counts": [0, 1, 1, 2, 2], "size": [2, 3]}
    assert (first["area"], first["bbox"], first["category_id"]) == (3, [0, 0, 2, 2], 1)
    assert (second["bbox"], second["area"]) == ([0, 1, 1, 1], 1)
    export_labels(folder, "npz", tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as arrays:
        assert np.array_equal(arrays["map_0"], pixels)
        assert arrays["ids"].tolist() == ["a.png"]
    with pytest.raises(InputError, match="no maps"):
        export_labels(make_folder(tmp_path / "other"), "npz", tmp_path / "n.npz")
    with pytest.raises(InputError, match="has label maps: write them as coco or npz"):
        export_labels(folder, "cvat", tmp_path / "n.xml")
    with pytest.raises(InputError, match="box, mask or set of keypoints"):
        ingest(tmp_path / "m.json", make_folder(tmp_path / "third"), kind="coco")


def test_runs_go_down_the_columns():
    assert column_runs(np.array([[False, True], [True, True]])) == [1, 3]
    assert column_runs(np.ones((2, 2), dtype=bool)) == [0, 4]


def test_guesses_are_the_models_predictions(tmp_path):
    model, pool = nn.Linear(2, 3), np.eye(2, dtype=np.float32)
    model.weight.data = model.weight.data.new_tensor([[5.0, 0], [0, 5], [1, 1]])
    model.bias.data.zero_()
    assert guess(model, pool, [1, 0], Vocabulary("classification", CLASSES)) == (1, 0)
    assert guess(model, pool, [1], Vocabulary("multi-label", CLASSES)) == ([1, 2],)
    with pytest.raises(ModelError, match="3 outputs, but there are 2 classes"):
        guess(model, pool, [0], Vocabulary("classification", ("a", "b")))
    with pytest.raises(ModelError, match="not segmentation"):
        guess(model, pool, [0], Vocabulary("segmentation", CLASSES))
    images, store = np.ones((2, 1, 2, 3), dtype=np.float32), MapStore(tmp_path)
    (label,) = guess(nn.Conv2d(1, 3, 1), images, [1], Vocabulary("segmentation", CLASSES), store)
    assert store.load(label).shape == (2, 3)
