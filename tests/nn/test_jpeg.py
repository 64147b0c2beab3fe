"""Images that are kept as JPEG: decoding, the cache of what has been decoded, damaged files."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noeira import config
from noeira.datasets import CIFAR10, jpeg
from noeira.errors import DataError

Arrays = dict[str, np.ndarray]


def encoded(pixels: np.ndarray) -> bytes:
    """An image, u8 (H, W, 3), as a JPEG file."""
    image = pytest.importorskip("PIL.Image", reason="JPEG images need the extra `data`")
    made = io.BytesIO()
    image.fromarray(pixels).save(made, "JPEG", quality=90)
    return made.getvalue()


def arrays_of(part: str, images: list[bytes], labels: list[int]) -> Arrays:
    """What the file has of a part."""
    return {
        f"{part}_blob": np.frombuffer(b"".join(images), np.uint8),
        f"{part}_off": np.cumsum([0, *map(len, images)]).astype(np.uint32),
        f"{part}_label": np.array(labels, np.uint8),
    }


@pytest.fixture
def small() -> Arrays:
    """The arrays of a file of 6 and 3 images, each of one colour, so that JPEG keeps it."""
    arrays = Arrays()
    for part, count in (("train", 6), ("test", 3)):
        colours = np.random.default_rng(count).integers(0, 256, (count, 1, 1, 3), dtype=np.uint8)
        images = [encoded(np.broadcast_to(c, (32, 32, 3)).copy()) for c in colours]
        arrays |= arrays_of(part, images, list(range(count)))
    return arrays


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file is looked for, in NOEIRA_DATA; the user's cache is empty."""
    monkeypatch.setenv("NOEIRA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = tmp_path / "data" / "cifar10" / "cifar10_jpeg_full.npz"
    found.parent.mkdir(parents=True)
    return found


def forget_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Pillow were not installed."""

    def find(name: str, package: str | None = None) -> Any:
        return None if name == "PIL" else known(name, package)

    known = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", find)


def test_images_are_decoded_once(
    path: Path, small: Arrays, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    np.savez(path, **small)
    first = CIFAR10(raw=True)
    assert first.source == ("jpeg", path) and repr(first) == "<CIFAR10 jpeg: 6 train, 3 test>"
    assert first.train.x.shape == (6, 3, 32, 32) and first.train.y.tolist() == list(range(6))
    colours = np.random.default_rng(6).integers(0, 256, (6, 3), dtype=np.uint8)
    near = np.abs(first.train.x.astype(int) - colours[:, :, None, None])
    assert near.max() <= 3
    kept = sorted((config.user_folder() / "cifar10").glob("*.npy"))
    assert [found.name.split("-")[0] for found in kept] == ["test", "train"]
    forget_pillow(monkeypatch)
    np.testing.assert_array_equal(CIFAR10(raw=True).train.x, first.train.x)
    assert not caplog.records


def test_without_pillow(path: Path, small: Arrays, monkeypatch: pytest.MonkeyPatch):
    np.savez(path, **small)
    forget_pillow(monkeypatch)
    with pytest.raises(DataError) as caught:
        CIFAR10()
    assert str(caught.value) == f"{path} has JPEG images, which need `pip install 'noeira[data]'`"


def test_what_was_kept_of_other_images_is_not_taken(path: Path, small: Arrays):
    np.savez(path, **small)
    before = CIFAR10(raw=True)
    white = [encoded(np.full((32, 32, 3), 255, np.uint8))] * 6
    np.savez(path, **(small | arrays_of("train", white, [1] * 6)))
    after = CIFAR10(raw=True)
    assert (after.train.x == 255).all() and not (before.train.x == 255).all()
    np.testing.assert_array_equal(after.test.x, before.test.x)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", b"no array"])
def test_a_damaged_cache_is_made_anew(path: Path, small: Arrays, content: bytes):
    np.savez(path, **small)
    before = CIFAR10(raw=True)
    for kept in (config.user_folder() / "cifar10").glob("*.npy"):
        kept.write_bytes(content)
    np.testing.assert_array_equal(CIFAR10(raw=True).train.x, before.train.x)
    for kept in (config.user_folder() / "cifar10").glob("*.npy"):
        assert len(np.load(kept)) in (3, 6)


def test_a_cache_that_cannot_be_written(path: Path, small: Arrays):
    np.savez(path, **small)
    config.user_folder().parent.mkdir(parents=True)
    config.user_folder().write_text("a file where a folder should be")
    assert len(CIFAR10(raw=True).train) == 6


def test_many_images_take_time(
    path: Path, small: Arrays, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(jpeg, "MANY", 4)
    np.savez(path, **small)
    CIFAR10(raw=True)
    assert caplog.messages == ["noeira: decoding 6 images of cifar10_jpeg_full.npz, once"]


def no_jpeg(arrays: Arrays) -> Arrays:
    """Image 2 of the test images is none."""
    begin, end = arrays["test_off"][2:4]
    blob = arrays["test_blob"].copy()
    blob[begin:end] = 0
    return {"test_blob": blob}


def cut_off(arrays: Arrays) -> Arrays:
    """Of the last test image a part is missing."""
    ends = arrays["test_off"].copy()
    ends[-1] -= 40
    return {"test_off": ends}


def too_small(arrays: Arrays) -> Arrays:
    """Image 1 of the training images has other axes."""
    images = [encoded(np.zeros((32, width, 3), np.uint8)) for width in (32, 16)]
    return arrays_of("train", images, [0, 1])


DAMAGES: list[tuple[Callable[[Arrays], Arrays], str]] = [
    (no_jpeg, "image 2 of test is no JPEG file: "),
    (cut_off, "image 2 of test is no JPEG file: "),
    (too_small, "image 1 of train has 16×32 pixels, not 32×32"),
    (
        lambda a: {"train_label": np.full(6, 11, np.uint8)},
        "image 0 of train is of class 11; there are 10",
    ),
    (
        lambda a: {"train_off": a["train_off"][:-1]},
        "its arrays do not fit together: train_blob uint8[",
    ),
    (lambda a: {"test_label": a["test_label"].astype(float)}, "its arrays do not fit together: "),
    (lambda a: {"test_off": a["test_off"][::-1]}, "test_off does not say where images begin"),
    (lambda a: {"test_off": a["test_off"] + 1}, "test_off does not say where images begin"),
]


@pytest.mark.parametrize(("change", "wrong"), DAMAGES)
def test_damaged_files(path: Path, small: Arrays, change: Callable[[Arrays], Arrays], wrong: str):
    np.savez(path, **(small | change(small)))
    with pytest.raises(DataError) as caught:
        CIFAR10()
    assert str(caught.value).startswith(f"{path}: {wrong}")
    assert str(caught.value).endswith("Delete the file, or replace it with an intact copy.")


def test_what_is_no_archive_at_all(path: Path, small: Arrays):
    np.savez(path, **small)
    whole = path.read_bytes()
    del small["test_off"]
    for content in (b"", b"no archive", whole[:-100], whole[:1000]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"cifar10_jpeg_full\.npz: it cannot be read: "):
            CIFAR10()
    np.savez(path, **small)
    with pytest.raises(DataError, match="it cannot be read: 'test_off is not a file"):
        CIFAR10()


@pytest.mark.slow
def test_the_whole_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    given = config.DATA.read()
    if given is None or not (given / "cifar10" / "cifar10_jpeg_full.npz").is_file():
        pytest.skip("NOEIRA_DATA names no folder with cifar10/cifar10_jpeg_full.npz")
    pytest.importorskip("PIL", reason="JPEG images need the extra `data`")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    data = CIFAR10()
    assert (data.train.x.shape, data.test.x.shape) == ((50000, 3, 32, 32), (10000, 3, 32, 32))
    assert np.bincount(data.train.y).tolist() == [5000] * 10
    assert np.bincount(data.test.y).tolist() == [1000] * 10
    assert np.abs(data.train.x.mean((0, 2, 3))).max() < 2e-3
    assert np.abs(data.train.x.std((0, 2, 3)) - 1).max() < 2e-2
