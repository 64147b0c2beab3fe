"""Name maps: weights go to PyTorch and come back; a report names everything that does not fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from stateful_layers import Net as Normed

import noeira
from noeira.errors import CheckpointError, OptionError
from noeira.nn import Linear, LinearReLU, NameMap, ReLU, Residual, Row, Sequential, Tanh

Plain = Sequential[Linear[5, 4], ReLU, Linear[4, 3]]
Fused = Sequential[LinearReLU[5, 4], Linear[4, 3]]
TABLE = (
    Row("0.weight", "encoder.fc.weight", "transpose"),
    Row("0.bias", "encoder.fc.bias"),
    Row("1.weight", "head.weight", "transpose"),
    Row("1.bias", "head.bias"),
    Row(theirs="*.num_batches_tracked", kind="ignore"),
)


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch, imported when the first test asks for it."""
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def compiled(net: Any, seed: int = 0, dtype: Any = "f32") -> noeira.Program:
    return noeira.compile(net, target="reference", seed=seed, dtype=dtype, batch=7)


def theirs(torch: Any, dtype: Any) -> Any:
    """A network of PyTorch's with names of its own."""
    nn = torch.nn
    encoder, model = nn.Module(), nn.Module()
    encoder.fc, model.head = nn.Linear(5, 4, dtype=dtype), nn.Linear(4, 3, dtype=dtype)
    model.encoder = encoder
    model.forward = lambda x: model.head(torch.relu(encoder.fc(x)))
    return model


