"""The labelling page, by a scripted annotator who answers what is asked over HTTP."""

from __future__ import annotations

import http.client
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

import numpy as np
import torch
from torch import Tensor

from steepest.bench.machine import describe_machine
from steepest.bench.storage import NONE, SCHEMA, Stored
from steepest.core.progress import Progress
from steepest.core.seeds import keyed_uniform, random_subset
from steepest.errors import SteepestError

ACCURATE = 0.85
"""The accuracy that is aimed for."""

_SHARDS = "caltech101_64"
_CLASSES = 10
_LEFT_OUT = ("Faces_easy",)
_TIMED_PHOTOS, _TIMED_LABELS = 2000, 100
_DOUBTED_LABELS, _WRONG = 200, 10
_EVERY = 10
_SAMPLE = re.compile(r'name="sample" value="([^"]*)"')
_HINT = re.compile(r'class="bar-name">([^<]*)<')
_PATIENCE_SECONDS = 1800.0
_LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Sitting:
    """One scripted annotator at the page.

    Attributes:
        strategy: The strategy; ``default`` is what the page takes by itself.
        seed: Of the project.
        labels: Answers after which the model was tested.
        accuracy: On test images after so many answers.
        hints: Hints that were shown before an answer.
        hints_right: Those that named the true class.
    """

    strategy: str
    seed: int
    labels: tuple[int, ...]
    accuracy: tuple[float, ...]
    hints: int
    hints_right: int

    def labels_to(self, accuracy: float) -> int | None:
        """Return after how many answers the model was that good; None if it never was."""
        pairs = zip(self.labels, self.accuracy, strict=True)
        return next((count for count, value in pairs if value >= accuracy), None)


@dataclass(frozen=True)
class Timing:
    """Seconds of one piece of work of the page's own process, with one thread.

    Attributes:
        what: The work.
        cpu_seconds: Seconds of computing.
        wall_seconds: Seconds on the clock, on a machine that may have had other work.
    """

    what: str
    cpu_seconds: float
    wall_seconds: float


@dataclass(frozen=True)
class Doubts:
    """Labels to look at again, where some are known to be wrong.

    Attributes:
        seed: Decides which labels.
        labels: Labels.
        wrong: Wrong ones among them.
        listed: Labels on the list.
        found: Wrong ones on the list.
    """

    seed: int
    labels: int
    wrong: int
    listed: int
    found: int


@dataclass(frozen=True)
class LabellingResult(Stored):
    """Measurements of the labelling page.

    Attributes:
        classes: Names of the classes.
        photos: Images in the folder.
        test_images: Images that models were tested on, which are not in the folder.
        sittings: Of annotators.
        timings: Of the page's work.
        doubts: Of labels to look at again.
    """

    classes: tuple[str, ...] = ()
    photos: int = 0
    test_images: int = 0
    sittings: tuple[Sitting, ...] = ()
    timings: tuple[Timing, ...] = ()
    doubts: tuple[Doubts, ...] = ()

    def text(self) -> str:
        """Return the tables as text."""
        from steepest.experiment.report.tables import text_table

        size, tested = len(self.classes), self.test_images
        lines = [f"{self.photos} photographs of {size} classes, {tested} test images"]
        counts = sorted({n for s in self.sittings for n in s.labels})
        rows = []
        for name in dict.fromkeys(s.strategy for s in self.sittings):
            runs = [s for s in self.sittings if s.strategy == name]
            cells = [
                _mean_cell([dict(zip(s.labels, s.accuracy, strict=True)).get(n) for s in runs])
                for n in counts
            ]
            reached = [s.labels_to(ACCURATE) for s in runs]
            hints = sum(s.hints for s in runs)
            right = f"{sum(s.hints_right for s in runs)}/{hints}" if hints else NONE
            first = ", ".join(NONE if n is None else str(n) for n in reached)
            rows.append([name, str(len(runs)), *cells, first, right])
        head = ["strategy", "n", *(f"{n} labels" for n in counts), "labels to 85 %", "hints right"]
        lines += ["", text_table(head, rows)]
        timed = [[t.what, f"{t.cpu_seconds:.1f}", f"{t.wall_seconds:.1f}"] for t in self.timings]
        lines += ["", text_table(["work", "CPU seconds", "seconds"], timed)]
        doubted = [
            [str(d.seed), str(d.labels), str(d.wrong), str(d.listed), str(d.found)]
            for d in self.doubts
        ]
        lines += [
            "",
            text_table(["seed", "labels", "wrong", "listed", "wrong and listed"], doubted),
        ]
        return "\n".join(lines)


