"""MNIST: 28×28 grey images of handwritten digits and their classes."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.datasets.files import DataFiles, MissingData, find
from noeira.datasets.idx import read_parts
from noeira.datasets.split import Images, Source, raw_split, to_split
from noeira.errors import DataError
from noeira.log import log

if TYPE_CHECKING:
    import numpy as np

FILES = DataFiles(
    folder="mnist",
    md5={
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    megabytes=11,
)
SHIPPED = Path(__file__).parent / "shipped" / "mnist_5k.npz"


class MNIST(Images):
    """The MNIST data set: `train` and `test`, each a Split, `source` and `classes`.

    Looked for in the folder `mnist` of NOEIRA_DATA, then in the user's cache, then downloaded there
    (11 MB, unless NOEIRA_OFFLINE is set): 60,000 training and 10,000 test images. Failing all that,
    a warning says so and the 5,000 training images that noeira ships are split 4,000 to 1,000. A
    download that failed is not tried again for an hour.

    `flat=False` gives images (N, 1, 28, 28) in place of rows (N, 784). Pixels are float32 from 0 to
    1, not standardised; with `raw=True` uint8 from 0 to 255. Raises DataError if a file is damaged.
    """

    classes = tuple("0123456789")
    mean, std = (0.1307,), (0.3081,)

    def __init__(self, *, flat: bool = True, raw: bool = False) -> None:
        shape = (784,) if flat else (1, 28, 28)
        try:
            folder = find(FILES)
        except MissingData as error:
            log(
                "warning",
                "noeira: MNIST is not on this machine, so the 5,000 of its images that come with "
                "noeira are used, 4,000 to train and 1,000 to test (noeira doctor says why)",
            )
            log("info", "noeira: %s", error)
            self.source = Source("shipped", SHIPPED)
            train, test = read_shipped(SHIPPED)
        else:
            self.source = Source("full", folder)
            train, test = read_parts(FILES, folder)
        made = raw_split if raw else to_split
        self.train, self.test = made(*train, shape), made(*test, shape)


def read_shipped(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """(images, labels) for training and testing: of each class the first four fifths, and the rest.

    Classes alternate (0, 1, …, 9, 0, 1, …), so every run of ten images is balanced.
    """
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as arrays:
            images, labels = arrays["images"], arrays["labels"]
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: it cannot be read: {error}. Install noeira again.") from None
    by_class = np.argsort(labels, kind="stable").reshape(10, -1)
    cut = by_class.shape[1] * 4 // 5
    chosen = (by_class[:, :cut].T.ravel(), by_class[:, cut:].T.ravel())
    return [(images[index], labels[index]) for index in chosen]
