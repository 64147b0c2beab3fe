"""ONNX operator cases: what each has and expects, and the graph of ops that does the same."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
from graph_runs import Run, outputs_of

from noeira.errors import DtypeError
from noeira.ir.arrays import dtype_name, is_float
from noeira.ir.builder import Builder
from noeira.ir.graph import ComputeGraph, Value
from noeira.ir.types import DTYPES, TensorType
from noeira.ir.verify import verify

PACKAGE = "onnx.backend.test.case.node"
# How far results may be from what is expected, relative to the greatest expected element.
TOLERANCE = {"f32": 1e-5, "f64": 1e-12, "f16": 2e-3, "bf16": 1.6e-2}
WRITTEN_OUT = "_expanded"
# Cases whose expected numbers are written with so few digits.
FEW_DIGITS = {"averagepool_2d_ceil_last_window_starts_on_pad": 4e-4}


class LeftOut(Exception):
    """Why a case is not run."""


@dataclass
class Node:
    """A node of ONNX: its operands and attributes, and the graph that is made of it.

    arrays: the operands, None where one is left out; fed: those that the graph is given, by name.
    """

    attrs: dict[str, Any]
    arrays: list[Any]
    builder: Builder
    fed: dict[str, np.ndarray] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)

    def has(self, index: int) -> bool:
        """Whether there is an operand of that number."""
        return index < len(self.arrays) and self.arrays[index] is not None

    def value(self, index: int = 0, limit: int | None = None) -> Value:
        """An operand as an input of the graph; limit: what numbers of classes stay below."""
        if index not in self.values:
            array = np.asarray(self.arrays[index])
            if limit is not None:
                array = array.astype(np.int32)
            self.values[index] = self.builder.input(f"operand{index}", type_of(array), limit)
            self.fed[f"operand{index}"] = array
        return self.values[index]

    def all_values(self) -> list[Value]:
        """All operands."""
        return [self.value(index) for index in range(len(self.arrays))]

    def array(self, index: int) -> Any:
        """An operand that is known when the graph is made; None if it is left out."""
        return np.asarray(self.arrays[index]) if self.has(index) else None

    def numbers(self, index: int) -> tuple[int, ...]:
        """The same, as whole numbers."""
        return tuple(int(n) for n in np.asarray(self.arrays[index]).ravel())

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute; words as text."""
        found = self.attrs.get(name, default)
        return found.decode() if isinstance(found, bytes) else found

    def emit(self, op: str, *operands: Value, **attrs: Any) -> Any:
        """A node of noeira."""
        return self.builder.emit(op, *operands, **attrs)

    def reshape(self, x: Value, *shape: int) -> Value:
        """The same elements under another shape; one length may be -1."""
        open = x.type.size // abs(int(np.prod(shape))) if shape else 1
        return self.emit("reshape", x, shape=tuple(open if n == -1 else n for n in shape))

    def constant(self, number: float, like: Value) -> Value:
        """A number of the dtype of a value."""
        return self.emit("constant", value=float(number), dtype=like.type.dtype)


Rule = Callable[[Node], Any]


@dataclass(frozen=True)
class Case:
    """A case of ONNX whose graph was made: inputs by name; for each output of ONNX what is expected
    of it and the value that it is.
    """

    name: str
    graph: ComputeGraph
    fed: dict[str, np.ndarray]
    expected: tuple[tuple[np.ndarray, str], ...]

    def faults(self, results: Sequence[np.ndarray]) -> list[str]:
        """What is wrong with the results."""
        found = list[str]()
        for got, (wanted, name) in zip(results, self.expected, strict=True):
            most = FEW_DIGITS.get(self.name, TOLERANCE.get(dtype_name(got.dtype), 0.0))
            if got.shape != wanted.shape:
                found.append(f"{self.name} {name}: the shape is {got.shape}, not {wanted.shape}")
            elif not (error := distance(got, wanted)) <= most:
                found.append(f"{self.name} {name}: relative error {error:.3g}")
        return found


def distance(got: np.ndarray, wanted: np.ndarray) -> float:
    """How far apart two arrays are, relative to the greatest finite element that is wanted."""
    if not got.size:
        return 0.0
    a, b = got.astype("f8"), wanted.astype("f8")
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    largest = np.max(np.abs(b), where=np.isfinite(b), initial=0)
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0, np.abs(a - b))
    return float(np.max(apart)) / (largest or 1)


def type_of(array: np.ndarray) -> TensorType:
    """The type of an operand. Raises LeftOut for one that noeira has not."""
    try:
        dtype = dtype_name(array.dtype)
    except (DtypeError, KeyError):
        dtype = ""
    if dtype not in DTYPES:
        raise LeftOut("dtypes that noeira has not")
    if not array.size:
        raise LeftOut("tensors without elements")
    return TensorType(dtype, array.shape)


