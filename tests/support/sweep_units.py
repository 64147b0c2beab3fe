"""The units of the sweeps: the kernels of the ops of a family, for a target under some limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np
import pytest
from c_sweep import CKernels, compiler_or_skip, quick
from cuda_sweep import ONE, TARGET, CudaKernels
from fused_cases import Group, chosen_groups
from limits import C_SMALL, CUDA_BLOCKS, CUDA_SMALL, Limits, limited
from samples import kinds, of_dtype, own_samples, stretched_samples, swept_dtypes
from special_cases import special_cases
from sweep import Case, same_bits, sample_case
from swept_ops import chosen, family, launching

from noeira.codegen.c.isa import AVX2
from noeira.codegen.c.target import CTarget
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.kernel import kernel_text
from noeira.codegen.target import Target
from noeira.errors import DtypeError
from noeira.ir.op import Op
from noeira.ir.plan import Call, Choice
from noeira.ir.samples import Sample
from noeira.ir.types import FLOATS

# Numbers as large as floats of which there are samples of many sizes: kernels of what takes both
# move bytes.
LIKE_FLOATS = ("i32", "i64")
# The floats that the quick suite leaves to the slow one on CUDA, as their kernels are those of f32
# with another name for the type. Sweeps in C are over all.
OTHER_FLOATS = tuple(dtype for dtype in FLOATS if dtype != "f32")
# Fused nodes, with their parts, are units of so many.
GROUPS_OF_A_UNIT = 8


@dataclass(frozen=True)
class Variant:
    """A target and the limits under which it chooses.

    `stretched`: whether samples of many sizes are swept too; `dtypes`: None for all; `without`: but
    for these; `slow`: whether the quick suite leaves it out.
    """

    target: str
    name: str
    limits: Limits
    dtypes: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    stretched: bool = False
    slow: bool = False

    def __hash__(self) -> int:
        return hash((self.target, self.name))

    def __str__(self) -> str:
        return f"{self.target}-{self.name}"

    @property
    def chooses(self) -> Target:
        """What chooses: for C any vector unit, for choices do not depend on it here."""
        if self.target == "c":
            return CTarget(AVX2)
        return ONE if self.limits else TARGET

    def choices(self, cases: Sequence[Case]) -> list[Choice]:
        """The stages of kernels."""
        with limited(self.limits):
            return [self.chooses.choose(case.node) for case in cases]


C = Variant("c", "chosen", {}, ("f32",))
C_SPLIT = Variant("c", "split", C_SMALL)
CUDA = Variant("cuda", "chosen", {}, ("f32",), stretched=True, slow=True)
CUDA_TURNS = Variant("cuda", "turns", CUDA_SMALL, without=OTHER_FLOATS, stretched=True)
CUDA_LARGE_ROWS = Variant("cuda", "blocks", CUDA_BLOCKS, without=OTHER_FLOATS, stretched=True)
# The same for other floats.
CUDA_SLOW = tuple(
    replace(variant, name=f"{variant.name} slow", dtypes=OTHER_FLOATS, without=(), slow=True)
    for variant in (CUDA_TURNS, CUDA_LARGE_ROWS)
)
VARIANTS = (C, C_SPLIT, CUDA, CUDA_TURNS, CUDA_LARGE_ROWS, *CUDA_SLOW)


class Library(Protocol):
    """Built kernels of C or CUDA, and the ways to run them, which results do not depend on."""

    @property
    def ways(self) -> Sequence: ...

    def run(
        self, case: Case, arrays: Sequence[np.ndarray], way=..., in_place: bool = False
    ) -> list[np.ndarray]: ...


@cache
def by_rows(rule: Op) -> tuple[Sample, ...]:
    """Those of an op's matrices whose rows threads of a GPU share."""
    return tuple(sample for sample in kinds(rule, 2) if shares_rows(rule, sample))


def shares_rows(rule: Op, sample: Sample) -> bool:
    """Whether threads of a GPU share the rows of a sample."""
    stages = TARGET.choose(sample_case(rule, sample).node).stages
    return any(key == "row_threads" for stage in stages for key, _ in stage.options)


@cache
def cases(rule: Op, variant: Variant, dtype: str) -> tuple[Case, ...]:
    """What an op is swept on: its own samples and stretched ones. Rows that are taken in turns are
    enough of many sizes.
    """
    wanted = variant.stretched and dtype not in LIKE_FLOATS
    more = stretched_samples(rule, by_rows(rule)) if wanted else ()
    alone = len(by_rows(rule)) == len(kinds(rule, 2)) > 0
    own = () if more and alone and variant.limits else own_samples(rule)
    return tuple(sample_case(rule, sample) for sample in of_dtype(rule, (*own, *more), dtype))


