"""Sweeps over every op: shape rules, kernels against references, fused kernels against parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
from sweep import (
    SMALL_LIMITS,
    Case,
    Kernels,
    Library,
    arrays_not_ok,
    assert_agrees,
    assert_bits_of_parts,
    assert_kept,
    drawn,
    every_op,
    reference,
    retyped,
    same_bits,
    sample_case,
)

from noeira.codegen.c.target import CTarget
from noeira.errors import DtypeError, ShapeError
from noeira.ir.arrays import dtype_name
from noeira.ir.forms import form_of
from noeira.ir.fused import close
from noeira.ir.graph import Builder, Node, Value
from noeira.ir.op import Op, op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import BadSample, Draw, Sample
from noeira.ir.storage import overwritable
from noeira.ir.types import TensorType
from noeira.runtime.c.compiler import find_compiler

OPS = every_op()
LAUNCHING = [rule for rule in OPS if rule.launches]
ELEMENTWISE = [rule for rule in OPS if isinstance(rule, Elementwise)]
ACTIVATIONS = [r for r in ELEMENTWISE if len(r.operands) == 1 and "." not in r.name]
# Threads, and whether they take their turns backwards: no result may depend on either.
RUNS = ((1, False), (2, True), (3, False), (7, True))


def named(rules: Sequence[Op]) -> pytest.MarkDecorator:
    """One test for each op."""
    return pytest.mark.parametrize("rule", rules, ids=str)


def test_every_op_has_samples_and_operand_names() -> None:
    for rule in OPS:
        assert rule.samples(), f"{rule.name} has no samples"
        assert type(rule).__doc__ or ".d" in rule.name, f"{rule.name} has no formula"


@named(OPS)
def test_shape_rule_agrees_with_reference(rule: Op) -> None:
    for number, sample in enumerate(rule.samples()):
        random = np.random.default_rng(number)
        arrays = [np.asarray(drawn(draw, random)) for draw in sample.operands]
        attrs = rule.Attrs(**sample.attrs)
        types = rule.infer(attrs, *[draw.type for draw in sample.operands])
        results = rule.reference(attrs, *arrays)
        assert [t.shape for t in types] == [np.shape(r) for r in results], sample
        dtypes = [dtype_name(np.asarray(r).dtype) for r in results]
        assert [t.dtype for t in types] == dtypes, sample


BAD = [(rule, bad) for rule in OPS for bad in rule.bad_samples()]


@pytest.mark.parametrize(("rule", "bad"), BAD, ids=[f"{r.name}: {b.message}" for r, b in BAD])
def test_bad_operands_are_refused(rule: Op, bad: BadSample) -> None:
    with pytest.raises((ShapeError, DtypeError), match=re.escape(bad.message)):
        rule.infer(rule.Attrs(**bad.attrs), *bad.operands)


def joined(label: str, build: Callable[[Builder], tuple[Value, ...]]) -> tuple[Case, ...]:
    """A fused node, its outputs what `build` returns; then its parts one by one."""
    builder = Builder("fused")
    outputs = build(builder)
    body = tuple(builder.nodes)
    assert form_of(body), label
    node = close(body, {v.name for v in outputs}, body[0].origin)
    parts = (Case(f"{label}: {n.op.name}", n, draws_of(n)) for n in body)
    return (Case(label, node, draws_of(node)), *parts)


def draws_of(node: Node) -> tuple[Draw, ...]:
    """Normal operands."""
    return tuple(Draw(v.type) for v in node.inputs)


def f32(*shape: int) -> TensorType:
    return TensorType("f32", shape)


def inputs(builder: Builder, *shapes: tuple[int, ...]) -> list[Value]:
    """Operands of these shapes."""
    return [builder.input(f"v{i}", f32(*shape)) for i, shape in enumerate(shapes)]


def linear_then(rule: Op, stored: bool) -> tuple[Case, ...]:
    """A linear layer and an activation."""

    def build(builder: Builder) -> tuple[Value, ...]:
        x, w, b = inputs(builder, (9, 20), (20, 37), (37,))
        y = builder.emit("linear", x, w, b)
        z = builder.emit(rule.name, y)
        return (y, z) if stored else (z,)

    return joined(f"linear, {rule.name}{', both stored' if stored else ''}", build)


def chain(builder: Builder) -> tuple[Value, ...]:
    """Element-wise ops with operands of every access, two results of which are stored."""
    x, row, rows, one = inputs(builder, (5, 3, 17), (17,), (3, 17), ())
    y = builder.emit("gelu", builder.emit("subtract", x, row))
    z = builder.emit("multiply", builder.emit("relu", builder.emit("add", y, rows)), one)
    return y, builder.emit("tanh", builder.emit("add", z, y))


def slope_and_sum(name: str, shape: tuple[int, ...], stored: bool) -> tuple[Case, ...]:
    """The backward pass of an activation and the bias before it."""

    def build(builder: Builder) -> tuple[Value, ...]:
        d, x = inputs(builder, shape, shape)
        slope = builder.emit(name, d, x)
        total = builder.emit("column_sum", slope, scale=0.5)
        return (slope, total) if stored else (total,)

    return joined(f"{name}, column_sum{', both stored' if stored else ''} {shape}", build)


def matmul_chain(builder: Builder) -> tuple[Value, ...]:
    """The backward pass of two layers: a product with a transposed weight, times a slope."""
    d, w, x = inputs(builder, (33, 10), (40, 10), (33, 40))
    return (builder.emit("relu.d0", builder.emit("matmul", d, w, transpose_b=True), x),)


FUSED_BUT_PRODUCTS = (
    joined("chain", chain),
    *(
        slope_and_sum(name, shape, stored)
        for name in ("relu.d0", "gelu.d0")
        for shape in ((30, 33), (13, 10), (3, 4, 64), (650, 17))
        for stored in (False, True)
    ),
)
FUSED = (
    *(linear_then(rule, stored) for rule in ACTIVATIONS for stored in (False, True)),
    joined("matmul, relu.d0", matmul_chain),
    *FUSED_BUT_PRODUCTS,
)
SPECIAL = {name: sample_case(op(name), Sample((Draw(f32(21)),))) for name in ("relu", "clamp")}
FINITE = sample_case(op("finite"), op("finite").samples()[0])


def row_case(name: str, width: int) -> Case:
    """An op on six rows of logits and class numbers, or as many again as fill any vector."""
    rows = 30 if name == "cross_entropy" else 6
    target = Draw(TensorType("i32", (rows,)), "index", width)
    return sample_case(op(name), Sample((Draw(f32(rows, width)), target)))


@cache
def samples(rule: Op, dtype: str) -> tuple[Case, ...]:
    """The samples of an op as cases."""
    return tuple(sample_case(rule, retyped(sample, dtype)) for sample in rule.samples())


WIDTHS = (3, 10, 16, 37, 1000)
ROWS = {
    (name, width): row_case(name, width) for name in ("cross_entropy", "top_k") for width in WIDTHS
} | {("softmax", n): sample_case(op("softmax"), Sample((Draw(f32(6, n)),))) for n in WIDTHS}


def family(rule: Op) -> str:
    """The file that defines an op, or the op that it is a slope of."""
    return type(op(rule.name.partition(".d")[0])).__module__.rpartition(".")[2]


def fused_family(group: tuple[Case, ...]) -> str:
    """Some fused nodes side by side, with their parts, are a family."""
    return f"fused {[other[0].label for other in FUSED].index(group[0].label) // 8}"


def cases_of(of: str, dtype: str) -> list[Case]:
    """Every case of a family."""
    cases = [case for rule in LAUNCHING if family(rule) == of for case in samples(rule, dtype)]
    if dtype == "f32":
        cases += [case for group in FUSED if fused_family(group) == of for case in group]
        cases += [c for c in (*SPECIAL.values(), *ROWS.values()) if family(c.node.op) == of]
    return cases


@cache
def library(of: str, dtype: str, split: bool) -> Library:
    """The kernels of a family in one unit: as chosen, or shared by threads in all their stages."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    limits = SMALL_LIMITS if split else {}
    return Kernels.of(CTarget(compiler.isa), cases_of(of, dtype), limits).built(compiler)


