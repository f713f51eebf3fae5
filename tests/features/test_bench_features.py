"""The benchmark of the feature cache: it computes what a plain loop does, and nothing twice."""

from __future__ import annotations

import torch
from tiny_backbone import tiny

from steepest.bench import features as bench
from steepest.bench.features import FeaturesResult
from steepest.cli.main import main


def test_the_cache_has_the_loop_s_features_and_computes_them_once(tmp_path, monkeypatch, capsys):
    net = tiny()
    monkeypatch.setattr(bench, "find_backbone", lambda *_: net)
    computed = []

    def watched(*arguments, **options):
        table = real(*arguments, **options)
        computed.append(table.computed)
        return table

    real = bench.folder_features
    monkeypatch.setattr(bench, "folder_features", watched)
    out = tmp_path / "out.json"
    command = ["bench", "features", "--count", "5", "--rounds", "2", "--device", "cpu"]
    assert main([*command, "--quiet", "--out", str(out)]) == 0
    assert computed == [5, 0, 5, 0]
    found = FeaturesResult.read(out)
    assert found.complete
    assert [len(timing.images_per_second) for timing in found.timings] == [2, 2, 2]
    assert found.likeness > 1 - 1e-6
    assert "cache, again" in capsys.readouterr().out


def test_rows_that_differ_show(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "find_backbone", lambda *_: tiny())
    monkeypatch.setattr(bench, "loop_over", lambda paths, *_: -torch.ones(len(paths), 12))
    out = tmp_path / "out.json"
    main(["bench", "features", "--count", "3", "--rounds", "1", "--quiet", "--out", str(out)])
    assert FeaturesResult.read(out).likeness < 0.9


def test_photographs_are_those_of_their_seed(tmp_path):
    first, again = (bench.make_photographs(tmp_path / name, 2, 0) for name in ("a", "b"))
    other = bench.make_photographs(tmp_path / "c", 2, 1)
    read = [(folder / "000001.jpg").read_bytes() for folder in (first, again, other)]
    assert read[0] == read[1] != read[2]
