"""Broadcasting and sums over axes: random shapes, held against NumPy, in all of their forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from c_sweep import CKernels, compiler_or_skip, quick
from cuda_sweep import ONE, CudaKernels
from hypothesis import given
from hypothesis import strategies as st
from limits import C_SMALL, CUDA_SMALL
from shapes import RANK, operands, some_operands, summed
from sweep import Case, assert_agrees, sample_case
from sweep_units import all_ways

from noeira.codegen.c.target import CTarget
from noeira.codegen.cuda.rows import CudaRows
from noeira.codegen.rows import Rows
from noeira.codegen.view import Load
from noeira.errors import ShapeError
from noeira.ir.broadcasting import columns_of, common_shape, runs_by_columns, walk_of
from noeira.ir.op import op
from noeira.ir.ops.reduction import Sum, SumAttrs
from noeira.ir.samples import Draw, Sample
from noeira.ir.types import TensorType

Shape = tuple[int, ...]
ANY = st.lists(st.integers(1, 3), max_size=RANK).map(tuple)


def numbers(shape: Shape) -> np.ndarray:
    """The elements of an array by their place in it."""
    return np.arange(math.prod(shape)).reshape(shape)


@given(st.lists(ANY, min_size=1, max_size=3))
def test_shapes_go_together_as_in_numpy(shapes: list[Shape]) -> None:
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        expected = None
    assert common_shape(shapes) == expected


@given(ANY, ANY)
def test_the_shape_rule_is_numpys_and_names_the_axis(a: Shape, b: Shape) -> None:
    rule, types = op("add"), [TensorType("f32", shape) for shape in (a, b)]
    whole = common_shape((a, b))
    if whole is not None:
        assert rule.infer(rule.Attrs(), *types) == (TensorType("f32", whole),)
        return
    with pytest.raises(ShapeError, match=r"operand b is f32\[.*: axis -\d is \d in b and \d in a"):
        rule.infer(rule.Attrs(), *types)


@given(operands(4))
def test_walks_go_where_numpy_reads(shapes: tuple[Shape, ...]) -> None:
    whole = common_shape(shapes)
    assert whole is not None
    size = math.prod(whole)
    columns = columns_of((walk_of(shape, whole) for shape in shapes), size)
    for shape in shapes:
        walk = walk_of(shape, whole)
        read = np.broadcast_to(numbers(shape), whole).ravel()
        for index in range(size):
            place = sum(index // s.inner % s.extent * s.stride for s in walk)
            assert place == read[index]
        assert runs_by_columns(walk, columns)


@given(operands(4), st.sampled_from((2, 4)))
def test_texts_of_subscripts_go_where_numpy_reads(shapes: tuple[Shape, ...], lanes: int) -> None:
    whole = common_shape(shapes)
    assert whole is not None
    size = math.prod(whole)
    columns = columns_of((walk_of(shape, whole) for shape in shapes), size)
    rows = Rows("f32", lanes, size // columns, columns)
    flat = CudaRows("f32", lanes, 1, size)
    for shape in shapes:
        load = Load.of("x0", "a0", "f32", shape, whole)
        read = np.broadcast_to(numbers(shape), whole).ravel()
        by_row, by_index = (
            compile(text.replace("/", "//"), "text", "eval")
            for text in (rows.subscript(load), flat.where(load))
        )
        for index in range(size):
            names = {"index": index, "row": index // columns, "column": index % columns}
            assert eval(by_row, names) == eval(by_index, names) == read[index]
        if load.access == "scalar":
            continue
        together = [read[i : i + lanes] for i in range(0, size - lanes + 1, lanes)]
        if flat.is_wide(load):
            assert all(
                places[0] % lanes == 0 and (places == places[0] + np.arange(lanes)).all()
                for places in together
            )
        if flat.stays(load):
            assert all((places == places[0]).all() for places in together)


@given(operands(3))
def test_references_are_numpys(shapes: tuple[Shape, ...]) -> None:
    generator = np.random.default_rng(0)
    x, y, *_ = [generator.standard_normal(shape) for shape in (*shapes, ())]
    rule = op("subtract")
    (got,) = rule.reference(rule.Attrs(), x, y)
    np.testing.assert_array_equal(got, x - y)


@given(summed())
def test_sums_are_numpys_and_their_kernels_take_all_of_x(case: tuple[Shape, Shape]) -> None:
    shape, axes = case
    rule, attrs, type = op("sum"), SumAttrs(axes=axes), TensorType("f64", shape)
    assert isinstance(rule, Sum)
    x = np.random.default_rng(0).standard_normal(shape)
    (got,) = rule.reference(attrs, x)
    np.testing.assert_allclose(got, x.sum(axes), rtol=1e-12, atol=1e-12)
    assert rule.infer(attrs, type) == (TensorType("f64", got.shape),)
    batches, rows, columns = rule.batches(attrs, type)
    folded = x.reshape(batches, rows, columns).sum(1)
    np.testing.assert_allclose(got.ravel(), folded.ravel(), rtol=1e-12, atol=1e-12)
    assert rule.rows(attrs, type).size == type.size


def cases() -> list[Case]:
    """Products of two operands, and sums over axes, of random shapes."""
    found = list[Case]()
    for seed, (a, b) in enumerate(some_operands(40, seed=1)):
        draws = tuple(Draw(TensorType("f32", shape)) for shape in (a, b))
        found.append(sample_case(op("multiply"), Sample(draws)))
        whole = common_shape((a, b))
        assert whole is not None
        first = seed % len(whole)
        last = first + seed // 3 % (len(whole) - first)
        attrs = {"axes": tuple(range(first, last + 1)), "scale": 0.5}
        found.append(sample_case(op("sum"), Sample((Draw(TensorType("f32", whole)),), attrs)))
        found.append(sample_case(op("broadcast"), Sample(draws[:1], {"shape": whole})))
    return found


@pytest.mark.parametrize("limits", [{}, C_SMALL], ids=["chosen", "split"])
def test_random_shapes_in_c(limits: dict[str, int]) -> None:
    compiler, found = compiler_or_skip(), cases()
    built = CKernels.of(CTarget(compiler.isa), found, limits).built(quick(compiler))
    for case in found:
        arrays = case.arrays()
        assert_agrees(case, all_ways(built, case, arrays), arrays)


def test_random_shapes_in_cuda() -> None:
    found = cases()
    built = CudaKernels.of(found, ONE, CUDA_SMALL).built(check=True)
    for case in found:
        arrays = case.arrays()
        assert_agrees(case, all_ways(built, case, arrays), arrays)


def test_few_long_rows_are_cut_so_that_threads_have_some_to_share() -> None:
    compiler = compiler_or_skip()
    draws = [Draw(TensorType("f32", shape)) for shape in ((3, 6144), (3, 1), (6144,))]
    pairs = ((draws[0], draws[1]), (draws[0], draws[2]), (draws[1], draws[2]))
    found = [sample_case(op("multiply"), Sample(pair)) for pair in pairs]
    kernels = CKernels.of(CTarget(compiler.isa), found)
    assert kernels.text.count("18L * thread / threads") == len(found)
    built = kernels.built(quick(compiler))
    for case in found:
        arrays = case.arrays()
        assert_agrees(case, all_ways(built, case, arrays), arrays)
