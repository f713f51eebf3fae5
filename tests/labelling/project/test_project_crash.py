from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_project import CLASSES, make_names, make_photos, open_project, truth

from steepest.errors import RunFolderError

SCRIPT = Path(__file__).with_name("killed_project.py")
PATIENCE_SECONDS = 120


def start(part, photos):
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), part, str(photos)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    rest, _ = process.communicate()
    return rest.splitlines()


def is_alive(process_id):
    try:
        os.kill(process_id, 0)
        state = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def wait_until(condition):
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_kill_loses_no_answer_that_was_acknowledged(tmp_path):
    photos = make_names(tmp_path / "photos", 600)
    process = start("label", photos)
    lines = [process.stdout.readline().strip() for _ in range(150)]
    lines += [line for line in kill(process) if len(line.split()) == 2]
    expected = {}
    for line in lines:
        verb, sample = line.split()
        if verb == "undo":
            expected.pop(sample)
        else:
            expected[sample] = verb
    with open_project(photos) as project:
        counts = project.progress()
        said = {entry.sample: entry for entry in project.queue.history(limit=1000)}
        # One more may be on the disk than was said, or one more taken back.
        assert len(set(said) ^ set(expected)) <= 1
        for sample in set(expected) & set(said):
            assert said[sample].kind == expected[sample]
        labels = [entry for entry in said.values() if entry.kind == "label"]
        assert all(entry.labels == (truth(entry.sample),) for entry in labels)
        assert counts.labelled == len(labels)
        assert len(project.queue.next("ann")) == 1


def test_a_second_process_is_refused_in_one_line(tmp_path):
    photos = make_names(tmp_path / "photos", 600)
    process = start("label", photos)
    process.stdout.readline()
    with pytest.raises(RunFolderError, match="in use by another process") as caught:
        open_project(photos)
    assert "\n" not in str(caught.value)
    kill(process)
    open_project(photos).close()


def test_a_killed_project_takes_its_training_with_it_and_trains_again(tmp_path):
    photos = make_photos(tmp_path / "photos", 24)
    process = start("train", photos)
    word, number = process.stdout.readline().split()
    assert word == "training"
    kill(process)
    wait_until(lambda: not is_alive(int(number)))
    with open_project(
        photos, epochs=2, batch_size=6, validation_share=0.0, background=True
    ) as project:
        assert project.progress().labelled == 9
        assert project.trainer.wait(PATIENCE_SECONDS)
        last = project.trainer.state().last
        assert (last.status, last.version, last.labels) == ("done", 1, 9)
        assert "again" in last.reason
        assert len(project.picks()) == 12


def test_a_killed_training_is_done_again_and_the_project_lives_on(tmp_path):
    photos = make_photos(tmp_path / "photos", 24)
    with open_project(photos, epochs=100_000, batch_size=6, background=True) as project:
        for name in CLASSES:
            for path in sorted(photos.glob(f"{name}-*"))[:4]:
                project.queue.answer("ann", path.name, [name])
        project.trainer.request()
        wait_until(lambda: project.trainer.state().stage == "train")
        project.change_settings(epochs=2)
        os.kill(project.trainer.process_id, signal.SIGKILL)
        project.queue.answer("ann", "red-018.png", ["red"])
        assert project.trainer.wait(PATIENCE_SECONDS)
        assert project.trainer.state().last.status == "done"
        with project.store.reading() as connection:
            errors = [row["error"] for row in connection.execute("SELECT error FROM trainings")]
        assert any(error and "SIGKILL" in error for error in errors)


def test_a_training_process_ends_in_order_and_leaves_its_last_words(tmp_path):
    photos = make_photos(tmp_path / "photos", 12)
    missing = str(tmp_path / "none.pt")
    for weights, code, said in ((None, 0, ""), (missing, 1, "none.pt: no such file")):
        with open_project(photos, weights=weights, cold_start_images=4, epochs=1) as project:
            project.trainer.request()
        command = [sys.executable, "-m", "steepest.labelling.project.worker"]
        with subprocess.Popen(
            [*command, str(photos / ".steepest"), str(photos)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            process.stdin.write(f"token-{code}\n")
            process.stdin.flush()
            words = process.stderr.read()
            assert process.wait() == code
        assert words.strip().endswith(said)
        assert bool(words) == bool(said)


def test_a_training_whose_end_could_not_be_noted_keeps_no_other_from_beginning(tmp_path):
    photos = make_photos(tmp_path / "photos", 12)
    with open_project(photos, background=True, cold_start_images=4) as project:
        assert project.trainer.wait(PATIENCE_SECONDS)
        with project.store.writing() as connection:
            connection.execute(
                "INSERT INTO trainings (status, reason, requested_at) VALUES ('running', '', 0)"
            )
        project.trainer.request()
        assert project.trainer.wait(PATIENCE_SECONDS)
        assert project.trainer.state().last.status == "done"


def test_closing_in_the_middle_of_a_training_ends_its_process(tmp_path):
    photos = make_photos(tmp_path / "photos", 24)
    with open_project(photos, epochs=100_000, batch_size=6) as project:
        for path in sorted(photos.glob("*.png"))[::2]:
            project.queue.answer("ann", path.name, [truth(path.name)])
        project.trainer.request()
    project = open_project(photos, epochs=100_000, batch_size=6, background=True)
    wait_until(lambda: project.trainer.state().stage == "train")
    number = project.trainer.process_id
    assert is_alive(number)
    project.close()
    assert not is_alive(number)
    with open_project(photos, epochs=1, batch_size=6) as project:
        assert project.trainer.state().status == "wanted"
