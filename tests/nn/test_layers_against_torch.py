"""Every layer against the module of PyTorch that it is: what it gives, and all its gradients."""

from __future__ import annotations

from functools import cache
from itertools import filterfalse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_runs import Run, outputs_of
from layer_rows import HELD_ELSEWHERE, ROWS, Row
from needs import needs_compiler, needs_cxx

from noeira.ir.builder import Builder
from noeira.ir.gradients import gradients
from noeira.ir.types import TensorType
from noeira.nn import Module, NameMap, primitives
from noeira.tracing import trace

BATCH = 3
DTYPES = {"f32": "f4", "f64": "f8"}
ROOT = Path(__file__).parents[2]
# The results of a kind by name, such as `y` or the gradient of `weight`.
Results = dict[str, np.ndarray]


def cases() -> list[tuple[Row, int]]:
    """Every row at each of its sizes."""
    return [(row, size) for row in ROWS for size in range(len(row.sizes))]


def drawn(row: Row, size: int) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Inputs with a batch, and parameters by name."""
    random = np.random.default_rng(size)
    inputs = [random.standard_normal((BATCH, *shape)) for shape in row.sizes[size]]
    params = {
        name: random.standard_normal(info.shape) / 2 + 0.25
        for name, info in row.layer.parameters().items()
    }
    return inputs, params


def moved(row: Row, array: np.ndarray, there: bool) -> np.ndarray:
    """Images as PyTorch has them, or as the layer does."""
    if not row.last or array.ndim < 3:
        return array
    return np.moveaxis(array, -1, 1) if there else np.moveaxis(array, 1, -1)


@cache
def expected(row: Row, size: int) -> tuple[Results, np.ndarray]:
    """What PyTorch makes of a case in f64, and a cotangent of it."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.set_num_threads(1)  # more take longer here, and others run beside
    inputs, params = drawn(row, size)
    tensors = [torch.tensor(moved(row, array, True).copy(), requires_grad=True) for array in inputs]
    module, names = row.theirs(torch.nn), NameMap.of(row.layer).rows
    rows = {one.ours: one for one in names if one.ours in params}
    own = dict[str, Any]()
    if isinstance(module, torch.nn.Module):
        module, own = module.double(), dict(module.double().named_parameters())
    assert {one.theirs for one in rows.values()} == set(own), f"parameters of {row.name}"
    with torch.no_grad():
        for name, one in rows.items():
            value = params[name].T if one.kind == "transpose" else params[name]
            own[one.theirs].copy_(torch.tensor(value.copy()))
    y = module(*tensors)
    made = moved(row, y.detach().numpy(), False)
    cotangent = np.random.default_rng(9).standard_normal(made.shape)
    y.backward(torch.tensor(moved(row, cotangent, True).copy()))
    found = {"y": made}
    for number, tensor in enumerate(tensors):
        found[f"input {number}"] = moved(row, tensor.grad.numpy(), False)
    for name, one in rows.items():
        gradient = own[one.theirs].grad.numpy()
        found[name] = gradient.T if one.kind == "transpose" else gradient
    return found, cotangent


def run_of(row: Row, size: int, dtype: str, cotangent: np.ndarray) -> Run:
    """The graph of a layer in training, with all gradients, and what it is given."""
    inputs, params = drawn(row, size)
    graph = trace(row.layer, batch=BATCH, input=shapes_of(inputs), dtype=dtype)
    builder, (y,) = Builder.of(graph), graph.outputs
    seed = builder.input("cotangent", TensorType(dtype, cotangent.shape))
    values = builder.values()
    wanted = [i.value for i in graph.inputs] + [values[name] for name in params]
    found = gradients(builder, {y.name: seed}, wanted, "vjp")
    outputs = [y]
    for value in wanted:
        # A gradient may be the cotangent itself, or that of another: results have memory of their
        # own.
        outputs.append(builder.emit("copy", found[value.name]))
    given = {"cotangent": cotangent} | params
    given |= {i.value.name: a for i, a in zip(graph.inputs, inputs, strict=True)}
    return Run(builder.done(outputs), {n: a.astype(DTYPES[dtype]) for n, a in given.items()})


def shapes_of(inputs: list[np.ndarray]) -> Any:
    """The shapes of samples as `trace` takes them."""
    shapes = [array.shape[1:] for array in inputs]
    return shapes[0] if len(shapes) == 1 else tuple(shapes)


def check(
    target: str, dtype: str, tolerance: float, some: list[tuple[Row, int]], quickly: bool = False
) -> None:
    """Values and gradients of cases on a target, relative to the greatest element of each; quickly:
    C is built so.
    """
    wanted = [expected(row, size) for row, size in some]
    runs = [
        run_of(row, size, dtype, cotangent)
        for (row, size), (_, cotangent) in zip(some, wanted, strict=True)
    ]
    faults = list[str]()
    for (row, size), (named, _), arrays in zip(
        some, wanted, outputs_of(runs, target, quickly), strict=True
    ):
        for (name, want), got in zip(named.items(), arrays, strict=True):
            where = f"{row.name}, size {size}, {name}"
            if got.shape != want.shape:
                faults.append(f"{where}: the shape is {got.shape}, not {want.shape}")
            elif not (error := np.abs(got - want).max() / np.abs(want).max()) <= tolerance:
                faults.append(f"{where}: relative error {error:.3g}")
    assert not faults, "\n".join(faults)


def test_every_layer_has_a_row_or_a_file_that_holds_it() -> None:
    layers = {
        name
        for name in primitives.__all__
        if isinstance(one := getattr(primitives, name), type) and issubclass(one, Module)
    }
    here = {row.layer.family.__name__ for row in ROWS}
    assert here | set(HELD_ELSEWHERE) == layers
    assert not here & set(HELD_ELSEWHERE)
    for name, file in HELD_ELSEWHERE.items():
        assert f"{name}" in (ROOT / file).read_text(), f"{file} does not name {name}"


def test_values_and_gradients_of_the_reference() -> None:
    check("reference", "f64", 1e-10, cases())


def is_quick(case: tuple[Row, int]) -> bool:
    """Whether a case is run in C in the quick tests: where channels are only changes what is
    around the same kernels.
    """
    row, size = case
    return size == 0 and not row.last


@needs_compiler
def test_some_values_and_gradients_in_c() -> None:
    check("cpu", "f32", 1e-5, list(filter(is_quick, cases())), quickly=True)


@needs_compiler
@pytest.mark.slow
def test_other_values_and_gradients_in_c() -> None:
    check("cpu", "f32", 1e-5, list(filterfalse(is_quick, cases())))


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1])
def test_values_and_gradients_in_cuda(size: int) -> None:
    check("cuda-cpu", "f32", 1e-5, [case for case in cases() if case[1] == size])
