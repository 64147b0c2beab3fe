"""The reader of idx files, on intact and damaged ones."""

from __future__ import annotations

import gzip
import hashlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from noeira.datasets.idx import read_idx
from noeira.errors import DataError

# The array [[0, 1, 2], [3, 4, 5]].
WHOLE = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 1, 2, 3, 4, 5])


def md5(content: bytes) -> str:
    """The checksum in hexadecimal."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"", "it starts with nothing, an idx file of u8 with 00 00 08"),
        (b"\x89PNG\r\n", "it starts with 89 50 4e 47, an idx file of u8 with 00 00 08"),
        (
            WHOLE[:2] + b"\x0d" + WHOLE[3:],
            "it starts with 00 00 0d 02, an idx file of u8 with 00 00 08",
        ),
        (WHOLE[:3], "it ends within its header, after 3 bytes"),
        (WHOLE[:11], "it ends within its header, after 11 bytes"),
        (WHOLE[:-1], "its header announces shape (2, 3), 18 bytes in all, but it has 17"),
        (WHOLE + b"\0", "its header announces shape (2, 3), 18 bytes in all, but it has 19"),
        (
            WHOLE[:-1] + b"\0",
            f"the MD5 of its uncompressed bytes is {md5(WHOLE[:-1] + bytes(1))}, not {md5(WHOLE)}",
        ),
    ],
    ids=["empty", "png", "type", "magic", "header", "short", "long", "checksum"],
)
def test_damaged_idx(tmp_path: Path, content: bytes, wrong: str):
    path = tmp_path / "some-idx2-ubyte"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_idx(path, md5(WHOLE))
    advice = "Delete the file, or replace it with an intact copy."
    assert str(caught.value) == f"{path}: {wrong}. {advice}"


@pytest.mark.parametrize("cut", [0, 3, 20, -1], ids=["empty", "header", "body", "end"])
def test_truncated_gzip(tmp_path: Path, cut: int):
    path = tmp_path / "some-idx2-ubyte.gz"
    path.write_bytes(gzip.compress(WHOLE)[:cut])
    with pytest.raises(DataError, match=r"some-idx2-ubyte\.gz: .*Delete the file, or replace it"):
        read_idx(path)


def test_flipped_bits_in_gzip(tmp_path: Path):
    path = tmp_path / "some-idx2-ubyte.gz"
    whole = gzip.compress(WHOLE)
    for i in range(len(whole)):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 0x10]) + whole[i + 1 :])
        with suppress(DataError):
            np.testing.assert_array_equal(read_idx(path), np.arange(6).reshape(2, 3))


def test_intact_idx(tmp_path: Path):
    path = tmp_path / "some-idx2-ubyte"
    path.write_bytes(WHOLE)
    array = read_idx(path, md5(WHOLE))
    assert array.dtype == np.uint8
    np.testing.assert_array_equal(array, np.arange(6).reshape(2, 3))
