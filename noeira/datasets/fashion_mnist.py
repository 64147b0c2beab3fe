"""Fashion-MNIST: 28×28 grey images of clothes and their classes."""

from __future__ import annotations

from pathlib import Path

from noeira.datasets.files import DataFiles, MissingData, absent, find
from noeira.datasets.idx import read_parts
from noeira.datasets.split import Images, Source, Split, raw_split, standardised

SHAPE = (1, 28, 28)
FILES = DataFiles(
    folder="fashion-mnist",
    md5={
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    megabytes=30,
    # Debian's package dataset-fashion-mnist.
    system=Path("/usr/share/datasets/fashion-mnist"),
)


class FashionMNIST(Images):
    """The Fashion-MNIST data set (Xiao et al. 2017): `train`, 60,000 images, and `test`, 10,000,
    each a Split; `source` and `classes`.

    Looked for in the folder `fashion-mnist` of NOEIRA_DATA, in /usr/share/datasets, where Debian's
    package `dataset-fashion-mnist` puts it, then in the user's cache, then downloaded there (30 MB,
    unless NOEIRA_OFFLINE is set).

    Images are float32 (N, 1, 28, 28), standardised by `mean` and `std`; with `raw=True` uint8 from
    0 to 255; with `flat=True` rows (N, 784). Raises MissingData if it is nowhere, DataError if a
    file is damaged.
    """

    classes = (
        *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    )
    mean, std = (0.2860,), (0.3530,)

    def __init__(self, *, flat: bool = False, raw: bool = False) -> None:
        try:
            folder = find(FILES)
        except MissingData as error:
            wanted = ", ".join(f"{name}.gz" for name in FILES.md5)
            raise absent("Fashion-MNIST", FILES, str(error), wanted) from None
        self.source = Source("full", folder)
        parts = [raw_split(*part, SHAPE) for part in read_parts(FILES, folder)]
        if not raw:
            parts = [Split(standardised(one.x, self.mean, self.std), one.y) for one in parts]
        if flat:
            parts = [Split(one.x.reshape(len(one), -1), one.y) for one in parts]
        self.train, self.test = parts
