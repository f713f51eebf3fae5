"""What is written: data, tables, figures, and pages that need nothing from outside."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_records import fill

from steepest.errors import NonFiniteError
from steepest.paper.artefact import Artefact, Findings, find_artefact
from steepest.paper.level import load_level
from steepest.paper.needed_runs import Need
from steepest.paper.page import Made
from steepest.paper.page_parts import FigurePart, Panel, TablePart
from steepest.paper.produce import choose, produce
from steepest.paper.workspace import OutOfTime, Workspace
from steepest.paper.writing import markdown_table, rows_csv, write_artefact

RESULTS = Path(__file__).parents[2] / "results" / "reproduce"
VOID = {"meta", "br", "img", "path", "use", "rect", "line", "circle"}


class Balance(HTMLParser):
    """Fails on a tag that is closed before it was opened."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def check_page(text):
    parser = Balance()
    parser.feed(text)
    assert not parser.open
    assert not re.search(r'(src|href)="https?:', text)
    assert "<script" not in text


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    work = Workspace(load_level("paper", seeds=[0, 1]), folder, deadline=0.0)
    fill(work, [Need("cifar10", ("entropy-gradnorm", "random"))])
    artefacts = choose(["figure-1", "table-3", "table-9", "table-1"])
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("STEEPEST_DATA", raising=False)
        produce(artefacts, work, command="steepest <this>")
    return folder


@pytest.mark.parametrize("name", ["figure-1", "table-3", "table-9", "table-1"])
def test_every_artefact_has_data_table_and_page(out, name):
    data = json.loads((out / name / "data.json").read_text())
    assert data["artefact"] == name
    assert (data["preset"], data["command"]) == ("paper", "steepest <this>")
    assert (out / name / "table.md").read_text().startswith("## ")
    page = (out / name / "page.html").read_text()
    check_page(page)
    assert "steepest &lt;this&gt;" in page
    assert "../index.html" in page


def test_figures_are_vectors_and_pixels_and_in_the_page(out):
    assert (out / "figure-1" / "curves.svg").read_bytes().startswith(b"<?xml")
    assert (out / "figure-1" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "figure-1" / "page.html").read_text()


