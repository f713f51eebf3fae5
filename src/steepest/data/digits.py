"""Handwritten digits, 8x8 grey, inside the package: real data without a download.

The 1,797 images are the test part of "Optical Recognition of Handwritten Digits" by E. Alpaydin
and C. Kaynak (UCI Machine Learning Repository, 1998, doi:10.24432/C50P49), licensed CC BY 4.0.
Changed here: stored as one compressed file, and scaled from 0..16 to 0..255 on loading.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from steepest.core.seeds import keyed_uniform
from steepest.data.base import DATASETS, ImageSet
from steepest.data.catalogue import Holding, Source, add_to_catalogue
from steepest.data.sealed import SealedLabels
from steepest.errors import DataError

_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
_TEST_COUNT = 500

add_to_catalogue(
    Holding(
        name="digits",
        title="Handwritten digits, grey, 8x8",
        task="classification",
        train_count=1_297,
        test_count=500,
        classes=10,
        source=Source.BUILT_IN,
        terms="CC BY 4.0; E. Alpaydin and C. Kaynak (1998), doi:10.24432/C50P49",
    )
)


@DATASETS.register("digits")
def digits(root: Path | None = None) -> ImageSet:  # noqa: ARG001 - the images are in the package
    """Load the digits: 1,297 to learn from, 500 to test on."""
    images, labels = _read()
    # Keyed draws, not a library's permutation: the split must outlive every torch release.
    order = np.argsort(keyed_uniform(0, "digits split", range(len(images)))[:, 0], kind="stable")
    train, test = order[:-_TEST_COUNT], order[-_TEST_COUNT:]
    grey = ((images.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)[:, None]
    return ImageSet(
        name="digits",
        classes=tuple("0123456789"),
        train_images=torch.from_numpy(grey[train]),
        train_labels=SealedLabels(torch.from_numpy(labels[train].astype(np.int64))),
        test_images=torch.from_numpy(grey[test]),
        test_labels=torch.from_numpy(labels[test].astype(np.int64)),
        mean=(0.3055,),
        std=(0.3765,),
        augmentation="shift",
    )


def _read() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return images [1797, 8, 8] in 0..16 and labels [1797]."""
    data = resources.files("steepest.data").joinpath("digits.npz").read_bytes()
    try:
        with np.load(io.BytesIO(data)) as arrays:
            images, labels = arrays["images"], arrays["labels"]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError("digits.npz is damaged: install steepest again") from error
    if hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest() != _SHA256:
        raise DataError("digits.npz is not the file of this release: install steepest again")
    return images, labels
