"""CIFAR-10: 32×32 colour images of ten classes, from the official binary files or as JPEG."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.datasets.files import (
    DataFiles,
    absent,
    cache,
    damaged,
    download,
    uncompressed,
    where,
)
from noeira.datasets.split import Images, Source, Split, raw_split, standardised
from noeira.errors import DataError

if TYPE_CHECKING:
    import numpy as np

SHAPE = (3, 32, 32)
CLASSES = 10
# A record of a batch: the class, then the pixels, channel by channel.
RECORD = 1 + 3 * 32 * 32
ARCHIVE, JPEG, UNPACKED = "cifar-10-binary.tar.gz", "cifar10_jpeg_full.npz", "cifar-10-batches-bin"
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = ("test_batch.bin",)
FILES = DataFiles(
    folder="cifar10",
    md5={ARCHIVE: "c32a1d4ab5d03f1284b67883e8d87530"},
    mirrors=("https://www.cs.toronto.edu/~kriz/",),
    megabytes=170,
    gzipped=False,
)
WANTED = f"{ARCHIVE}, or {TRAIN[0]} to {TRAIN[-1]} and {TEST[0]}, or {JPEG}"

Part = tuple["np.ndarray", "np.ndarray"]


class CIFAR10(Images):
    """The CIFAR-10 data set (Krizhevsky 2009): `train`, 50,000 images, and `test`, 10,000, each a
    Split; `source` and `classes`.

    Looked for in the folder `cifar10` of NOEIRA_DATA, then in the user's cache, then downloaded
    there (170 MB, unless NOEIRA_OFFLINE is set): the official batches, in that folder or in
    cifar-10-batches-bin inside it, or the archive of them, cifar-10-binary.tar.gz, or else
    cifar10_jpeg_full.npz, whose images are JPEG files and so not quite the same. These are decoded
    once, by Pillow (`pip install 'noeira[data]'`), and kept in the user's cache.

    Images are float32 (N, 3, 32, 32), standardised by `mean` and `std`; with `raw=True` uint8 from
    0 to 255, a quarter of the memory. Raises MissingData if it is nowhere, DataError if a file is
    damaged or cannot be decoded.
    """

    classes = (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    )
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)

    def __init__(self, *, raw: bool = False) -> None:
        self.source = find_source()
        train, test = (raw_split(*part, SHAPE) for part in read(self.source))
        if not raw:
            train = Split(standardised(train.x, self.mean, self.std), train.y)
            test = Split(standardised(test.x, self.mean, self.std), test.y)
        self.train, self.test = train, test


def find_source() -> Source:
    """Where the data set is, downloaded if need be. Raises MissingData."""
    reasons = []
    for place in where(FILES):
        if source := source_in(place.folder):
            return source
        reasons.append(lacks(place.folder))
    folder = cache(FILES)
    try:
        download(FILES, folder)
    except DataError as error:
        raise absent("CIFAR-10", FILES, "; ".join([*reasons, str(error)]), WANTED) from None
    return Source("full", folder / ARCHIVE)


def source_in(folder: Path) -> Source | None:
    """The data set in a folder, in the best form there; None if it is not there."""
    for inner in (folder, folder / UNPACKED):
        if all((inner / name).is_file() for name in (*TRAIN, *TEST)):
            return Source("full", inner)
    if (folder / ARCHIVE).is_file():
        return Source("full", folder / ARCHIVE)
    return Source("jpeg", folder / JPEG) if (folder / JPEG).is_file() else None


def lacks(folder: Path) -> str:
    """Why a folder has not got the data set: of batches that are there in part, which are not."""
    for inner in (folder, folder / UNPACKED):
        missing = [name for name in (*TRAIN, *TEST) if not (inner / name).is_file()]
        if len(missing) < len((*TRAIN, *TEST)):
            return f"{inner} has no {' and no '.join(missing)}"
    return f"{folder} has no {ARCHIVE}" if folder.is_dir() else f"no {folder}"


def read(source: Source) -> tuple[Part, Part]:
    """(images, labels) for training and testing: u8 (N, 3, 32, 32) and u8 (N,). Raises
    DataError.
    """
    if source.kind == "jpeg":
        from noeira.datasets.jpeg import read_jpeg

        train, test = read_jpeg(source.path, SHAPE, cache(FILES))
        for what, (_, labels) in (("of train", train), ("of test", test)):
            check_classes(source.path, labels, what)
        return train, test
    if source.path.is_dir():
        return read_parts({n: source.path / n for n in (*TRAIN, *TEST)}, {})
    return read_parts(dict.fromkeys((*TRAIN, *TEST), source.path), unpacked(source.path))


def read_parts(paths: Mapping[str, Path], contents: Mapping[str, bytes]) -> tuple[Part, Part]:
    """Training and test images of batches, each from its bytes if they are there, else its file."""
    import numpy as np

    def part(names: tuple[str, ...]) -> Part:
        batches = [read_batch(paths[name], contents.get(name)) for name in names]
        images, labels = (np.concatenate(several) for several in zip(*batches, strict=True))
        return images, labels

    return part(TRAIN), part(TEST)


def unpacked(path: Path) -> dict[str, bytes]:
    """The batches in an archive, by name. Raises DataError."""
    found = dict[str, bytes]()
    try:
        with tarfile.open(fileobj=io.BytesIO(uncompressed(path))) as archive:
            for member in archive:
                name = Path(member.name).name
                if name in (*TRAIN, *TEST) and (file := archive.extractfile(member)) is not None:
                    found[name] = file.read()
    except tarfile.TarError as error:
        raise damaged(path, f"it cannot be read: {error}") from None
    for name in (*TRAIN, *TEST):
        if name not in found:
            raise damaged(path, f"it has no {name}")
    return found


def read_batch(path: Path, content: bytes | None = None) -> Part:
    """Images u8 (N, 3, 32, 32) and labels u8 (N,) of an official batch, plain or gzipped: records
    of a byte for the class and 3,072 for the pixels, red, green, blue, each by rows.

    content: its bytes, if they have been read. Raises DataError.
    """
    import numpy as np

    content = uncompressed(path) if content is None else content
    if not content or len(content) % RECORD:
        raise damaged(path, f"a batch has {len(content):,} bytes, no multiple of {RECORD:,}")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    labels = records[:, 0].copy()
    check_classes(path, labels)
    return records[:, 1:].reshape(-1, *SHAPE), labels


def check_classes(path: Path, labels: np.ndarray, of: str = "") -> None:
    """Raises DataError for an image of a class that there is not; of: what the images are."""
    if labels.max() >= CLASSES:
        worst = int((labels >= CLASSES).argmax())
        image = " ".join(filter(None, ("image", str(worst), of)))
        raise damaged(path, f"{image} is of class {labels[worst]}; there are {CLASSES}")
