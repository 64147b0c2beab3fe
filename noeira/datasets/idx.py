"""The idx file format of MNIST and its relatives, plain or gzipped."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.datasets.files import DataFiles, check_md5, damaged, uncompressed

if TYPE_CHECKING:
    import numpy as np

U8 = 0x08


def read_idx(path: Path, md5: str | None = None) -> np.ndarray:
    """The u8 array in the idx file at `path`; a name that ends in `.gz` is gunzipped.

    The format: two zero bytes, the element type (8: u8), the number of dimensions, each dimension
    as a big-endian u32, then the elements in row-major order. `md5` is the expected checksum of the
    uncompressed bytes. Raises DataError if the file is not exactly that.
    """
    import numpy as np

    content = uncompressed(path)
    if content[:3] != bytes((0, 0, U8)):
        start = content[:4].hex(" ") or "nothing"
        raise damaged(path, f"it starts with {start}, an idx file of u8 with 00 00 08")
    header = 4 + 4 * content[3] if len(content) > 3 else 4
    if len(content) < header:
        raise damaged(path, f"it ends within its header, after {len(content)} bytes")
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, header, 4))
    if len(content) != header + math.prod(shape):
        raise damaged(
            path,
            f"its header announces shape {shape}, {header + math.prod(shape):,} bytes in all, "
            f"but it has {len(content):,}",
        )
    if md5 is not None:
        check_md5(path, content, md5)
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_parts(files: DataFiles, folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """(images, labels) for training and testing from the four files that MNIST and its relatives
    have: u8 (N, 28, 28) and u8 (N,). Raises DataError.
    """
    parts = []
    for part in ("train", "t10k"):
        names = (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte")
        images, labels = (read_idx(files.path(folder, name), files.md5[name]) for name in names)
        parts.append((images, labels))
    return parts
