"""Files that are taken for safetensors files: what they are instead, and what to do with them."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

from noeira.errors import CheckpointError

# Bytes by which a file is known.
BEGINNING = 32
# How a file begins, what it is, and what to write.
BEGINNINGS = (
    (b"\x80", "a pickle, which can run code when it is loaded", "torch"),
    (b"\x93NUMPY", "an array of NumPy", "numpy"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "there"),
    (b"GGUF", "a GGUF file", "there"),
    (b"version https://git-lfs", "a pointer of Git LFS, not what it points at", "lfs"),
)
ADVICE = {
    "torch": "write safetensors.torch.save_file(model.state_dict(), path) where it was made",
    "numpy": "program.tensors.load takes arrays by name, as numpy.load gives them",
    "there": "write a safetensors file where it was made",
    "lfs": "fetch it with git lfs pull",
}
# Endings that say another format to whoever sees them.
ENDINGS = (".npz", ".npy", ".pt", ".pth", ".bin", ".pkl", ".h5", ".onnx")


def check_path(path: Any) -> None:
    """Raises CheckpointError for what is no path."""
    if not isinstance(path, (str, os.PathLike)):
        raise CheckpointError(f"a file is named by a path such as 'net.safetensors', not {path!r}")


def check_ending(path: str | os.PathLike[str]) -> None:
    """Raises CheckpointError for a path that no safetensors file should be written to."""
    check_path(path)
    place = Path(path)
    if not place.name:
        raise CheckpointError(
            f"{os.fspath(path)!r} names no file: write one such as 'net.safetensors'"
        )
    if place.suffix.lower() in ENDINGS:
        raise CheckpointError(
            f"{path} would be a safetensors file, and {place.suffix} is the ending of another "
            f"format: write {place.with_suffix('.safetensors')}"
        )


def check_kind(path: str, start: bytes, file: BinaryIO) -> None:
    """Raises CheckpointError that says what a file is, if it is a known kind of another one.

    start: its first bytes, as many as BEGINNING.
    """
    for beginning, kind, advice in BEGINNINGS:
        # The length of a header begins with any byte, its text with a brace.
        if start.startswith(beginning) and start[8:9] != b"{":
            raise CheckpointError(f"{path} is {kind}: {ADVICE[advice]}")
    if start.startswith(b"PK\x03\x04") and start[8:9] != b"{":
        raise CheckpointError(f"{path} is {archive(file)}")


def archive(file: BinaryIO) -> str:
    """What a zip archive is, and what to do with it."""
    try:
        with zipfile.ZipFile(file) as found:
            names = found.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        names = []
    if any(name.endswith("data.pkl") for name in names):
        kind = "a file of PyTorch's, a pickle, which can run code when it is loaded"
        return f"{kind}: {ADVICE['torch']}"
    if names and all(name.endswith(".npy") for name in names):
        return f"an .npz archive of NumPy: {ADVICE['numpy']}"
    return f"a zip archive, no safetensors file: {ADVICE['there']}"
