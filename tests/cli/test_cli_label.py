"""`steepest label`: what is refused, and what becomes of its options."""

from __future__ import annotations

import importlib.util
import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from steepest.cli import label
from steepest.cli.main import main
from steepest.labelling.project import Project
from steepest.labelling.project.store import FILE_NAME
from steepest.labelling.web import server
from steepest.modules.weights import WEIGHT_SUFFIXES

sys.path.insert(0, str(Path(__file__).parents[1] / "labelling" / "web"))

from drawn_shapes import draw_shapes


@pytest.fixture
def photos(tmp_path):
    return draw_shapes(tmp_path / "photos", 4)


@pytest.fixture
def served(monkeypatch):
    """Note what would be served instead of serving it."""
    seen = {}

    def serve(project, **how):
        seen.update(how, settings=project.settings, classes=project.classes())
        seen["address"] = how["listener"].getsockname()
        seen["labelled"] = project.progress().labelled

    monkeypatch.setattr(server, "serve", serve)
    opened = Project.open
    monkeypatch.setattr(
        Project, "open", lambda *args, **options: opened(*args, **options, background=False)
    )
    return seen


def refusal(capsys, *words):
    assert main(["label", *map(str, words), "--no-browser"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("steepest: error: ")
    assert said.count("\n") == 1
    return said


def test_options_become_settings_and_stay_until_changed(served, photos, capsys):
    words = ["label", str(photos), "--port", "0", "--classes", "cat, dog"]
    assert (
        main([*words, "--strategy", "margin", "--overlap", "2", "--no-hints", "--seed", "7"]) == 0
    )
    first = served["settings"]
    assert (first.strategy, first.overlap, first.hints, first.seed) == ("margin", 2, False, 7)
    assert served["classes"] == ("cat", "dog")
    assert served["open_browser"] is True
    assert served["address"][0] == "127.0.0.1"
    assert main(["label", str(photos), "--set", "lease_seconds=30", "--hints"]) == 0
    second = served["settings"]
    assert (second.strategy, second.hints, second.lease_seconds) == ("margin", True, 30)
    assert "labels are in" in capsys.readouterr().out


def test_a_setting_that_may_be_unset_is_taken_back(served, photos, tmp_path, capsys):
    (tmp_path / "w.pt").touch()
    words = ["label", str(photos), "--no-browser"]
    assert (
        main([*words, "--classes", "a,b", "--weights", str(tmp_path / "w.pt"), "--epochs", "3"])
        == 0
    )
    assert main([*words, "--set", "weights=none", "--set", "weak_strategy=none"]) == 0
    after = served["settings"]
    assert (after.weights, after.weak_strategy, after.epochs) == (None, None, 3)
    assert main([*words, "--set", "epochs=none"]) == 0
    assert served["settings"].epochs is None
    capsys.readouterr()
    assert "model" in refusal(capsys, photos, "--model", "none")
    assert "overlap" in refusal(capsys, photos, "--set", "overlap=none")


def test_first_labels_are_taken_in(served, photos, tmp_path, capsys):
    name = min(path.name for path in photos.glob("*.png"))
    start = tmp_path / "start.csv"
    start.write_text(f"id,label\n{name},dog\n")
    words = ["label", str(photos), "--classes", "cat,dog", "--labels", str(start), "--no-browser"]
    assert main(words) == 0
    assert served["labelled"] == 1
    assert "1 label added" in capsys.readouterr().out


def test_first_labels_of_images_that_are_not_here_are_passed_over_if_asked_for(
    served, photos, tmp_path, capsys
):
    name = min(path.name for path in photos.glob("*.png"))
    start = tmp_path / "start.csv"
    start.write_text(f"id,label\n{name},dog\ngone.png,dog\n")
    words = [photos, "--classes", "cat,dog", "--labels", start]
    assert "say known only" in refusal(capsys, *words)
    assert main(["label", *map(str, words), "--known-only", "--no-browser"]) == 0
    assert served["labelled"] == 1
    said = "1 label added, 1 of samples that are not here (passed over)\n"
    assert said in capsys.readouterr().out
    assert "--labels FILE" in refusal(capsys, photos, "--known-only")


def test_the_token_stays_and_its_file_must_be_private(served, photos, capsys):
    words = ["label", str(photos), "--no-browser"]
    assert main([*words, "--classes", "cat,dog"]) == 0
    first = served["token"]
    assert main(words) == 0
    assert served["token"] == first
    (photos / ".steepest" / "token").chmod(0o644)
    capsys.readouterr()
    said = refusal(capsys, photos)
    assert "chmod 600" in said
    assert first not in said
    assert main([*words, "--new-token"]) == 0
    assert served["token"] != first
    out, err = capsys.readouterr()
    assert served["token"] not in out + err


def test_all_addresses_are_announced(capsys):
    label._announce(["http://192.0.2.1:1/?token=t", "http://desk:1/?token=t"])
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first == "Label at http://192.0.2.1:1/?token=t"
    assert second == "      or http://desk:1/?token=t"


def test_images_that_are_gone_are_counted_at_every_start(served, photos, capsys):
    words = ["label", str(photos), "--no-browser"]
    assert main([*words, "--classes", "cat,dog"]) == 0
    assert "known ones" not in capsys.readouterr().out
    min(photos.glob("*.png")).unlink()
    for _ in range(2):
        assert main(words) == 0
        assert ", 1 known one is gone" in capsys.readouterr().out


@pytest.mark.parametrize("ending", [*WEIGHT_SUFFIXES, ".CKPT"])
def test_a_file_for_a_model_is_its_weights(served, photos, tmp_path, ending):
    weights = tmp_path / f"best{ending}"
    weights.touch()
    words = ["label", str(photos), "--classes", "cat,dog", "--model", str(weights)]
    assert main(words) == 0
    assert served["settings"].weights == str(weights)
    assert served["settings"].model == "small-cnn"


def test_a_host_for_others_is_warned_of(served, photos, capsys):
    assert main(["label", str(photos), "--classes", "a,b", "--host", "0.0.0.0"]) == 0
    assert "can be reached from other machines" in capsys.readouterr().err
    assert served["address"][0] == "0.0.0.0"
    assert main(["label", str(photos), "--host", "localhost"]) == 0
    assert capsys.readouterr().err == ""


def test_mistakes_are_said_in_one_line(served, photos, tmp_path, capsys):
    two = ("--classes", "cat,dog")
    assert "no such folder" in refusal(capsys, tmp_path / "nowhere", *two)
    assert not (tmp_path / "nowhere").exists()
    assert "--classes cat,dog" in refusal(capsys, photos)
    assert "--classes cat,dog" in refusal(capsys, photos, "--classes", "cat")
    assert "entropy" in refusal(capsys, photos, *two, "--strategy", "entropi")
    assert "small-cnn" in refusal(capsys, photos, *two, "--model", "small-cn")
    assert "no such file of weights" in refusal(capsys, photos, *two, "--weights", "no.pt")
    assert "no such file of weights" in refusal(capsys, photos, *two, "--set", "weights=5")
    assert "lease_seconds" in refusal(capsys, photos, *two, "--set", "lease_second=3")
    assert "overlap" in refusal(capsys, photos, *two, "--overlap", "0")
    assert "does not exist" in refusal(capsys, photos, *two, "--port", "70000")
    assert "cannot be" in refusal(capsys, photos, *two, "--labels", tmp_path / "no.csv")
    (tmp_path / "empty").mkdir()
    assert "no images" in refusal(capsys, tmp_path / "empty", *two)


@pytest.mark.parametrize("broken", ["{", b"\xff\xfe\xff"])
def test_damaged_settings_are_said_in_one_line(served, photos, capsys, broken):
    assert main(["label", str(photos), "--port", "0", "--classes", "cat,dog"]) == 0
    capsys.readouterr()
    with closing(sqlite3.connect(photos / ".steepest" / FILE_NAME)) as file, file:
        file.execute("UPDATE settings SET value = ? WHERE name = 'model_options'", (broken,))
    said = refusal(capsys, photos)
    assert f"{FILE_NAME}: its settings are damaged (" in said
    assert "restore it from a copy" in said


def test_a_command_that_names_too_few_classes_begins_nothing(served, photos, capsys):
    assert "at least 2 classes" in refusal(capsys, photos, "--classes", "cat,cat", "--seed", "3")
    assert "at least 1 class," in refusal(capsys, photos, "--multi-label")
    assert not (photos / ".steepest").exists()
    assert main(["label", str(photos), "--classes", "dog,owl", "--no-browser"]) == 0
    assert served["classes"] == ("dog", "owl")
    assert (served["settings"].seed, served["settings"].multi_label) == (0, False)


def test_a_folder_without_images_begins_nothing(served, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert "no images" in refusal(capsys, tmp_path / "empty", "--classes", "cat,dog")
    assert list((tmp_path / "empty").iterdir()) == []
    assert served == {}


def test_a_folder_of_links_or_of_other_files_is_told_what_is_in_it(
    served, photos, tmp_path, capsys
):
    (tmp_path / "links").mkdir()
    for number, photo in enumerate(sorted(photos.iterdir())):
        (tmp_path / "links" / f"{number}.png").symlink_to(photo)
    said = refusal(capsys, tmp_path / "links", "--classes", "cat,dog")
    assert "links that lead elsewhere" in said
    assert "3.png" in said
    assert "name the folder" in said
    (tmp_path / "phone").mkdir()
    (tmp_path / "phone" / "a.heic").touch()
    said = refusal(capsys, tmp_path / "phone", "--classes", "cat,dog")
    assert "1 .heic): convert them" in said
    assert "is a file" in refusal(capsys, tmp_path / "phone" / "a.heic", "--classes", "cat,dog")
    assert served == {}


def test_what_is_left_out_and_the_classes_are_named_at_every_start(
    served, photos, tmp_path, capsys
):
    (photos / "odd\nname.png").symlink_to(tmp_path)
    words = ["label", str(photos), "--port", "0"]
    assert main([*words, "--classes", "cat,dgo"]) == 0
    assert main([*words, "--classes", "dog"]) == 0
    said = capsys.readouterr().out
    assert said.count("no plain files: 'odd\\nname.png'\n") == 2
    assert "classes: cat, dgo\n" in said
    assert "classes: cat, dgo, dog\n" in said
    assert main([*words, "--classes", ",".join(f"class {n}" for n in range(40))]) == 0
    assert "classes: 43\n" in capsys.readouterr().out


def test_a_model_of_ones_own_is_imported_before_anybody_labels(
    served, photos, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    start = (photos, "--classes", "cat,dog", "--model")
    assert "cannot be imported" in refusal(capsys, *start, "labels_nowhere:net")
    Path("labels_here.py").write_text("def net(classes, width=3):\n    raise SystemExit\n")
    assert "no function or class 'nte'" in refusal(capsys, *start, "labels_here:nte")
    wrong = refusal(capsys, *start, "labels_here:net", "--set", "model_options.widht=4")
    assert "did you mean 'width'" in wrong
    assert not (photos / ".steepest").exists()
    assert main(["label", *map(str, start), "labels_here:net", "--no-browser"]) == 0


def test_classes_may_stand_in_a_file_one_per_line(served, photos, tmp_path, capsys):
    (tmp_path / "classes.txt").write_text("cup, blue\n\n dog\n", encoding="utf-8")
    assert main(["label", str(photos), "--port", "0", "--classes", f"@{tmp_path}/classes.txt"]) == 0
    assert served["classes"] == ("cup, blue", "dog")
    assert "cannot be read" in refusal(capsys, photos, "--classes", "@nowhere.txt")


def test_files_that_are_no_images_are_said_at_every_start(served, photos, capsys):
    words = ["label", str(photos), "--port", "0", "--classes", "cat,dog"]
    assert main(words) == 0
    assert "passed over" not in capsys.readouterr().out
    for name in ("a.heic", "b.heic", "notes"):
        (photos / name).touch()
    assert main(words) == 0
    assert "other files, passed over: 2 .heic, 1 without ending\n" in capsys.readouterr().out


def test_what_is_set_once_cannot_be_changed(served, photos, capsys):
    assert main(["label", str(photos), "--classes", "cat,dog"]) == 0
    assert "multi_label" in refusal(capsys, photos, "--multi-label")


def test_a_port_in_use_is_refused_if_asked_for_and_avoided_if_not(served, photos, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert str(port) in refusal(capsys, photos, "--classes", "a,b", "--port", port)
        server.USUAL_PORT, usual = port, server.USUAL_PORT
        try:
            assert main(["label", str(photos), "--classes", "a,b"]) == 0
        finally:
            server.USUAL_PORT = usual
        assert served["address"][1] != port


def test_without_the_extra_one_line_says_how_to_install_it(monkeypatch, photos, capsys):
    known = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "fastapi" else known(name)
    )
    assert "pip install 'steepest[label]'" in refusal(capsys, photos, "--classes", "a,b")


def test_two_commands_at_the_same_time_take_different_ports(monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setattr(server, "USUAL_PORT", probe.getsockname()[1])
    with server.listen("127.0.0.1", None) as first, server.listen("127.0.0.1", None) as second:
        assert first.getsockname()[1] == server.USUAL_PORT
        assert second.getsockname()[1] != server.USUAL_PORT


def test_code_is_named_at_each_start(served, photos, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_net_at_each_start.py").write_text("def net(classes): ...\n")
    code = "my_net_at_each_start:net"
    start = ["label", str(photos), "--port", "0", "--no-browser"]
    assert main([*start, "--classes", "cat,dog", "--model", code]) == 0
    said = refusal(capsys, photos, "--port", "0")
    assert f"{code!r} run as its model, which is code: if it is yours, say so by --set" in said
    assert main([*start, "--set", f"model={code}"]) == 0
    assert served["settings"].model == code


def test_no_name_steers_the_terminal(served, photos, capsys):
    (photos / "x.\x1b]0;a title").touch()
    assert main(["label", str(photos), "--port", "0", "--classes", "cat,dog"]) == 0
    with closing(sqlite3.connect(photos / ".steepest" / FILE_NAME)) as made, made:
        made.execute("UPDATE classes SET name = ? WHERE name = 'cat'", ("\x1b[31mcat",))
    assert main(["label", str(photos), "--port", "0"]) == 2
    said = "".join(capsys.readouterr())
    assert "\x1b" not in said
    assert "1 '.\\x1b]0;a title'" in said
    assert "class '\\x1b[31mcat': no leading dot" in said


def test_a_project_with_links_in_it_is_not_read(photos, capsys):
    (photos / ".steepest").mkdir()
    (photos / ".steepest" / FILE_NAME).symlink_to(photos)
    assert "is a link" in refusal(capsys, photos, "--classes", "cat,dog")


@pytest.fixture
def reviews(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("id,said,kind\na,a fine film,good\nb,,\nc,a dull one,bad\nd,what a day,\n")
    return path


def test_a_table_of_texts_brings_its_labels_and_classes(served, reviews, capsys):
    words = ["label", str(reviews), "--label-column", "kind", "--text-column", "said"]
    assert main([*words, "--no-browser"]) == 0
    assert (served["settings"].kind, served["settings"].text_column) == ("text", "said")
    assert (served["classes"], served["labelled"]) == (("bad", "good"), 2)
    said = capsys.readouterr().out
    assert "3 texts in" in said
    assert "left out, having no text: b\n" in said
    assert "features of all-minilm-l6-v2" in said
    assert f"2 of 3 texts are labelled; labels are in {reviews}.steepest" in said
    assert main(["label", str(reviews), "--no-browser"]) == 0
    assert served["settings"].text_column == "said"


def test_what_does_not_suit_texts_is_refused_before_a_project_is_made(served, reviews, capsys):
    classes = ("--classes", "good,bad")
    assert "no column 'sad'" in refusal(capsys, reviews, *classes, "--text-column", "sad")
    assert "leave out --model" in refusal(capsys, reviews, *classes, "--model", "resnet18")
    assert "is for a table of texts" in refusal(
        capsys, reviews.parent, *classes, "--label-column", "kind"
    )
    assert "no such file" in refusal(capsys, reviews.parent / "gone.csv", *classes)
    assert not Path(f"{reviews}.steepest").exists()
