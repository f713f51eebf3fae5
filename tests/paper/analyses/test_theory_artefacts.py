"""The artefacts that look at models, made from two tiny runs on digits."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from steepest.core.tables import from_table, to_table
from steepest.experiment.loop import Experiment
from steepest.experiment.report.store import Store
from steepest.paper import model_directions
from steepest.paper.analyses.agreement import influences_along
from steepest.paper.artefact import find_artefact
from steepest.paper.finished_runs import FinishedRun
from steepest.paper.level import load_level
from steepest.paper.model_directions import ModelDirections, ModelInfluences
from steepest.paper.page_parts import FigurePart, TablePart
from steepest.paper.published_numbers import published
from steepest.paper.run_examples import examples_of, held_out_examples, learnt_examples
from steepest.paper.workspace import Workspace

NAMES = ("table-1", "table-2", "figure-3", "table-4", "a1", "schemes", "regime")
STRATEGIES = ("entropy-gradnorm", "random")
SMALLER = {
    "data": {"limit": 60},
    "loop": {"initial": 20, "k": 6, "cycles": 3, "subset": 24},
    "training": {"epochs": 1},
}


class TinyWorkspace(Workspace):
    """Finds the runs that are there, whatever their size."""

    tiny: dict[str, FinishedRun]

    def runs(self, *needs):
        names = [name for need in needs for name in need.strategies]
        return tuple(self.tiny[name] for name in names if name in self.tiny)


def smaller(table):
    for part, changes in SMALLER.items():
        table[part] |= changes
    return table


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theory")
    found = TinyWorkspace(load_level("smoke", ["device=cpu"]), folder)
    (need,) = find_artefact("table-1").needs()
    found.tiny = {}
    for name in STRATEGIES:
        config = found.wanted(need, name, 0)
        config = from_table(type(config), smaller(to_table(config)))
        Experiment(config, folder / name).run()
        found.tiny[name] = FinishedRun("cifar10", name, config, Store(folder / name))
    return found


@pytest.fixture(scope="module")
def findings(work):
    return {name: find_artefact(name).compute(work, published(name)) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_findings_are_ready_for_json_and_shown_from_it(findings, name):
    found = findings[name]
    again = json.loads(json.dumps(to_table(found), allow_nan=False))
    restored = type(found)(
        tuple(again["rows"]), tuple(again["notes"]), tuple(again["missing"]), again["more"]
    )
    parts = find_artefact(name).show(restored)
    assert found.rows
    assert any(row["ours"] is not None for row in found.rows)
    for part in parts:
        if isinstance(part, TablePart):
            assert part.rows
            assert {len(line) for line in part.rows} == {len(part.header)}
            assert all(isinstance(text, str) for line in part.rows for text in line)


@pytest.mark.parametrize("name", ["figure-3", "a1", "regime"])
def test_figures_can_be_drawn(findings, name):
    from matplotlib.figure import Figure

    figures = [p for p in find_artefact(name).show(findings[name]) if isinstance(p, FigurePart)]
    assert figures
    for panel in figures[0].panels:
        axes = Figure().subplots()
        panel.draw(axes)
        assert axes.lines or axes.collections


@pytest.mark.parametrize("name", NAMES)
def test_what_was_made_once_is_not_made_again(work, findings, name, monkeypatch):
    monkeypatch.setattr(work, "model", lambda *_: pytest.fail("a model was loaded again"))
    again = find_artefact(name).compute(work, published(name))
    assert to_table(again) == json.loads(json.dumps(to_table(findings[name])))


def test_table_1_has_both_settings_both_norms_and_the_level_of_chance(findings):
    rows = findings["table-1"].rows
    assert {(r["setting"], r["norm"]) for r in rows} == {
        (s, n) for s in ("own run", "same models") for n in ("l2", "tensor-sum")
    }
    assert {r["method"] for r in rows if r["setting"] == "own run"} == set(STRATEGIES)
    assert all(r["chance"] == 36 / 24 for r in rows)
    assert {r["cycle"] for r in rows} == {0, 1, 2}
    assert all(r["difference"] is None for r in rows)


def test_methods_that_cannot_use_another_s_models_are_listed_with_the_reason(findings):
    found = findings["table-1"]
    ll4al = [r for r in found.rows if r["method"] == "ll4al"]
    assert ll4al
    assert all(r["ours"] is None and r["setting"] == "same models" for r in ll4al)
    assert any(note.startswith("ll4al, same models: needs") for note in found.notes)


def test_the_method_s_own_choice_is_the_same_by_the_same_models(findings):
    own, same = (
        {
            (r["norm"], r["cycle"]): r["ours"]
            for r in findings["table-1"].rows
            if r["method"] == "entropy-gradnorm" and r["setting"] == setting
        }
        for setting in ("own run", "same models")
    )
    assert own == same


def test_table_2_hides_no_reading(findings):
    rows = findings["table-2"].rows
    per_model = (1 + 2 * 2) * 2 * 2 * 2 * 2
    counts = {(c, m): 0 for c in (0, 1, 2) for m in ("T(c)", "T(c+1)")}
    for row in rows:
        counts[row["cycle"], row["model"]] += 1
    assert counts.pop((2, "T(c+1)")) == 0
    assert set(counts.values()) == {per_model}
    assert findings["table-2"].more["distances"] == []
    assert len(findings["table-2"].more["solvers"]) == 3 * 5 * 2


def test_figure_3_keeps_its_inequalities_and_its_schemes_are_one(findings):
    more = findings["figure-3"].more
    assert more["chains"]
    assert all(one["broken"] == 0 and one["mean_holds"] for one in more["chains"])
    assert len(more["identity"]) == len(more["chains"]) / 2
    assert all(one["approx2"] < 1e-5 for one in more["identity"])


def test_table_4_has_its_controls_and_the_paper_s_shares(findings):
    rows = findings["table-4"].rows
    assert {r["runs of"] for r in rows} == set(STRATEGIES)
    assert {r["cycle"] for r in rows} == {1, 2}
    assert len({r["method"] for r in rows}) == 4
    known = {(r["cycle"], r["paper"]) for r in rows if r["paper"] is not None}
    assert known == {(1, 2487 / 25), (2, 2477 / 25)}


def test_the_samples_of_a_run_are_what_they_are_said_to_be(work):
    run = work.tiny["random"]
    assert len(learnt_examples(work, run, 1, 100)) == 26
    assert len(learnt_examples(work, run, 1, 7)) == 7
    assert len(held_out_examples(work, run)) == 60
    assert len(held_out_examples(work, run, 9)) == 9
    rest = work.unlabelled(run, 1)
    assert len(rest) == 34
    assert not set(rest) & set(work.labelled(run, 1))


@pytest.mark.parametrize("name", ["table-1", "table-2", "figure-3", "table-4"])
def test_what_is_remembered_is_shown_when_the_time_is_up(work, findings, name):
    one = find_artefact(name)
    late = TinyWorkspace(work.level, work.out, deadline=0.0)
    late.tiny = work.tiny
    again = one.compute(late, published(name))
    assert again.rows == findings[name].rows
    assert again.missing == ()
    nothing = TinyWorkspace(work.level, work.out / f"elsewhere-{name}", deadline=0.0)
    nothing.tiny = work.tiny
    empty = one.compute(nothing, published(name))
    assert all(row["ours"] is None for row in empty.rows)
    assert "same command" in " ".join(empty.missing)


def test_directions_are_found_once_and_survive_damage(work, monkeypatch):
    run = work.tiny["entropy-gradnorm"]
    wanted = ModelDirections(work, run, ("entropy",), ("gauss-newton",)).of(1)

    def refuse(*_args, **_options):
        raise AssertionError("found before")

    monkeypatch.setattr(model_directions, "find_directions", refuse)
    again = ModelDirections(work, run, ("entropy",), ("gauss-newton",)).of(1)
    for old, new in zip(wanted, again, strict=True):
        assert (old.curvature, old.damping, old.loss) == (new.curvature, new.damping, new.loss)
        assert all(torch.equal(old.vector[name], new.vector[name]) for name in old.vector)
        assert json.dumps(old.diagnostics) == json.dumps(new.diagnostics)
    monkeypatch.undo()
    (file,) = (work.out / "work").rglob("cycle-1/entropy-gauss-newton.safetensors")
    file.unlink()  # A new file: vectors that were read may still look at the old one.
    file.write_bytes(b"damaged")
    healed = ModelDirections(work, run, ("entropy",), ("gauss-newton",)).of(1)
    for old, new in zip(wanted, healed, strict=True):
        for name, tensor in old.vector.items():
            torch.testing.assert_close(new.vector[name], tensor, rtol=1e-5, atol=1e-6)


def test_one_look_at_a_model_serves_both_cycles_that_ask(work, monkeypatch):
    run = work.tiny["entropy-gradnorm"]
    directions = ModelDirections(work, run, ("entropy", "true-label"), ("gauss-newton",))
    looked = []

    def counted(model, task, pool, *rest, **options):
        looked.append(len(pool))
        return influences_along(model, task, pool, *rest, **options)

    monkeypatch.setattr(model_directions, "influences_along", counted)
    influences = ModelInfluences(work, run, directions)
    for cycle in (0, 1):
        ids = work.candidates(run, cycle)
        found = influences.of(1, ids)
        alone = influences_along(
            work.model(run, 1), work.task(run), examples_of(work, run, ids, "a test"),
            directions.of(1),
        )  # fmt: skip
        for one, other in zip(found, alone, strict=True):
            np.testing.assert_allclose(one.values, other.values, rtol=1e-4, atol=1e-6)
    assert len(looked) == 1


def test_a_single_strategy_can_be_looked_at(work, findings):
    one = find_artefact("table-1")
    alone = TinyWorkspace(work.level, work.out, only=("entropy-gradnorm",))
    alone.tiny = {"entropy-gradnorm": work.tiny["entropy-gradnorm"]}
    rows = one.compute(alone, published("table-1")).rows
    assert {row["method"] for row in rows} == {"entropy-gradnorm"}
    assert {row["setting"] for row in rows} == {"own run", "same models"}
    whole = {tuple(row.items()) for row in map(_flat, findings["table-1"].rows)}
    assert {tuple(row.items()) for row in map(_flat, rows)} <= whole


def _flat(row):
    return {name: str(value) for name, value in row.items()}
