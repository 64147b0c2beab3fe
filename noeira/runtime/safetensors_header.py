"""The header of a safetensors file, with every statement in it checked against the file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from noeira.errors import CheckpointError

if TYPE_CHECKING:
    import numpy as np

METADATA = "__metadata__"
LENGTH_BYTES = 8
# As the package safetensors has it.
LONGEST_HEADER = 100_000_000
# Axes that an array of NumPy can have.
MOST_AXES = 64
# Characters of a name, or of another text of the file, that messages show.
SHOWN = 60


@dataclass(frozen=True)
class Kind:
    """A dtype of the format: its bytes, and what NumPy, or the package ml_dtypes, calls it."""

    bytes: int
    numpy: str


KINDS = {
    "BOOL": Kind(1, "bool"),
    "U8": Kind(1, "uint8"),
    "I8": Kind(1, "int8"),
    "U16": Kind(2, "uint16"),
    "I16": Kind(2, "int16"),
    "U32": Kind(4, "uint32"),
    "I32": Kind(4, "int32"),
    "U64": Kind(8, "uint64"),
    "I64": Kind(8, "int64"),
    "F8_E4M3": Kind(1, "float8_e4m3fn"),
    "F8_E5M2": Kind(1, "float8_e5m2"),
    "F8_E8M0": Kind(1, "float8_e8m0fnu"),
    "F8_E4M3FNUZ": Kind(1, "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": Kind(1, "float8_e5m2fnuz"),
    "F16": Kind(2, "float16"),
    "BF16": Kind(2, "bfloat16"),
    "F32": Kind(4, "float32"),
    "F64": Kind(8, "float64"),
    "C64": Kind(8, "complex64"),
}
# Dtypes of the format that put more than one element into a byte.
PACKED = ("F4", "F6_E2M3", "F6_E3M2")


@dataclass(frozen=True)
class Entry:
    """A tensor: its dtype and shape, and where it begins and ends, in bytes after the header."""

    kind: Kind
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def numpy_dtype(self) -> np.dtype:
        """The dtype of its array."""
        import ml_dtypes
        import numpy as np

        name = self.kind.numpy
        return np.dtype(getattr(ml_dtypes, name, name))


@dataclass(frozen=True)
class Header:
    """What a file says of itself; end: where its elements begin."""

    entries: Mapping[str, Entry]
    metadata: Mapping[str, str]
    end: int


def damaged(path: str, what: str) -> CheckpointError:
    """The error for a file that is not as it was written."""
    return CheckpointError(
        f"{path} is damaged, or was written wrongly: {what}; take another copy of the file, or "
        "write it again"
    )


def shown(text: Any) -> str:
    """A text of a file as messages have it."""
    found = repr(text)
    return found if len(found) <= SHOWN else f"{found[: SHOWN - 1]}…"


def called(name: str) -> str:
    """The name of a tensor in a file as messages have it: as it is, unless it is odd."""
    return name if name.isprintable() and len(name) <= 2 * SHOWN else shown(name)


def header_length(path: str, start: bytes, size: int) -> int:
    """The bytes of the header of a file of so many bytes, by its first ones. Raises
    CheckpointError.
    """
    if start[LENGTH_BYTES : LENGTH_BYTES + 1] != b"{":
        raise CheckpointError(
            f"{path} is no safetensors file, or its beginning is damaged: program.save, "
            "program.tensors.save and safetensors.numpy.save_file write those"
        )
    length, rest = int.from_bytes(start[:LENGTH_BYTES], "little"), size - LENGTH_BYTES
    if length > LONGEST_HEADER:
        raise damaged(path, f"its header would have {length:,} bytes, more than any has")
    if length > rest:
        words = f"its header would have {length:,} bytes, and the file ends after {rest:,}"
        raise damaged(path, words)
    return length


def parsed(path: str, content: bytes) -> Header:
    """The header of a file, of which all is known to be in the file. Raises CheckpointError."""
    end = LENGTH_BYTES + header_length(path, content, len(content))
    found = json_object(path, content[LENGTH_BYTES:end])
    metadata = found.pop(METADATA, {})
    if not is_text_by_text(metadata):
        raise damaged(path, f"{METADATA} in its header is no object of texts")
    entries = {name: entry(path, name, given) for name, given in found.items()}
    check_places(path, entries, len(content) - end)
    return Header(entries, metadata, end)


def is_text_by_text(given: Any) -> bool:
    """Whether metadata are what they must be."""
    return isinstance(given, dict) and all(isinstance(value, str) for value in given.values())


def json_object(path: str, text: bytes) -> dict[str, Any]:
    """The object that a header is, no name in it twice. Raises CheckpointError."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in found if names.count(name) > 1)
            raise damaged(path, f"its header has {shown(twice)} twice")
        return found

    def no_number(word: str) -> NoReturn:
        raise ValueError(f"{word} is no JSON")

    try:
        found = json.loads(text.decode(), object_pairs_hook=once, parse_constant=no_number)
    # Too deep, or a number of too many digits.
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise damaged(path, f"its header is no JSON: {shown(reason)}") from None
    if not isinstance(found, dict):
        raise damaged(path, "its header is no JSON object")
    return found


def entry(path: str, name: str, given: Any) -> Entry:
    """What the header says of a tensor. Raises CheckpointError."""
    who = f"its tensor {shown(name)}"
    if not isinstance(given, dict) or not {"dtype", "shape", "data_offsets"} <= given.keys():
        raise damaged(path, f"{who} has not dtype, shape and data_offsets")
    dtype, shape, places = given["dtype"], given["shape"], given["data_offsets"]
    if dtype in PACKED:
        raise CheckpointError(
            f"{path} has {shown(name)} as {dtype}, several elements in a byte: NumPy has no such "
            "arrays; convert it where it was made"
        )
    if not isinstance(dtype, str) or dtype not in KINDS:
        raise damaged(path, f"{who} is of dtype {shown(dtype)}, which safetensors has not")
    # NumPy makes no array, not even an empty one, whose other axes are too many bytes.
    if not are_counts(shape) or len(shape) > MOST_AXES or math.prod(filter(None, shape)) >= 2**56:
        raise damaged(path, f"{who} has the shape {shown(shape)}")
    if not are_counts(places) or len(places) != 2 or places[0] > places[1]:
        raise damaged(path, f"{who} has the place {shown(places)}")
    found = Entry(KINDS[dtype], tuple(shape), *places)
    taken = found.stop - found.start
    if found.size * found.kind.bytes != taken:
        raise damaged(path, f"{who} has {taken:,} bytes, which is not {dtype}{shape}")
    return found


def are_counts(given: Any) -> bool:
    """Whether it is a list of whole numbers, 0 or greater; True is none."""
    return isinstance(given, list) and all(type(one) is int and 0 <= one < 2**63 for one in given)


def check_places(path: str, entries: Mapping[str, Entry], size: int) -> None:
    """Raises CheckpointError unless the tensors lie side by side in all of `size` bytes."""
    done, last = 0, ""
    for name, one in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if one.start < done:
            raise damaged(path, f"its tensors {shown(last)} and {shown(name)} overlap")
        if one.start > done:
            raise damaged(path, f"its bytes {done:,} to {one.start:,} are of no tensor")
        done, last = one.stop, name
    if done != size:
        what = "its end is missing" if done > size else "there is more behind its tensors"
        raise damaged(path, f"{what}: they have {done:,} bytes, and the file {size:,}")
