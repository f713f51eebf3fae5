"""Strategies and models of the user's own code, and what is said of pools, as from a shell."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from PIL import Image
from shell import assert_one_line, run_here, select_args, small_model

import steepest
from steepest.data.folder import ImageFolder
from steepest.experiment.variants import parse_variants
from steepest.labelling.project import open_pool
from steepest.labelling.project.settings import Settings

WAYS = '''
from dataclasses import dataclass

from steepest.strategies import Scorer


@dataclass(frozen=True)
class Gini(Scorer):
    """Impurity: score(x) = 1 - sum p^2."""

    temperature: float = 1.0

    def score(self, batch):
        return 1 - (batch.logits / self.temperature).softmax(1).square().sum(1)


class Größe(Gini):
    pass


class Torn(Gini):
    def score(self, batch):
        return {}["entropy"]
'''

LOADED = """
from pathlib import Path

from torch import nn
from user_models import make

from steepest.modules.weights import load_weights


def loaded():
    model = make()
    load_weights(model, Path(__file__).parent / "weights.safetensors")
    return model


ready = loaded()
"""


POOLS = """
import numpy as np
from torch.utils.data import Dataset

rows = np.load("pool.npy")
listed = [row for row in rows]


class Scans(Dataset):
    def __init__(self):
        self.ids = [f"scan-{i}" for i in range(len(rows))]

    def __len__(self):
        return len(rows)

    def __getitem__(self, index):
        return rows[index], 0


def scans():
    return Scans()


def sized(size):
    return rows


def torn():
    raise RuntimeError("no disk")


def nothing():
    pass
"""


@pytest.fixture
def own(workshop):
    """Put strategies and models with weights of their own into the user's folder."""
    (workshop / "shell_ways.py").write_text(WAYS, encoding="utf-8")
    (workshop / "loaded_models.py").write_text(LOADED)
    (workshop / "own_pools.py").write_text(POOLS)
    yield workshop
    for module in ("shell_ways", "loaded_models", "user_models", "own_pools"):
        sys.modules.pop(module, None)


def picks_of(folder):
    return steepest.Selection.load(folder / "picks.csv")


def bare(*more: str, model: str = "loaded_models:loaded") -> list[str]:
    """A select command without weights."""
    argv = ["select", "--quiet", "--model", model, "--pool", "pool.npy", "-k", "3"]
    return [*argv, "--out", "picks.csv", *more]


def take_photos(folder) -> None:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(6):
        Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(folder / f"{i}.png")


def test_a_strategy_of_the_current_folder_chooses_with_its_options(own, capsys):
    more = ["--option", "temperature=2.5"]
    told = run_here(capsys, *select_args(strategy="shell_ways:Gini", more=more))
    assert told.code == 0, told.err
    assert "3 of 12 samples chosen by Gini: picks.csv" in told.out
    assert picks_of(own).options == {"temperature": 2.5}
    told = run_here(capsys, *select_args(strategy="shell_ways:Gini", more=["--option", "heat=2"]))
    assert_one_line(told, "unknown key in strategy 'shell_ways:Gini' 'heat'")


def test_an_error_in_it_is_one_line_that_names_its_place(own, capsys):
    line = WAYS.splitlines().index('        return {}["entropy"]') + 1
    place = (
        rf"strategy 'shell_ways:Torn' failed: KeyError: 'entropy' \(shell_ways.py, line {line}\)"
    )
    assert_one_line(run_here(capsys, *select_args(strategy="shell_ways:Torn")), place)
    shard = ["--shard", "1/1", "--out", "part.npz"]
    told = run_here(capsys, *select_args(strategy="shell_ways:Torn", more=shard))
    assert_one_line(told, place)
    argv = ["compare", "tiny.toml", "--strategies", "shell_ways:Torn", "--seeds", "1", "--quiet"]
    assert_one_line(run_here(capsys, *argv, "--out", "all"), place)
    assert not (own / "all").exists()


