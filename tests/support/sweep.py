"""What the sweeps over ops share: every op, its samples as cases, and C units of many kernels."""

from __future__ import annotations

import ctypes
import mmap
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from unittest.mock import patch

import numpy as np

from noeira.codegen.c import anchor, row_total, total
from noeira.codegen.c.prelude import prelude
from noeira.codegen.c.target import CTarget
from noeira.codegen.definitions import identifiers
from noeira.codegen.kernel import kernel_text
from noeira.codegen.kernels.column import c as column
from noeira.codegen.language import C
from noeira.codegen.source import Source
from noeira.codegen.view import function_names
from noeira.ir.arrays import dtype_name, numpy_dtype
from noeira.ir.attributes import generic
from noeira.ir.graph import Builder, Node, Value
from noeira.ir.op import OPS, Op, op
from noeira.ir.ops.elementwise import Elementwise, Slope
from noeira.ir.plan import Call, Choice
from noeira.ir.samples import Draw, Sample
from noeira.ir.scalar import is_const
from noeira.ir.storage import overwritable
from noeira.ir.types import TensorType
from noeira.runtime.build.cache import open_cache
from noeira.runtime.build.library import build_library, load
from noeira.runtime.c.builder import CBuilder
from noeira.runtime.c.compiler import Compiler

# Small enough that every sample is shared by threads and taken in all its stages.
Limits = Mapping[ModuleType, Mapping[str, int]]
SMALL_LIMITS: Limits = {
    anchor: {"SPLIT_ELEMENTS": 2, "STREAM_BYTES": 400},
    row_total: {"LONG_ROW_BYTES": 256},
    total: {"SUM_CHUNK": 64},
    column: {
        "COLUMN_ROWS": 8,
        "COLUMN_CHUNK_ROWS": 6,
        "COLUMN_VECTORS": 1,
        "COLUMN_CHUNK_VECTORS": 2,
    },
}
# How far results may be from the references, relative to what rounding errors are compared with.
TOLERANCE = {"f32": 1e-5, "f64": 1e-12}
CANARY = 64


@contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """Rules have these limits instead of their own."""
    with ExitStack() as stack:
        for module, values in limits.items():
            for name, value in values.items():
                stack.enter_context(patch.object(module, name, value))
        yield


def every_op() -> tuple[Op, ...]:
    """Every op there is but `fused`, and the first and second slopes of the element-wise ones."""
    op("add")
    plain = [rule for rule in OPS.values() if not isinstance(rule, Slope) and rule.name != "fused"]
    first = [slope for rule in plain for slope in slopes_of(rule)]
    return (*plain, *first, *(slope for rule in first for slope in slopes_of(rule)))


def slopes_of(rule: Op) -> Iterator[Op]:
    """The slopes that vjp would emit; none of an op that is not element-wise."""
    if not isinstance(rule, Elementwise):
        return
    for index in range(len(rule.operands)):
        slope = rule.slope(generic(rule.Attrs), index)
        if not is_const(slope, 0) and not is_const(slope, 1):
            yield op(f"{rule.name}.d{index}")


def retyped(sample: Sample, dtype: str) -> Sample:
    """A sample with its floats of another dtype, but for totals, which are always f64."""

    def draw(d: Draw) -> Draw:
        return replace(d, type=replace(d.type, dtype=dtype)) if d.type.dtype == "f32" else d

    attrs = {k: dtype if k == "dtype" and v == "f32" else v for k, v in sample.attrs.items()}
    return replace(sample, operands=tuple(map(draw, sample.operands)), attrs=attrs)


def drawn(draw: Draw, random: np.random.Generator) -> np.ndarray:
    """An array for an operand."""
    shape, dtype = draw.type.shape, numpy_dtype(draw.type.dtype)
    if draw.kind == "positive":
        return (random.random(shape) + 0.1).astype(dtype)
    if draw.kind == "index":
        return random.integers(0, draw.limit, shape).astype(dtype)
    if draw.kind == "probabilities":
        rows = random.random(shape) + 0.01
        return (rows / rows.sum(-1, keepdims=True)).astype(dtype)
    if draw.kind == "true":
        return np.ones(shape, dtype)
    if draw.kind == "counter":
        return np.full(shape, 7, dtype)
    return random.standard_normal(shape).astype(dtype)


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


