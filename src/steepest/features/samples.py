"""Features of images and texts in memory, computed once for each content."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from steepest.core.devices import choose_device
from steepest.core.progress import Progress, as_progress
from steepest.core.seeds import SampleId
from steepest.data.texts import TextRows
from steepest.errors import InputError
from steepest.features.passes import Pass, Read, usual_batch_size
from steepest.features.store import FeatureStore
from steepest.features.table import FeatureTable
from steepest.models.backbones import Backbone

_DIGEST_BYTES = 16


def image_features(
    images: Tensor,
    backbone: Backbone,
    *,
    store: Path | str | None,
    ids: Sequence[SampleId] | None = None,
    batch_size: int | None = None,
    device: torch.device | str = "auto",
    progress: bool | Progress = True,
) -> FeatureTable:
    """Return the features of images in memory.

    Args:
        images: Bytes uint8 [N, 3, H, W], or [N, 1, H, W] for grey ones.
        backbone: Computes them.
        store: The folder that they are kept in, and not computed again; None keeps them nowhere.
        ids: The samples' names [N]; by default the index.
        batch_size: Images at once; by default suited to the device.
        device: Where to compute.
        progress: Whether to show progress.

    Raises:
        InputError: If the images are of another kind, or the store is damaged.
    """
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
        raise InputError(
            f"images are {images.dtype} {list(images.shape)}: give bytes [N, 3, H, W], or "
            "[N, 1, H, W] for grey ones"
        )
    if backbone.kind != "images":
        raise InputError(f"backbone {backbone.name!r} reads {backbone.kind}, not images")
    names = tuple(range(len(images)) if ids is None else ids)
    if len(names) != len(images):
        raise InputError(f"{len(names)} ids for {len(images)} images: one id each")
    digests = [_digest_image(image) for image in images]
    rows, computed = _compute(
        digests,
        lambda row: _picture(images[row]),
        range(len(images)),
        backbone,
        store,
        batch_size,
        device,
        progress,
    )
    return FeatureTable(names, rows, backbone.name, backbone.identity, (), computed)


def text_features(
    texts: TextRows,
    backbone: Backbone,
    *,
    store: Path | str | None = None,
    batch_size: int | None = None,
    device: torch.device | str = "auto",
    progress: bool | Progress = True,
) -> FeatureTable:
    """Return the features of texts; each depends on its text alone, whatever is in a batch.

    Args:
        texts: The texts with their ids.
        backbone: Computes them.
        store: As for ``image_features``.
        batch_size: Texts at once; by default suited to the device.
        device: Where to compute.
        progress: Whether to show progress.

    Raises:
        InputError: If the backbone reads images, or the store is damaged.
    """
    if backbone.kind != "text":
        raise InputError(
            f"backbone {backbone.name!r} reads {backbone.kind}, not text: take all-minilm-l6-v2, "
            "hf:ORG/NAME or sentence-transformers:NAME"
        )
    # Long ones together: less padding, and a quick end.
    order = sorted(range(len(texts.texts)), key=lambda row: -len(texts.texts[row]))
    digests = [_digest(text.encode("utf-8", "surrogatepass")) for text in texts.texts]
    rows, computed = _compute(
        digests, texts.texts.__getitem__, order, backbone, store, batch_size, device, progress
    )
    return FeatureTable(texts.ids, rows, backbone.name, backbone.identity, texts.skipped, computed)


def _compute(
    digests: Sequence[str],
    sample: Callable[[int], Any],
    order: Sequence[int],
    backbone: Backbone,
    store: Path | str | None,
    batch_size: int | None,
    device: torch.device | str,
    progress: bool | Progress,
) -> tuple[Tensor, int]:
    """Return rows [N, D], and how many of them were computed anew.

    Args:
        digests: Of the content of each sample [N].
        sample: Returns a sample by its row.
        order: In which missing rows are computed.
        backbone: Computes them.
        store: The folder that they are kept in.
        batch_size: Samples at once.
        device: Where to compute.
        progress: Whether to show progress.
    """
    if store is None:
        with tempfile.TemporaryDirectory(prefix="steepest-") as kept:
            rows, computed = _compute(
                digests, sample, order, backbone, kept, batch_size, device, progress
            )
            return rows.clone(), computed
    features, computed = FeatureStore(Path(store), backbone), 0
    if any(digest not in features for digest in digests):
        where = choose_device(device)

        def read(row: int) -> Read:
            known = digests[row] in features
            return Read(digests[row], None if known else backbone.prepare(sample(row)))

        with features:
            missing = [row for row in order if digests[row] not in features]
            with as_progress(progress).task(f"features by {backbone.name}", len(missing)) as step:
                size = batch_size or usual_batch_size(where)
                work: Pass[int, Read] = Pass(backbone, features, read, lambda _: None, size, where)
                computed = work.run(missing, step)
    return features.rows(digests), computed


def _digest(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _digest_image(image: Tensor) -> str:
    data = image.contiguous().numpy()
    return _digest(str(data.shape).encode(), data.tobytes())


def _picture(image: Tensor) -> object:
    from PIL import Image

    pixels = image.permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    return picture.convert("RGB")
