"""Weights of residual networks go to PyTorch and come back, and those of a trained one are read."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx
from safetensors.numpy import load_file
from torch_resnets import saved, torch_resnet

import noeira
from noeira import config
from noeira.errors import CheckpointError, OptionError
from noeira.nn import (
    CifarFeatureClassifier,
    Linear,
    Module,
    NameMap,
    ResNet18,
    ResNet18Backbone,
    ResNet18Layer3Backbone,
    ResNet20,
    ResNet34,
    Sequential,
    Standardize,
    resnet_names,
)


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch, imported when the first test asks for it."""
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def counted(names: NameMap) -> dict[str, int]:
    """How many rows there are of each kind of tensor."""
    found: dict[str, int] = dict.fromkeys(("conv", "norm", "counter", "head", "ignored head"), 0)
    for row in names.rows:
        head = row.theirs.startswith(("fc.", "linear."))
        if head:
            found["head" if row.ours else "ignored head"] += 1
        elif row.kind == "ignore":
            found["counter"] += 1
        elif len(names.shapes[row.ours]) == 4:
            found["conv"] += 1
        else:
            found["norm"] += 1
    return found


@pytest.mark.parametrize(
    ("net", "convolutions", "heads"),
    [
        (ResNet18[1000], 20, (2, 0)),
        (ResNet18Backbone, 20, (0, 2)),
        (ResNet18Layer3Backbone, 15, (0, 2)),
        (ResNet34[1000], 36, (2, 0)),
        (ResNet20, 19, (2, 0)),
        (CifarFeatureClassifier, 19, (0, 2)),
    ],
)
def test_rows(net: Any, convolutions: int, heads: tuple[int, int]):
    found = counted(resnet_names(net))
    more = 2 if net is CifarFeatureClassifier else 0
    assert found == {
        "conv": convolutions,
        "norm": 4 * convolutions + more,
        "counter": convolutions,
        "head": heads[0],
        "ignored head": heads[1],
    }


def test_names_are_those_of_a_network_of_torch(torch: Any):
    twin = torch_resnet(torch, (64, 128, 256, 512), (3, 4, 6, 3), 10)
    names = resnet_names(ResNet34[10])
    wanted = {name: tuple(tensor.shape) for name, tensor in twin.state_dict().items()}
    found = {row.theirs: row.turned(names.shapes.get(row.ours, ())) for row in names.rows}
    assert found == wanted


class Narrow(ResNet18):
    """ResNet-18 with few channels."""

    widths = (8, 12, 16, 24)


@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 1e-4), ("f64", 1e-10)])
@pytest.mark.parametrize("stem", ["imagenet", "cifar"])
def test_resnet18_goes_to_torch_and_comes_back(
    torch: Any, tmp_path: Path, stem: str, dtype: Any, tolerance: float
):
    kind = {"f32": torch.float32, "f64": torch.float64}[dtype]
    twin = torch_resnet(torch, Narrow.widths, Narrow.blocks, 10, stem).to(kind).eval()
    net, path = Narrow.of(10, stem=stem), tmp_path / "resnet18.safetensors"
    names, side = resnet_names(net), 40 if stem == "imagenet" else 9
    x = np.random.default_rng(0).standard_normal((2, 3, side, side))
    x = x.astype(dtype.replace("f", "float"))

    def logits() -> np.ndarray:
        with torch.no_grad():
            return twin(torch.from_numpy(x)).numpy()

    saved(twin, path)
    first, second = (
        noeira.compile(net, target="reference", batch=2, input=x.shape[1:], dtype=dtype, seed=seed)
        for seed in (1, 2)
    )
    first.tensors.load(path, names=names)
    np.testing.assert_allclose(first.forward(x), logits(), rtol=0, atol=tolerance)
    second.tensors.save(path, names=names)
    twin.load_state_dict({name: torch.from_numpy(a) for name, a in load_file(path).items()})
    np.testing.assert_allclose(logits(), second.forward(x), rtol=0, atol=tolerance)
    first.tensors.load(path, names=names)
    assert all(first.tensors[n].tobytes() == a.tobytes() for n, a in second.tensors.items())


class Front(ResNet18Backbone):
    """ResNet-18 with few channels, up to its last block."""

    widths = Narrow.widths


