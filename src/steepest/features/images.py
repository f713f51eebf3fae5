"""Features of images in memory, as data sets have them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from steepest.core.devices import choose_device
from steepest.core.progress import Progress, as_progress
from steepest.core.seeds import SampleId
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
    store: Path | str,
    ids: Sequence[SampleId] | None = None,
    batch_size: int | None = None,
    device: torch.device | str = "auto",
    progress: bool | Progress = True,
) -> FeatureTable:
    """Return the features of images in memory.

    Args:
        images: Bytes uint8 [N, 3, H, W], or [N, 1, H, W] for grey ones.
        backbone: Computes them.
        store: The folder that they are kept in; images that are in it are not computed again.
        ids: The samples' names [N]; by default the index.
        batch_size: Images at once; by default what suits the device.
        device: The device.
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
    digests = [_digest(image) for image in images]
    kept = FeatureStore(Path(store), backbone)
    missing = [row for row, digest in enumerate(digests) if digest not in kept]
    computed = 0
    if missing:
        where = choose_device(device)

        def read(row: int) -> Read:
            known = digests[row] in kept
            return Read(digests[row], None if known else backbone.prepare(_picture(images[row])))

        with kept, as_progress(progress).task(f"features by {backbone.name}", len(missing)) as step:
            size = batch_size or usual_batch_size(where)
            work: Pass[int, Read] = Pass(backbone, kept, read, lambda _: None, size, where)
            computed = work.run(missing, step)
    rows = kept.rows(digests)
    return FeatureTable(names, rows, backbone.name, backbone.identity, (), computed)


def _digest(image: Tensor) -> str:
    data = image.contiguous().numpy()
    digest = hashlib.blake2b(str(data.shape).encode(), digest_size=_DIGEST_BYTES)
    digest.update(data.tobytes())
    return digest.hexdigest()


def _picture(image: Tensor) -> object:
    from PIL import Image

    pixels = image.permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    return picture.convert("RGB")
