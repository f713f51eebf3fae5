"""Writes shards in the compact format, for the data sets that are read from it."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image


def write_shards(folder, split, parts, labels, per_strip=2):
    """Write images [N, H, W, C] and their classes; each part is a shard."""
    _write_images(folder, split, parts, per_strip)
    np.save(folder / f"{split}_labels.npy", np.asarray(labels, np.uint8))


def write_map_shards(folder, split, parts, maps, per_strip=2):
    """Write images [N, H, W, C] and their label maps [N, H, W]."""
    _write_images(folder, split, parts, per_strip)
    np.savez(folder / f"{split}_labels.npz", labels=maps)


def _write_images(folder, split, parts, per_strip):
    folder.mkdir(parents=True, exist_ok=True)
    for number, images in enumerate(parts):
        strips = []
        for start in range(0, len(images), per_strip):
            stack = images[start : start + per_strip]
            buffer = io.BytesIO()
            flat = stack.reshape(-1, stack.shape[2], stack.shape[3])
            grey = flat.shape[2] == 1
            Image.fromarray(flat[:, :, 0] if grey else flat).convert("RGB").save(
                buffer, "WEBP", lossless=True
            )
            strips.append(np.frombuffer(buffer.getvalue(), np.uint8))
        offsets = np.cumsum([0, *map(len, strips)])
        np.savez(
            folder / f"{split}_{number}.npz",
            data=np.concatenate(strips),
            off=offsets,
            shape=np.array(images.shape),
        )
