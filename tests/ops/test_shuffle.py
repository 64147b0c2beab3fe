"""The op `shuffle`: the order that NumPy gives, on every target, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from c_sweep import CKernels, compiler_or_skip
from cuda_sweep import CudaKernels
from sweep import Case, sample_case

from noeira.codegen.c import anchor as c_anchor
from noeira.codegen.c.target import CTarget
from noeira.codegen.kernels.shuffle.cuda import power_of_two
from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.gradients import Backward
from noeira.ir.op import op
from noeira.ir.random import ORDER_STREAM, permutation
from noeira.ir.samples import Draw, Sample
from noeira.ir.states import COUNTER

pytestmark = pytest.mark.ops("shuffle")

SIZES = (1, 2, 3, 31, 32, 33, 1000, 1024, 2047, 4097, 5000, 60000)
# Of so many some keys are alike in all the bits that C sorts by digits.
MANY = 1_000_000
KEYS = ((0, 0), (7, 3), (2**32 - 1, 2**33 + 5), (5, 1))


def shuffling(size: int) -> Case:
    """A node that shuffles so many samples."""
    return sample_case(op("shuffle"), Sample((Draw(COUNTER), Draw(COUNTER)), {"samples": size}))


CASES = {size: shuffling(size) for size in SIZES}


def operands(seed: int, epoch: int) -> list[np.ndarray]:
    """The operands of the op."""
    return [np.asarray(seed, "i8"), np.asarray(epoch, "i8")]


@pytest.mark.parametrize("size", SIZES)
def test_reference_is_the_data_order(size: int) -> None:
    rule = op("shuffle")
    attrs = rule.Attrs(samples=size)  # type: ignore[call-arg]
    for seed, epoch in KEYS:
        (order,) = rule.reference(attrs, *operands(seed, epoch))
        assert order.dtype == np.int32
        np.testing.assert_array_equal(np.sort(order), np.arange(size))
        expected = permutation(seed, ORDER_STREAM, size, tick=epoch)
        np.testing.assert_array_equal(order, expected)


def test_c_kernel_gives_the_order_of_the_reference() -> None:
    compiler, limits = compiler_or_skip(), {c_anchor: {"SPLIT_ELEMENTS": 2}}
    cases = CASES | {MANY: shuffling(MANY)}
    library = CKernels.of(CTarget(compiler.isa), tuple(cases.values()), limits).built(compiler)
    for size, case in cases.items():
        for seed, epoch in KEYS if size < MANY else KEYS[:1]:
            expected = permutation(seed, ORDER_STREAM, size, tick=epoch)
            for way in ((1, False), (3, True)):
                (order,) = library.run(case, operands(seed, epoch), way)
                np.testing.assert_array_equal(order, expected, err_msg=case.label)


def test_cuda_kernel_gives_the_order_of_the_reference() -> None:
    library = CudaKernels.of(tuple(CASES.values())).built()
    for size, case in CASES.items():
        for seed, epoch in KEYS if size < 60000 else KEYS[:1]:
            expected = permutation(seed, ORDER_STREAM, size, tick=epoch)
            (order,) = library.run(case, operands(seed, epoch), ("random", seed))
            np.testing.assert_array_equal(order, expected, err_msg=case.label)


def test_what_is_sorted_is_a_power_of_two() -> None:
    assert [power_of_two(n) for n in (1, 2, 3, 4, 5, 4096, 4097)] == [2, 2, 4, 4, 8, 4096, 8192]


def test_launches_of_a_large_shuffle_have_names_of_their_own() -> None:
    choice = CudaKernels.of([shuffling(2**26)]).choices[0]
    names = [stage.name for stage in choice.stages]
    assert len(set(names)) == len(names) == 48
    assert names[:5] == ["keys", "sort", "step_13_12", "merge_13", "step_14_13"]
    assert names[-2:] == ["step_26_13", "merge_26"] and choice.workspace == 2**26 * 12


def test_order_has_no_gradient_and_stays_below_its_length() -> None:
    rule, builder = op("shuffle"), Builder("order")
    seed, epoch = builder.input("seed", COUNTER), builder.input("epoch", COUNTER)
    order = builder.emit("shuffle", seed, epoch, samples=50)
    node = builder.nodes[-1]
    assert rule.result_limits(node.attrs, (COUNTER, COUNTER), (None, None)) == (50,)
    with pytest.raises(VerifyError, match="shuffle has no gradient"):
        rule.vjp(node.attrs, Backward(builder, node, (order,), (True, True)))
