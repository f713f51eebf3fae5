"""A script labels real CIFAR-10 images on the page; the model gets as good as in a simulation."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

from steepest.core.tables import from_table
from steepest.data.cifar10 import MEAN, STD
from steepest.data.loading import load
from steepest.experiment import Config, Experiment
from steepest.labelling.project import Project, statistics
from steepest.models import build
from steepest.modules.weights import load_weights
from steepest.training.evaluate import predict_logits

sys.path.insert(0, str(Path(__file__).parents[1] / "labelling" / "web"))

from label_server import LabelServer, samples_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("STEEPEST_DATA" not in os.environ, reason="STEEPEST_DATA is not set"),
]

IMAGES, ROUNDS, BATCH, EPOCHS = 2000, 4, 150, 20
MARGIN = 0.05
"""How much less accurate the page's model may be. 2,000 test images alone give the difference of
two models, right on a third, a standard error of 0.015; draws of labels and weights add to it."""


def write_photos(data, folder):
    """Write the images under names that do not tell what they are."""
    folder.mkdir()
    for number, image in enumerate(data.train_images):
        pixels = image.permute(1, 2, 0).contiguous().numpy()
        Image.fromarray(pixels).save(folder / f"{number:05d}.png")
    return folder


def label_on_the_page(photos, data):
    """Answer round by round, and wait for each model as a person would."""
    truth = data.train_labels.unseal("a scripted annotator").tolist()
    options = [
        *("--classes", ",".join(data.classes), "--strategy", "margin", "--device", "cpu"),
        *("--retrain-every", str(BATCH), "--epochs", str(EPOCHS), "--validation-share", "0.1"),
        *("--set", f"mean={list(MEAN)}", "--set", f"std={list(STD)}"),
    ]
    with LabelServer(photos, *options) as server:
        person = server.person("script")
        person.wait_for("/panel", "Batch 1")
        for version in range(1, ROUNDS + 1):
            page = person.get("/task")
            # What was held when new picks came is answered first, and is of the batch before.
            while f"{BATCH}/{BATCH}" not in person.get("/panel"):
                sample = samples_in(page)[0]
                name = data.classes[truth[int(Path(sample).stem)]]
                page = person.post("/answer", sample=sample, label=name)
            person.wait_for("/panel", f"<span>Model {version}</span>")
        assert re.search(r"Model 4: <strong>\d+ %", person.get("/panel"))
        assert server.end()[0] == 0


def accuracy_of(path, data):
    model = build("small-cnn", len(data.classes), 3, 0)
    load_weights(model, path)
    device = torch.device("cpu")
    logits = predict_logits(model, data.test_images, mean=MEAN, std=STD, device=device)
    return float((logits.argmax(1) == data.test_labels).float().mean())


def simulate(data, curve, out):
    """Run the loop on the same images with as many labels, the same model and the same training."""
    first, last = curve[0].labels, curve[-1].labels
    table = {
        "name": "as on the page",
        "device": "cpu",
        "data": {"name": "cifar10", "limit": IMAGES},
        "model": {"name": "small-cnn"},
        "strategy": {"name": "margin"},
        "loop": {
            "initial": first,
            "k": (last - first) // (ROUNDS - 1),
            "cycles": ROUNDS,
            "init": "cold",
        },
        "training": {
            "epochs": EPOCHS,
            "batch_size": 32,
            "optimizer": "adam",
            "lr": 1e-3,
            "weight_decay": 1e-4,
            "schedule": "cosine",
            "augmentation": "shift",
        },
    }
    return Experiment(from_table(Config, table), out, data=data).run()[-1]


def test_the_page_reaches_the_accuracy_of_a_simulated_loop(tmp_path):
    data = load("cifar10", limit=IMAGES)
    photos = write_photos(data, tmp_path / "photos")
    label_on_the_page(photos, data)
    with Project.open(photos, background=False) as project:
        curve = statistics.learning_curve(project)
        trainings = project.trainings()
        counts = project.progress()
        weights = project.folder / trainings[-1].weights
        reached = accuracy_of(weights, data)
    assert ROUNDS * BATCH <= counts.labelled < (ROUNDS + 0.1) * BATCH
    assert [point.version for point in curve] == list(range(1, ROUNDS + 1))
    assert curve[-1].low <= reached <= curve[-1].high  # the page's own estimate is honest
    simulated = simulate(data, curve, tmp_path / "simulated").metrics["accuracy"]
    sys.stdout.write(f"page {reached:.4f}, simulation {simulated:.4f}\n")
    assert reached > simulated - MARGIN
    assert reached > 0.25
