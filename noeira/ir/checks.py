"""Checks that the shape rules of many ops share: each raises DtypeError or ShapeError with the op's
name.
"""

from __future__ import annotations

from noeira.errors import DtypeError, ShapeError
from noeira.ir.op import IndexLimit
from noeira.ir.types import DTYPES, FLOATS, TensorType


def expect(name: str, operand: str, got: TensorType | None, want: TensorType) -> None:
    """An operand that can have one type only; None is one that was left out."""
    if got is not None and got != want:
        raise DtypeError(f"{name}: {operand} is {got}, it must be {want}")


def check_number(name: str, value: float, dtype: str) -> None:
    """A number that a kernel computes with, or stores, as one of a dtype."""
    if dtype not in DTYPES:
        raise DtypeError(f"{name}: there is no dtype {dtype!r}; there are {', '.join(DTYPES)}")
    if not DTYPES[dtype].fits(value):
        raise DtypeError(f"{name}: {value!r} does not fit in {dtype}")


def check_float(name: str, what: str, dtype: str) -> None:
    """A dtype that must be that of a float."""
    if dtype not in FLOATS:
        raise DtypeError(f"{name}: {what} is {dtype!r}, which is none of {', '.join(FLOATS)}")


def float_operand(name: str, x: TensorType) -> None:
    """An operand that must be a float."""
    if not x.is_float:
        raise DtypeError(f"{name}: {x} is not a float")


def check_rows(name: str, x: TensorType) -> tuple[int, ...]:
    """An operand that must have rows of floats along its last axis; gives the shape of the rows."""
    float_operand(name, x)
    if not x.shape:
        raise ShapeError(f"{name}: {x} has no axis")
    return x.shape[:-1]


def axis_of(name: str, axis: int, x: TensorType) -> int:
    """The number, from the front, of an axis that an operand must have."""
    rank = len(x.shape)
    if not -rank <= axis < rank:
        raise ShapeError(f"{name}: {x} has no axis {axis}")
    return axis % rank


def one_float_dtype(name: str, *types: TensorType) -> str:
    """The dtype that all operands must have."""
    first = types[0].dtype
    if not all(t.is_float and t.dtype == first for t in types):
        raise DtypeError(
            f"{name}: {', '.join(map(str, types))}: operands must be floats of one dtype"
        )
    return first


def check_logits(name: str, z: TensorType) -> tuple[int, ...]:
    """An operand whose last axis must be classes; gives the shape of the rows."""
    if not z.is_float:
        raise DtypeError(f"{name}: logits {z} must be floats")
    if not z.shape:
        raise ShapeError(f"{name}: logits {z} need a class axis")
    return z.shape[:-1]


def check_classes(name: str, z: TensorType, target: TensorType) -> None:
    """Logits, and a target that must be one class number for each row of them."""
    if target.shape != check_logits(name, z):
        raise ShapeError(f"{name}: targets {target} must have one entry for each row of {z}")
    if target.dtype != "i32":
        raise DtypeError(f"{name}: targets {target} must be i32")


def class_limit(z: TensorType) -> IndexLimit:
    """What class numbers of these logits stay below."""
    return IndexLimit(z.shape[-1], "classes")
