"""Simulated subtomograms of fifty complexes, 32³ voxels each: noiseless or very noisy.

The paper's two sets of these names are not published, nor are their classes. These are new:
compare strategies on them with each other, not with the paper's numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from steepest.core.devices import choose_device
from steepest.data.base import DATASETS, ImageSet
from steepest.data.catalogue import Holding, Source, add_to_catalogue
from steepest.data.cryoet.atoms import read_atoms_folder
from steepest.data.cryoet.mrc import read_mrc_folder
from steepest.data.cryoet.poses import balanced_classes
from steepest.data.cryoet.procedural import procedural_templates
from steepest.data.cryoet.settings import Settings
from steepest.data.cryoet.simulator import Simulator
from steepest.data.cryoet.templates import ARCHIVE, Templates, read_template_archive
from steepest.data.cryoet.volumes import make_volumes
from steepest.data.sealed import SealedLabels
from steepest.errors import DataError, InputError, UnknownNameError

_CLASSES = 50
_SNR = 0.05
_FIXED_DEFOCUS_UM = (-5.0, -5.0)
_RANDOM_DEFOCUS_UM = (-6.0, -2.0)
SOURCES = ("auto", "files", "procedural")
FOLDER = "cryoet"
MAPS_FOLDER = "maps"
STRUCTURES_FOLDER = "structures"

for _name, _title in (
    ("50c-clean", "without noise"),
    ("50c-snr005", "with a signal-to-noise ratio of 0.05"),
):
    add_to_catalogue(
        Holding(
            name=_name,
            title=f"Cryo-ET subtomograms of 32x32x32 voxels, {_title}",
            task="classification",
            train_count=24_000,
            test_count=1_000,
            classes=_CLASSES,
            source=Source.SIMULATED,
            terms="simulated here, each time the same; the paper's own sets of this name are not "
            "published",
        )
    )


@dataclass(frozen=True)
class Request:
    """Number, kind and storage of the volumes to simulate."""

    train: int
    test: int
    seed: int
    templates: str
    storage: str
    device: str
    workers: int

    def __post_init__(self) -> None:
        for name, least in (("train", 1), ("test", 1), ("seed", 0), ("workers", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} is {value!r}; give a whole number from {least} on")


@DATASETS.register("50c-clean")
def clean(
    root: Path | None = None, *, train: int = 24_000, test: int = 1_000, seed: int = 0,
    templates: str = "auto", storage: str = "memory", shift_voxels: float = 2.0,
    random_defocus: bool = False, neighbours: int = 0, device: str = "cpu", workers: int = 0,
) -> ImageSet:  # fmt: skip
    """Simulate subtomograms of 50 complexes, without noise."""
    request = Request(train, test, seed, templates, storage, device, workers)
    settings = Settings(
        shift_voxels=shift_voxels, defocus_um=_defocus(random_defocus), neighbours=neighbours
    )
    return make_subtomograms("50c-clean", root, request, settings)


@DATASETS.register("50c-snr005")
def snr005(
    root: Path | None = None, *, train: int = 24_000, test: int = 1_000, seed: int = 0,
    templates: str = "auto", snr_mode: str = "tilt", storage: str = "memory",
    shift_voxels: float = 2.0, random_defocus: bool = False, neighbours: int = 0,
    device: str = "cpu", workers: int = 0,
) -> ImageSet:  # fmt: skip
    """Simulate subtomograms of 50 complexes at a signal-to-noise ratio of 0.05."""
    request = Request(train, test, seed, templates, storage, device, workers)
    settings = Settings(
        shift_voxels=shift_voxels,
        defocus_um=_defocus(random_defocus),
        neighbours=neighbours,
        snr=_SNR,
        snr_mode=snr_mode,
    )
    return make_subtomograms("50c-snr005", root, request, settings)


def make_subtomograms(
    name: str, root: Path | None, request: Request, settings: Settings
) -> ImageSet:
    """Simulate a data set.

    Args:
        name: Its name; where the templates come from is added to it.
        root: The folder of data sets.
        request: How many volumes, and where to keep them.
        settings: The physics.

    Raises:
        InputError: If an option cannot be used.
        DataError: If templates are missing or damaged, or a file cannot be written.
    """
    templates = find_templates(root, request.templates, _CLASSES)
    device = choose_device(request.device)
    made = {}
    for split, count in (("train", request.train), ("test", request.test)):
        labels = balanced_classes(request.seed, split, count, len(templates))
        simulator = Simulator(templates, settings, seed=request.seed, stream=split, device=device)
        volumes = make_volumes(
            simulator, labels, request.storage, name=f"{name}-{split}", root=root,
            workers=request.workers,
        )  # fmt: skip
        made[split] = volumes, labels
    return ImageSet(
        name=f"{name} ({templates.source} templates)",
        classes=templates.names,
        train_images=made["train"][0],
        train_labels=SealedLabels(made["train"][1]),
        test_images=made["test"][0],
        test_labels=made["test"][1],
        mean=(0.0,),
        std=(1.0,),
    )


def _defocus(random: bool) -> tuple[float, float]:
    return _RANDOM_DEFOCUS_UM if random else _FIXED_DEFOCUS_UM


def find_templates(root: Path | None, source: str, classes: int) -> Templates:
    """Return the templates of a data set.

    Args:
        root: The folder of data sets. In its folder ``cryoet`` the first that is there is read:
            the archive, MRC files in ``maps``, PDB or mmCIF files in ``structures``.
        source: ``"files"``; ``"procedural"``; or ``"auto"``: files if there are any.
        classes: How many there must be.

    Raises:
        UnknownNameError: If there is no such source.
        DataError: If files are missing or damaged, or are not as many as the classes.
    """
    if source not in SOURCES:
        raise UnknownNameError("source of templates", source, SOURCES)
    read = None if source == "procedural" else _find_files(root)
    if read is None and source == "files":
        raise DataError(
            f"{'no data folder' if root is None else root / FOLDER}: no {ARCHIVE}, {MAPS_FOLDER}/ "
            f"or {STRUCTURES_FOLDER}/; put templates there, or use templates = 'procedural'"
        )
    templates = procedural_templates() if read is None else read()
    if len(templates) != classes:
        raise DataError(f"{len(templates)} {templates.source} templates instead of {classes}")
    return templates


def _find_files(root: Path | None) -> Callable[[], Templates] | None:
    if root is None:
        return None
    folder = root / FOLDER
    if (folder / ARCHIVE).exists():
        return lambda: read_template_archive(folder)
    if (folder / MAPS_FOLDER).is_dir():
        return lambda: read_mrc_folder(folder / MAPS_FOLDER)
    if (folder / STRUCTURES_FOLDER).is_dir():
        return lambda: read_atoms_folder(folder / STRUCTURES_FOLDER)
    return None
