"""Pools in Parquet files, remote arrays and listed images: read by range, here or by fsspec."""

from __future__ import annotations

import io
import pickle
import sys

import fsspec
import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from pyarrow import parquet
from torch import nn

import steepest
from steepest.cli.main import main
from steepest.data import ImageFolder, ListedImages, ParquetRows, RemoteArray
from steepest.errors import DataError, InputError

ROWS = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
NAMES = [f"row-{i}" for i in range(50)]


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(6, 3).eval()


def write_rows(path, rows=ROWS, names=NAMES, group=7):
    table = {"id": names, "a": rows[:, 0], "rest": list(rows[:, 1:])}
    sink = io.BytesIO()
    parquet.write_table(pa.table(table), sink, row_group_size=group)
    with fsspec.open(str(path), "wb") as file:
        file.write(sink.getvalue())
    return str(path)


@pytest.fixture(params=["local", "file", "memory"])
def place(request, tmp_path):
    """A folder, on this disk or elsewhere."""
    yield {"local": str(tmp_path), "file": f"file://{tmp_path}", "memory": "memory://pool"}[
        request.param
    ]
    if request.param == "memory":
        fsspec.filesystem("memory").store.clear()


def picks(model, pool, **how):
    return steepest.select(model, pool, 8, "margin", batch_size=9, progress=False, **how)


def test_rows_of_parquet_files_are_chosen_from_like_those_of_an_array(place, model):
    write_rows(f"{place}/one.parquet", ROWS[:23], NAMES[:23])
    write_rows(f"{place}/two.parquet", ROWS[23:], NAMES[23:], group=100)
    pool = ParquetRows(place, ids="id")
    assert list(pool.ids) == NAMES
    assert picks(model, pool) == picks(model, ROWS, ids=NAMES)
    assert picks(model, ParquetRows(place, ["a", "rest"])) == picks(model, ROWS)


def test_rows_come_in_the_order_in_which_they_are_asked_for(tmp_path):
    pool = ParquetRows(write_rows(tmp_path / "rows.parquet"), ids="id")
    order = [41, 3, 3, 0, 49, 13, 14, 6, 7]
    assert torch.stack(pool.__getitems__(order)).tolist() == ROWS[order].tolist()
    assert pool[20].tolist() == ROWS[20].tolist()


def test_only_row_groups_that_are_asked_for_are_read_and_each_once(tmp_path, monkeypatch):
    pool = ParquetRows(write_rows(tmp_path / "rows.parquet"), ids="id")
    read = []
    plain = parquet.ParquetFile.read_row_group
    monkeypatch.setattr(
        parquet.ParquetFile,
        "read_row_group",
        lambda self, group, **how: read.append(group) or plain(self, group, **how),
    )
    pool.__getitems__([8, 22, 9, 27])
    pool.__getitems__([10])
    assert read == [1, 3]
    monkeypatch.setattr("steepest.data.large_files._CACHE_BYTES", 0)
    pool.__getitems__([0])
    pool.__getitems__([8])
    assert read == [1, 3, 0, 1]


def test_a_pool_is_sent_without_its_rows(tmp_path):
    pool = ParquetRows(write_rows(tmp_path / "rows.parquet"), ["a", "rest"])
    pool[3]
    sent = pickle.dumps(pool)
    assert len(sent) < ROWS.nbytes
    assert pickle.loads(sent)[3].tolist() == ROWS[3].tolist()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["missing"], "has no column 'missing': its columns are id, a, rest"),
        (["id"], "column 'id' holds string: name columns of numbers"),
    ],
)
def test_columns_that_are_no_numbers_are_refused(columns, said, tmp_path):
    with pytest.raises((InputError, DataError), match=said):
        ParquetRows(write_rows(tmp_path / "rows.parquet"), columns)[0]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"a": [1.0, None, 2.0]}, "with missing values"),
        ({"a": [[1.0], [None], [2.0]]}, "has missing values"),
        ({"a": [[1.0], None, [2.0]]}, "with missing values"),
        ({"a": [[1.0], [2.0, 3.0], [4.0, 5.0]]}, "of several lengths"),
        ({"a": [[1.0], [2.0, 3.0], []]}, "of several lengths"),
    ],
)
def test_rows_that_make_no_table_are_refused(table, said, tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table(table), path)
    with pytest.raises(DataError, match=said):
        ParquetRows(path)[0]