@cache
def differs(rule: Op, variant: Variant) -> bool:
    """Whether the limits of a variant that is about large rows make a difference to an op."""
    made = cases(rule, CUDA_TURNS, "f32")
    return CUDA_TURNS.choices(made) != variant.choices(made)


def variants_of(rule: Op) -> Iterator[tuple[Variant, str]]:
    """The variants and dtypes in which an op is swept."""
    for variant in VARIANTS:
        if variant.limits is not CUDA_BLOCKS or differs(rule, variant):
            for dtype in swept_dtypes(rule):
                wanted = variant.dtypes is None or dtype in variant.dtypes
                if (
                    wanted
                    and dtype not in variant.without
                    and has_kernel(rule, variant.chooses, dtype)
                ):
                    yield variant, dtype


@cache
def has_kernel(rule: Op, target: Target, dtype: str) -> bool:
    """Whether the kernel of an op is written for a dtype: its class says so, or its text."""
    if dtype not in FLOATS:
        return True
    node = sample_case(rule, of_dtype(rule, own_samples(rule), dtype)[0]).node
    try:
        kernel_text(Call(node, target.choose(node)), target, "k")
    except DtypeError:
        return False
    return True


def unit_cases(of: str, variant: Variant) -> list[Case]:
    """Every case of a family's unit."""
    found = list[Case]()
    for rule in chosen(launching()):
        if family(rule) == of:
            pairs = (pair for pair in variants_of(rule) if pair[0] is variant)
            found += [case for _, dtype in pairs for case in cases(rule, variant, dtype)]
            found += special_cases(rule.name).values()
    return found


@cache
def library(of: str, variant: Variant) -> Library:
    """The kernels of a family in one unit."""
    return built(unit_cases(of, variant), variant)


@cache
def fused_library(number: int, variant: Variant) -> Library:
    """The kernels of some fused groups, and of their parts, in one unit."""
    start = number * GROUPS_OF_A_UNIT
    groups = chosen_groups()[start : start + GROUPS_OF_A_UNIT]
    return built([case for group in groups for case in group], variant)


def built(made: Sequence[Case], variant: Variant) -> Library:
    """Kernels in one unit. For C, those that threads share are built with less optimization; for
    CUDA, those that take turns are checked for what a GPU would not forgive as they run.
    """
    if variant.target == "c":
        compiler = compiler_or_skip()
        kernels = CKernels.of(CTarget(compiler.isa), made, variant.limits)
        return kernels.built(quick(compiler) if variant.limits else compiler)
    target = variant.chooses
    assert isinstance(target, CudaTarget)
    return CudaKernels.of(made, target, variant.limits).built(check=bool(variant.limits))


def library_of(rule: Op, variant: Variant) -> Library:
    """The kernels of an op."""
    return library(family(rule), variant)


def library_of_group(group: Group, variant: Variant) -> Library:
    """The kernels of a fused group."""
    numbers = {id(other[0]): number for number, other in enumerate(chosen_groups())}
    return fused_library(numbers[id(group[0])] // GROUPS_OF_A_UNIT, variant)


def all_ways(built: Library, case: Case, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a case, whose bits must not depend on threads, or the order of blocks."""
    return same_bits(case, (built.run(case, arrays, way) for way in built.ways), "the way it runs")


def each_variant(rules: Sequence[Op]) -> pytest.MarkDecorator:
    """One test for each op, target, dtype and limits: `softmax-cuda-f32-chosen`. Tests of one unit
    run in one process, so that none waits for another to build it.
    """
    found = [
        pytest.param(
            *(rule, variant, dtype),
            id=f"{rule.name}-{variant.target}-{dtype}-{variant.name}",
            marks=marks(rule, variant),
        )
        for rule in rules
        for variant, dtype in variants_of(rule)
    ]
    return pytest.mark.parametrize(("rule", "variant", "dtype"), found)


def marks(rule: Op, variant: Variant) -> list[pytest.MarkDecorator]:
    """The marks of a test of an op in a variant."""
    found = [pytest.mark.ops(rule.name), pytest.mark.xdist_group(f"{variant} {family(rule)}")]
    return [*found, pytest.mark.slow] if variant.slow else found


def each_library(names: Sequence[str]) -> pytest.MarkDecorator:
    """One test for each op of these and each of its variants, f32: `softmax-cuda-chosen`."""
    rules = [rule for rule in launching() if rule.name in names]
    found = [
        pytest.param(
            *(rule, variant),
            id=f"{rule.name}-{variant}",
            marks=marks(rule, variant),
        )
        for rule in rules
        for variant, dtype in variants_of(rule)
        if dtype == "f32"
    ]
    return pytest.mark.parametrize(("rule", "variant"), found)
