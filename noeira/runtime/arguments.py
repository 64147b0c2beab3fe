"""Checks what a user passes in, and makes it what a program can read: one clear message for each
mistake.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noeira.errors import DataError, DtypeError, ShapeError
from noeira.ir.arrays import dtype_name, is_float, numpy_dtype
from noeira.ir.graph import Input
from noeira.ir.orders import channel_moves
from noeira.ir.states import TARGET, is_target
from noeira.ir.types import DTYPES, INDICES

if TYPE_CHECKING:
    import numpy as np

# What puts the first axis of a sample last, by the axes of a batch of class ids for its places.
LAST = {2: "Transpose2D", 3: "ToNHWC"}


class Exact:
    """What an input is when it can be used as it is: a NumPy array of the very dtype and shape in
    row-major order, indices in their range. Says nothing about what is wrong: `checked` does, and
    accepts more.
    """

    def __init__(self, declared: Input) -> None:
        import numpy as np

        self.array_type = np.ndarray
        self.dtype, self.shape = numpy_dtype(declared.value.type.dtype), declared.value.type.shape
        self.limit = declared.limit
        # As unsigned numbers, negative ones are beyond every limit: one comparison for both ends.
        self.unsigned = np.dtype(f"u{self.dtype.itemsize}")

    def is_met_by(self, given: Any) -> bool:
        """Whether `checked` would give back this very object."""
        return (
            type(given) is self.array_type
            and given.dtype == self.dtype
            and given.shape == self.shape
            and given.flags.c_contiguous
            and (self.limit is None or largest(given.view(self.unsigned)) < self.limit)
        )


def largest(array: np.ndarray) -> int:
    """The largest element; NumPy goes to argmax straight, to max by way of Python."""
    return array.item(array.argmax())


def bounds(declared: Input) -> tuple[int, int]:
    """What the elements of an input of whole numbers are from and up to: indices from 0 on, others
    as far as the dtype goes.
    """
    row = DTYPES[declared.value.type.dtype]
    if declared.limit is None:
        return row.least, int(row.largest)
    return 0, declared.limit - 1


def as_array(name: str, short: str, given: Any, dtype: str) -> np.ndarray:
    """NumPy's view of an array: NumPy's own, or anything that speaks DLPack.

    name: what messages call it; short: the variable in code to write instead; dtype: the declared
    one. Raises DtypeError.
    """
    import numpy as np

    if isinstance(given, np.ndarray):
        return given
    if hasattr(given, "__dlpack__"):
        try:
            return np.from_dlpack(given)
        except BufferError as error:
            raise DtypeError(f"{name} does not give its memory away: {error}") from None
    kind = f"{name} is a {type(given).__name__}, not an array"
    if hasattr(given, "x") and hasattr(given, "y"):
        raise DtypeError(f"{kind}: give its inputs alone, .x")
    if isinstance(arrays := getattr(given, "tensors", None), tuple):
        raise DtypeError(f"{kind}: give one of its {len(arrays)} arrays, as in .tensors[0]")
    if isinstance(given, (list, tuple, int, float)):
        raise DtypeError(f"{kind}: write np.asarray({short}, {DTYPES[dtype].written})")
    raise DtypeError(kind)


def label(declared: Input) -> str:
    """The argument's name as the user writes it: the target is called y, several y0, y1, …"""
    name = declared.value.name
    return f"y{name.removeprefix(TARGET)}" if is_target(name) else name


def called(declared: Input, data: str) -> str:
    """What messages call an argument: `y`, or of a named data set `evaluation y`."""
    return f"{data} {label(declared)}" if data else label(declared)


def tupled(given: Any) -> tuple[Any, ...]:
    """Several arrays are given as a tuple, one as it is."""
    return given if isinstance(given, tuple) else (given,)


