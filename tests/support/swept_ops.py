"""The ops that sweeps try: every op there is, its slopes beside it; `--op` chooses some of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

import pytest

from noeira.ir.attributes import generic
from noeira.ir.op import OPS, Op, op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.scalar import is_const

_chosen: list[str] = []


@functools.cache
def every_op() -> tuple[Op, ...]:
    """Every op there is but `fused`, and the first and second slopes of the element-wise ones."""
    op("add")
    plain = [rule for rule in OPS.values() if rule.name != "fused" and not rule.foreign]
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


def choose(names: Iterable[str]) -> None:
    """What `--op` names. Raises VerifyError with the nearest name if there is no such op."""
    _chosen[:] = [op(name).name for name in names]


def is_chosen(name: str) -> bool:
    """Whether an op takes part: without `--op` all do, else those named with the slopes and
    gradients of each.
    """
    return not _chosen or any(belongs(name, chosen) for chosen in _chosen)


def belongs(name: str, to: str) -> bool:
    """Whether an op is another or one of its slopes and gradients: `relu.d0`, `softmax_grad`."""
    return name == to or name.startswith((f"{to}.d", f"{to}_grad"))


def chosen(rules: Iterable[Op]) -> list[Op]:
    """Those of the ops that take part."""
    return [rule for rule in rules if is_chosen(rule.name)]


@functools.cache
def launching() -> tuple[Op, ...]:
    """The ops that have kernels."""
    return tuple(rule for rule in every_op() if rule.launches)


def family(rule: Op) -> str:
    """The file that defines an op, or the op that it is a slope of."""
    return type(op(rule.name.partition(".d")[0])).__module__.rpartition(".")[2]


def each_op(rules: Iterable[Op], name: str = "rule") -> pytest.MarkDecorator:
    """One test for each op, found by its exact name with `--op`."""
    found = [pytest.param(rule, id=rule.name, marks=pytest.mark.ops(rule.name)) for rule in rules]
    return pytest.mark.parametrize(name, found)