@cache
def cases_of(module: str) -> tuple[Any, ...]:
    """The cases of a module of ONNX, such as `conv`; skips without ONNX."""
    package = pytest.importorskip(PACKAGE, reason="ONNX is not installed")
    found = package._NodeTestCases  # cases are made as their modules are imported
    before = len(found)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        importlib.import_module(f"{PACKAGE}.{module}")
    return tuple(found[before:])


def all_cases() -> list[Any]:
    """The cases of all modules; skips without ONNX."""
    package = pytest.importorskip(PACKAGE, reason="ONNX is not installed")
    every = (one.name for one in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."))
    return [case for name in every for case in cases_of(name.removeprefix(f"{PACKAGE}."))]


def array_of(given: Any) -> Any:
    """An operand or result of a case; some are in ONNX's own form."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(given) if isinstance(given, TensorProto) else given


def made(case: Any, rule: Rule) -> Case:
    """A case with its graph. Raises LeftOut with the reason where there is none."""
    from onnx import helper

    (node,) = case.model.graph.node
    given, wanted = (list(map(array_of, own)) for own in case.data_sets[0])
    if any(isinstance(one, list) or one is None for one in (*given, *wanted)):
        raise LeftOut("sequences and optional values")
    there = iter(given)
    arrays = [next(there) if name else None for name in node.input]
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    attrs["outputs"] = len(node.output)
    one = Node(attrs, arrays, Builder(f"onnx.{case.name.removeprefix('test_')}"))
    try:
        results = rule(one)
    except DtypeError:
        if all(is_float(np.asarray(array)) for array in one.fed.values()):
            raise
        raise LeftOut("arithmetic of whole numbers, or of true and false") from None
    results = results if isinstance(results, tuple) else (results,)
    pairs = zip((np.asarray(array) for array in wanted), results, strict=False)
    kept = [(array, value) for array, value in pairs if value is not None]
    # What is an input too is no result of its own.
    outputs = [
        one.emit("copy", value) if value in one.values.values() else value for _, value in kept
    ]
    graph = verify(one.builder.done(outputs))
    expected = zip((array for array, _ in kept), (v.name for v in outputs), strict=True)
    return Case(case.name.removeprefix("test_"), graph, one.fed, tuple(expected))


def faults_of(cases: Iterable[Case], target: str, quickly: bool = False) -> list[str]:
    """What is wrong with the results of cases on a target; quickly: C is built so."""
    cases = tuple(cases)
    runs = [Run(case.graph, case.fed) for case in cases]
    pairs = zip(cases, outputs_of(runs, target, quickly), strict=True)
    return [fault for case, results in pairs for fault in case.faults(results)]


@dataclass
class Sorted:
    """Cases by what becomes of them, each by operator of ONNX: those that run; the names of those
    left out, by reason.
    """

    run: dict[str, list[Case]] = field(default_factory=dict)
    left: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    partly: dict[str, list[str]] = field(default_factory=dict)

    def add(self, case: Any, rules: dict[str, Rule]) -> None:
        """Sort a case in."""
        name, nodes = case.name.removeprefix("test_"), case.model.graph.node
        if WRITTEN_OUT in name:
            return self.leave("functions of ONNX written out, whose operator is tried", "", name)
        (node,) = nodes
        if node.op_type not in rules:
            return self.leave("operators that are no op of noeira", node.op_type, name)
        try:
            found = made(case, rules[node.op_type])
        except LeftOut as error:
            return self.leave(str(error), node.op_type, name)
        self.run.setdefault(node.op_type, []).append(found)
        if len(found.expected) < len(case.data_sets[0][1]):
            self.partly.setdefault(node.op_type, []).append(name)

    def leave(self, reason: str, operator: str, name: str) -> None:
        """Leave a case out."""
        self.left.setdefault(reason, {}).setdefault(operator, []).append(name)

    def table(self) -> str:
        """How many cases of each operator run, and why others do not."""
        total = sum(map(len, self.run.values()))
        lines = [f"{total} cases of {len(self.run)} operators run:", ""]
        lines += [f"  {name:28}{len(cases):4}" for name, cases in sorted(self.run.items())]
        if self.partly:
            lines += ["", "Of these, so many without results that noeira's ops do not have:", ""]
            lines += [f"  {name:28}{len(names):4}" for name, names in sorted(self.partly.items())]
        for reason, operators in sorted(self.left.items()):
            count = sum(map(len, operators.values()))
            lines += ["", f"{count} left out: {reason}", ""]
            for name, names in sorted(operators.items()):
                lines.append(f"  {name:28}{len(names):4}".rstrip())
                lines += [f"      {one}" for one in names if name in self.run]
        return "\n".join(lines)


def sorted_cases(cases: Iterable[Any], rules: dict[str, Rule]) -> Sorted:
    """Cases of ONNX, sorted."""
    found = Sorted()
    for case in cases:
        found.add(case, rules)
    return found
