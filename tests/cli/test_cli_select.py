"""From a folder of photos and saved weights to a list of what to label, as a user does it."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
import torch
from PIL import Image
from shell import fill_workshop, run_apart, run_here, run_within, small_model, small_pool

import steepest
from steepest.data.folder import ImageFolder
from steepest.tasks import MultiLabel

K = 5
READABLE = [f"cats/{i}.png" for i in range(6)] + [f"dogs/ä b{i}.png" for i in range(6)]


def take_photos(folder) -> None:
    """Twelve good photos in two subfolders, one broken, one with no photo in it, one text."""
    rng = np.random.default_rng(0)
    for name in READABLE:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(path)
    whole = (folder / "cats" / "0.png").read_bytes()
    (folder / "cats" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "dogs" / "page.jpg").write_text("<html>not found</html>")
    (folder / "README.txt").write_text("no photo")


def command(*more: str, pool: str = "photos", out: str = "picks.csv") -> list[str]:
    argv = ["select", "--model", "user_models:make", "--weights", "weights.safetensors"]
    return [*argv, "--pool", pool, "-k", str(K), "--out", out, *more]


def rows_of(path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


GRADIENTS = ("--strategy", "entropy-gradnorm")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The same command twice, once in a process of its own."""
    folder = tmp_path_factory.mktemp("user's place")
    fill_workshop(folder)
    take_photos(folder / "photos")
    first = run_apart(*command(out="first.csv"), cwd=folder)
    second = run_within(*command(out="second.csv", pool=str(folder / "photos")), cwd=folder)
    return folder, first, second


@pytest.fixture
def photos(workshop):
    take_photos(workshop / "photos")
    return workshop / "photos"