def _mean_cell(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return NONE
    spread = f" ± {np.std(known, ddof=1):.1%}" if len(known) > 1 else ""
    return f"{np.mean(known):.1%}{spread}"


class LabellingBench:
    """Answers on the page as somebody would who knows the truth, and tests the models.

    Args:
        seeds: Of the projects, a sitting for each.
        strategies: The strategy that picks; ``default`` is the page's own.
        labels: Answers in each sitting.
        progress: Shows how far it is.
        command: The command as typed, for the record.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        strategies: Sequence[str],
        labels: int,
        progress: Progress,
        command: str = "",
    ) -> None:
        self._seeds = tuple(seeds)
        self._strategies = tuple(strategies)
        self._labels = labels
        self._progress = progress
        self._command = command
        self._classes: tuple[str, ...] = ()
        self._sizes = (0, 0)
        self._sittings: list[Sitting] = []
        self._timings: list[Timing] = []
        self._doubts: list[Doubts] = []
        self._complete = False

    def run(self, after_each: Callable[[LabellingResult], None] | None = None) -> LabellingResult:
        """Measure everything.

        Args:
            after_each: Called with what is known after each part.
        """
        with tempfile.TemporaryDirectory(prefix="steepest-bench-") as scratch:
            place = Path(scratch)
            photos, truth, tests = _write_photos(place)
            self._classes, self._sizes = tests.classes, (len(truth), len(tests.labels))
            total = 1 + len(self._seeds) * (1 + len(self._strategies))
            with self._progress.task("labelling", total) as step:
                self._timings = _time(place, photos, truth, self._classes)
                step.advance()
                self._note(after_each)
                for seed in self._seeds:
                    self._doubts.append(_doubt(place, photos, truth, self._classes, seed))
                    step.advance(note=f"doubts, seed {seed}")
                for strategy in self._strategies:
                    for seed in self._seeds:
                        self._sittings.append(
                            _sit(place, photos, truth, tests, strategy, seed, self._labels)
                        )
                        step.advance(note=f"{strategy}, seed {seed}")
                        self._note(after_each)
        self._complete = True
        return self.result()

    def _note(self, after_each: Callable[[LabellingResult], None] | None) -> None:
        if after_each is not None:
            after_each(self.result())

    def result(self) -> LabellingResult:
        """Return the results so far."""
        return LabellingResult(
            schema=SCHEMA,
            command=self._command,
            environment=describe_machine(torch.device("cpu")),
            device="cpu",
            seed=self._seeds[0] if self._seeds else 0,
            complete=self._complete,
            classes=self._classes,
            photos=self._sizes[0],
            test_images=self._sizes[1],
            sittings=tuple(self._sittings),
            timings=tuple(self._timings),
            doubts=tuple(self._doubts),
        )


@dataclass(frozen=True, eq=False)
class _Tests:
    """Images that no project has.

    Attributes:
        classes: Names of the classes.
        rows: Features [N, D].
        labels: Numbers of the classes [N].
    """

    classes: tuple[str, ...]
    rows: Tensor
    labels: Tensor

    def accuracy(self, model: Path) -> float:
        """Return the accuracy of a classifier."""
        from steepest.labelling.project.classifier import load_classifier

        made = load_classifier(model, device="cpu")
        found = made.from_inputs(self.rows).argmax(1)
        names = [made.classes[k] for k in found.tolist()]
        right = [
            name == self.classes[k] for name, k in zip(names, self.labels.tolist(), strict=True)
        ]
        return float(np.mean(right))


def _write_photos(place: Path) -> tuple[Path, dict[str, str], _Tests]:
    """Write the training images of the ten largest classes of Caltech-101 into a folder.

    Faces_easy is left out: it has the photographs of Faces, cut to the face.
    """
    from PIL import Image

    from steepest.data.base import data_root
    from steepest.data.loading import load
    from steepest.data.shards import read_classes
    from steepest.features import image_features
    from steepest.models.backbones import find_backbone

    data = load("caltech101", options={"source": "shards"})
    names = read_classes((data_root() or Path()) / _SHARDS)
    train, tests = data.train_labels.unseal("bench"), data.test_labels
    inputs, outputs = data.train_images, data.test_images
    if not (
        isinstance(inputs, Tensor) and isinstance(outputs, Tensor) and isinstance(tests, Tensor)
    ):
        raise SteepestError("the shards of Caltech-101 are images in memory")
    ordered = torch.bincount(train).argsort(descending=True, stable=True).tolist()
    largest = [k for k in ordered if names[k] not in _LEFT_OUT][:_CLASSES]
    classes = tuple(sorted(names[k] for k in largest))
    photos = place / "photos"
    photos.mkdir()
    truth = {}
    for number, label in enumerate(train.tolist()):
        if label in largest:
            name = f"{number:05d}.png"
            pixels = inputs[number].permute(1, 2, 0).numpy()
            Image.fromarray(pixels).save(photos / name)
            truth[name] = names[label]
    kept = torch.isin(tests, torch.tensor(largest))
    table = image_features(
        outputs[kept], find_backbone(), store=place / "tests", device="cpu", progress=False
    )
    numbers = [classes.index(names[k]) for k in tests[kept].tolist()]
    return photos, truth, _Tests(classes, table.rows, torch.tensor(numbers))


def _time(
    place: Path, photos: Path, truth: Mapping[str, str], classes: Sequence[str]
) -> list[Timing]:
    """Time the first picks for a folder, and a training, in this process."""
    from steepest.labelling.project import Project, Settings
    from steepest.labelling.project.inputs import FeatureFinder
    from steepest.labelling.project.retraining import run_round

    few = place / "few"
    few.mkdir()
    chosen = random_subset(sorted(truth), _TIMED_PHOTOS, 0, "timed photographs")
    names = [sorted(truth)[i] for i in chosen]
    for name in names:
        os.link(photos / name, few / name)
    settings = Settings(learn="probe", device="cpu")
    timings = []
    with Project.open(few, classes, settings=settings, background=False) as project:
        finder = FeatureFinder(project.store, project.source)

        def time_round(what: str) -> None:
            project.trainer.request()
            cpu, wall = time.process_time(), time.perf_counter()
            run_round(project.store, project.source, secrets.token_hex(8), finder)
            timings.append(Timing(what, time.process_time() - cpu, time.perf_counter() - wall))

        time_round(f"first picks of {len(names)} photographs, with their features")
        for _ in range(_TIMED_LABELS):
            (task,) = project.queue.next("annotator")
            project.queue.answer("annotator", task.sample, [truth[task.sample]])
        project.trainer.request()
        run_round(project.store, project.source, secrets.token_hex(8), finder)
        time_round(f"a training after {_TIMED_LABELS} labels, with new picks")
    return timings


def _doubt(
    place: Path, photos: Path, truth: Mapping[str, str], classes: Sequence[str], seed: int
) -> Doubts:
    """Label images, some of them wrongly, and count what is listed to look at again."""
    from steepest.labelling.project import Project, Settings, statistics
    from steepest.labelling.project.inputs import FOLDER
    from steepest.labelling.project.retraining import run_round

    names = sorted(truth)
    drawn = [names[i] for i in random_subset(names, _DOUBTED_LABELS, seed, "doubted labels")]
    shifts = keyed_uniform(seed, "wrong labels", drawn)[:, 0]
    wrong = set(drawn[:_WRONG])
    folder = place / f"doubts-{seed}"
    _share_features(place, folder / FOLDER)
    settings = Settings(learn="probe", device="cpu", validation_share=0.0, seed=seed)
    with Project.open(photos, classes, folder=folder, settings=settings, background=False) as made:
        for name, draw in zip(drawn, shifts.tolist(), strict=True):
            others = [c for c in classes if c != truth[name]]
            label = others[int(draw * len(others))] if name in wrong else truth[name]
            made.queue.answer("annotator", name, [label])
        made.trainer.request()
        run_round(made.store, made.source, secrets.token_hex(8))
        listed = {doubt.sample for doubt in statistics.suspicious(made)}
    _keep_features(place, folder / FOLDER)
    return Doubts(seed, len(drawn), len(wrong), len(listed), len(listed & wrong))


def _sit(
    place: Path,
    photos: Path,
    truth: Mapping[str, str],
    tests: _Tests,
    strategy: str,
    seed: int,
    labels: int,
) -> Sitting:
    """Answer on a page in a separate process."""
    from steepest.labelling.project.inputs import FOLDER

    folder = place / f"{strategy}-{seed}"
    _share_features(place, folder / FOLDER)
    options = ["--classes", ",".join(tests.classes), "--project", str(folder), "--seed", str(seed)]
    if strategy != "default":
        options += ["--strategy", strategy]
    counts: list[int] = []
    found: list[float] = []
    hints: list[bool] = []
    with _Page(photos, options) as page:
        page.wait_until_idle()
        for answered in range(1, labels + 1):
            shown = page.get("/task")
            sample = unescape(_SAMPLE.findall(shown)[0])
            hint = _HINT.findall(shown)
            if hint:
                hints.append(unescape(hint[0]) == truth[sample])
            page.post("/answer", [("sample", sample), ("label", truth[sample])])
            page.wait_until_idle()
            if answered % _EVERY == 0:
                model = place / "model.safetensors"
                data = page.download("/export/model")
                if data is not None:
                    model.write_bytes(data)
                    counts.append(answered)
                    found.append(tests.accuracy(model))
    _keep_features(place, folder / FOLDER)
    return Sitting(strategy, seed, tuple(counts), tuple(found), len(hints), sum(hints))


def _share_features(place: Path, folder: Path) -> None:
    """Let a project begin with the features that an earlier one has computed."""
    if (place / "features").is_dir():
        shutil.copytree(place / "features", folder)


def _keep_features(place: Path, folder: Path) -> None:
    if folder.is_dir():
        shutil.rmtree(place / "features", ignore_errors=True)
        shutil.copytree(folder, place / "features")


class _Page:
    """A labelling page in a separate process, and a browser without a screen."""

    def __init__(self, photos: Path, options: Iterable[str]) -> None:
        command = [sys.executable, "-P", "-m", "steepest", "label", str(photos), "--no-browser"]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        address = ""
        for line in self._process.stdout or ():
            if line.startswith("Label at "):
                address = line.split()[-1]
            if line.startswith("Ctrl-C"):
                break
        if not address:
            raise SteepestError("steepest label did not start: try it by itself")
        self._host, _, path = address.removeprefix("http://").partition("/")
        self._cookies: dict[str, str] = {}
        self._ask("GET", f"/{path}")
        self._ask("POST", "/name", [("name", "annotator")])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def get(self, address: str) -> str:
        """Return a page."""
        return self._ask("GET", address).decode()

    def post(self, address: str, form: Sequence[tuple[str, str]]) -> None:
        """Send a form."""
        self._ask("POST", address, form)

    def download(self, address: str) -> bytes | None:
        """Return a file; None if there is none yet."""
        try:
            return self._ask("GET", address)
        except SteepestError:
            return None

    def wait_until_idle(self) -> None:
        """Wait until no training is wanted or under way."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while "Train now" not in self.get("/panel"):
            if time.monotonic() > end:
                raise SteepestError("a training of the page did not come to its end")
            time.sleep(_LOOK_SECONDS)

    def _ask(self, verb: str, address: str, form: Sequence[tuple[str, str]] = ()) -> bytes:
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        headers = {"X-Steepest": "1", "Cookie": cookies}
        if verb == "POST":
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection(self._host, timeout=_PATIENCE_SECONDS)
        try:
            connection.request(verb, address, urlencode(form) if form else None, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        for line in answer.headers.get_all("set-cookie") or []:
            name, _, value = line.partition(";")[0].partition("=")
            self._cookies[name] = value
        if answer.status >= 400:
            raise SteepestError(f"{verb} {address}: {answer.status} {data[:200]!r}")
        return data
