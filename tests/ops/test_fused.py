"""Sweeps over fused kernels, in C and in CUDA on the CPU: they give the bits of their parts."""

from __future__ import annotations

import pytest
from fused_cases import Group, chosen_groups, each_group
from sweep import assert_bits_of_parts, same_in_place
from sweep_units import (
    C_SPLIT,
    CUDA,
    CUDA_LARGE_ROWS,
    CUDA_TURNS,
    C,
    Variant,
    all_ways,
    library_of_group,
)

# As GPUs take small ones, in the slow suite: what takes turns has all that and more.
VARIANTS = (C, C_SPLIT, CUDA_TURNS, pytest.param(CUDA, marks=pytest.mark.slow))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@each_group(chosen_groups())
def test_fused_kernel_gives_the_bits_of_its_parts(group: Group, variant: Variant) -> None:
    arrays = group[0].arrays()
    built = library_of_group(group, variant)
    results = all_ways(built, group[0], arrays)
    assert_bits_of_parts(group, arrays, results, built.run)


def has_larger_rows(group: Group) -> bool:
    """Whether rows that registers have no room for make a difference to a fused kernel."""
    return CUDA_LARGE_ROWS.choices(group[:1]) != CUDA_TURNS.choices(group[:1])


@each_group([group for group in chosen_groups() if has_larger_rows(group)])
def test_fused_kernel_of_larger_rows_gives_the_bits_of_its_parts(group: Group) -> None:
    test_fused_kernel_gives_the_bits_of_its_parts(group, CUDA_LARGE_ROWS)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@each_group([group for group in chosen_groups() if group[0].aliases(in_place=True)])
def test_fused_result_may_take_over_the_memory_of_an_operand(
    group: Group, variant: Variant
) -> None:
    same_in_place(library_of_group(group, variant).run, group[0], group[0].arrays())
