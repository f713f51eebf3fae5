"""Archives of records: the same comparison as the folder, the same bytes, bad ones in one line."""

from __future__ import annotations

import io
import lzma
import shutil
import tarfile

import pytest
from fake_runs import write_comparison, write_run

from steepest.cli.main import main
from steepest.errors import JournalError, RunFolderError
from steepest.experiment.report import read_comparison, write_report
from steepest.experiment.report import store as store_module
from steepest.experiment.report.store import open_store, pack, stores_below


def write_archive(path, files, *, kind=tarfile.REGTYPE):
    with tarfile.open(path, "w:xz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.type, member.size = kind, len(content)
            member.linkname = "/etc/passwd" if kind == tarfile.SYMTYPE else ""
            archive.addfile(member, io.BytesIO(content))
    return path


def shortened(comparison):
    """The comparison with three digits of each score."""
    for run in comparison.runs.values():
        for entry in run.entries:
            entry["selected_scores"] = [float(f"{score:.3g}") for score in entry["selected_scores"]]
            for one in (*entry["wanted"], *entry["unwanted"]):
                one["score"] = float(f"{one['score']:.3g}")
    return comparison


def test_an_archive_is_the_comparison_that_was_packed(tmp_path):
    folder = write_comparison(tmp_path / "mine", cycles=2)
    weights = folder / "runs" / "margin" / "seed-0" / "weights.safetensors"
    weights.write_bytes(b"large")
    archive = pack(folder)
    assert archive == tmp_path / "mine.tar.xz"
    assert read_comparison(archive) == shortened(read_comparison(folder))
    (tmp_path / "elsewhere").mkdir()
    shutil.unpack_archive(archive, tmp_path / "elsewhere", filter="data")
    unpacked = tmp_path / "elsewhere" / "mine"
    kept = {path.relative_to(unpacked) for path in unpacked.rglob("*") if path.is_file()}
    there = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert kept == there - {weights.relative_to(folder)}
    same = [name for name in kept if name.name != "records.jsonl"]
    assert all((unpacked / name).read_bytes() == (folder / name).read_bytes() for name in same)
    assert read_comparison(unpacked) == read_comparison(archive)  # Its chains are whole.


def test_a_single_run_is_packed_too(tmp_path):
    folder = write_run(tmp_path / "one", "margin", 5, cycles=3)
    assert read_comparison(pack(folder)) == shortened(read_comparison(folder))


def test_the_same_records_give_the_same_bytes(tmp_path):
    first = pack(write_comparison(tmp_path / "a" / "mine", cycles=2))
    shutil.copytree(tmp_path / "a" / "mine", tmp_path / "b" / "mine", copy_function=shutil.copyfile)
    assert pack(tmp_path / "b" / "mine").read_bytes() == first.read_bytes()


def test_the_report_of_an_archive_goes_into_a_folder_of_its_name(tmp_path):
    archive = pack(write_comparison(tmp_path / "mine", cycles=2))
    shutil.rmtree(tmp_path / "mine")
    assert write_report(archive).html == tmp_path / "mine" / "report.html"


def test_runs_are_found_in_folders_and_in_archives_below(tmp_path):
    write_comparison(tmp_path / "deep" / "packed", ["margin"], seeds=(0, 1), cycles=2)
    archive = pack(tmp_path / "deep" / "packed")
    shutil.rmtree(tmp_path / "deep" / "packed")
    write_run(tmp_path / "plain", "margin", 5, cycles=2)
    runs = [run for store in stores_below(tmp_path) for run in store.runs()]
    inside = archive.with_name("packed") / "runs" / "margin"
    places = [tmp_path / "plain", inside / "seed-0", inside / "seed-1"]
    assert [run.place for run in runs] == places
    assert all(run.has("records.jsonl") for run in runs)
    assert not runs[1].has("comparison.json")


def test_archives_come_in_the_order_of_the_folders_that_were_packed(tmp_path):
    for name in ("full-earlier", "full"):  # in ASCII, "full-earlier.tar.xz" is the first of both
        pack(write_comparison(tmp_path / name, ["margin"], seeds=(0,), cycles=1))
        shutil.rmtree(tmp_path / name)
    places = [run.place for store in stores_below(tmp_path) for run in store.runs()]
    assert [place.relative_to(tmp_path).parts[0] for place in places] == ["full", "full-earlier"]


def test_a_folder_without_records_is_not_packed(tmp_path, capsys):
    with pytest.raises(RunFolderError, match="holds no records"):
        pack(tmp_path)
    assert main(["pack", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_says_what_it_wrote(tmp_path, capsys):
    folder = write_comparison(tmp_path / "mine", ["margin"], seeds=(0, 1), cycles=2)
    target = tmp_path / "kept" / "all.tar.xz"
    assert main(["pack", str(folder), "--out", str(target)]) == 0
    assert f"{target}: 2 runs, {target.stat().st_size:,} bytes" in capsys.readouterr().out
    assert read_comparison(target).seeds == (0, 1)


@pytest.mark.parametrize("spoil", ["cut", "flipped", "no tar", "empty"])
def test_a_damaged_archive_is_one_line(spoil, tmp_path):
    archive = pack(write_comparison(tmp_path / "mine", cycles=2))
    data = bytearray(archive.read_bytes())
    if spoil == "cut":
        del data[-20:]
    elif spoil == "flipped":
        data[len(data) // 2] ^= 1
    else:
        data[:] = lzma.compress(b"no tar" * 1000) if spoil == "no tar" else b""
    archive.write_bytes(data)
    with pytest.raises(JournalError, match=r"mine\.tar\.xz: cannot be read"):
        open_store(archive)


def test_an_archive_cannot_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "_LIMIT", 100_000)
    archive = write_archive(tmp_path / "a.tar.xz", {"a/records.jsonl": bytes(200_000)})
    with pytest.raises(JournalError, match="unpacks to more than 100,000 bytes"):
        open_store(archive)


def test_links_and_strange_files_in_an_archive_are_not_read(tmp_path):
    link = write_archive(tmp_path / "a.tar.xz", {"a/records.jsonl": b""}, kind=tarfile.SYMTYPE)
    assert open_store(link).packed == {}
    other = write_archive(tmp_path / "b.tar.xz", {"b/weights.pt": b"x", "b/config.json": b"{}"})
    assert open_store(other).packed == {"config.json": b"{}"}