def inputs_and_targets(declared: Sequence[Input], x: Any, y: Any) -> tuple[Any, ...]:
    """What an entry that takes `declared` is given, in order: inputs, then targets. Raises
    ShapeError if there are more or fewer inputs than the network takes, or targets than its loss
    takes.
    """
    # The usual cases first: this is a part of every call's time.
    if not isinstance(x, tuple):
        if len(declared) == 1 and isinstance(y, tuple) and not y:
            return (x,)
        one_each = len(declared) == 2 and declared[1].value.name == TARGET
        if one_each and not isinstance(y, tuple):
            return x, y
    targets = [d for d in declared if is_target(d.value.name)]
    inputs = [d for d in declared if d not in targets]
    pairs = (("network takes", "input", inputs, x), ("loss takes", "target", targets, y))
    for who, what, wanted, given in pairs:
        if len(tupled(given)) != len(wanted):
            count = f"{len(wanted)} {what}{'s' if len(wanted) != 1 else ''}"
            names = ", ".join(map(label, wanted))
            advice = f": write a tuple ({names})" if len(wanted) > 1 else ""
            raise ShapeError(f"the {who} {count}, got {len(tupled(given))}{advice}")
    return (*tupled(x), *tupled(y))


def checked_batch(declared: Sequence[Input], given: Sequence[Any], advice: str) -> list[np.ndarray]:
    """The arrays of a batch, checked and converted.

    advice: what to say if only the number of rows is wrong. Raises ShapeError or DtypeError.
    """
    return [checked(d, array, advice) for d, array in zip(declared, given, strict=True)]


def checked_samples(
    declared: Sequence[Input], given: Sequence[Any], data: str = "", kept: bool = False
) -> list[np.ndarray]:
    """The arrays of any number of samples, all of one length, checked and converted.

    data: what messages call the data set, where there are several. kept: whether they are read
    after this call; indices are then copied before they are checked, and nobody can change them
    afterwards. Raises ShapeError or DtypeError, DataError for an index out of range.
    """
    pairs = zip(declared, given, strict=True)
    arrays = [checked_rows(d, array, data, kept) for d, array in pairs]
    for d, array in zip(declared, arrays, strict=True):
        if len(array) != len(arrays[0]):
            first = f"{called(declared[0], data)} has {len(arrays[0])}"
            raise ShapeError(f"{called(d, data)} has {len(array)} rows, {first}")
    return arrays


def checked(declared: Input, given: Any, advice: str = "") -> np.ndarray:
    """A C-contiguous array of the declared type, without a copy where possible."""
    name, type = label(declared), declared.value.type
    array = as_array(name, name, given, type.dtype)
    check_classes(declared, array, name, name)
    array = converted(name, name, array, type.dtype)
    if array.shape != type.shape:
        if advice and array.shape[1:] == type.shape[1:] and array.ndim == len(type.shape):
            raise ShapeError(f"{name} has {array.shape[0]} rows; {advice}")
        hint = shape_advice(declared, array)
        raise ShapeError(f"{name} has shape {array.shape}, it must be {type.shape}{hint}")
    return contiguous(in_range(declared, array, name), type.dtype)


def checked_rows(declared: Input, given: Any, data: str, kept: bool) -> np.ndarray:
    """Like `checked`, for any number of rows (at least one); see `checked_samples`."""
    short, name, type = label(declared), called(declared, data), declared.value.type
    array = as_array(name, short, given, type.dtype)
    check_classes(declared, array, name, short)
    array = converted(name, short, array, type.dtype)
    if array.ndim != len(type.shape) or array.shape[1:] != type.shape[1:]:
        wanted = ", ".join(["N", *map(str, type.shape[1:])]) if type.shape[1:] else "N,"
        hint = shape_advice(declared, array)
        raise ShapeError(f"{name} has shape {array.shape}, it must be ({wanted}){hint}")
    if not array.shape[0]:
        raise ShapeError(f"{name} has no rows")
    if kept and declared.limit is not None:
        array = array.copy()
    return contiguous(in_range(declared, array, name), type.dtype)


def check_classes(declared: Input, array: np.ndarray, name: str, short: str) -> None:
    """Raises ShapeError for shares of classes, such as one-hot rows, where class numbers go."""
    wanted = declared.value.type.shape
    if not is_target(declared.value.name) or declared.limit is None:
        return
    if array.ndim == len(wanted) + 1 and array.shape[1:] == (*wanted[1:], declared.limit):
        raise ShapeError(
            f"{name} has shape {array.shape}, a number for each class, and the loss takes the "
            f"number of the class: write {short}.argmax({len(wanted)}); SoftCrossEntropy takes "
            "shares of classes"
        )


