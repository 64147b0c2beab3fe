"""Sweeps over the kernels of every op, in C and in CUDA on the CPU: against references, whatever
the threads or the order of blocks, and in place.

`pytest tests/ops --op softmax` takes one op with its slopes and gradients. A new op is found with
its samples; see `support/samples.py` for the sizes that they are stretched to. Kernels of CUDA that
take turns are run in check mode: races, accesses beyond bounds, reads of what nobody wrote and
divergence at barriers fail.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sweep import Case, arrays_not_ok, assert_agrees, assert_kept, same_in_place
from sweep_units import Library, Variant, all_ways, cases, each_variant, library_of
from swept_ops import launching

from noeira.ir.op import Op


def check_kernel(built: Library, case: Case, arrays: Sequence[np.ndarray]) -> None:
    """The results of a case must agree with the reference."""
    assert_agrees(case, all_ways(built, case, arrays), arrays)


@each_variant(launching())
def test_kernel_agrees_with_reference(rule: Op, variant: Variant, dtype: str) -> None:
    built = library_of(rule, variant)
    for number, case in enumerate(cases(rule, variant, dtype)):
        check_kernel(built, case, case.arrays(number))


@each_variant(launching())
def test_result_may_take_over_the_memory_of_an_operand(
    rule: Op, variant: Variant, dtype: str
) -> None:
    for case in cases(rule, variant, dtype):
        if case.aliases(in_place=True):
            same_in_place(library_of(rule, variant).run, case, case.arrays())


@each_variant([rule for rule in launching() if "ok" in rule.operands])
def test_step_that_is_not_ok_changes_nothing(rule: Op, variant: Variant, dtype: str) -> None:
    built = library_of(rule, variant)
    for case in cases(rule, variant, dtype):
        arrays = arrays_not_ok(case)
        assert_kept(case, arrays)
        check_kernel(built, case, arrays)
        same_in_place(built.run, case, arrays)


@each_variant([rule for rule in launching() if "step" in rule.operands])
def test_first_update(rule: Op, variant: Variant, dtype: str) -> None:
    built = library_of(rule, variant)
    for case in cases(rule, variant, dtype):
        if "step" in case.node.operands:
            arrays = case.arrays()
            arrays[case.node.operands.index("step")][...] = 0
            check_kernel(built, case, arrays)
