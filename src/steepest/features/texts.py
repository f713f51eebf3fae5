"""Features of texts, computed once for each text."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import torch

from steepest.core.devices import choose_device
from steepest.core.progress import Progress, as_progress
from steepest.data.texts import TextRows
from steepest.errors import InputError
from steepest.features.passes import Pass, Read, usual_batch_size
from steepest.features.store import FeatureStore
from steepest.features.table import FeatureTable
from steepest.models.backbones import Backbone

_DIGEST_BYTES = 16


def text_features(
    rows: TextRows,
    backbone: Backbone,
    *,
    store: Path | str | None = None,
    batch_size: int | None = None,
    device: torch.device | str = "auto",
    progress: bool | Progress = True,
) -> FeatureTable:
    """Return the features of texts; each depends on its text alone, whatever is in a batch.

    Args:
        rows: The texts.
        backbone: Computes them.
        store: The folder that they are kept in; None keeps them nowhere.
        batch_size: Texts at once; by default what suits the device.
        device: The device.
        progress: Whether to show progress.

    Raises:
        InputError: If the backbone reads images, or the store is damaged.
    """
    if backbone.kind != "text":
        raise InputError(
            f"backbone {backbone.name!r} reads {backbone.kind}, not text: take all-minilm-l6-v2, "
            "hf:ORG/NAME or sentence-transformers:NAME"
        )
    if store is None:
        with tempfile.TemporaryDirectory(prefix="steepest-") as kept:
            made = text_features(
                rows, backbone, store=kept, batch_size=batch_size, device=device, progress=progress
            )
            return FeatureTable(
                made.ids, made.rows.clone(), made.backbone, made.identity, made.skipped,
                made.computed,
            )  # fmt: skip
    kept_rows = FeatureStore(Path(store), backbone)
    digests = [_digest(text) for text in rows.texts]
    computed = 0
    if any(digest not in kept_rows for digest in digests):
        where = choose_device(device)

        def read(row: int) -> Read:
            known = digests[row] in kept_rows
            return Read(digests[row], None if known else backbone.prepare(rows.texts[row]))

        with kept_rows:
            missing = [row for row, digest in enumerate(digests) if digest not in kept_rows]
            # Long ones together: less padding, and what is left at the end goes quickly.
            missing.sort(key=lambda row: -len(rows.texts[row]))
            name = f"features by {backbone.name}"
            with as_progress(progress).task(name, len(missing)) as step:
                size = batch_size or usual_batch_size(where)
                work: Pass[int, Read] = Pass(backbone, kept_rows, read, lambda _: None, size, where)
                computed = work.run(missing, step)
    return FeatureTable(
        rows.ids, kept_rows.rows(digests), backbone.name, backbone.identity, rows.skipped, computed
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES
    ).hexdigest()
