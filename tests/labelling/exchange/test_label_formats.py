"""Every format of labels: out and in gives the same labels, and what it cannot say is refused."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image
from small_exchange import labels_of

from steepest.errors import InputError, UnknownNameError
from steepest.labelling.exchange.export import export_labels
from steepest.labelling.exchange.folder import LoopFolder, Settings
from steepest.labelling.exchange.ingest import ingest
from steepest.labelling.formats.base import FORMATS, LabelFormat
from steepest.labelling.formats.csv import Csv

IDS = ["a.png", "sub folder/b, c.png", "sub folder/ä&<d>.jpg", "e.f.png", "g.png"]
CLASSES = ("cat", "wild dog", 'ü"<&>', "2")
NAMES = [name for name in FORMATS.names() if FORMATS.get(name).labels]
SEVERAL = [name for name in NAMES if FORMATS.get(name).multi_label]
SUFFIXES = {"yolo": "", "cvat": ".xml", "csv": ".csv", "jsonl": ".jsonl"}
BOXES = {
    "coco": {
        "images": [{"id": 1, "file_name": "a.png"}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 7, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2]}],
    },
    "cvat": '<annotations><image name="a.png"><box label="cat" xtl="0"/></image></annotations>',
    "datumaro": {
        "categories": {"label": {"labels": [{"name": "cat"}]}},
        "items": [{"id": "a", "annotations": [{"type": "bbox", "label_id": 0}]}],
    },
}


@pytest.fixture
def photos(tmp_path):
    for number, name in enumerate(IDS):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((2, 3, 3), number, dtype=np.uint8)).save(path)
    return tmp_path / "photos"


@pytest.fixture
def make(tmp_path, photos):
    def build(name, task="classification", ids=tuple(IDS), classes=CLASSES):
        folder = LoopFolder(tmp_path / name, Settings(task, classes, str(photos)))
        folder.begin(list(ids))
        return folder

    return build


def fill(folder, labels):
    with folder.open_pool() as pool:
        pool.label(list(labels), list(labels.values()), cycle=0, who="ann")
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_labels_come_back_as_they_went_out(name, make, tmp_path):
    folder = fill(make("one"), {IDS[0]: 0, IDS[1]: 2, IDS[2]: 3, IDS[3]: 2})
    path = tmp_path / f"out{SUFFIXES.get(name, '.json')}"
    assert export_labels(folder, name, path) == (4, 0)
    other = make("other")
    assert ingest(path, other, kind=name).new == 4
    assert labels_of(other) == labels_of(folder)
    assert ingest(path, other, kind=name).known == 4
    if name != "yolo":  # Folders of images are never replaced.
        assert export_labels(folder, name, path) == (4, 0)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_classes_come_back_as_they_went_out(name, make, tmp_path):
    said = {IDS[0]: [0, 2], IDS[1]: [3], IDS[2]: [], IDS[4]: [0, 1, 2, 3]}
    folder = fill(make("one", "multi-label"), said)
    path = tmp_path / f"out{SUFFIXES.get(name, '.json')}"
    empty = FORMATS.get(name).empty
    assert export_labels(folder, name, path) == ((4, 0) if empty else (3, 1))
    other = make("other", "multi-label")
    ingest(path, other, kind=name)
    assert labels_of(other) == {i: label for i, label in said.items() if label or empty}


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"yolo"}))
def test_rows_of_an_array_come_back_too(name, make, tmp_path):
    folder = fill(make("one", ids=range(5)), {0: 1, 3: 2})
    path = tmp_path / f"out{SUFFIXES.get(name, '.json')}"
    export_labels(folder, name, path)
    other = make("other", ids=range(5))
    ingest(path, other, kind=name)
    assert labels_of(other) == {0: 1, 3: 2}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"{}", b"<a/>", b"id;label", b"[{}]"])
def test_other_files_are_refused_in_one_line(name, content, make, tmp_path):
    path = tmp_path / "wrong"
    path.write_bytes(content)
    folder = make("one")
    with pytest.raises(InputError, match="wrong"):
        ingest(path, folder, kind=name)
    assert labels_of(folder) == {}


def places_in(table, place=()):
    """Yield the place of every value in a table of JSON."""
    yield place
    pairs = table.items() if isinstance(table, dict) else ()
    for key, value in enumerate(table) if isinstance(table, list) else pairs:
        yield from places_in(value, (*place, key))


def with_value(table, place, value):
    if not place:
        return value
    copy = table.copy()
    copy[place[0]] = with_value(copy[place[0]], place[1:], value)
    return copy


@pytest.mark.parametrize("name", [n for n in NAMES if n not in SUFFIXES])
def test_strange_values_anywhere_are_refused_or_read_and_never_a_traceback(name, make, tmp_path):
    path = tmp_path / "out.json"
    export_labels(fill(make("one"), {IDS[0]: 0, IDS[4]: 2}), name, path)
    table = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    other = make("other")
    for place in places_in(table):
        for value in (None, [], {}, 7, -1, "x", [[]], [{}], True, 1e308):
            path.write_text(json.dumps(with_value(table, place, value)) + "\n")
            with suppress(InputError):
                ingest(path, other, kind=name, relabel=True)


@pytest.mark.parametrize("name", BOXES)
def test_boxes_are_refused_by_their_place(name, make, tmp_path):
    content = BOXES[name]
    path = tmp_path / "boxes"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError, match=r"boxes.*only labels of whole images can be read"):
        ingest(path, make("one"), kind=name)


def test_a_data_set_of_boxes_is_no_folder_of_classes(make, tmp_path):
    (tmp_path / "set/labels/train").mkdir(parents=True)
    (tmp_path / "set/images/train").mkdir(parents=True)
    (tmp_path / "set/labels/train/a.txt").write_text("0 0.5 0.5 1 1\n")
    with pytest.raises(InputError, match="a data set of boxes"):
        ingest(tmp_path / "set", make("one"))


def test_images_without_a_tag_are_not_labelled_yet(make, tmp_path):
    path = tmp_path / "out.xml"
    path.write_text(
        '<annotations><image name="a.png"/><image name="g.png"><tag label="cat"/></image>'
        "</annotations>"
    )
    folder = make("one", "multi-label")
    ingest(path, folder)
    assert labels_of(folder) == {"g.png": [0]}


def test_entities_of_xml_are_refused(make, tmp_path):
    path = tmp_path / "bomb.xml"
    path.write_text('<!DOCTYPE a [<!ENTITY b "cc">]><annotations>&b;</annotations>')
    with pytest.raises(InputError, match="document type"):
        ingest(path, make("one"))


def test_fiftyone_may_name_classes_with_a_confidence(make, tmp_path):
    path = tmp_path / "labels.json"
    said = {"a": {"label": "cat", "confidence": 0.9}, "e.f": "wild dog", "g": None}
    path.write_text(json.dumps({"classes": None, "labels": said}))
    folder = make("one")
    ingest(path, folder, kind="fiftyone")
    assert labels_of(folder) == {"a.png": 0, "e.f.png": 1}


def test_names_that_differ_by_their_ending_alone_are_refused_where_it_is_left_out(make, tmp_path):
    folder = fill(make("one", ids=["a.png", "a.jpg"]), {"a.png": 0, "a.jpg": 1})
    with pytest.raises(InputError, match="but for their ending"):
        export_labels(folder, "fiftyone", tmp_path / "out.json")
    (tmp_path / "labels.json").write_text('{"labels": {"a": "cat"}}')
    with pytest.raises(InputError, match=r"may be 'a.png' or 'a.jpg'"):
        ingest(tmp_path / "labels.json", folder, kind="fiftyone")


def test_yolo_copies_images_and_nothing_from_outside(make, tmp_path, photos):
    folder = fill(make("one"), {IDS[1]: 1})
    export_labels(folder, "yolo", tmp_path / "set")
    copy = tmp_path / "set/train/wild dog" / IDS[1]
    assert copy.read_bytes() == (photos / IDS[1]).read_bytes()
    with pytest.raises(InputError, match="there already"):
        export_labels(folder, "yolo", tmp_path / "set")
    with pytest.raises(InputError, match="one class for each sample"):
        export_labels(make("two", "multi-label"), "yolo", tmp_path / "other")
    (tmp_path / "secret.png").write_bytes(b"secret")
    strange = fill(make("three", ids=["../secret.png"]), {"../secret.png": 0})
    with pytest.raises(InputError, match="outside the folder"):
        export_labels(strange, "yolo", tmp_path / "other")
    named = fill(make("four", classes=("..", "b")), {"a.png": 0})
    with pytest.raises(InputError, match="cannot be the name of a folder"):
        export_labels(named, "yolo", tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert not list(tmp_path.glob(".steepest-*"))


@pytest.mark.parametrize(
    ("name", "theirs", "place"),
    [
        ("coco", "coco_labels", "annotations/labels_train.json"),
        ("cvat", "cvat", "train.xml"),
        ("datumaro", "datumaro", "annotations/train.json"),
    ],
)
def test_datumaro_reads_what_is_exported_and_writes_what_is_imported(
    name, theirs, place, make, photos, tmp_path
):
    datumaro = pytest.importorskip("datumaro")
    folder = fill(make("one", "multi-label"), {IDS[0]: [0, 2], IDS[1]: [3]})
    shutil.copytree(photos, tmp_path / "set/images")
    export_labels(folder, name, tmp_path / "set" / place)
    read = datumaro.Dataset.import_from(str(tmp_path / "set"), theirs)
    read.export(str(tmp_path / "back"), theirs, save_media=False)
    (back,) = (
        path
        for path in (tmp_path / "back").rglob("*")
        if path.suffix in {".json", ".xml"} and "image_info" not in path.name
    )
    other = make("other", "multi-label")
    ingest(back, other, kind=name)
    assert labels_of(other) == labels_of(folder)


def test_fiftyone_reads_what_is_exported(make, photos, tmp_path):
    importers = pytest.importorskip("fiftyone.utils.data.importers")
    said = {IDS[0]: [0, 2], IDS[1]: [3], IDS[4]: []}
    export_labels(fill(make("one", "multi-label"), said), "fiftyone", tmp_path / "labels.json")
    reader = importers.FiftyOneImageClassificationDatasetImporter(
        data_path=str(photos), labels_path=str(tmp_path / "labels.json")
    )
    reader.setup()
    found = {path: [one.label for one in label.classifications] for path, _, label in reader}
    assert found == {str(photos / i): [CLASSES[c] for c in label] for i, label in said.items()}


def test_hugging_face_reads_what_is_exported(make, photos, tmp_path):
    datasets = pytest.importorskip("datasets")
    said = {IDS[0]: 0, IDS[1]: 2}
    export_labels(fill(make("one"), said), "hugging-face", photos / "metadata.jsonl")
    builder = datasets.load_dataset_builder(
        "imagefolder", data_dir=str(photos), cache_dir=str(tmp_path / "cache")
    )
    builder.download_and_prepare()
    found = builder.as_dataset("train").to_dict()
    assert found["label"] == [CLASSES[c] for c in said.values()]


def test_a_format_that_there_is_not_is_refused(make, tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'coco'"):
        export_labels(make("one"), "cocoa", tmp_path / "out")
    with pytest.raises(UnknownNameError, match="did you mean 'cvat'"):
        ingest(tmp_path / "labels.xml", make("two"), kind="cvats")


def test_a_new_format_is_one_class(make, tmp_path, monkeypatch):
    monkeypatch.setattr(FORMATS, "_entries", dict(FORMATS._entries))

    @FORMATS.register("tabs")
    class Tabs(Csv):
        suffixes = (".tabs",)

    assert issubclass(Tabs, LabelFormat)
    (tmp_path / "a.tabs").write_text("id\tlabel\na.png\tcat\n")
    folder = make("one")
    assert ingest(tmp_path / "a.tabs", folder).new == 1