@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 1e-6), ("f64", 1e-14)])
@pytest.mark.parametrize("of", ["Sequential", "a table"])
def test_networks_exchange_tensors_with_torch(
    torch: Any, tmp_path: Path, of: str, dtype: str, tolerance: float
) -> None:
    from safetensors.torch import load_file as load_torch
    from safetensors.torch import save_file as save_torch

    path, kind = tmp_path / "net.safetensors", {"f32": torch.float32, "f64": torch.float64}[dtype]
    torch.manual_seed(0)
    if of == "Sequential":
        nn = torch.nn
        model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)).to(kind)
        net, names = Plain, NameMap.of(Plain)
    else:
        model, net, names = theirs(torch, kind), Fused, NameMap(Fused, TABLE)
    x = np.random.default_rng(0).standard_normal((9, 5)).astype(dtype.replace("f", "float"))
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
        save_torch(model.state_dict(), path)
        first, second = compiled(net, 1, dtype), compiled(net, 2, dtype)
        first.tensors.load(path, names=names)
        np.testing.assert_allclose(first.forward(x), expected, rtol=0, atol=tolerance)
        second.tensors.save(path, names=names)
        model.load_state_dict(load_torch(path), strict=True)
        found = model(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, second.forward(x), rtol=0, atol=tolerance)
    # Bit for bit there and back.
    first.tensors.load(path, names=names)
    assert all(first.tensors[n].tobytes() == a.tobytes() for n, a in second.tensors.items())


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_16_bits_are_rounded_as_torch_does(torch: Any, tmp_path: Path, dtype: str) -> None:
    from safetensors.torch import load_file as load_torch

    path, kind = tmp_path / "net.safetensors", {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    program, names = compiled(Plain), NameMap.of(Plain)
    program.tensors.save(path, dtype=dtype, names=names)
    found = load_torch(path)
    for name, array in program.tensors.items():
        given = torch.from_numpy(array.copy())
        expected = (given.T if name.endswith("weight") else given).to(kind)
        assert found[name].dtype == kind and torch.equal(found[name], expected)
    program.tensors.load(path, names=names)
    for name, array in program.tensors.items():
        wide = found[name].float().numpy()
        assert np.array_equal(array, wide.T if name.endswith("weight") else wide)


def test_of_transposes_the_weights_of_linear_and_nothing_else() -> None:
    names = NameMap.of(Sequential[Residual[Linear[3, 3]], Tanh, LinearReLU[3, 2]], ["*.extra"])
    assert {(row.ours, row.kind) for row in names.rows} == {
        ("0.0.weight", "transpose"),
        ("0.0.bias", "plain"),
        ("2.weight", "transpose"),
        ("2.bias", "plain"),
        ("", "ignore"),
    }
    own = Normed.parameters() | Normed.buffers()
    assert {row.ours: row.kind for row in NameMap.of(Normed).rows} == {
        name: "transpose" if name in ("0.weight", "2.weight", "4.weight") else "plain"
        for name in own
    }


def test_zeros_are_zero_when_loaded_and_left_out_when_saved(tmp_path: Path) -> None:
    path, program = tmp_path / "net.safetensors", compiled(Plain)
    rows = [row for row in NameMap.of(Plain).rows if row.ours != "2.bias"]
    names = NameMap(Plain, (*rows, Row("2.bias", kind="zeros"), Row(theirs="*x?", kind="ignore")))
    program.params["2.bias"][...] = 5
    program.tensors.save(path, names=names)
    found = load_file(path)
    assert set(found) == {"0.weight", "0.bias", "2.weight"} and found["0.weight"].shape == (4, 5)
    save_file({**found, "a.x1": np.zeros(1, np.int64)}, path)
    other = compiled(Plain, 1)
    other.params["2.bias"][...] = 6
    other.tensors.load(path, names=names)
    assert not other.params["2.bias"].any()
    assert other.params["0.weight"].tobytes() == program.params["0.weight"].tobytes()


def test_what_is_kept_stays_when_loaded_and_is_saved_as_others_are(tmp_path: Path) -> None:
    path, program, other = tmp_path / "net.safetensors", compiled(Plain), compiled(Plain, 1)
    names, whole = NameMap.of(Plain, keep=["2.*"]), NameMap.of(Plain)
    program.tensors.save(path, names=whole)
    found = load_file(path)
    head = {name: other.params[name].tobytes() for name in ("2.weight", "2.bias")}
    body = {"0.weight": found["0.weight"], "0.bias": found["0.bias"]}
    # A body alone, a body with a head of another width, one with the very same head.
    for more in ({}, {"2.weight": np.zeros((9, 4), np.float32)}, found):
        other.params["0.weight"][...] = 0
        save_file({**more, **body}, path)
        other.tensors.load(path, names=names)
        assert other.params["0.weight"].tobytes() == program.params["0.weight"].tobytes()
        assert {name: other.params[name].tobytes() for name in head} == head
    other.tensors.save(path, names=names)
    kept = load_file(path)
    np.testing.assert_array_equal(kept["2.weight"], other.params["2.weight"].T)
    assert kept.keys() == found.keys()
    save_file(body, path)
    with pytest.raises(CheckpointError) as caught:
        other.tensors.load(path, names=whole)
    assert str(caught.value).splitlines()[1:] == [
        "  missing: 2.weight [3, 4], which is 2.weight [4, 3] here",
        "  missing: 2.bias [3]",
        "  what stays as it is, such as a new head: NameMap.of(…, keep=[pattern, …])",
    ]


def test_a_file_of_torch_without_a_map_says_so(tmp_path: Path) -> None:
    path, program = tmp_path / "net.safetensors", compiled(Plain)
    save_file({name: np.ascontiguousarray(a.T) for name, a in program.tensors.items()}, path)
    with pytest.raises(CheckpointError) as caught:
        program.tensors.load(path)
    assert str(caught.value) == (
        f"{path}: these are not the network's tensors: it has 0.weight as float32[4, 5], not "
        "float32[5, 4], and there are 1 more differences; PyTorch has the weights of Linear "
        "transposed: load(…, names=NameMap.of(Net))"
    )


def test_the_report_names_all_that_does_not_fit(tmp_path: Path) -> None:
    path, program = tmp_path / "net.safetensors", compiled(Fused)
    before = {name: array.copy() for name, array in program.tensors.items()}
    save_file(
        {
            "encoder.fc.weight": np.zeros((5, 4), np.float32),
            "head.weight": np.zeros((3, 4), np.int64),
            "head.bias": np.zeros(4, np.float32),
            "decoder.weight": np.zeros((2, 2), ml_dtypes.bfloat16),
            "bn.num_batches_tracked": np.zeros((), np.int64),
        },
        path,
    )
    with pytest.raises(CheckpointError) as caught:
        program.tensors.load(path, names=NameMap(Fused, TABLE))
    assert str(caught.value) == (
        f"{path}: these are not the tensors of the name map of {Fused!r}:\n"
        "  wrong shape: encoder.fc.weight float32[5, 4], not encoder.fc.weight [4, 5], which is "
        "0.weight [5, 4] here\n"
        "  missing: encoder.fc.bias [4], which is 0.bias [4] here\n"
        "  wrong dtype: head.weight int64[3, 4], not float32: 1.weight here\n"
        "  wrong shape: head.bias float32[4], not head.bias [3], which is 1.bias [3] here\n"
        "  unused: decoder.weight bfloat16[2, 2]\n"
        "  the same tensors under other names: write a NameMap of rows, Row(ours, theirs, kind); "
        "modules without tensors count as places: LinearReLU is one, Linear and ReLU are two\n"
        "  what stays as it is, such as a new head: NameMap.of(…, keep=[pattern, …])"
    )
    assert all(program.tensors[n].tobytes() == array.tobytes() for n, array in before.items())
    message = f"the name map is of {Fused!r}, and the tensors are of another network"
    for call in (program.tensors.load, program.tensors.save):
        with pytest.raises(CheckpointError, match=re.escape(f"of {Plain!r}, and the tensors are")):
            call(path, names=NameMap.of(Plain))
    with pytest.raises(CheckpointError, match=re.escape(message)):
        compiled(Plain).tensors.save(path, names=NameMap(Fused, TABLE))


def test_checkpoints_and_arrays_go_through_a_map_too(tmp_path: Path) -> None:
    program, names = compiled(Fused), NameMap(Fused, TABLE)
    program.tensors.save(tmp_path / "own.safetensors")
    own = NameMap(Fused, tuple(Row(name, name) for name in program.tensors))
    other = compiled(Fused, 1)
    other.tensors.load(tmp_path / "own.safetensors", names=own)
    assert other.params["0.weight"].tobytes() == program.params["0.weight"].tobytes()
    given = {row.theirs: program.tensors[row.ours] for row in TABLE if row.ours}
    given = {n: a.T if a.ndim == 2 else a for n, a in given.items()}
    third = compiled(Fused, 2)
    third.tensors.load(given, names=names)
    assert third.params["1.weight"].tobytes() == program.params["1.weight"].tobytes()
    with pytest.raises(CheckpointError, match=r"^these are not the tensors of the name map"):
        third.tensors.load({}, names=names)


@pytest.mark.parametrize("names", [{"0.weight": "encoder.fc.weight"}, NameMap])
def test_names_are_a_name_map(tmp_path: Path, names: Any) -> None:
    tensors = compiled(Fused).tensors
    for call in (tensors.save, tensors.load):
        with pytest.raises(OptionError) as caught:
            call(tmp_path / "a.safetensors", names=names)
        assert str(caught.value) == (
            "names is a name map, such as NameMap.of(Net) or NameMap(Net, [Row(ours, theirs), …]), "
            f"not {names!r}"
        )


MISTAKES: dict[str, Any] = {
    "has no tensor 1.wieght; did you mean 1.weight?": lambda: NameMap(
        Fused, (*TABLE[:2], Row("1.wieght", "head.weight"))
    ),
    "has no row for 1.weight, 1.bias: write Row(ours, theirs), or": lambda: NameMap(
        Fused, TABLE[:2]
    ),
    "has two rows for 0.bias": lambda: NameMap(Fused, (*TABLE, Row("0.bias", "other"))),
    "has two rows for head.bias": lambda: NameMap(
        Fused, (*TABLE[:2], Row("1.weight", "head.bias"), Row("1.bias", "head.bias"))
    ),
    "0.bias is [4]; only a matrix has a transpose": lambda: NameMap(
        Fused, (Row("0.bias", "b", "transpose"),)
    ),
    "a row of a name map is a Row(ours, theirs), not ('0.bias', 'b')": lambda: NameMap(
        Fused,
        (("0.bias", "b"),),  # type: ignore[arg-type]
    ),
    "the rows of a name map are a list of Row(…), not 3": lambda: NameMap(Fused, 3),  # type: ignore[arg-type]
    "ignore is a list of names and patterns: write ['*.count']": lambda: NameMap.of(
        Plain, "*.count"
    ),
    "a name map is of a module type, not of 3": lambda: NameMap(3),  # type: ignore[arg-type]
    "a name map is of a module type, not of <Linear[3, 2]": lambda: NameMap.of(
        Linear[3, 2]()  # type: ignore[arg-type]
    ),
    "kind must be one of plain, transpose, zeros, ignore": lambda: Row("a", "b", "T"),  # type: ignore[arg-type]
    "theirs is the name of a tensor": lambda: Row("a"),
    "keep is of a tensor that both have, plain or": lambda: Row("a", kind="zeros", keep=True),
    "has no tensor 5.*; it has 0.weight, 0.bias, 1.w": lambda: NameMap.of(Fused, keep=["5.*"]),
    "keep is a list of names and patterns: write ['1.*']": lambda: NameMap.of(Fused, keep="1.*"),
    "theirs has no place in it": lambda: Row("a", "b", "zeros"),
    "ours has no place in it": lambda: Row("a", "b", "ignore"),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_map_that_cannot_be_is_refused_when_it_is_made(message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        MISTAKES[message]()
