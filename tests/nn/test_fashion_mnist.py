"""Fashion-MNIST: where it is looked for, what is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_files import md5, mnist_files, write

from noeira.datasets import FashionMNIST, fashion_mnist
from noeira.datasets.files import MissingData, find


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A stand-in of 6 and 3 images, which is nowhere yet: the content of each file by name."""
    monkeypatch.delenv("NOEIRA_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    contents = mnist_files()
    checksums = {name: md5(content) for name, content in contents.items()}
    files = replace(fashion_mnist.FILES, md5=checksums, system=tmp_path / "system")
    monkeypatch.setattr(fashion_mnist, "FILES", files)
    return contents


def test_images_are_standardised_or_raw(small: dict[str, bytes], tmp_path: Path):
    write(tmp_path / "system", small)
    raw, data, rows = FashionMNIST(raw=True), FashionMNIST(), FashionMNIST(flat=True)
    assert data.source == ("full", tmp_path / "system")
    pixels = np.frombuffer(small["train-images-idx3-ubyte"], np.uint8, offset=16)
    assert raw.train.x.dtype == np.uint8 and raw.train.x.shape == (6, 1, 28, 28)
    np.testing.assert_array_equal(raw.train.x.ravel(), pixels)
    assert data.train.x.dtype == np.float32 and data.test.x.shape == (3, 1, 28, 28)
    np.testing.assert_allclose(
        data.train.x, (raw.train.x / 255 - data.mean[0]) / data.std[0], atol=1e-6
    )
    np.testing.assert_array_equal(rows.train.x, data.train.x.reshape(6, 784))
    assert data.train.y.dtype == np.int32 and data.test.y.tolist() == [0, 1, 2]
    assert len(data.classes) == 10 and repr(data) == "<FashionMNIST full: 6 train, 3 test>"


def test_noeira_data_comes_before_what_is_installed_and_that_before_the_cache(
    small: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folders = (
        tmp_path / "cache/noeira/fashion-mnist",
        tmp_path / "system",
        tmp_path / "data/fashion-mnist",
    )
    monkeypatch.setenv("NOEIRA_DATA", str(tmp_path / "data"))
    for folder in folders:
        write(folder, small)
        assert find(fashion_mnist.FILES) == folder


def test_what_is_nowhere_is_said(small: dict[str, bytes], tmp_path: Path):
    with pytest.raises(MissingData) as caught:
        FashionMNIST()
    assert str(caught.value) == (
        f"Fashion-MNIST is not on this machine: no {tmp_path / 'system'}; "
        f"no {tmp_path / 'cache/noeira/fashion-mnist'}; NOEIRA_OFFLINE forbids a download. It is "
        "downloaded at first use (pip install 'noeira[data]'), or NOEIRA_DATA names a folder that "
        "has, in fashion-mnist/, train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
        "t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz."
    )


def test_the_whole_of_it():
    try:
        data = FashionMNIST()
    except MissingData as error:
        pytest.skip(str(error))
    assert (data.train.x.shape, data.test.x.shape) == ((60000, 1, 28, 28), (10000, 1, 28, 28))
    assert np.bincount(data.train.y).tolist() == [6000] * 10
    assert np.bincount(data.test.y).tolist() == [1000] * 10
    assert abs(data.train.x.mean()) < 2e-3 and abs(data.train.x.std() - 1) < 2e-3
