"""Images that a file keeps as JPEG: decoded by Pillow once, and then read from the user's cache.

The file is an `.npz` archive with, for each of `train` and `test`: `PART_blob` u8, the JPEG files
one after the other; `PART_off` u32 [N + 1], where each begins and the last one ends; `PART_label`
u8 [N].
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import itertools
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.datasets.files import damaged
from noeira.disk import locked, replacing
from noeira.errors import DataError
from noeira.log import log

if TYPE_CHECKING:
    import numpy as np

# Seconds that another process may take to decode the same images.
PATIENCE = 120.0
# So many images take long enough to say so.
MANY = 1000
UNREADABLE = (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class Packed:
    """One part of a file at `path`: its name, and its arrays as the file has them."""

    path: Path
    part: str
    blob: np.ndarray
    begins: np.ndarray
    labels: np.ndarray

    def check(self) -> None:
        """Raises DataError if the arrays do not belong together."""
        import numpy as np

        arrays = {"blob": self.blob, "off": self.begins, "label": self.labels}
        flat = all(a.ndim == 1 and a.dtype.kind == "u" for a in arrays.values())
        count = len(self.labels) if flat else 0
        if not count or self.blob.dtype != np.uint8 or len(self.begins) != count + 1:
            shown = (f"{self.part}_{name} {a.dtype}{list(a.shape)}" for name, a in arrays.items())
            raise damaged(self.path, f"its arrays do not fit together: {', '.join(shown)}")
        begins = self.begins.astype(np.int64)
        if (np.diff(begins) <= 0).any() or begins[-1] > len(self.blob):
            raise damaged(self.path, f"{self.part}_off does not say where images begin")

    @property
    def digest(self) -> str:
        """What tells these images from any others."""
        found = hashlib.md5(self.blob.data, usedforsecurity=False)
        found.update(self.begins.data)
        return found.hexdigest()

    def decoded(self, shape: tuple[int, ...]) -> np.ndarray:
        """The images, u8 (N, *shape). Raises DataError."""
        import numpy as np

        if importlib.util.find_spec("PIL") is None:
            raise DataError(f"{self.path} has JPEG images, which need `pip install 'noeira[data]'`")
        count = len(self.labels)
        if count > MANY:
            # A warning, as that is the level people see: this takes seconds.
            log("warning", "noeira: decoding %s images of %s, once", f"{count:,}", self.path.name)
        images, content = np.empty((count, *shape), np.uint8), self.blob.tobytes()
        for number, (begin, end) in enumerate(itertools.pairwise(self.begins.tolist())):
            what = f"image {number} of {self.part}"
            try:
                pixels = decoded(content[begin:end])
            except (OSError, SyntaxError) as error:
                raise damaged(self.path, f"{what} is no JPEG file: {error}") from None
            if pixels.shape != shape:
                found, wanted = (f"{s[2]}×{s[1]}" for s in (pixels.shape, shape))
                raise damaged(self.path, f"{what} has {found} pixels, not {wanted}")
            images[number] = pixels
        return images


def decoded(content: bytes) -> np.ndarray:
    """The image in a JPEG file, u8 (3, H, W). Raises OSError or SyntaxError."""
    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
        return np.asarray(image.convert("RGB")).transpose(2, 0, 1)


def read_jpeg(
    path: Path, shape: tuple[int, ...], cache: Path
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(images, labels) for training and testing: u8 (N, *shape) and unsigned (N,).

    shape: of an image, (3, H, W); cache: the folder in which what has been decoded is kept. Raises
    DataError.
    """
    import numpy as np

    parts = []
    try:
        with np.load(path, allow_pickle=False) as archive:
            for part in ("train", "test"):
                arrays = (archive[f"{part}_{name}"] for name in ("blob", "off", "label"))
                parts.append(Packed(path, part, *arrays))
    except UNREADABLE as error:
        raise damaged(path, f"it cannot be read: {error}") from None
    for packed in parts:
        packed.check()
    return [(read_images(packed, shape, cache), packed.labels) for packed in parts]


def read_images(packed: Packed, shape: tuple[int, ...], cache: Path) -> np.ndarray:
    """The images of a part, u8 (N, *shape), decoded if they are not in the cache. Raises
    DataError.
    """
    kept, wanted = cache / f"{packed.part}-{packed.digest}.npy", (len(packed.labels), *shape)
    images = decoded_before(kept, wanted)
    if images is not None:
        return images
    with locked(kept.with_suffix(".lock"), PATIENCE):
        # Another process may have done it meanwhile.
        images = decoded_before(kept, wanted)
        if images is None:
            images = packed.decoded(shape)
            keep(kept, images)
        return images


def decoded_before(kept: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """What was decoded once; None if it is not there, or is no such array."""
    import numpy as np

    try:
        images = np.load(kept, allow_pickle=False)
    except (OSError, EOFError, ValueError):
        return None
    return images if images.shape == shape and images.dtype == np.uint8 else None


def keep(kept: Path, images: np.ndarray) -> None:
    """Write what was decoded; a cache that cannot be written does not matter."""
    import numpy as np

    try:
        with replacing(kept) as temporary, temporary.open("xb") as file:
            np.save(file, images, allow_pickle=False)
    except OSError as error:
        log("info", "noeira: decoded images are not kept: %s", error)
