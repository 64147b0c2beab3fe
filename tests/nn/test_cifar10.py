"""CIFAR-10: the official batches in all their forms, finding and downloading them."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_files import md5, mirror, write

from noeira import config
from noeira.datasets import CIFAR10, cifar10
from noeira.datasets.files import MissingData
from noeira.errors import DataError

NAMES = (*cifar10.TRAIN, *cifar10.TEST)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the data set in NOEIRA_DATA, not there yet; the user's cache is empty."""
    monkeypatch.setenv("NOEIRA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data" / "cifar10"


@pytest.fixture
def small() -> dict[str, bytes]:
    """Batches of 3 and 4 images: the content of each by name."""
    numbers = np.random.default_rng(0)
    counts = dict.fromkeys(cifar10.TRAIN, 3) | dict.fromkeys(cifar10.TEST, 4)
    contents = {}
    for name, count in counts.items():
        records = numbers.integers(0, 256, (count, cifar10.RECORD)).astype(np.uint8)
        records[:, 0] = numbers.integers(0, 10, count)
        contents[name] = records.tobytes()
    return contents


def packed(contents: dict[str, bytes]) -> bytes:
    """The batches as the official archive has them."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in {"readme.html": b"<html>", **contents}.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def in_folder(folder: Path, contents: dict[str, bytes]) -> Path:
    """The batches as they are."""
    write(folder, contents, compress=False)
    return folder


def in_folder_of_archive(folder: Path, contents: dict[str, bytes]) -> Path:
    """The batches in the folder that the archive makes."""
    return in_folder(folder / "cifar-10-batches-bin", contents)


def in_archive(folder: Path, contents: dict[str, bytes]) -> Path:
    """The batches in the archive."""
    folder.mkdir(parents=True)
    path = folder / "cifar-10-binary.tar.gz"
    path.write_bytes(packed(contents))
    return path


@pytest.mark.parametrize("place", [in_folder, in_folder_of_archive, in_archive])
def test_official_batches(
    folder: Path, small: dict[str, bytes], place: Callable[[Path, dict[str, bytes]], Path]
):
    path = place(folder, small)
    raw, data = CIFAR10(raw=True), CIFAR10()
    assert data.source == raw.source == ("full", path)
    records = np.frombuffer(b"".join(small[name] for name in cifar10.TRAIN), np.uint8)
    records = records.reshape(15, 3073)
    assert (raw.train.x.dtype, raw.train.y.dtype) == (np.uint8, np.int32)
    assert raw.train.x.flags.c_contiguous and raw.train.x.shape == (15, 3, 32, 32)
    np.testing.assert_array_equal(raw.train.x.reshape(15, -1), records[:, 1:])
    np.testing.assert_array_equal(raw.train.y, records[:, 0])
    assert data.test.x.shape == (4, 3, 32, 32) and data.test.x.dtype == np.float32
    mean, std = (np.reshape(numbers, (3, 1, 1)) for numbers in (data.mean, data.std))
    np.testing.assert_allclose(data.train.x, (raw.train.x / 255 - mean) / std, atol=1e-6)
    assert data.classes[0] == "airplane" and data.classes[9] == "truck"
    assert repr(data) == "<CIFAR10 full: 15 train, 4 test>"


def test_what_is_nowhere_is_said(folder: Path, small: dict[str, bytes]):
    cache = config.user_folder() / "cifar10"
    wanted = (
        "; NOEIRA_OFFLINE forbids a download. It is downloaded at first use (pip install "
        "'noeira[data]'), or NOEIRA_DATA names a folder that has, in cifar10/, "
        "cifar-10-binary.tar.gz, or data_batch_1.bin to data_batch_5.bin and test_batch.bin, or "
        "cifar10_jpeg_full.npz."
    )
    start = "CIFAR-10 is not on this machine: "
    with pytest.raises(MissingData) as caught:
        CIFAR10()
    assert str(caught.value) == f"{start}no {folder}; no {cache}{wanted}"
    folder.mkdir(parents=True)
    with pytest.raises(MissingData) as caught:
        CIFAR10()
    assert f"{start}{folder} has no cifar-10-binary.tar.gz; " in str(caught.value)
    for name in ("data_batch_3.bin", "test_batch.bin"):
        del small[name]
    in_folder(folder, small)
    with pytest.raises(MissingData) as caught:
        CIFAR10()
    lacks = f"{folder} has no data_batch_3.bin and no test_batch.bin"
    assert str(caught.value) == f"{start}{lacks}; no {cache}{wanted}"


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda content: content[:-1], "a batch has 9,218 bytes, no multiple of 3,073"),
        (lambda content: b"", "a batch has 0 bytes, no multiple of 3,073"),
        (
            lambda content: content[:3073] + b"\x0a" + content[3074:],
            "image 1 is of class 10; there are 10",
        ),
    ],
)
def test_damaged_batches(
    folder: Path, small: dict[str, bytes], change: Callable[[bytes], bytes], wrong: str
):
    small["data_batch_2.bin"] = change(small["data_batch_2.bin"])
    in_folder(folder, small)
    with pytest.raises(DataError) as caught:
        CIFAR10()
    advice = "Delete the file, or replace it with an intact copy."
    assert str(caught.value) == f"{folder / 'data_batch_2.bin'}: {wrong}. {advice}"


def test_damaged_archives(folder: Path, small: dict[str, bytes]):
    whole = packed(small)
    path = in_archive(folder, {name: small[name] for name in NAMES[:-1]})
    with pytest.raises(DataError, match=r"binary\.tar\.gz: it has no test_batch\.bin\. Delete"):
        CIFAR10()
    for content in (whole[:-20], whole[:5000], b"<html>", gzip.compress(b"no archive" * 100)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz: it cannot be read: "):
            CIFAR10()


def test_download(
    folder: Path, small: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("pooch", reason="downloads need the extra `data`")
    monkeypatch.delenv("NOEIRA_OFFLINE")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    archive = packed(small)
    write(tmp_path / "mirror", {cifar10.ARCHIVE: archive}, compress=False)
    with mirror(tmp_path / "mirror") as url:
        files = replace(cifar10.FILES, mirrors=(url,), md5={cifar10.ARCHIVE: md5(b"another")})
        monkeypatch.setattr(cifar10, "FILES", files)
        with pytest.raises(MissingData, match=f"{url}{cifar10.ARCHIVE} is not the file it should"):
            CIFAR10()
        (config.user_folder() / "cifar10.failed").unlink()
        files = replace(files, md5={cifar10.ARCHIVE: md5(archive)})
        monkeypatch.setattr(cifar10, "FILES", files)
        data = CIFAR10(raw=True)
    assert data.source == ("full", config.user_folder() / "cifar10" / cifar10.ARCHIVE)
    assert len(data.train) == 15
    assert len(CIFAR10(raw=True).test) == 4  # the mirror is gone


def test_real_images_without_loss():
    given = config.DATA.read()
    path = Path(given or "") / "cifar10" / "cifar10_first4000_lossless.bin.gz"
    if given is None or not path.is_file():
        pytest.skip(f"NOEIRA_DATA names no folder with cifar10/{path.name}")
    images, labels = cifar10.read_batch(path)
    assert images.shape == (4000, 3, 32, 32)
    assert labels[:8].tolist() == [6, 9, 9, 4, 1, 1, 2, 7]
    mean = (images / np.float32(255)).mean((0, 2, 3))
    np.testing.assert_allclose(mean, CIFAR10.mean, atol=0.01)
