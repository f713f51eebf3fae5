"""Bad input of any kind: code 2, one line that says what is wrong, nothing overwritten."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from shell import (
    assert_one_line,
    contents,
    run_apart,
    run_here,
    select_args,
    small_model,
    small_pool,
)

OLD = "an older file that must survive\n"


def break_files(folder: Path) -> None:
    """Lay out everything that may be wrong with a user's files."""
    pool, state = small_pool(), small_model().state_dict()
    (folder / "empty").mkdir()
    (folder / "texts").mkdir()
    (folder / "texts" / "a.txt").write_text("no image")
    (folder / "sizes").mkdir()
    for side in (4, 5):
        Image.new("RGB", (side, side)).save(folder / "sizes" / f"{side}.png")
    poisoned = pool.copy()
    poisoned[5, 0, 0, 0] = np.nan
    arrays = {
        "nan": poisoned,
        "bytes": (pool * 50).astype(np.uint8),
        "none": pool[:0],
        "objects": np.array([None, 1], dtype=object),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    np.savez(folder / "pool.npz", a=pool, b=pool)
    (folder / "torn.npy").write_bytes((folder / "pool.npy").read_bytes()[:200])
    (folder / "text.npy").write_text("not an array")
    (folder / "text.safetensors").write_text("not weights")
    save_file({**state, "1.bias": torch.full((8,), float("nan"))}, folder / "nan.safetensors")
    save_file({**state, "1.bias": torch.zeros(9)}, folder / "shape.safetensors")
    save_file({**state, "head": torch.zeros(1)}, folder / "more.safetensors")
    save_file({"1.bias": state["1.bias"]}, folder / "fewer.safetensors")
    torch.save({"epoch": 3}, folder / "nothing.pt")
    (folder / "weights.bin").write_bytes(b"")
    (folder / "unknown_ids").write_text("0\n77\n")
    (folder / "wordy_ids").write_text("zero\n")
    (folder / "all_ids").write_text("".join(f"{i}\n" for i in range(12)))


BAD_SELECTS = {
    "unknown strategy": ({"strategy": "entropi"}, "did you mean 'entropy'"),
    "unknown option": (
        {"more": ["--strategy", "entropy-gradnorm", "--option", "nrm=l2"]},
        "did you mean 'norm'",
    ),
    "option without value": ({"more": ["--option", "norm"]}, "name=value"),
    "unknown value of an option": (
        {"more": ["--strategy", "entropy-gradnorm", "--option", "norm=l3"]},
        "did you mean 'l2'",
    ),
    "k more than the pool": ({"k": "13"}, "only 12 samples"),
    "k of nothing": ({"k": "0"}, "at least 1"),
    "k more than the subset": ({"k": "3", "more": ["--subset", "2"]}, "subset of 2"),
    "subset of nothing": ({"more": ["--subset", "0"]}, "subset"),
    "empty folder": ({"pool": "empty"}, "no images"),
    "folder of texts": ({"pool": "texts"}, "no images"),
    "missing folder": ({"pool": "nowhere"}, "no such folder"),
    "missing array": ({"pool": "nowhere.npy"}, r"nowhere\.npy"),
    "images of several sizes": ({"pool": "sizes"}, "give a size"),
    "size of nothing": ({"pool": "sizes", "size": "0"}, "size"),
    "std of nothing": (
        {"pool": "sizes", "size": "4", "mean": "0", "more": ["--std", "0", "1", "1"]},
        "std must be above 0",
    ),
    "std of two channels": (
        {"pool": "sizes", "size": "4", "mean": "0", "more": ["--std", "1", "1"]},
        "2 values for 3 channels",
    ),
    "mean alone": ({"pool": "sizes", "size": "4", "mean": "0.5"}, "--mean without --std: give"),
    "std alone": ({"pool": "sizes", "size": "4", "std": "0.5"}, "--std without --mean: give"),
    "archive for a pool": ({"pool": "pool.npz"}, r"pool\.npz holds a, b: save"),
    "image for a pool": ({"pool": "sizes/4.png"}, r"4\.png is a file: .*folder.*\.npy"),
    "tod, no model before": ({"strategy": "tod"}, "--previous FILE"),
    "ll4al, no labels": ({"strategy": "ll4al"}, "--labelled FILE with id,label"),
    "own model, no dropout": ({"strategy": "bald"}, r"dropout layers .*: give it nn\.Dropout"),
    "missing strategy module": ({"strategy": "nowhere:Mine"}, "No module named 'nowhere'"),
    "model for a strategy": (
        {"strategy": "user_models:Words"},
        "no class that derives from steepest",
    ),
    "NaN in the pool": ({"pool": "nan.npy"}, "sample 5 holds NaN"),
    "raw bytes": ({"pool": "bytes.npy"}, "uint8"),
    "empty array": ({"pool": "none.npy"}, "k = 3|empty"),
    "array of objects": ({"pool": "objects.npy"}, "cannot be read"),
    "torn array": ({"pool": "torn.npy"}, "cannot be read"),
    "text called array": ({"pool": "text.npy"}, "cannot be read"),
    "NaN weights": ({"weights": "nan.safetensors"}, r"1\.bias has NaN"),
    "missing weights": ({"weights": "nowhere.safetensors"}, "no such file"),
    "text called weights": ({"weights": "text.safetensors"}, "cannot be read as weights"),
    "weights of another shape": ({"weights": "shape.safetensors"}, r"1\.bias \[9\] instead of"),
    "weights with more keys": ({"weights": "more.safetensors"}, "unexpected head"),
    "weights with fewer keys": ({"weights": "fewer.safetensors"}, "missing 1.weight"),
    "checkpoint without weights": ({"weights": "nothing.pt"}, "state dict"),
    "weights of unknown kind": ({"weights": "weights.bin"}, "read from .safetensors"),
    "missing module": ({"model": "nowhere:make"}, "No module named 'nowhere'"),
    "missing factory": ({"model": "user_models:nothing"}, "has no function"),
    "factory that raises": ({"model": "user_models:raises"}, "RuntimeError: first line$"),
    "factory of a number": ({"model": "user_models:number"}, "not a torch"),
    "unknown built-in model": ({"model": "small-cmm", "classes": "4"}, "did you mean 'small-cnn'"),
    "module without a factory": ({"model": "user_models"}, "your own is package.module:factory"),
    "built-in model, no classes": ({"model": "small-cnn"}, "needs --num-classes"),
    "other number of classes": ({"model": "small-cnn", "classes": "7"}, "weights of another model"),
    "one class": ({"model": "small-cnn", "classes": "1"}, "2 classes"),
    "out of wrong kind": ({"out": "picks.txt"}, r"\.csv or \.json"),
    "out is a folder": ({"out": "empty"}, r"\.csv or \.json"),
    "out below a file": ({"out": "tiny.toml/picks.csv"}, "cannot be written"),
    "unknown labelled ids": ({"labelled": "unknown_ids"}, "77 is not in the pool"),
    "labelled ids of wrong kind": ({"labelled": "wordy_ids"}, "line 1: an index"),
    "missing labelled ids": ({"labelled": "nowhere"}, "nowhere cannot be read"),
    "all labelled": ({"labelled": "all_ids"}, "no sample is left to choose: all are labelled"),
    "batch of less than nothing": ({"batch-size": "-1"}, "batch_size"),
    "unknown device": ({"device": "gpu"}, "use auto, cpu or cuda"),
}


@pytest.mark.parametrize("case", BAD_SELECTS)
def test_bad_selections_get_one_line_and_keep_the_old_picks(case, workshop, capsys):
    changes, message = BAD_SELECTS[case]
    break_files(workshop)
    (workshop / "picks.csv").write_text(OLD)
    before = contents(workshop)
    assert_one_line(run_here(capsys, *select_args(**changes)), message)
    assert {k: v for k, v in contents(workshop).items() if "__pycache__" not in k} == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named(workshop, capsys):
    assert_one_line(run_here(capsys, *select_args(device="cuda")), "no (such )?GPU")
    told = run_here(capsys, "run", "tiny.toml", "--out", "run", "--set", "device=cuda")
    assert_one_line(told, "no (such )?GPU")
    assert not (workshop / "run").exists()


def test_a_model_that_returns_text_is_refused(workshop, capsys):
    state = small_model()[3].state_dict()
    save_file(
        {"layer.weight": torch.zeros(4, 48), "layer.bias": state["bias"]},
        workshop / "words.safetensors",
    )
    told = run_here(capsys, *select_args(model="user_models:Words", weights="words.safetensors"))
    assert_one_line(told, "returned str")


class Malice:
    """A pickle that creates a file when it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self):
        return (Path.touch, (self._path,))


@pytest.mark.parametrize("suffix", ["pt", "pth", "safetensors"])
def test_pickled_code_in_weights_is_not_run(suffix, workshop, capsys):
    trap = workshop / "sprung"
    raw = workshop / f"raw.{suffix}"
    raw.write_bytes(pickle.dumps(Malice(trap)))
    zipped = workshop / f"zipped.{suffix}"
    torch.save({"state_dict": Malice(trap)}, zipped)
    for weights in (raw, zipped):
        told = run_here(capsys, *select_args(weights=weights.name))
        assert_one_line(told, "cannot be read as weights")
    assert not trap.exists()


BAD_COMMANDS = {
    "unknown command": (["selekt"], "invalid choice: 'selekt'"),
    "k is no number": (select_args(k="many"), "invalid int value: 'many'"),
    "no out": (["run", "digits"], "--out"),
    "no strategies": (["compare", "digits", "--out", "x"], "--strategies"),
    "jobs is no number": (
        ["compare", "digits", "--out", "x", "--strategies", "margin", "--jobs", "two"],
        "invalid int value: 'two'",
    ),
}


@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_commands_that_cannot_be_parsed_show_their_usage(case, workshop, capsys):
    argv, message = BAD_COMMANDS[case]
    told = run_here(capsys, *argv)
    assert told.code == 2
    assert told.err.startswith("usage: steepest")
    assert message in told.lines[-1]
    assert "Traceback" not in told.err


UNUSABLE = [
    ({"pool": "double.npy"}, "float64|double"),
    ({"pool": "wide.npy"}, "shape|cannot be multiplied"),
    ({"pool": "flat.npy"}, "model|shape"),
    ({"pool": "foreign.npy"}, "byte order|cannot be read|big-endian"),
    ({"pool": "texts.npy"}, "numbers|cannot be read|type"),
    ({"pool": "hollow.npy"}, "cannot be read"),
    ({"device": "mps"}, "device 'mps'"),
    ({"device": "meta"}, "device 'meta'"),
    ({"classes": "0"}, "classes"),
    ({"batch-size": "0"}, "batch"),
    ({"size": "8"}, "--size"),
    ({"more": ["--mean", "9", "9", "9"]}, "--mean"),
]


@pytest.mark.parametrize(("changes", "message"), UNUSABLE)
def test_what_cannot_be_used_is_not_passed_over(changes, message, workshop, capsys):
    """A pool of doubles may just as well be cast; all else has no meaning to guess."""
    pool = small_pool()
    np.save("double.npy", pool.astype(np.float64))
    np.save("wide.npy", pool[:, :2])
    np.save("flat.npy", pool[:, 0, 0, 0])
    np.save("foreign.npy", pool.astype(">f4"))
    np.save("texts.npy", np.array(["a", "b", "c", "d"]))
    (workshop / "hollow.npy").touch()
    told = run_here(capsys, *select_args(**changes))
    if changes.get("pool") in ("double.npy", "foreign.npy") and told.code == 0:
        return
    assert_one_line(told, message)


def test_an_array_gives_no_warning_that_the_user_cannot_act_on(workshop):
    assert run_apart(*select_args(strategy="margin"), cwd=workshop).err == ""


def test_a_real_process_ends_with_one_line_and_no_traceback(workshop):
    told = run_apart(*select_args(strategy="entropi"), cwd=workshop)
    assert_one_line(told, "unknown strategy 'entropi'")
    told = run_apart("selekt", cwd=workshop)
    assert told.code == 2
    assert "Traceback" not in told.err