class Tuned(Sequential[Standardize[(0.5,) * 3, (0.2,) * 3], Front, Linear[1, 4]]):
    """A backbone between other layers."""


def test_what_is_around_a_network_stays(torch: Any, tmp_path: Path):
    twin = torch_resnet(torch, Narrow.widths, Narrow.blocks, 10)
    saved(twin, tmp_path / "resnet18.safetensors")
    program = noeira.compile(Tuned, target="reference", batch=1, input=(3, 32, 32))
    before = {name: array.copy() for name, array in program.tensors.items()}
    program.tensors.load(tmp_path / "resnet18.safetensors", names=resnet_names(Tuned))
    stay = {n for n, array in program.tensors.items() if np.array_equal(array, before[n])}
    assert stay == {"2.weight", "2.bias"}
    wanted = twin.state_dict()["layer3.0.downsample.1.running_var"].numpy()
    assert np.array_equal(program.tensors["1.layer3.0.downsample.1.running_var"], wanted)


def test_a_head_of_other_classes_stays(torch: Any, tmp_path: Path):
    saved(torch_resnet(torch, (16, 32, 64), (3, 3, 3), 10, "cifar", True), tmp_path / "net")
    program = noeira.compile(ResNet20[100], target="reference", batch=1, input=(3, 8, 8))
    with pytest.raises(CheckpointError, match=r"linear\.weight float32\[10, 64\]"):
        program.tensors.load(tmp_path / "net", names=resnet_names(ResNet20[100]))
    names = resnet_names(ResNet20[100], keep=["linear.*"])
    program.tensors.load(tmp_path / "net", names=names)


def test_mistakes():
    with pytest.raises(OptionError, match="has no residual network inside"):
        resnet_names(Linear[3, 4])
    with pytest.raises(OptionError, match="has several residual networks inside"):
        resnet_names(Sequential[ResNet18Backbone.of(), ResNet18Backbone.of(channels=512)])
    with pytest.raises(OptionError, match=r"has no tensor head\.\*"):
        resnet_names(ResNet20, keep=["head.*"])
    with pytest.raises(OptionError, match="a name map is of a module type"):
        resnet_names(ResNet20())  # type: ignore[arg-type]


class Trained(Sequential[Standardize[(0.485, 0.456, 0.406), (0.229, 0.224, 0.225)], ResNet20]):
    """A network for CIFAR-10 that takes bytes, with the numbers that its weights were trained
    with.
    """


def folder() -> Path:
    """The folder of the trained network."""
    found = config.DATA.read()
    if not found or not (Path(found) / "models" / "cifar_resnet").is_dir():
        pytest.skip("NOEIRA_DATA names no folder with models/cifar_resnet")
    return Path(found) / "models" / "cifar_resnet"


def trained(target: str, batch: int, net: type[Module] = Trained) -> noeira.Program:
    """The trained network."""
    program = noeira.compile(net, target=target, batch=batch, input=(3, 32, 32))
    file = folder() / "resnet20-12fca82f.safetensors"
    program.tensors.load(file, names=resnet_names(net))
    return program


@pytest.mark.parametrize(
    ("target", "count"),
    [
        ("reference", 4),
        pytest.param("cpu", 64, marks=needs_compiler),
        pytest.param("cuda-cpu", 2, marks=needs_cxx),
    ],
)
def test_logits_of_a_trained_network_are_those_of_torch(target: str, count: int):
    stored = np.load(folder() / "resnet20_expected_logits.npz")
    x = stored["images_u8_nhwc"][:count].transpose(0, 3, 1, 2)
    found = trained(target, count).forward(x)
    np.testing.assert_allclose(found, stored["logits"][:count], rtol=0, atol=1e-4)


@needs_compiler
def test_a_trained_network_knows_the_images_it_was_trained_on():
    program = trained("cpu", 64)
    file = folder().parents[1] / "cifar10" / "cifar10_first4000_lossless.bin.gz"
    if not file.is_file():
        pytest.skip(f"NOEIRA_DATA has no cifar10/{file.name}")
    with gzip.open(file) as opened:
        records = np.frombuffer(opened.read(2000 * 3073), np.uint8).reshape(2000, 3073)
    found = program.forward(records[:, 1:].reshape(-1, 3, 32, 32)).argmax(1)
    assert (found == records[:, 0]).mean() >= 0.995
