from __future__ import annotations

import json

import pytest
import torch

from steepest.data import TokenisedTexts, read_texts
from steepest.errors import DataError, InputError

TEXTS = ("a cat, asleep", 'the "dog"\nbarks')


def of_file(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder / name


LINES = [{"id": "x", "text": TEXTS[0], "n": 1}, {"id": "y", "text": TEXTS[1]}]
FILES = {
    "t.csv": 'id,text\nx,"a cat, asleep"\ny,"the ""dog""\nbarks"\n',
    "semicolons.csv": '\ufeffID;Text\r\nx;a cat, asleep\r\ny;"the ""dog""\nbarks"\r\n',
    "t.tsv": 'n\tid\tsentence\n1\tx\ta cat, asleep\n2\ty\t"the ""dog""\nbarks"\n',
    "t.jsonl": "\n".join(map(json.dumps, LINES)),
    "t.json": json.dumps(LINES),
    "another name.csv": 'id,words,kind\nx,"a cat, asleep",k\ny,"the ""dog""\nbarks",l\n',
}


@pytest.mark.parametrize("name", FILES)
def test_texts_are_read_from_files(tmp_path, name):
    rows = read_texts(of_file(tmp_path, name, FILES[name]))
    assert (rows.ids, rows.texts) == (("x", "y"), TEXTS)


def test_lists_and_data_sets_are_taken_as_they_come():
    assert read_texts(list(TEXTS)).ids == (0, 1)
    assert read_texts(LINES).ids == ("x", "y")
    datasets = pytest.importorskip("datasets")
    kinds = datasets.ClassLabel(names=["cat", "dog"])
    table = datasets.Dataset.from_dict(
        {"idx": [7, 9], "sentence": list(TEXTS), "label": [1, 0]},
        features=datasets.Features(
            {"idx": datasets.Value("int32"), "sentence": datasets.Value("string"), "label": kinds}
        ),
    )
    rows = read_texts(table, label_column="label")
    assert (rows.ids, rows.texts) == ((7, 9), TEXTS)
    assert rows.labels == {7: "dog", 9: "cat"}


def test_rows_without_text_are_left_out_and_ids_must_tell_rows_apart(tmp_path):
    path = of_file(tmp_path, "t.csv", "id,text,label\nx,one,a\nx,,b\nz,three,\n")
    rows = read_texts(path, label_column="label")
    assert (rows.ids, rows.skipped, rows.labels) == ((0, 2), ((1, "no text"),), {0: "a"})


@pytest.mark.parametrize(
    ("name", "text", "options", "said"),
    [
        ("t.csv", "a,b\none two,three four\n", {}, "say which column has the texts.*'a', 'b'"),
        ("t.csv", "text,b\none,two\n", {"text_column": "txt"}, "'txt': did you mean 'text'"),
        ("t.csv", "text,b\none,two\n", {"label_column": "c"}, "no column 'c'"),
        ("t.csv", "id,text\n1,a, b\n", {}, "row 2: has 3 cells where the heading has 2"),
        ("t.csv", "id,text\n", {}, "no rows"),
        ("t.csv", "id,text\n1, \n", {}, "no row has a text"),
        ("t.jsonl", '{"text": "a"}\nb\n', {}, "line 2: is no JSON"),
        ("t.jsonl", '{"text": "a"}\n[1]\n', {}, "row 2: is not of the form"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, name, text, options, said):
    with pytest.raises((DataError, InputError), match=said):
        read_texts(of_file(tmp_path, name, text), **options)


def test_a_tokenised_text_is_what_the_tokenizer_makes_of_it():
    def tokenizer(text, *, truncation, max_length=9):
        ids = [len(word) for word in text.split()][:max_length]
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    pool = TokenisedTexts(["a bb ccc", "dddd"], tokenizer, ids=["x", "y"], max_length=2)
    assert (len(pool), pool.ids) == (2, ["x", "y"])
    torch.testing.assert_close(pool[0]["input_ids"], torch.tensor([1, 2]))
    assert pool[1]["attention_mask"].tolist() == [1]
