"""MNIST: finding, downloading (from this machine only), reading, and the shipped subset."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_files import closed_port, md5, mirror, mnist_files, write

from noeira import config
from noeira.datasets import MNIST, files, idx, mnist
from noeira.datasets.files import DataFiles, MissingData, download, find
from noeira.errors import DataError

full_mnist = pytest.mark.skipif(
    config.DATA.read() is None, reason="NOEIRA_DATA names no folder with the full MNIST"
)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data set on this machine: NOEIRA_DATA and the user's cache are empty; gives the cache."""
    monkeypatch.delenv("NOEIRA_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "noeira" / "mnist"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A stand-in for the full MNIST, of 6 and 3 images: the content of each file by name."""
    contents = mnist_files()
    checksums = {name: md5(content) for name, content in contents.items()}
    monkeypatch.setattr(mnist, "FILES", replace(mnist.FILES, md5=checksums))
    return contents


def test_shipped_subset(nowhere: Path, caplog: pytest.LogCaptureFixture):
    data = MNIST()
    assert data.source == ("shipped", mnist.SHIPPED)
    assert (data.train.x.shape, data.test.x.shape) == ((4000, 784), (1000, 784))
    assert (data.train.y.shape, data.test.y.shape) == ((4000,), (1000,))
    assert (len(data.train), len(data.test)) == (4000, 1000)
    for split, count in ((data.train, 400), (data.test, 100)):
        assert (split.x.dtype, split.y.dtype) == (np.float32, np.int32)
        assert split.x.flags.c_contiguous and split.y.flags.c_contiguous
        assert (split.x.min(), split.x.max()) == (0, 1)
        assert np.bincount(split.y).tolist() == [count] * 10
        assert split.y[:10].tolist() == list(range(10))
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("noeira", "WARNING")
    assert record.getMessage() == (
        "noeira: MNIST is not on this machine, so the 5,000 of its images that come with noeira "
        "are used, 4,000 to train and 1,000 to test (noeira doctor says why)"
    )
    with pytest.raises(MissingData) as caught:
        find(mnist.FILES)
    assert str(caught.value) == f"no {nowhere}; NOEIRA_OFFLINE forbids a download"


def test_shipped_splits_are_disjoint_and_repeatable(nowhere: Path):
    first, second = MNIST(), MNIST()
    np.testing.assert_array_equal(first.train.x, second.train.x)
    np.testing.assert_array_equal(first.test.y, second.test.y)
    train, test = ({row.tobytes() for row in split.x} for split in (first.train, first.test))
    assert (len(train), len(test), len(train & test)) == (4000, 1000, 0)


def test_images_keep_their_axes_unless_flat(nowhere: Path):
    images, rows = MNIST(flat=False), MNIST()
    assert images.train.x.shape == (4000, 1, 28, 28) and images.test.x.flags.c_contiguous
    raw = MNIST(raw=True)
    assert raw.train.x.dtype == np.uint8 and raw.classes[7] == "7"
    np.testing.assert_array_equal(raw.train.x.astype(np.float32) / 255, rows.train.x)
    np.testing.assert_array_equal(images.train.x.reshape(4000, 784), rows.train.x)


def train_softmax(data: MNIST, epochs: int) -> float:
    """Test accuracy of a softmax regression in NumPy, batches of 100 in the order given."""
    weight, bias = np.zeros((784, 10), np.float32), np.zeros(10, np.float32)
    for _ in range(epochs):
        for start in range(0, len(data.train), 100):
            x, y = data.train.x[start : start + 100], data.train.y[start : start + 100]
            logits = x @ weight + bias
            error = np.exp(logits - logits.max(1, keepdims=True))
            error /= error.sum(1, keepdims=True)
            error[np.arange(len(y)), y] -= 1
            weight -= 0.3 * x.T @ error / len(y)
            bias -= 0.3 * error.mean(0)
    guesses = (data.test.x @ weight + bias).argmax(1)
    return float((guesses == data.test.y).mean())


def test_shipped_images_belong_to_their_labels(nowhere: Path):
    assert train_softmax(MNIST(), epochs=5) > 0.87


def test_damaged_shipped_file(tmp_path: Path):
    path = tmp_path / "mnist_5k.npz"
    path.write_bytes(mnist.SHIPPED.read_bytes()[:5000])
    with pytest.raises(
        DataError, match=r"mnist_5k\.npz: it cannot be read: .*Install noeira again"
    ):
        mnist.read_shipped(path)


@full_mnist
def test_full_mnist():
    data = MNIST()
    assert data.source.kind == "full"
    assert (data.train.x.shape, data.test.x.shape) == ((60000, 784), (10000, 784))
    assert np.bincount(data.test.y).tolist() == [
        *(980, 1135, 1032, 1010, 982),
        *(892, 958, 1028, 974, 1009),
    ]
    assert data.train.x.mean() == pytest.approx(0.1307, abs=5e-5)
    assert repr(data) == "<MNIST full: 60,000 train, 10,000 test>"


@full_mnist
def test_shipped_images_are_training_images_of_mnist():
    (images, labels), (more, more_labels) = mnist.read_shipped(mnist.SHIPPED)
    path = find(mnist.FILES)
    known = {
        image.tobytes(): label
        for image, label in zip(*idx.read_parts(mnist.FILES, path)[0], strict=True)
    }
    assert all(known[i.tobytes()] == label for i, label in zip(images, labels, strict=True))
    assert all(known[i.tobytes()] == label for i, label in zip(more, more_labels, strict=True))


@full_mnist
@pytest.mark.slow
def test_full_mnist_trains_a_softmax_regression():
    assert train_softmax(MNIST(), epochs=5) > 0.915


@pytest.mark.parametrize("compress", [True, False], ids=["gz", "plain"])
def test_files_in_noeira_data(
    nowhere: Path,
    small: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    compress: bool,
):
    write(tmp_path / "data" / "mnist", small, compress)
    monkeypatch.setenv("NOEIRA_DATA", str(tmp_path / "data"))
    data = MNIST(flat=False)
    assert data.source == ("full", tmp_path / "data" / "mnist")
    assert (data.train.x.shape, data.test.x.shape) == ((6, 1, 28, 28), (3, 1, 28, 28))
    assert (
        data.train.x[1, 0, 2, 3]
        == np.float32(small["train-images-idx3-ubyte"][16 + 784 + 59]) / 255
    )
    assert data.test.y.tolist() == [0, 1, 2]
    assert not caplog.records


def test_noeira_data_comes_before_the_cache(
    nowhere: Path, small: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(nowhere, small)
    assert find(mnist.FILES) == nowhere
    monkeypatch.setenv("NOEIRA_DATA", str(tmp_path / "data"))
    assert find(mnist.FILES) == nowhere
    write(tmp_path / "data" / "mnist", small)
    assert find(mnist.FILES) == tmp_path / "data" / "mnist"


def test_an_incomplete_folder_is_named(
    nowhere: Path, small: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    del small["t10k-images-idx3-ubyte"]
    write(tmp_path / "mnist", small)
    monkeypatch.setenv("NOEIRA_DATA", str(tmp_path))
    with pytest.raises(MissingData) as caught:
        find(mnist.FILES)
    assert str(caught.value) == (
        f"{tmp_path / 'mnist'} has no t10k-images-idx3-ubyte; no {nowhere}; "
        "NOEIRA_OFFLINE forbids a download"
    )


def test_a_damaged_file_is_not_passed_over(
    nowhere: Path, small: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    small["t10k-labels-idx1-ubyte"] = small["t10k-labels-idx1-ubyte"][:-1]
    write(tmp_path / "mnist", small)
    monkeypatch.setenv("NOEIRA_DATA", str(tmp_path))
    with pytest.raises(
        DataError, match=r"t10k-labels-idx1-ubyte\.gz: its header announces shape \(3,\)"
    ):
        MNIST()


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    """Downloads are allowed, without a proxy."""
    pytest.importorskip("pooch", reason="downloads need the extra `data`")
    monkeypatch.delenv("NOEIRA_OFFLINE")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def mirrored(*mirrors: str) -> DataFiles:
    """MNIST's files at these mirrors."""
    return replace(mnist.FILES, mirrors=mirrors)


def test_download_from_the_second_mirror(
    nowhere: Path,
    small: dict[str, bytes],
    online: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    write(tmp_path / "mirror", small)
    with mirror(tmp_path / "mirror") as url:
        monkeypatch.setattr(mnist, "FILES", mirrored(closed_port(), url))
        data = MNIST()
    assert data.source == ("full", nowhere) and len(data.train) == 6
    assert sorted(p.name for p in nowhere.iterdir()) == sorted(f"{name}.gz" for name in small)
    assert caplog.messages == [f"noeira: downloading mnist (11 MB) to {nowhere}"]
    assert len(MNIST().test) == 3  # the mirror is gone


def test_an_interrupted_download_goes_on(
    nowhere: Path, small: dict[str, bytes], online: None, tmp_path: Path
):
    names = list(small)
    write(nowhere, {name: small[name] for name in names[:2]})
    write(tmp_path / "mirror", {name: small[name] for name in names[2:]})
    with mirror(tmp_path / "mirror") as url:
        assert find(mirrored(url)) == nowhere
    assert not mnist.FILES.missing(nowhere)


def test_a_wrong_file_is_not_kept(
    nowhere: Path, small: dict[str, bytes], online: None, tmp_path: Path
):
    write(tmp_path / "mirror", small | {"train-images-idx3-ubyte": b"<html>sign in</html>"})
    with mirror(tmp_path / "mirror") as url, pytest.raises(DataError) as caught:
        download(mirrored(url), nowhere)
    assert str(caught.value) == f"{url}train-images-idx3-ubyte.gz is not the file it should be"
    assert list(nowhere.iterdir()) == []


def test_a_silent_mirror_is_given_up(
    nowhere: Path, online: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(files, "PATIENCE", 0.3)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        monkeypatch.setattr(mnist, "FILES", mirrored(url, url))
        start = time.monotonic()
        assert MNIST().source.kind == "shipped"
        assert time.monotonic() - start < 5
    assert f"{url}train-images-idx3-ubyte.gz " in files.failure(nowhere)


def test_a_download_that_failed_is_not_tried_again_for_a_while(
    nowhere: Path,
    small: dict[str, bytes],
    online: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr(mnist, "FILES", mirrored(closed_port()))
    assert MNIST().source.kind == "shipped"
    assert [message[:20] for message in caplog.messages] == [
        "noeira: downloading ",
        "noeira: MNIST is not",
    ]
    write(tmp_path / "mirror", small)
    with mirror(tmp_path / "mirror") as url:
        monkeypatch.setattr(mnist, "FILES", mirrored(url))
        caplog.clear()
        assert MNIST().source.kind == "shipped"
        assert [message[:20] for message in caplog.messages] == ["noeira: MNIST is not"]
        with pytest.raises(MissingData, match="a download failed less than an hour ago: http"):
            find(mnist.FILES)
        monkeypatch.setattr(files, "RESPITE", 0.0)
        assert MNIST().source == ("full", nowhere)


def test_a_name_lookup_that_hangs_is_given_up(
    nowhere: Path, online: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    over = threading.Event()
    monkeypatch.setattr(files, "PATIENCE", 0.3)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(30))
    monkeypatch.setattr(mnist, "FILES", mirrored("http://mirror.invalid/"))
    start = time.monotonic()
    assert MNIST().source.kind == "shipped"
    assert time.monotonic() - start < 5
    over.set()
    assert "train-images-idx3-ubyte.gz did not answer in 0.3 s" in files.failure(nowhere)


def test_a_cache_that_cannot_be_written(
    nowhere: Path, online: None, caplog: pytest.LogCaptureFixture
):
    nowhere.parent.parent.mkdir(parents=True)
    nowhere.parent.write_text("a file where a folder should be")
    assert MNIST().source.kind == "shipped"
    with pytest.raises(MissingData, match=f"{nowhere} cannot be written"):
        find(mnist.FILES)


def test_offline_never_touches_the_network(nowhere: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*args: object, **kwargs: object) -> None:
        touched.append(args)
        raise OSError("no network in this test")

    touched: list[tuple[object, ...]] = []
    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("NOEIRA_OFFLINE", "1")
    assert MNIST().source.kind == "shipped"
    assert not touched
    monkeypatch.delenv("NOEIRA_OFFLINE")
    assert MNIST().source.kind == "shipped"
    if files.importlib.util.find_spec("pooch"):
        assert touched, "the sockets were not really blocked"
