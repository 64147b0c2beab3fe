"""What the sweeps over kernels share: a sample as a case, and what its results are held against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from samples import drawn

from noeira.ir.arrays import dtype_name, is_float, numpy_dtype
from noeira.ir.builder import Builder
from noeira.ir.graph import Node
from noeira.ir.op import Op
from noeira.ir.ops.flat_update import FlatUpdate
from noeira.ir.orders import flattened
from noeira.ir.samples import Draw, Sample
from noeira.ir.storage import overwritable
from noeira.ir.types import ROUNDED, computed

# How far results may be from the references, relative to what rounding errors are compared with.
TOLERANCE = {"f32": 1e-5, "f64": 1e-12}


@dataclass(frozen=True)
class Case:
    """A launching node to make a kernel of, and how its operands are drawn."""

    label: str
    node: Node
    draws: tuple[Draw, ...]

    def arrays(self, seed: int = 0) -> list[np.ndarray]:
        """Operands."""
        random = np.random.default_rng(seed)
        return [np.asarray(drawn(draw, random)) for draw in self.draws]

    def aliases(self, in_place: bool) -> dict[int, int]:
        """The outputs that may take over an operand's memory; none unless `in_place`."""
        taken: dict[int, int] = {}
        for output, places in overwritable(self.node).items() if in_place else ():
            free = [place for place in places if place not in taken.values()]
            if free:
                taken[output] = free[0]
        return taken


def sample_case(rule: Op, sample: Sample) -> Case:
    """A sample of an op as a node of its own."""
    builder = Builder("sample")
    values = [builder.input(f"v{i}", draw.type) for i, draw in enumerate(sample.operands)]
    builder.emit(rule.name, *values, **sample.attrs)
    shapes = " ".join(str(draw.type) for draw in sample.operands)
    return Case(f"{rule.name} {shapes} {sample.attrs}", builder.nodes[-1], sample.operands)


def reference(node: Node, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the node gives by its references, with floats in float64, before they are rounded to
    what they are stored as.
    """
    wide = [a.astype("f8") if is_float(a) else a for a in arrays]
    values = {v.name: a for v, a in zip(node.inputs, wide, strict=True)}
    for part in node.parts:
        given = wide if part is node else [values[v.name] for v in part.inputs]
        results = part.op.reference(part.attrs, *part.arguments(given))
        values |= {v.name: np.asarray(r) for v, r in zip(part.outputs, results, strict=True)}
    return [in_memory(wide_enough(values[v.name]), v.type.order) for v in node.outputs]


def in_memory(array: np.ndarray, order: str) -> np.ndarray:
    """The elements as they lie in memory, one after the other, in an array of the same shape."""
    return flattened(array, order).reshape(array.shape) if order else array


def wide_enough(array: np.ndarray) -> np.ndarray:
    """Floats in float64."""
    return array.astype("f8") if is_float(array) else array


def half_steps(values: np.ndarray, dtype: str) -> np.ndarray:
    """How far numbers may be from the nearest that a dtype of 16 bits has, but for infinities."""
    about = ml_dtypes.finfo(numpy_dtype(dtype))
    exponents = np.maximum(np.frexp(values)[1] - 1, int(about.minexp))
    return np.ldexp(0.5, exponents - about.nmant)


def magnitudes(node: Node, arrays: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> list:
    """What rounding errors are compared with: the results, and what was added up to give them."""
    with np.errstate(all="ignore"):
        added = reference(node, [abs(a) if is_float(a) else a for a in arrays])
        return [
            np.maximum(np.maximum(abs(e), np.mean(abs(e))), np.nan_to_num(abs(a), posinf=0))
            for e, a in zip(expected, added, strict=True)
        ]


def assert_agrees(
    case: Case, results: Sequence[np.ndarray], arrays: Sequence[np.ndarray], factor: float = 1
) -> None:
    """Results must agree with the references, to within `factor` times the tolerance."""
    expected = reference(case.node, arrays)
    sizes = magnitudes(case.node, arrays, expected)
    for got, want, size in zip(results, expected, sizes, strict=True):
        if not is_float(got):
            assert np.array_equal(got, want), case.label
            continue
        dtype, distance = dtype_name(got.dtype), np.abs(got.astype("f8") - want)
        if dtype in ROUNDED:
            distance = np.maximum(distance - half_steps(want, dtype), 0)
        error = np.max(distance / np.where(size > 0, size, 1))
        most = factor * TOLERANCE[computed(dtype)]
        assert error <= most, f"{case.label}: relative error {error}"


def same_bits(case: Case, runs: Iterable[list[np.ndarray]], what: str) -> list[np.ndarray]:
    """The results of a case, whose bits must be the same in all runs, which differ in `what`."""
    results, *others = runs
    for other in others:
        same = [a.tobytes() == b.tobytes() for a, b in zip(results, other, strict=True)]
        assert all(same), f"{case.label}: the bits depend on {what}"
    return results


def same_in_place(
    run: Callable[..., list[np.ndarray]], case: Case, arrays: Sequence[np.ndarray]
) -> None:
    """The bits must not depend on whether results take over the memory of operands."""
    runs = (run(case, arrays, in_place=place) for place in (False, True))
    same_bits(case, runs, "where results are")


def assert_bits_of_parts(
    group: Sequence[Case],
    arrays: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    run: Callable[[Case, list[np.ndarray]], list[np.ndarray]],
) -> None:
    """The results of a fused node must be those of its parts, which follow it in the group."""
    fused, *parts = group
    values = {v.name: a for v, a in zip(fused.node.inputs, arrays, strict=True)}
    for part in parts:
        given = run(part, [values[v.name] for v in part.node.inputs])
        values |= {v.name: a for v, a in zip(part.node.outputs, given, strict=True)}
    for value, result in zip(fused.node.outputs, results, strict=True):
        assert result.tobytes() == values[value.name].tobytes(), value


def arrays_not_ok(case: Case) -> list[np.ndarray]:
    """Operands of a step that is not ok, with a counter of such steps before the last."""
    operands, arrays = case.node.operands, case.arrays()
    for name, array, draw in zip(operands, arrays, case.draws, strict=True):
        if name == "ok":
            array[...] = False
        elif draw.kind == "counter":
            array[...] = -1 if name == operands[0] else 7
    return arrays


def assert_kept(case: Case, arrays: Sequence[np.ndarray]) -> None:
    """By the reference an optimizer's results are the old values: a kernel that agrees with it has
    changed nothing.
    """
    if isinstance(case.node.op, FlatUpdate) and "ok" in case.node.operands:
        results = reference(case.node, arrays)
        for result, (operand,) in overwritable(case.node).items():
            np.testing.assert_array_equal(results[result], arrays[operand])
