"""What sweeps try ops on: their own samples, of every dtype, and those stretched to other sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from swept_ops import launching

from noeira.errors import NoeiraError
from noeira.ir.arrays import numpy_dtype
from noeira.ir.op import Op
from noeira.ir.samples import Draw, Sample
from noeira.ir.types import ROUNDED, TensorType

# Lengths about those of accesses, vectors, warps, strips and chunks.
LENGTHS = (1, 3, 6, 8, 31, 32, 33, 100, 257, 1021)
# Part of a warp for a row, a warp, a block: whole accesses or not, kept in registers or not.
ROWS = (
    *((257, 1), (127, 7), (130, 10), (9, 64), (5, 127), (3, 1031), (2, 2048)),
    *((2, 20011), (1, 20480)),
)
# Elements of a stretched sample at most: more of them meet no other stage and no other option.
MOST_ELEMENTS = 200_000
DTYPES = ("f32", "f64", "u8", "i32", "i64", *ROUNDED)
# Samples in a dtype of 16 bits: of all ops in bf16, in f16 of one for each template. How elements
# are loaded, rounded and stored does not depend on the op.
ROUNDED_SAMPLES = 3
# How many kinds of samples are stretched to each length.
KINDS_EACH = 3
# Attributes that number axes.
AXES = ("axes", "axis")


def retyped(sample: Sample, dtype: str) -> Sample:
    """A sample with its f32 of another dtype, but for totals, which are always f64."""

    def draw(d: Draw) -> Draw:
        if d.type.dtype != "f32":
            return d
        made = replace(d, type=replace(d.type, dtype=dtype))
        return made if made.type.is_float else replace(made, kind="index", limit=100)

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


def results(rule: Op, sample: Sample) -> tuple[TensorType, ...] | None:
    """The types that an op gives for a sample; None if it refuses it."""
    try:
        return rule.types(rule.Attrs(**sample.attrs), [draw.type for draw in sample.operands])
    except NoeiraError:
        return None


def main_shape(rule: Op, sample: Sample) -> tuple[int, ...]:
    """The shape of the largest of an op's operands and results."""
    types = [*(draw.type for draw in sample.operands), *(results(rule, sample) or ())]
    return max((type.shape for type in types), key=lambda shape: (len(shape), np.prod(shape)))


def stretched(rule: Op, sample: Sample, lengths: Mapping[int, int]) -> Sample | None:
    """A sample whose axes of some lengths have others, also where attributes and limits of indices
    say them; None if the op refuses that.
    """

    def other(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(other, value))
        return lengths.get(value, value) if type(value) is int else value

    draws = tuple(
        replace(d, type=replace(d.type, shape=other(d.type.shape)), limit=other(d.limit))
        for d in sample.operands
    )
    attrs = {k: v if k in AXES else other(v) for k, v in sample.attrs.items()}
    made = replace(sample, operands=draws, attrs=attrs)
    return made if results(rule, made) else None


def kind_of(rule: Op, sample: Sample) -> tuple[object, ...]:
    """What samples are alike in but for the lengths of their axes."""
    rank = len(main_shape(rule, sample))
    repeated = [tuple(n == 1 for n in d.type.shape) for d in sample.operands]
    operands = tuple(
        (rank - len(r), r, d.type.dtype, d.kind)
        for r, d in zip(repeated, sample.operands, strict=True)
    )
    attrs = sorted(sample.attrs.items())
    return (operands, tuple((key, value if key in AXES else bool(value)) for key, value in attrs))


@cache
def kinds(rule: Op, rank: int | None = None) -> tuple[Sample, ...]:
    """The last sample of each kind whose axes differ in length, of any rank or of one."""
    found = dict[tuple[object, ...], Sample]()
    for sample in own_samples(rule):
        shape = main_shape(rule, sample)
        if len(set(shape)) == len(shape) > 0 and rank in (None, len(shape)):
            found[kind_of(rule, sample)] = sample
    return tuple(found.values())


def in_turn(rule: Op, number: int, each: int) -> tuple[Sample, ...]:
    """So many kinds of samples, others for the next number."""
    every = kinds(rule)
    return tuple(every[(number * each + i) % len(every)] for i in range(min(each, len(every))))


def of_rows(rule: Op, flat: tuple[Sample, ...]) -> Iterator[Sample]:
    """Samples of all the `ROWS`, one of these matrices stretched for each in turn."""
    for number, (rows, columns) in enumerate(ROWS):
        for turn in range(len(flat)):
            sample = flat[(number + turn) % len(flat)]
            old_rows, old_columns = main_shape(rule, sample)
            made = stretched(rule, sample, {old_rows: rows, old_columns: columns})
            if made is not None:
                yield made
                break


def of_lengths(rule: Op) -> Iterator[Sample]:
    """Samples whose last axis has one of the `LENGTHS`; of column reductions also the first."""
    for number, length in enumerate(LENGTHS):
        for sample in in_turn(rule, number, KINDS_EACH):
            shape = main_shape(rule, sample)
            axes = (-1, 0) if rule.kind == "column" and len(shape) > 1 else (-1,)
            for axis in axes:
                made = stretched(rule, sample, {shape[axis]: length})
                if made is not None and math.prod(main_shape(rule, made)) <= MOST_ELEMENTS:
                    yield made


def is_example(rule: Op) -> bool:
    """Whether an op is that with the most samples of all that have its template: what there is of
    one in many lengths need not be of the others.
    """
    return rule is examples()[rule.template]


@cache
def examples() -> dict[str, Op]:
    """Of each template the first op with the most samples."""
    found = dict[str, Op]()
    for rule in launching():
        best = found.setdefault(rule.template, rule)
        if len(own_samples(rule)) > len(own_samples(best)):
            found[rule.template] = rule
    return found


@cache
def own_samples(rule: Op) -> tuple[Sample, ...]:
    """The samples that an op gives itself."""
    return rule.samples()


def stretched_samples(rule: Op, by_rows: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """The samples of an op in other sizes; `by_rows`: those of its matrices whose rows a kernel
    shares.
    """
    if rule.kind == "contraction" or not kinds(rule):
        return ()
    others = is_example(rule) and len(by_rows) < len(kinds(rule, 2))
    return (*(of_rows(rule, by_rows) if by_rows else ()), *(of_lengths(rule) if others else ()))


def of_dtype(rule: Op, samples: tuple[Sample, ...], dtype: str) -> tuple[Sample, ...]:
    """Samples in a dtype; of those that are not f32 only what the op takes, and what there is not
    in f32 already; a few of those that are rounded.
    """
    made = [retyped(sample, dtype) for sample in samples]
    pairs = zip(made, samples, strict=True)
    found = [new for new, old in pairs if dtype == "f32" or (new != old and results(rule, new))]
    if dtype in ROUNDED:
        every = dtype == "bf16" or is_example(rule)
        found = found[-ROUNDED_SAMPLES:] if every else []
    return tuple({repr(sample): sample for sample in found}.values())


@cache
def swept_dtypes(rule: Op) -> tuple[str, ...]:
    """The dtypes that an op is swept in."""
    return tuple(d for d in DTYPES if d == "f32" or of_dtype(rule, own_samples(rule), d))
