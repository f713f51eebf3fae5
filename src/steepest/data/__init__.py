"""Data sets by name, one file each; from Python, any arrays or data sets of other libraries."""

from __future__ import annotations

from steepest.data.arrays import from_arrays
from steepest.data.base import DATASETS, Images, ImageSet
from steepest.data.folder import ImageFolder
from steepest.data.large_files import ListedImages, ParquetRows, RemoteArray
from steepest.data.loading import load, names
from steepest.data.sealed import SealedLabels
from steepest.data.streamed import Reader, Streamed
from steepest.data.texts import TextRows, TokenisedTexts, read_texts
from steepest.data.torch_set import from_hugging_face, from_torch

__all__ = [
    "DATASETS",
    "ImageFolder",
    "ImageSet",
    "Images",
    "ListedImages",
    "ParquetRows",
    "Reader",
    "RemoteArray",
    "SealedLabels",
    "Streamed",
    "TextRows",
    "TokenisedTexts",
    "from_arrays",
    "from_hugging_face",
    "from_torch",
    "load",
    "names",
    "read_texts",
]
