"""Features of any pool that a pretrained net can read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steepest.core.progress import Progress
from steepest.core.seeds import SampleId
from steepest.data.texts import TextRows, holds_texts, read_texts
from steepest.errors import InputError
from steepest.features.folder import folder_features
from steepest.features.samples import image_features, text_features
from steepest.features.store import usual_place
from steepest.features.table import FeatureTable
from steepest.models.backbones import DEFAULT, DEFAULT_TEXT, Backbone, find_backbone


def pool_features(
    pool: Any,  # noqa: ANN401 - whatever users have
    backbone: str | Backbone | None = None,
    *,
    ids: Sequence[SampleId] | None = None,
    store: Path | str | None = None,
    batch_size: int | None = None,
    device: torch.device | str = "auto",
    progress: bool | Progress = True,
) -> FeatureTable:
    """Return the features of a pool's samples.

    Args:
        pool: The path of a folder of images, images in memory as bytes [N, 3, H, W] or
            [N, H, W, 3], rows of features [N, D], or a table of them that was made before; or
            texts: the path of a table or of JSON lines, a list, a data set of Hugging Face's
            library, or what ``steepest.data.read_texts`` made of one.
        backbone: Computes them, by its name or as it is; by default ``efficientnet-lite0``, and
            ``all-minilm-l6-v2`` for texts. Not for rows that are features already.
        ids: The samples' names [N]; by default a folder's relative paths, or the index.
        store: Where features are kept; by default in ``.steepest/features`` of a folder, or beside
            a file of texts, and nowhere for samples in memory.
        batch_size: Samples at once; by default suited to the device.
        device: The device.
        progress: Whether to show progress.

    Raises:
        InputError: If the pool is of another kind.
        DataError: If there is no such folder, or no image in it.
    """
    if isinstance(pool, FeatureTable):
        _refuse(ids is not None, "ids=", "a table of features, which has its own")
        _refuse(backbone is not None, "a backbone", "a pool of features, which are computed")
        return pool
    if isinstance(pool, TextRows) or holds_texts(pool):
        texts = pool if isinstance(pool, TextRows) else read_texts(pool, ids=ids)
        if store is None and isinstance(pool, (str, Path)):
            store = usual_place(Path(pool).parent)
        net = _found(backbone, DEFAULT_TEXT)
        return text_features(
            texts, net, store=store, batch_size=batch_size, device=device, progress=progress
        )
    options: dict[str, Any] = {"batch_size": batch_size, "device": device, "progress": progress}
    if isinstance(pool, (str, Path)):
        _refuse(ids is not None, "ids=", "a folder, whose samples go by their relative paths")
        return folder_features(Path(pool), _found(backbone), store=store, **options)
    rows = torch.from_numpy(np.asarray(pool)) if isinstance(pool, np.ndarray) else pool
    if not isinstance(rows, Tensor):
        raise InputError(
            f"a pool of type {type(pool).__name__} needs a model of yours: without one, pass a "
            "folder of images, images as bytes [N, 3, H, W], texts, or rows of features [N, D]"
        )
    if rows.dtype == torch.uint8 and rows.ndim == 4:
        images = rows if rows.shape[1] in (1, 3) else rows.movedim(-1, 1)
        return image_features(images, _found(backbone), store=store, ids=ids, **options)
    if rows.is_floating_point() and rows.ndim == 2:
        _refuse(backbone is not None, "a backbone", "a pool of features, which are computed")
        names = tuple(range(len(rows)) if ids is None else ids)
        if len(names) != len(rows):
            raise InputError(f"{len(names)} ids for {len(rows)} rows: one id each")
        return FeatureTable(names, rows.detach().cpu().float())
    raise InputError(
        f"a pool of {rows.dtype} {list(rows.shape)} needs a model of yours: without one, pass "
        "images as bytes [N, 3, H, W], rows of features [N, D], or a folder of images"
    )


def _found(backbone: str | Backbone | None, usual: str = DEFAULT) -> Backbone:
    if isinstance(backbone, Backbone):
        return backbone
    return find_backbone(backbone or usual, "images" if usual == DEFAULT else "text")


def _refuse(given: bool, what: str, where: str) -> None:
    if given:
        raise InputError(f"{what} is not for {where}: leave it out")