def shape_advice(declared: Input, array: np.ndarray) -> str:
    """What to say where samples were taken for numbers, their shape being open in the type, where
    they only lie in another shape, and where a network gives the classes of each place first.
    """
    shape, short = declared.value.type.shape, label(declared)
    if is_target(declared.value.name):
        last = LAST.get(len(shape))
        if last is None or array.shape[1:] != (*shape[2:], declared.limit):
            return ""
        return f": the loss takes the classes of each place last: end the network with {last}"
    if array.ndim < 2:
        return ""
    for axes in channel_moves(array.ndim):
        if tuple(array.shape[axis] for axis in axes[1:]) == shape[1:]:
            return f": write {short}.transpose{axes}"
    if len(shape) == 2 and array.ndim > 2 and math.prod(array.shape[1:]) == shape[1]:
        return f": write {short}.reshape(len({short}), -1)"
    if len(shape) > 1:
        return ""
    return f"; if a sample has a shape, say so: compile(…, input={array.shape[1:]})"


def converted(name: str, short: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """The array, if its dtype will do: any integers for whole numbers, for floats the very dtype.

    name, short: as for `as_array`. Raises DtypeError.
    """
    row, integers = DTYPES[dtype], dtype in INDICES
    if (integers and array.dtype.kind in "iu") or dtype_name(array.dtype) == dtype:
        return array
    if dtype == "u8" and array.ndim > 2:
        raise DtypeError(
            f"{name} is {array.dtype.name}; it must be integers, pixels from 0 to 255: give them "
            "as data with raw=True are, or leave out Standardize, which makes floats of them"
        )
    if integers:
        raise DtypeError(
            f"{name} is {array.dtype.name}; it must be integers: write "
            f"{short}.astype({row.written})"
        )
    if array.dtype.name == "uint8" and array.ndim > 1:
        raise DtypeError(
            f"{name} is uint8; this program takes {row.numpy}: for pixels from 0 to 255 let "
            "Standardize[mean, std] be the first layer, take data without raw=True, or write "
            f"({short} / 255).astype({row.written})"
        )
    raise DtypeError(
        f"{name} is {array.dtype.name}; this program takes {row.numpy}: "
        f"write {short}.astype({row.written})"
    )


def in_range(declared: Input, array: np.ndarray, name: str) -> np.ndarray:
    """The array. Raises DataError that names the first row with a whole number that cannot be."""
    import numpy as np

    if array.dtype.kind not in "iu" or not array.size:
        return array
    least, most = bounds(declared)
    if int(array.min()) < least or int(array.max()) > most:
        where = np.argwhere((array < least) | (array > most))[0]
        value = int(array[tuple(where)])
        raise DataError(f"{name}[{place(where)}] is {value}; it must be from {least} to {most}")
    return array


def place(index: Sequence[Any]) -> str:
    """An element's place in an array as it is written: `17, 3`."""
    return ", ".join(str(int(i)) for i in index)


def elements(name: str, given: Any, view: np.ndarray) -> np.ndarray:
    """What is to be written into `view`, of its shape and dtype; nothing is rounded but Python's
    own numbers. Raises ShapeError, or DtypeError for floats of a wider dtype and for a number
    that there is not in this one.
    """
    import numpy as np

    array, dtype = np.asarray(given), view.dtype
    if array.shape != view.shape:
        raise ShapeError(f"{name} has shape {view.shape}, not {array.shape}")
    whole = array.dtype.kind in "biu"
    if not whole and not is_float(array):
        raise DtypeError(f"{name} is {dtype}, it cannot be of dtype {array.dtype}")
    if not whole and hasattr(given, "dtype") and not np.can_cast(array.dtype, dtype, "safe"):
        advice = f"write value.astype(np.{dtype})"
        raise DtypeError(f"{name} is {dtype}, not {array.dtype}, which would be rounded: {advice}")
    with np.errstate(over="ignore", invalid="ignore"):
        written = array.astype(dtype)
        changed = written.astype(array.dtype) != array if whole else np.isinf(written)
    lost = np.argwhere(changed & np.isfinite(array))
    if len(lost):
        where, value = place(lost[0]), array[tuple(lost[0])]
        raise DtypeError(f"{name}[{where}] cannot be {value}: {dtype} has no such number")
    return written


def contiguous(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array in row-major order and of the very dtype, copied if it is not."""
    import numpy as np

    return np.ascontiguousarray(array, numpy_dtype(dtype))