def test_csv_and_json_hold_the_same_rows(out):
    data = json.loads((out / "table-3" / "data.json").read_text())
    with (out / "table-3" / "data.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(data["rows"])
    assert {r["preset"] for r in rows} == {"paper"}
    ours = [r for r in rows if r["ours"]]
    assert {r["seeds"] for r in ours} == {"0 1"}
    assert {r["method"] for r in ours} == {"entropy-gradnorm", "random"}


def test_pages_name_runs_seeds_and_what_is_missing(out):
    page = (out / "table-3" / "page.html").read_text()
    assert "runs/cifar10/runs/entropy-gradnorm/seed-1" in page
    assert "steepest data get cifar10" in page
    runs = json.loads((out / "table-3" / "data.json").read_text())["runs"]
    assert {(r["strategy"], r["seed"]) for r in runs} >= {("entropy-gradnorm", 0)}


def test_without_any_number_the_published_ones_stand_alone(out):
    data = json.loads((out / "table-1" / "data.json").read_text())
    assert data["state"] == "not there"
    assert "2448" in (out / "table-1" / "table.md").read_text()


def test_the_index_leads_to_every_page(out):
    index = (out / "index.html").read_text()
    check_page(index)
    for name in ("figure-1", "table-3", "table-9", "table-1"):
        assert f'href="{name}/page.html"' in index
        assert (out / name / "page.html").is_file()


def test_the_same_records_give_the_same_bytes(out, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    work = Workspace(load_level("paper", seeds=[0, 1]), out, deadline=0.0)
    before = {p: p.read_bytes() for p in sorted((out / "figure-1").iterdir())}
    produce(choose(["figure-1"]), work, command="steepest <this>")
    assert {p: p.read_bytes() for p in sorted((out / "figure-1").iterdir())} == before


class Fake(Artefact):
    """Shows a table with signs that are markup elsewhere."""

    name = "fake"
    title = "<b>Fake</b>"
    paper = "Table 0"

    def needs(self):
        return ()

    trouble = OutOfTime("the time is up: run the same command again to go on")

    def compute(self, work, published):
        raise self.trouble

    def show(self, findings):
        panel = Panel("$p", "x", "y", lambda axes: axes.plot([1, 2], [3, 4], label="one"))
        empty = FigurePart("empty", "", "", ())
        shown = TablePart("t", ("a|b", "c"), (("1|2", "<i>"),), "note")
        return shown, FigurePart("figure", "c", "d", (panel, panel, panel)), empty


def test_text_is_escaped_and_a_figure_without_panels_is_left_out(tmp_path):
    made = Made(Fake(), Findings(rows=({"ours": 1.0},), missing=("this & that",)))
    check_page(write_artefact(made, load_level("smoke"), tmp_path, "").read_text())
    page = (tmp_path / "fake" / "page.html").read_text()
    assert "&lt;b&gt;Fake" in page
    assert "this &amp; that" in page
    assert "none of it is a result" in page
    first, _, title = (tmp_path / "fake" / "table.md").read_text().splitlines()[:3]
    assert first.startswith("A trial run")
    assert title == "## Table 0: <b>Fake</b>"
    assert (tmp_path / "fake" / "data.csv").read_text() == "preset,ours\nsmoke,1.0\n"
    assert not (tmp_path / "fake" / "empty.svg").exists()
    assert (tmp_path / "fake" / "figure.png").exists()
    assert made.state == "partial"


def test_what_was_set_for_a_data_set_is_told_on_every_page_about_it(tmp_path):
    changes = ["svhn:loop.subset=36620", "svhn:training.lr=0.05", "imagenet:training.lr=0.1"]
    work = Workspace(load_level("paper", changes), tmp_path)
    (made,) = produce([find_artefact("figure-1")], work, runs=False)
    told = [
        "svhn was run with loop.subset=36620, training.lr=0.05, by --set.",
        "svhn-full was run with training.lr=0.05, by --set.",
    ]
    assert [note for note in made.findings.notes if "by --set." in note] == told
    assert told[0] in (tmp_path / "figure-1" / "page.html").read_text()


def test_mended_losses_are_told_where_such_runs_are_shown(tmp_path):
    notes = []
    for folder, changes in (("plain", []), ("published", ["vaal:published=true"])):
        work = Workspace(load_level("paper", changes, seeds=[0]), tmp_path / folder)
        fill(work, [Need("cifar10", ("vaal", "ll4al"))])
        (made,) = produce([find_artefact("table-3")], work, runs=False)
        notes.append([note for note in made.findings.notes if "was run with" in note])
    assert notes[0] == [
        (
            "vaal was run with mended losses, under which its codes do not collapse; "
            "--set vaal:published=true runs those of the published code."
        )
    ]
    assert notes[1] == ["vaal was run with published=true, by --set."]


@pytest.mark.parametrize("trouble", [Fake.trouble, NonFiniteError("a norm is NaN")])
def test_what_keeps_an_artefact_from_being_made_is_told_on_its_page(trouble, tmp_path, monkeypatch):
    monkeypatch.setattr(Fake, "trouble", trouble)
    work = Workspace(load_level("smoke"), tmp_path)
    (made,) = produce([Fake()], work)
    assert made.state == "not there"
    assert str(trouble) in (tmp_path / "fake" / "page.html").read_text()
    assert "not there" in (tmp_path / "index.html").read_text()


def test_the_index_names_whatever_was_made_in_the_folder(tmp_path):
    work = Workspace(load_level("smoke"), tmp_path)
    produce([Fake()], work, command="steepest reproduce fake")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "data.json").write_text("{")
    other = json.loads((tmp_path / "fake" / "data.json").read_text()) | {"preset": "paper"}
    (tmp_path / "of-another-size").mkdir()
    (tmp_path / "of-another-size" / "data.json").write_text(json.dumps(other))
    produce([find_artefact("a1")], work, command="steepest reproduce a1")
    index = (tmp_path / "index.html").read_text()
    check_page(index)
    assert index.index("a1/page.html") < index.index("fake/page.html")
    assert "steepest reproduce fake" in index
    assert index.count("page.html") == 2


def test_pipes_stay_within_their_cell():
    text = markdown_table(TablePart("t", ("a|b",), (("c\nd",),)))
    assert "a\\|b" in text
    assert "c d" in text
    assert rows_csv([{"a": None, "b": [1, 2]}], "smoke") == "preset,a,b\nsmoke,,1 2\n"
    assert rows_csv([], "smoke") == "preset\n"


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*/data.json")), ids=lambda p: p.parent.name)
def test_tables_of_the_repository_are_as_they_would_be_written_from_their_data(file):
    data = json.loads(file.read_text(encoding="utf-8"))
    written = file.with_name("data.csv").read_text(encoding="utf-8")
    assert written == rows_csv(data["rows"], data["preset"])
    assert data["comparable"]
    assert file.with_name("table.md").read_text(encoding="utf-8").startswith("## ")