def sample_case(rule: Op, sample: Sample) -> Case:
    """A sample of an op as a node of its own."""
    builder = Builder("sample")
    values = [builder.input(f"v{i}", draw.type) for i, draw in enumerate(sample.operands)]
    builder.emit(rule.name, *values, **sample.attrs)
    shapes = " ".join(str(draw.type) for draw in sample.operands)
    return Case(f"{rule.name} {shapes} {sample.attrs}", builder.nodes[-1], sample.operands)


def reference(node: Node, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the node gives by its references, with floats in float64."""
    wide = [a.astype("f8") if a.dtype == np.float32 else a for a in arrays]
    values = {v.name: a for v, a in zip(node.inputs, wide, strict=True)}
    for part in node.parts:
        given = wide if part is node else [values[v.name] for v in part.inputs]
        results = part.op.reference(part.attrs, *given)
        values |= {v.name: np.asarray(r) for v, r in zip(part.outputs, results, strict=True)}
    return [values[v.name] for v in node.outputs]


def magnitudes(node: Node, arrays: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> list:
    """What rounding errors are compared with: the results, and what was added up to give them."""
    with np.errstate(all="ignore"):
        added = reference(node, [abs(a) if a.dtype.kind == "f" else a for a in arrays])
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
        if got.dtype.kind != "f":
            assert np.array_equal(got, want), case.label
            continue
        error = np.max(np.abs(got - want) / np.where(size > 0, size, 1))
        most = factor * TOLERANCE[dtype_name(got.dtype)]
        assert error <= most, f"{case.label}: relative error {error}"


def same_bits(case: Case, runs: Iterable[list[np.ndarray]], what: str) -> list[np.ndarray]:
    """The results of a case, whose bits must be the same in all runs, which differ in `what`."""
    results, *others = runs
    for other in others:
        same = [a.tobytes() == b.tobytes() for a, b in zip(results, other, strict=True)]
        assert all(same), f"{case.label}: the bits depend on {what}"
    return results


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
    operands, arrays = case.node.op.operands, case.arrays()
    for name, array, draw in zip(operands, arrays, case.draws, strict=False):
        if name == "ok":
            array[...] = False
        elif draw.kind == "counter":
            array[...] = -1 if name == operands[0] else 7
    return arrays


def assert_kept(case: Case, arrays: Sequence[np.ndarray]) -> None:
    """By the reference an optimizer's results are the old values: a kernel that agrees with it has
    changed nothing.
    """
    if "step" in case.node.op.operands:
        results = reference(case.node, arrays)
        for result, (operand,) in overwritable(case.node).items():
            np.testing.assert_array_equal(results[result], arrays[operand])


def guarded(array: np.ndarray, alignment: int = 1) -> np.ndarray:
    """A copy that ends where memory without access begins: going beyond it ends the process.

    `alignment`: bytes that its place is a multiple of; it may then end that much earlier.
    """
    size = max(array.nbytes, 1)
    pages = -(-(size + CANARY) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    memory[:] = b"\xa5" * len(memory)
    whole = np.frombuffer(memory, "u1")
    if platform.system() == "Linux":
        end = ctypes.c_void_p(whole.ctypes.data + pages)
        assert not ctypes.CDLL(None).mprotect(end, ctypes.c_size_t(mmap.PAGESIZE), 0)
    start = (pages - array.nbytes) // alignment * alignment
    copy = np.frombuffer(memory, array.dtype, array.size, start).reshape(array.shape)
    copy[...] = array
    return copy


def canary(array: np.ndarray) -> bytes:
    """The bytes before a guarded array."""
    return ctypes.string_at(array.ctypes.data - CANARY, CANARY)


@dataclass(frozen=True)
class Guarded:
    """The guarded memory of one run of a case."""

    case: Case
    given: Sequence[np.ndarray]
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    taken: frozenset[int]
    before: list[bytes]

    @classmethod
    def of(
        cls, case: Case, arrays: Sequence[np.ndarray], in_place: bool, alignment: int = 1
    ) -> Guarded:
        """`in_place`: outputs take over the memory of the operands that the op lets them have."""
        inputs = [guarded(array, alignment) for array in arrays]
        outputs = [guarded(empty(value), alignment) for value in case.node.outputs]
        taken: dict[int, int] = {}
        for output, places in overwritable(case.node).items() if in_place else ():
            free = [place for place in places if place not in taken.values()]
            if free:
                taken[output] = free[0]
                outputs[output] = inputs[free[0]]
        before = [canary(array) for array in outputs]
        return cls(case, arrays, inputs, outputs, frozenset(taken.values()), before)

    @property
    def pointers(self) -> list[int]:
        """The addresses of operands and outputs."""
        return [array.ctypes.data for array in (*self.inputs, *self.outputs)]

    def results(self) -> list[np.ndarray]:
        """The outputs after the run, which must have changed nothing else."""
        label = self.case.label
        assert self.before == [canary(array) for array in self.outputs], label
        for index, (given, kept) in enumerate(zip(self.given, self.inputs, strict=True)):
            changed = given.tobytes() != kept.tobytes()
            assert not changed or index in self.taken, f"{label}: operand {index} changed"
        return [array.copy() for array in self.outputs]


@dataclass(frozen=True)
class Kernels:
    """The kernels of many cases in one C unit."""

    target: CTarget
    cases: tuple[Case, ...]
    choices: tuple[Choice, ...]

    @classmethod
    def of(cls, target: CTarget, cases: Sequence[Case], limits: Limits) -> Kernels:
        """The kernels as the target chooses them, with these limits for threads and chunks."""
        with limited(limits):
            return cls(target, tuple(cases), tuple(target.choose(case.node) for case in cases))

    @cached_property
    def text(self) -> str:
        """The unit. It exports a function a case, which runs the stages thread after thread."""
        symbols: dict[str, str] = {}
        kernels, entries = list[str](), list[str]()
        for number, (case, choice) in enumerate(zip(self.cases, self.choices, strict=True)):
            call = Call(case.node, choice)
            text = kernel_text(call, self.target, "KERNEL")
            symbol = symbols.setdefault(text, f"kernel_{len(symbols)}")
            if len(symbols) > len(kernels):
                kernels.append(f"// {case.label}\n" + text.replace("KERNEL", symbol))
            entries.append(entry_text(call, symbol, number))
        body = "\n".join(kernels)
        return "\n".join([prelude(self.target.isa, identifiers(body)), body, *entries])

    def built(self, compiler: Compiler) -> Library:
        """The unit as a shared library, which other processes of the test session share."""
        source = Source(C, "sweep", self.text, "")
        return Library(self, load(build_library(source, CBuilder(compiler), open_cache())))


def entry_text(call: Call, symbol: str, number: int) -> str:
    """An exported function that runs the stages of a call, each thread after thread."""
    count = len(call.node.inputs) + len(call.node.outputs)
    arguments = "".join(f", p[{i}]" for i in range(count))
    calls = "\n".join(
        f"    for (int i = 0; i < threads; i++)\n"
        f"        {name}(backwards ? threads - 1 - i : i, threads, space{arguments});"
        for name in function_names(call, symbol)
    )
    head = f"void noeira_case_{number}(int threads, int backwards, char *space, void *const *p)"
    return f"{head};\n{head} {{\n{calls}\n}}\n"


@dataclass(frozen=True)
class Library:
    """Built kernels."""

    kernels: Kernels
    handle: ctypes.CDLL

    def run(
        self,
        case: Case,
        arrays: Sequence[np.ndarray],
        threads: int = 1,
        backwards: bool = False,
        in_place: bool = False,
    ) -> list[np.ndarray]:
        """The outputs of a case; threads take their turns, the last first if `backwards`.

        `in_place`: outputs take over the memory of the operands that the op lets them have.
        """
        number = self.kernels.cases.index(case)
        memory = Guarded.of(case, arrays, in_place)
        size = self.kernels.choices[number].workspace
        workspace = guarded(np.full(-(-size // 64) * 64, 0xFF, "u1"))
        pointers = memory.pointers
        table = (ctypes.c_void_p * len(pointers))(*pointers)
        place = ctypes.c_void_p(workspace.ctypes.data if size else None)
        getattr(self.handle, f"noeira_case_{number}")(threads, backwards, place, table)
        return memory.results()


def empty(value: Value) -> np.ndarray:
    """An array for an output, full of what no kernel gives."""
    type: TensorType = value.type
    array = np.zeros(type.shape, numpy_dtype(type.dtype))
    return array + array.dtype.type(np.nan if array.dtype.kind == "f" else 85)