def test_what_is_not_there_or_no_parquet_says_so(tmp_path):
    with pytest.raises(DataError, match=r"no \.parquet file is there"):
        ParquetRows(tmp_path)
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(DataError, match=r"text.parquet cannot be read"):
        ParquetRows(tmp_path)


def test_the_command_takes_a_parquet_file(tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    parquet.write_table(pa.table({"x": list(ROWS)}), "rows.parquet")
    (tmp_path / "own_linear.py").write_text(
        "import torch\ndef net():\n    torch.manual_seed(0)\n    return torch.nn.Linear(6, 3)\n"
    )
    words = ["select", "rows.parquet", "--model", "own_linear:net", "-k", "8", "--quiet"]
    assert main([*words, "--strategy", "margin", "--out", "picks.json"]) == 0
    chosen = steepest.selecting.Selection.load("picks.json")
    assert chosen.ids == picks(model, ROWS).ids


def test_a_remote_array_is_read_by_range(place, model):
    sink = io.BytesIO()
    np.save(sink, ROWS.reshape(50, 2, 3))
    with fsspec.open(f"{place}/rows.npy", "wb") as file:
        file.write(sink.getvalue())
    pool = RemoteArray(f"{place}/rows.npy")
    assert len(pool) == 50
    order = [4, 5, 6, 40, 2, 2, 3]
    found = torch.stack(pool.__getitems__(order))
    assert found.tolist() == ROWS.reshape(50, 2, 3)[order].tolist()
    flat = nn.Sequential(nn.Flatten(), model)
    assert picks(flat, pool).ids == picks(model, ROWS).ids


@pytest.mark.parametrize(
    "array", [np.asfortranarray(ROWS), np.array([b"a", b"b"]), np.zeros((3, 4), np.uint8)]
)
def test_an_array_that_cannot_be_read_by_row_is_refused(array, tmp_path):
    np.save(tmp_path / "rows.npy", array)
    with pytest.raises(DataError, match="save floats"):
        RemoteArray(tmp_path / "rows.npy")
    with pytest.raises(DataError, match="cannot be read as an array"):
        RemoteArray(tmp_path / "absent.npy")


def test_listed_images_are_those_of_the_folder(place, tmp_path):
    local = tmp_path / "local"
    (local / "a").mkdir(parents=True)
    names = ["b.png", "a/c.png", "a/d.jpg"]
    for number, name in enumerate(names):
        pixels = np.random.default_rng(number).integers(0, 256, (9, 7, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(local / name)
        with fsspec.open(f"{place}/photos/{name}", "wb", auto_mkdir=True) as file:
            file.write((local / name).read_bytes())
    how = {"size": 6, "mean": [0.1, 0.2, 0.3], "std": [1.0, 2.0, 3.0]}
    whole = ImageFolder(local, **how)
    listed = ListedImages(f"{place}/photos", names, **how)
    assert listed.ids == names
    for number, name in enumerate(names):
        assert listed[number].tolist() == whole[whole.ids.index(name)].tolist()
    with pytest.raises(DataError):
        ListedImages(f"{place}/photos", ["absent.png"])[0]


@pytest.mark.parametrize(
    ("file", "text"),
    [("list.txt", "a.png\n\nb.png\n"), ("list.csv", "split,id\nx,a.png\ny,b.png\n")],
)
def test_a_list_of_images_is_a_file(file, text, place):
    with fsspec.open(f"{place}/{file}", "w") as opened:
        opened.write(text)
    assert ListedImages(place, f"{place}/{file}").ids == ["a.png", "b.png"]


@pytest.mark.parametrize("name", ["../secret.png", "a/../../b.png", "/etc/x.png", "s3://b/c.png"])
def test_a_list_leads_nowhere_else(name, tmp_path):
    with pytest.raises(InputError, match="which is not below"):
        ListedImages(tmp_path, ["fine.png", name])


@pytest.mark.parametrize("package", ["pyarrow", "fsspec.core"])
def test_without_the_packages_it_says_how_to_install_them(package, tmp_path, monkeypatch):
    path = write_rows(tmp_path / "rows.parquet")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r"pip install 'steepest\[files\]'"):
        ParquetRows(f"file://{path}")


def test_a_place_that_fsspec_does_not_know_says_what_is_missing():
    with pytest.raises(InputError, match="fsspec cannot open it"):
        RemoteArray("nowhere://rows.npy").__getitems__([0])