@pytest.mark.usefixtures("same_process")
def test_runs_and_comparisons_take_it(own, capsys):
    strategies = "shell_ways:Gini,hot=shell_ways:Gini(temperature=3.0)"
    argv = ["compare", "tiny.toml", "--strategies", strategies, "--seeds", "1", "--jobs", "2"]
    smaller = ["--set", "loop.cycles=2", "--set", "training.epochs=1", "--no-report", "--quiet"]
    told = run_here(capsys, *argv, *smaller, "--out", "all")
    assert told.code == 0, told.err
    assert {run.name for run in (own / "all/runs").iterdir()} == {"Gini", "hot", "random"}
    variants = json.loads((own / "all/comparison.json").read_text())["variants"]
    assert variants["hot"] == {"name": "shell_ways:Gini", "options": {"temperature": 3.0}}
    assert "Gini" in told.out
    chosen = ["--set", "strategy.name=shell_ways:Gini", "--out", "alone"]
    told = run_here(capsys, "run", "tiny.toml", *smaller[:-2], "--quiet", *chosen)
    assert told.code == 0, told.err


def test_its_name_is_the_label_if_that_can_name_a_folder(own):
    (plain,) = parse_variants(["shell_ways:Gini"])
    assert (plain.label, plain.name, plain.options) == ("Gini", "shell_ways:Gini", None)
    with pytest.raises(steepest.errors.InputError, match="label 'Größe': begin with a letter"):
        parse_variants(["shell_ways:Größe"])
    assert parse_variants(["size=shell_ways:Größe"])[0].label == "size"
    with pytest.raises(steepest.errors.InputError, match="'margin' is the name of another"):
        parse_variants(["margin=shell_ways:Gini"])
    with pytest.raises(steepest.errors.InputError, match=r"write LABEL=shell_ways:Gini\(temp"):
        parse_variants(["shell_ways:Gini(temperature=2)"])


def test_a_labelling_project_takes_it(own):
    Settings(strategy="shell_ways:Gini", strategy_options={"temperature": 2.0}).check_names()
    wrong = Settings(strategy="shell_ways:Gini", strategy_options={"heat": 2.0})
    with pytest.raises(steepest.errors.InputError, match="'heat'"):
        wrong.check_names()


@pytest.mark.parametrize("model", ["loaded_models:loaded", "loaded_models:ready"])
def test_a_model_with_weights_of_its_own_needs_no_file(model, own, capsys):
    assert run_here(capsys, *select_args()).code == 0
    wanted = picks_of(own)
    told = run_here(capsys, *bare(model=model))
    assert told.code == 0, told.err
    assert picks_of(own) == wanted


def test_a_committee_of_a_model_that_is_ready_has_members_of_their_own(own, capsys):
    other = small_model()
    other[1].weight.data.mul_(-2)
    steepest.models.save_weights(other, own / "other.safetensors")
    more = ["--strategy", "qbc", "--member", "other.safetensors"]
    assert run_here(capsys, *bare(*more, model="loaded_models:ready")).code == 0
    assert max(picks_of(own).scores) > 0.01


def test_a_built_in_model_needs_weights_in_one_line(own, capsys):
    told = run_here(capsys, *bare("--num-classes", "4", model="small-cnn"))
    assert_one_line(told, "--model small-cnn: a built-in model needs the --weights")
    told = run_here(capsys, *bare("--model-option", "width=3", model="loaded_models:ready"))
    assert_one_line(told, "made already: it takes no --model-option")
    told = run_here(capsys, *bare(model="nowhere:cnn"))
    assert_one_line(told, "No module named 'nowhere'")


def test_images_that_are_not_normalised_are_told_in_one_line(own, capsys):
    take_photos(own / "photos")
    told = run_here(capsys, *select_args(pool="photos", strategy="margin"))
    assert told.code == 0
    assert len(told.lines) == 1
    assert told.err.startswith("steepest: warning: images were scaled to 0..1 only: give --mean")
    plain = picks_of(own)
    said = select_args(pool="photos", strategy="margin", mean="0", std="1")
    told = run_here(capsys, *said)
    assert (told.code, told.err) == (0, "")
    assert picks_of(own) == plain


