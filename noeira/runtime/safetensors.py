"""Files of tensors in the safetensors format: written whole or not at all, and read with every byte
looked at before any is used.

The format is eight bytes, the length of the header; the header, a JSON object that gives the dtype,
the shape and the place of every tensor by its name; and the elements, little-endian, without gaps.
It has no code in it, and nothing to run. https://github.com/huggingface/safetensors is its home,
and the package of that name reads every file written here.

A file of noeira's says in `__metadata__` who wrote it, and has a checksum: BLAKE2b over the whole
file, with zeros for its own digits. That is why the package is not what writes: it has no place
for a checksum of what it is about to write, puts metadata in an order of chance, so that equal
states gave unequal files, and leaves a temporary file of its own behind when it is killed.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from noeira import __version__
from noeira.disk import replacing_for_good
from noeira.errors import CheckpointError
from noeira.ir.arrays import dtype_name
from noeira.ir.types import ALIGNMENT, DTYPES
from noeira.runtime.safetensors_header import (
    KINDS,
    LENGTH_BYTES,
    METADATA,
    Header,
    damaged,
    header_length,
    parsed,
)
from noeira.runtime.strange_files import BEGINNING, check_ending, check_kind, check_path

if TYPE_CHECKING:
    import numpy as np

# What `__metadata__` of a file of noeira's has: its version, that of this form, the network's type
# as it is written, and the checksum.
WRITER, FORM, NETWORK, CHECKSUM = "noeira", "noeira.form", "noeira.network", "noeira.checksum"
THIS_FORM = "1"
OWN = (WRITER, FORM, NETWORK, CHECKSUM)
NO_DIGITS = "0" * 64
# Of noeira's dtypes, what the format calls them.
CALLED = {kind.numpy: name for name, kind in KINDS.items()}


@dataclass(frozen=True)
class TensorFile:
    """What a file has: arrays that are not written to, by name.

    network: the type of the network that noeira wrote it for; "" if something else wrote it.
    """

    path: str
    tensors: Mapping[str, np.ndarray]
    network: str


def write(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], network: str) -> None:
    """Write a file, and the folders that it is to lie in. When this ends it is on the disk; until
    then what was there before stays. Raises CheckpointError if that cannot be.

    network: the type of the network, for those who read it.
    """
    check_ending(path)
    # The widest first, so that every tensor begins at a multiple of its element's size.
    ordered = dict(sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize))
    head = header_of(ordered, network)
    digits = checksum(head, ordered)
    try:
        with replacing_for_good(Path(path)) as file:
            file.write(head.replace(field(NO_DIGITS), field(digits), 1))
            for array in ordered.values():
                file.write(elements_of(array))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error.strerror or error}") from None


def header_of(tensors: Mapping[str, np.ndarray], network: str) -> bytes:
    """The length and the header, with zeros for the digits of the checksum."""
    known = {WRITER: __version__, FORM: THIS_FORM, NETWORK: network, CHECKSUM: NO_DIGITS}
    entries: dict[str, object] = {METADATA: known}
    start = 0
    for name, array in tensors.items():
        if name == METADATA:
            raise CheckpointError(f"no tensor of a safetensors file can be called {METADATA}")
        entries[name] = {
            "dtype": CALLED[DTYPES[dtype_name(array.dtype)].numpy],
            "shape": array.shape,
            "data_offsets": [start, start + array.nbytes],
        }
        start += array.nbytes
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(LENGTH_BYTES + len(text)) % ALIGNMENT)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def field(digits: str) -> bytes:
    """The checksum as the header has it; of a damaged one, anything that is not in it."""
    return f'"{CHECKSUM}":"{digits}"'.encode(errors="replace")


def elements_of(array: np.ndarray) -> memoryview:
    """The bytes of an array in row-major order, copied only if they do not lie so."""
    import numpy as np

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def checksum(head: bytes, tensors: Mapping[str, np.ndarray]) -> str:
    """The digits for a file of this header, which has zeros for them, and these tensors."""
    import hashlib

    digest = hashlib.blake2b(head, digest_size=len(NO_DIGITS) // 2)
    for array in tensors.values():
        digest.update(elements_of(array))
    return digest.hexdigest()


def read(path: str | os.PathLike[str]) -> TensorFile:
    """All that a file has. Raises CheckpointError if it cannot be read, is another kind of file, or
    is damaged: of noeira's own files any byte, of others as far as it can be seen.
    """
    import numpy as np

    check_path(path)
    place = os.fspath(path)
    try:
        status = os.stat(place)
        check_regular(place, status.st_mode)
        with open(place, "rb") as file:
            # Before all of it is read, which may be much, and another kind of file.
            start = file.read(BEGINNING)
            check_kind(place, start, file)
            header_length(place, start, status.st_size)
            file.seek(0)
            content = file.read()
    except MemoryError:
        size = os.path.getsize(place)
        raise CheckpointError(f"{place} has {size:,} bytes, more than there is memory") from None
    except OSError as error:
        raise CheckpointError(f"{place} cannot be read: {error.strerror or error}") from None
    header = parsed(place, content)
    network = written_for(place, header, content)
    tensors = {
        name: np.frombuffer(content, one.numpy_dtype, one.size, header.end + one.start).reshape(
            one.shape
        )
        for name, one in header.entries.items()
    }
    return TensorFile(place, tensors, network)


def check_regular(path: str, mode: int) -> None:
    """Raises CheckpointError for a folder, and for a pipe, which would be waited for."""
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no file on a disk"
        raise CheckpointError(f"{path} is {kind}: give the path of a safetensors file")


def written_for(path: str, header: Header, content: bytes) -> str:
    """The type of the network in a file of noeira's, its checksum compared; "" of another's file.
    Raises CheckpointError.
    """
    import hashlib

    found = header.metadata
    if not any(key.partition(".")[0] == WRITER for key in found):
        return ""
    if missing := [key for key in OWN if key not in found]:
        raise damaged(path, f"its metadata lack {missing[0]}")
    if found[FORM] != THIS_FORM:
        raise CheckpointError(
            f"{path} is of form {found[FORM]}, written by noeira {found[WRITER]}; this is noeira "
            f"{__version__}, which reads form {THIS_FORM}: read it with that version"
        )
    head = content[: header.end]
    blank = head.replace(field(found[CHECKSUM]), field(NO_DIGITS), 1)
    digest = hashlib.blake2b(blank, digest_size=len(NO_DIGITS) // 2)
    digest.update(memoryview(content)[header.end :])
    if digest.hexdigest() != found[CHECKSUM]:
        raise damaged(path, "its bytes do not give its checksum")
    return found[NETWORK]