VARIANTS = [("f32", False), ("f32", True), ("f64", True)]


@pytest.mark.parametrize(("dtype", "split"), VARIANTS, ids=["f32", "f32 split", "f64 split"])
@named(LAUNCHING)
def test_kernel_agrees_with_reference(rule: Op, dtype: str, split: bool) -> None:
    for number, case in enumerate(samples(rule, dtype)):
        check_kernel(library(family(rule), dtype, split), case, case.arrays(number))


@pytest.mark.parametrize("group", FUSED, ids=[group[0].label for group in FUSED])
def test_fused_kernel_gives_the_bits_of_its_parts(group: tuple[Case, ...]) -> None:
    arrays = group[0].arrays()
    for split in (False, True):
        built = library(fused_family(group), "f32", split)
        results = same_for_all_threads(built, group[0], arrays)
        assert_bits_of_parts(group, arrays, results, built.run)


def same_for_all_threads(
    built: Library, case: Case, arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The results of a case, whose bits must not depend on the threads."""
    return same_bits(case, (built.run(case, arrays, *run) for run in RUNS), "the threads")


def same_in_place(built: Library, case: Case, arrays: Sequence[np.ndarray]) -> None:
    """The bits must not depend on whether results take over the memory of operands."""
    runs = (built.run(case, arrays, 3, in_place=place) for place in (False, True))
    same_bits(case, runs, "where results are")


def check_kernel(built: Library, case: Case, arrays: Sequence[np.ndarray]) -> None:
    """The results of a case must agree with the reference."""
    assert_agrees(case, same_for_all_threads(built, case, arrays), arrays)


@named(LAUNCHING)
def test_result_may_take_over_the_memory_of_an_operand(rule: Op) -> None:
    for dtype, split in VARIANTS:
        for case in samples(rule, dtype):
            if overwritable(case.node):
                same_in_place(library(family(rule), dtype, split), case, case.arrays())


@pytest.mark.parametrize("group", FUSED, ids=[group[0].label for group in FUSED])
def test_fused_result_may_take_over_the_memory_of_an_operand(group: tuple[Case, ...]) -> None:
    if overwritable(group[0].node):
        arrays = group[0].arrays()
        for split in (False, True):
            same_in_place(library(fused_family(group), "f32", split), group[0], arrays)


@named([rule for rule in LAUNCHING if "ok" in rule.operands])
def test_step_that_is_not_ok_changes_nothing(rule: Op) -> None:
    for dtype, split in VARIANTS:
        built = library(family(rule), dtype, split)
        for case in samples(rule, dtype):
            arrays = arrays_not_ok(case)
            assert_kept(case, arrays)
            check_kernel(built, case, arrays)
            same_in_place(built, case, arrays)


@named([rule for rule in LAUNCHING if "step" in rule.operands])
def test_first_update(rule: Op) -> None:
    for dtype, split in VARIANTS:
        for case in samples(rule, dtype):
            arrays = case.arrays()
            arrays[rule.operands.index("step")][...] = 0
            check_kernel(library(family(rule), dtype, split), case, arrays)


NUMBERS = np.array(
    [np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, 1.5, -1.5, 1e-42, 3e38] * 2 + [np.nan], "f4"
)


def check_special_values(
    name: str, run: Callable[[Case, list[np.ndarray]], list[np.ndarray]]
) -> None:
    """NaN stays NaN, and other numbers are cut off exactly."""
    (result,) = run(SPECIAL[name], [NUMBERS])
    high = np.inf if name == "relu" else 1.0
    expected = np.where(np.isnan(NUMBERS), np.nan, np.clip(NUMBERS, 0, high))
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str) -> None:
    check_special_values(name, library("activation", "f32", False).run)


def test_finite() -> None:
    for number in NUMBERS:
        (result,) = library("control", "f32", False).run(FINITE, [np.asarray(number)])
        assert result == np.isfinite(number)


@pytest.mark.parametrize("width", WIDTHS)
def test_cross_entropy_of_special_logits(width: int) -> None:
    """As PyTorch: -inf is a class of probability 0; NaN, +inf and nothing but -inf give NaN."""
    case = ROWS["cross_entropy", width]
    z, target = (array[:6] for array in case.arrays())
    z[0, 0], target[0] = -np.inf, width - 1
    z[1, width - 1], z[2, width // 2], z[3] = np.nan, np.inf, -np.inf
    z[4, 0], target[4] = -np.inf, 0
    for split in (False, True):

        def run(*rows: int, split: bool = split) -> list[np.ndarray]:
            kept = np.resize(rows, 30)
            arrays = [z[kept], target[kept]]
            expected = reference(case.node, arrays)[1]
            loss, lse = library("cross_entropy", "f32", split).run(case, arrays)
            np.testing.assert_allclose(lse, expected, rtol=1e-6)
            return [loss, lse]

        loss, lse = run(0, 1, 2, 3, 4, 5)
        assert np.isnan(loss)
        np.testing.assert_array_equal(np.isnan(lse[:6]), [False, True, True, True, False, False])
        assert run(0, 4, 5)[0] == np.inf
        assert np.isfinite(run(0, 5, 5)[0])


@pytest.mark.parametrize("width", WIDTHS)
def test_softmax_of_special_rows(width: int) -> None:
    """As PyTorch: -inf has probability 0; NaN, +inf and nothing but -inf give NaN."""
    case = ROWS["softmax", width]
    (x,) = case.arrays()
    x[0, 0] = -np.inf
    x[1, width - 1], x[2, width // 2], x[3] = np.nan, np.inf, -np.inf
    x[4] *= 1e30
    for split in (False, True):
        (y,) = library("softmax", "f32", split).run(case, [x])
        np.testing.assert_allclose(y, reference(case.node, [x])[0], rtol=1e-5, atol=1e-30)
        assert np.isnan(y[1:4]).all() and not np.isnan(y[[0, 4, 5]]).any() and y[0, 0] == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_top_k_of_special_logits(width: int) -> None:
    """Ties go to the smaller class number; a row with a NaN is wrong, wherever the NaN is."""
    case = ROWS["top_k", width]
    last = width - 1
    z = np.zeros((6, width), "f4")
    target = np.array([0, 1, 0, last, 0, last], "i4")
    z[2, last] = np.nan
    z[3, last] = np.nan
    z[4] = -np.inf
    z[5, last] = np.inf
    for split in (False, True):
        assert library("metric", "f32", split).run(case, [z, target]) == [3, 6]