@pytest.mark.filterwarnings("ignore::steepest.errors.SteepestWarning")
def test_one_number_stands_for_every_channel(own, capsys):
    take_photos(own / "photos")
    told = run_here(capsys, *select_args(pool="photos", mean="0.4", std="0.2"))
    assert told.code == 0, told.err
    pool = ImageFolder(own / "photos", mean=[0.4] * 3, std=[0.2] * 3)
    picks = steepest.select(small_model(), pool, 3, progress=False)
    assert picks_of(own).scores == pytest.approx(picks.scores)


def test_the_help_tells_what_happens_by_default(capsys):
    shown = " ".join(run_here(capsys, "select", "--help").out.split())
    assert "(default: 0, with a warning)" in shown
    assert "not needed if your model has them" in shown
    assert "package.module:Class" in shown


@pytest.mark.parametrize("name", ["scans", "Scans", "rows", "listed"])
def test_a_pool_of_the_current_folder_is_taken(own, capsys, name):
    told = run_here(capsys, *select_args())
    assert told.code == 0, told.err
    rows = picks_of(own).ids
    told = run_here(capsys, *select_args(pool=f"own_pools:{name}"))
    assert told.code == 0, told.err
    named = [f"scan-{i}" for i in rows] if name in ("scans", "Scans") else list(rows)
    assert list(picks_of(own).ids) == named
    (own / "known.csv").write_text(f"id,label\n{named[0]},1\n")
    more = ["--labelled", "known.csv"]
    assert run_here(capsys, *select_args(pool=f"own_pools:{name}", more=more)).code == 0
    assert list(picks_of(own).ids)[:2] == named[1:]
    told = run_here(
        capsys, *select_args(pool=f"own_pools:{name}", more=["--shard", "1/1"], out="s.npz")
    )
    assert told.code == 0, told.err


def test_a_loop_over_a_pool_of_ones_own_goes_on(own, capsys):
    more = ["--run", "loop", "--classes", "a,b,c,d", "--format", "csv"]
    argv = select_args(pool="own_pools:scans", more=more)
    assert run_here(capsys, *argv).code == 0
    first = (own / "picks.csv").read_text()
    told = run_here(capsys, *argv)
    assert (told.code, "nothing new was chosen" in told.out) == (0, True), told.err
    assert (own / "picks.csv").read_text() == first
    with open_pool(own / "loop") as pool:
        assert pool.about().pool == "own_pools:scans"
    more = ["--run", "other", "--classes", "a,b,c,d", "--format", "label-studio"]
    told = run_here(capsys, *select_args(pool="own_pools:scans", out="t.json", more=more))
    assert_one_line(told, "is code: take --format csv or jsonl")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_pools:absent", "pool 'own_pools:absent': own_pools has no 'absent'"),
        (
            "no_pools:scans",
            "'no_pools:scans' cannot be imported: .*: run the command in the folder",
        ),
        ("own_pools:sized", "cannot be made .*'size'.*: name a function that takes no arguments"),
        ("own_pools:torn", r"'own_pools:torn' failed: RuntimeError: no disk \(own_pools.py, line"),
        ("own_pools:nothing", "a pool of type NoneType is not known"),
        ("own pools:scans", "own pools:scans: no such folder"),
    ],
)
def test_a_pool_that_cannot_be_had_is_told_in_one_line(own, capsys, name, message):
    assert_one_line(run_here(capsys, *select_args(pool=name)), message)


def test_a_folder_with_a_colon_in_its_name_is_a_folder(own, capsys):
    take_photos(own / "own_pools:scans")
    told = run_here(capsys, *select_args(pool="own_pools:scans"))
    assert told.code == 0, told.err
    assert "3 of 6 samples" in told.out
    more = ["--mean", "0", "--std", "1"]
    told = run_here(capsys, *select_args(pool="own_pools:rows", more=more))
    assert_one_line(told, "--mean is for folders of images; a data set of your own is taken as it")