def test_the_picks_name_photos_by_their_relative_paths(done):
    folder, first, _ = done
    assert first.code == 0, first.err
    rows = rows_of(folder / "first.csv")
    assert [row["rank"] for row in rows] == ["1", "2", "3", "4", "5"]
    assert len({row["id"] for row in rows}) == K
    assert {row["id"] for row in rows} <= set(READABLE)
    scores = [float(row["score"]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert rows[0].keys() == {"rank", "id", "score"}
    beside = json.loads((folder / "first.csv.json").read_text())
    assert beside["strategy"] == "steepest"
    assert "5 of 12 samples chosen by steepest: first.csv" in first.out


def test_broken_photos_are_counted_and_named_in_one_warning(done):
    _, first, _ = done
    warned = [line for line in first.lines if "left out" in line]
    assert len(warned) == 1
    assert warned[0].startswith("steepest: warning: ")
    assert "2 of 14 images" in warned[0]
    assert "cats/cut.png" in warned[0]
    assert "dogs/page.jpg" in warned[0]
    assert "README" not in first.err
    assert "Traceback" not in first.err


def test_the_same_command_gives_the_same_file(done):
    folder, _, second = done
    assert second.code == 0, second.err
    for end in ("csv", "csv.json"):
        assert (folder / f"second.{end}").read_bytes() == (folder / f"first.{end}").read_bytes()


@pytest.mark.filterwarnings("ignore::steepest.errors.SteepestWarning")
def test_the_picks_are_those_of_the_python_call(done):
    folder, _, _ = done
    pool = ImageFolder(folder / "photos")
    picks = steepest.select(small_model(), pool, K, progress=False)
    loaded = steepest.Selection.load(folder / "first.csv")
    assert loaded.ids == picks.ids
    assert loaded.model == picks.model
    assert loaded.scores == pytest.approx(picks.scores, rel=1e-6)
    assert loaded.candidates == len(READABLE)
    assert loaded.regime is not None


def test_json_holds_the_same_as_csv(photos, workshop, capsys):
    for out in ("picks.csv", "picks.json"):
        assert run_here(capsys, *command("--quiet", out=out)).code == 0
    assert json.loads((workshop / "picks.json").read_text())["strategy"] == "steepest"
    load = steepest.Selection.load
    assert load(workshop / "picks.json") == load(workshop / "picks.csv")


@pytest.mark.filterwarnings("ignore::steepest.errors.SteepestWarning")
def test_an_option_of_the_strategy_reaches_it(photos, workshop, capsys):
    told = run_here(capsys, *command("--quiet", *GRADIENTS, "--option", "norm=tensor-sum"))
    assert told.code == 0, told.err
    pool = ImageFolder(photos)
    picks = steepest.select(
        small_model(), pool, K, GRADIENTS[1], options={"norm": "tensor-sum"}, progress=False
    )
    loaded = steepest.Selection.load(workshop / "picks.csv")
    assert loaded.options == {"norm": "tensor-sum", "layers": "all"}
    assert loaded.ids == picks.ids
    assert loaded.scores == pytest.approx(picks.scores)


@pytest.mark.filterwarnings("ignore::steepest.errors.SteepestWarning")
def test_gradients_are_measured_in_the_precision_that_is_asked_for(photos, workshop, capsys):
    told = run_here(capsys, *command("--quiet", *GRADIENTS, "--precision", "bf16"))
    assert told.code == 0, told.err
    pool, loaded = ImageFolder(photos), steepest.Selection.load(workshop / "picks.csv")
    coarse, fine = (
        steepest.select(
            small_model(), pool, K, GRADIENTS[1], precision=precision, progress=False
        ).scores
        for precision in ("bf16", "tf32")
    )
    assert loaded.scores == pytest.approx(coarse, rel=1e-6)
    assert loaded.scores != pytest.approx(fine, rel=1e-6)


def test_a_model_that_is_not_there_is_told_before_the_pool_is_looked_through(workshop, capsys):
    told = run_here(capsys, *command("--model", "absent_models:net", pool="nowhere"))
    assert told.code == 2
    assert "'absent_models:net' cannot be imported" in told.err


def test_labelled_photos_are_left_out(photos, workshop, capsys):
    assert run_here(capsys, *command("--quiet")).code == 0
    first = steepest.Selection.load(workshop / "picks.csv")
    # A file from another system: its own line ends, a repeated line, no end of the last line.
    listed = "\r\n".join([*first.ids, first.ids[0]])
    (workshop / "labelled").write_text(listed, encoding="utf-8", newline="")
    told = run_here(capsys, *command("--quiet", "--labelled", "labelled", out="next.csv"))
    assert told.code == 0, told.err
    assert "5 of 7 samples" in told.out
    following = steepest.Selection.load(workshop / "next.csv")
    assert not set(first.ids) & set(following.ids)
    assert max(following.scores) <= min(first.scores)


@pytest.mark.parametrize("out", ["picks.csv", "picks.json"])
@pytest.mark.parametrize("pool", ["photos", "pool.npy"])
def test_picks_that_were_saved_can_be_left_out(photos, workshop, capsys, pool, out):
    assert run_here(capsys, *command("--quiet", pool=pool, out=out)).code == 0
    told = run_here(capsys, *command("--quiet", "--labelled", out, pool=pool, out="next.csv"))
    assert told.code == 0, told.err
    assert "5 of 7 samples" in told.out
    first, following = (steepest.Selection.load(workshop / name) for name in (out, "next.csv"))
    assert not set(first.ids) & set(following.ids)


def test_a_table_of_picks_can_be_left_out_however_a_spreadsheet_saved_it(photos, workshop, capsys):
    table = workshop / "picks.csv"
    table.write_text(f"rank;id;score\n1;{READABLE[0]};0.5\n2;{READABLE[7]};0.25\n")
    told = run_here(capsys, *command("--quiet", "--labelled", "picks.csv", out="next.csv"))
    assert "5 of 10 samples" in told.out, told.err
    table.write_text(f"rank,id,score\n1,{READABLE[0]},0.5\n2,nowhere.png,0.25\n")
    told = run_here(capsys, *command("--quiet", "--labelled", "picks.csv", out="next.csv"))
    assert (told.code, "line 3: 'nowhere.png' is not in the pool" in told.err) == (2, True)
    table.write_text("[1, 2]")
    table.rename(workshop / "picks.json")
    told = run_here(capsys, *command("--quiet", "--labelled", "picks.json", out="next.csv"))
    assert (told.code, "picks.json is no selection" in told.err) == (2, True)


def test_exported_lines_can_be_left_out_once_they_are_filled_in(photos, workshop, capsys):
    argv = command("--quiet", "--format", "jsonl", out="picks.jsonl")
    assert run_here(capsys, *argv).code == 0
    lines = [json.loads(line) for line in (workshop / "picks.jsonl").read_text().splitlines()]
    lines[0]["label"], lines[1]["skip"] = 2, True
    (workshop / "picks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = run_here(capsys, *command("--quiet", "--labelled", "picks.jsonl", out="next.csv"))
    assert "5 of 10 samples" in told.out, told.err


@pytest.mark.filterwarnings("ignore::steepest.errors.SteepestWarning")
def test_an_array_is_named_by_row(workshop, capsys):
    (workshop / "labelled").write_text("0\n3\n")
    told = run_here(
        capsys, *command("--quiet", "--labelled", "labelled", pool="pool.npy", out="picks.json")
    )
    assert told.code == 0, told.err
    picks = steepest.select(
        small_model(), torch.from_numpy(small_pool()), K, labelled=[0, 3], progress=False
    )
    loaded = steepest.Selection.load(workshop / "picks.json")
    assert loaded == picks
    assert all(isinstance(name, int) for name in loaded.ids)
    np.savez(workshop / "pool.npz", x=small_pool())
    more = ("--quiet", "--labelled", "labelled")
    assert run_here(capsys, *command(*more, pool="pool.npz", out="same.json")).code == 0
    assert steepest.Selection.load(workshop / "same.json") == picks
    np.savez(workshop / "pool.npz", x=small_pool(), y=np.arange(3))
    told = run_here(capsys, *command(*more, pool="pool.npz"))
    assert (told.code, "holds x, y: save the inputs alone" in told.err) == (2, True)
    (workshop / "pool.npz").write_bytes(b"PK\x03\x04 no archive")
    told = run_here(capsys, *command(*more, pool="pool.npz"))
    assert (told.code, "cannot be read as an array" in told.err) == (2, True)


@pytest.mark.filterwarnings("ignore::steepest.errors.SteepestWarning")
def test_photos_are_resized_and_normalised_as_told(photos, workshop, capsys):
    argv = ["--quiet", "--size", "4", "--mean", "0.5", "0.4", "0.3", "--std", "0.2", "0.3", "0.4"]
    assert run_here(capsys, *command(*argv)).code == 0
    pool = ImageFolder(photos, 4, mean=[0.5, 0.4, 0.3], std=[0.2, 0.3, 0.4])
    picks = steepest.select(small_model(), pool, K, progress=False)
    assert steepest.Selection.load(workshop / "picks.csv").scores == pytest.approx(picks.scores)


def test_seed_and_subset_decide_the_draw_and_are_kept(photos, workshop, capsys):
    def draw(seed: int) -> steepest.Selection:
        argv = ["--quiet", "--strategy", "random", "--subset", "9", "--seed", str(seed)]
        assert run_here(capsys, *command(*argv)).code == 0
        return steepest.Selection.load(workshop / "picks.csv")

    assert draw(1) == draw(1)
    assert draw(1).ids != draw(2).ids
    assert (draw(2).seed, draw(2).candidates) == (2, 9)


@pytest.mark.parametrize("strategy", steepest.strategies.names())
def test_every_strategy_can_be_named(strategy, workshop, capsys):
    told = run_here(capsys, *command("--quiet", "--strategy", strategy, pool="pool.npy"))
    if told.code == 0:
        assert len(rows_of(workshop / "picks.csv")) == K
    else:  # Something is missing that only the user has: it is named in one line.
        assert told.code == 2
        assert len(told.err.strip().splitlines()) == 1
        assert strategy in told.err or "dropout" in told.err
    assert strategy in run_here(capsys, "strategies").out


def test_labels_of_a_file_are_learnt_from_and_left_out(workshop, capsys):
    table = workshop / "known.csv"
    table.write_text("id,label\n" + "".join(f"{i},{i % 3}\n" for i in range(6)))
    argv = ["--quiet", "--strategy", "isal", "--labelled", "known.csv"]
    told = run_here(capsys, *command(*argv, pool="pool.npy"))
    assert told.code == 0, told.err
    chosen = {int(row["id"]) for row in rows_of(workshop / "picks.csv")}
    assert not chosen & set(range(6))
    table.write_text("0,1\nno number\n")
    told = run_here(capsys, *command(*argv, pool="pool.npy"))
    assert (told.code, "line 2" in told.err) == (2, True)


def learnt_from(workshop, capsys, lines, *more, code=0):
    """Choose by what the labels of a file teach, and return the picks or the error."""
    (workshop / "known.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    argv = command("--quiet", "--strategy", "isal", "--labelled", "known.csv", *more)
    told = run_here(capsys, *argv)
    assert told.code == code, told.err
    return told.lines[-1] if code else steepest.Selection.load(workshop / "picks.csv")


def test_labels_may_be_names_where_the_classes_are_named(photos, workshop, capsys):
    numbers = dict(zip(READABLE[:6], [0, 1, 2, 3, 1, 2], strict=True))
    words = ("cat", "dog", "owl", "newt")
    wanted = learnt_from(workshop, capsys, [f"{name},{c}" for name, c in numbers.items()])
    named = ["\ufeffid,label", *(f"{name},{words[c]}" for name, c in numbers.items())]
    names = ("--classes", ",".join(words))
    assert learnt_from(workshop, capsys, named, *names).ids == wanted.ids
    # A loop knows its classes; numbers are understood beside names.
    mixed = [*named[:-1], f"{READABLE[5]},2"]
    assert learnt_from(workshop, capsys, mixed, *names, "--run", "loop").ids == wanted.ids
    assert learnt_from(workshop, capsys, mixed, "--run", "loop").ids == wanted.ids
    # A sheet as a spreadsheet saves it; who was not asked yet is not labelled.
    sheet = ["id;label;skip;rank", *(f"{name};{words[c]};;1" for name, c in numbers.items())]
    assert learnt_from(workshop, capsys, [*sheet, f"{READABLE[6]};;;2"], *names).ids == wanted.ids


@pytest.mark.parametrize(
    ("line", "more", "message"),
    [
        ("cats/1.png,cat", (), "line 2: class 'cat' is no number: .* by --classes cat,dog"),
        ("cats/1.png,", (), "line 2: class '' is no number"),
        ("cats/1.png,cow", ("cat,dog,owl,newt",), "line 2: unknown class 'cow'.* known: cat, dog"),
        ("cats/1.png,4", ("cat,dog,owl,newt",), "line 2: there is no class 4; use 0 to 3"),
        ("cat/1.png,1", (), "line 2: neither 'cat/1.png,1' nor 'cat/1.png' is in the pool"),
        ("cat/1.png", (), "line 2: 'cat/1.png' is not in the pool: give paths as they are"),
        ("cats/1.png,cat", ("cat,cat",), "'cat' is there twice"),
        ("cats/1.png,cat", ("cat,dog", "--num-classes", "4"), "--num-classes 4, but there are 2"),
    ],
)
def test_labels_that_cannot_be_read_are_told_by_their_line(
    photos, workshop, capsys, line, more, message
):
    names = ("--classes", *more) if more else ()
    told = learnt_from(workshop, capsys, ["cats/0.png,1", line], *names, code=2)
    assert re.search(message, told)


def test_labels_that_nobody_learns_from_may_be_names(photos, workshop, capsys):
    (workshop / "known.csv").write_text("cats/0.png,cat\ncats/1.png,dog\n")
    argv = command("--quiet", "--strategy", "margin", "--labelled", "known.csv")
    told = run_here(capsys, *argv)
    assert told.code == 0, told.err
    assert "5 of 10 samples" in told.out


def test_the_verdict_is_printed_and_saved_with_the_classes_names(photos, workshop, capsys):
    told = run_here(capsys, *command("--quiet", "--classes", "cat,dog,owl,newt"))
    assert told.code == 0, told.err
    picks = steepest.Selection.load(workshop / "picks.csv")
    assert str(picks.verdict) in told.out.splitlines()
    beside = json.loads((workshop / "picks.csv.json").read_text())
    assert beside["verdict"]["sentence"] == str(picks.verdict)
    assert {c.name for c in picks.verdict.spread} <= {"cat", "dog", "owl", "newt"}
    assert sum(c.picks for c in picks.verdict.spread) == K
    told = run_here(capsys, *command("--quiet", "--classes", "cat,dog"))
    assert (told.code, "2 class names for a model with 4 outputs" in told.err) == (2, True)
    told = run_here(capsys, *command("--quiet", "--strategy", "random"))
    assert "predicted as" not in told.out


def test_a_verdict_on_scores_of_shards_names_the_classes(photos, workshop, capsys):
    names = ("--quiet", "--classes", "cat,dog,owl,newt")
    assert run_here(capsys, *command(*names, *GRADIENTS)).code == 0
    whole = steepest.Selection.load(workshop / "picks.csv")
    argv = ("--quiet", "--shard", "1/1")
    assert run_here(capsys, *command(*argv, out="part.npz")).code == 0
    told = run_here(capsys, *command(*names, "--scores", "part.npz"))
    assert str(whole.verdict) in told.out.splitlines(), told.err


def test_a_name_with_a_comma_is_no_label(photos, workshop, capsys):
    odd = photos / "a,b.png"
    odd.write_bytes((photos / READABLE[0]).read_bytes())
    (workshop / "labelled").write_text("a,b.png\n")
    assert "5 of 12 samples" in run_here(capsys, *command("--labelled", "labelled")).out
    (workshop / "labelled").write_text('"a,b.png",1\ncats/0.png\n')
    assert "5 of 11 samples" in run_here(capsys, *command("--labelled", "labelled")).out


def test_what_a_labelling_project_keeps_beside_photos_is_not_chosen(photos, workshop, capsys):
    thumbnails = photos / ".steepest" / "thumbnails"
    thumbnails.mkdir(parents=True)
    Image.new("RGB", (2, 2)).save(thumbnails / "0.jpg")
    told = run_here(capsys, *command("--quiet"))
    assert told.code == 0, told.err
    assert "5 of 12 samples" in told.out


def test_further_weights_make_a_committee(workshop, capsys):
    argv = ["--quiet", "--strategy", "qbc", "--member", "weights.safetensors"]
    told = run_here(capsys, *command(*argv, pool="pool.npy"))
    assert told.code == 0, told.err
    assert all(float(row["score"]) == pytest.approx(0) for row in rows_of(workshop / "picks.csv"))
    argv = ["--quiet", "--strategy", "tod", "--previous", "weights.safetensors"]
    assert run_here(capsys, *command(*argv, pool="pool.npy")).code == 0
    told = run_here(capsys, *command("--member", "nowhere.safetensors", pool="pool.npy"))
    assert (told.code, "nowhere.safetensors" in told.err) == (2, True)


@pytest.mark.filterwarnings("ignore::steepest.errors.SteepestWarning")
def test_the_task_decides_how_logits_are_read(photos, workshop, capsys):
    argv = ["--strategy", "margin", "--num-classes", "4", "--task", "multi-label"]
    assert run_here(capsys, *command(*argv, out="tags.csv")).code == 0
    pool = ImageFolder(photos)
    picks = steepest.select(small_model(), pool, K, "margin", task=MultiLabel(4), progress=False)
    assert [row["id"] for row in rows_of(workshop / "tags.csv")] == list(picks.ids)
    assert run_here(capsys, *command("--strategy", "margin", "--task", "multi-label")).code == 0
    assert [row["id"] for row in rows_of(workshop / "picks.csv")] == list(picks.ids)
    told = run_here(capsys, *command("--task", "multilabel", "--num-classes", "4"))
    assert (told.code, "did you mean 'multi-label'" in told.err) == (2, True)
    told = run_here(capsys, *command("--model-option", "width=3"))
    assert (told.code, "unknown option of model" in told.err) == (2, True)
