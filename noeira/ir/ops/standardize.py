"""Pixels as floats: `standardize`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import DtypeError, ShapeError
from noeira.ir import graph
from noeira.ir.checks import check_number
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.samples import BadSample, Draw, Sample, f32
from noeira.ir.types import COMPUTED, TensorType

if TYPE_CHECKING:
    import numpy as np

# What a u8 pixel has at most.
WHITE = 255


@dataclass(frozen=True)
class StandardizeAttrs(graph.Attrs):
    """mean, std: of each channel, of pixels from 0 to 1. dtype: of the result. channels_last:
    whether x is [N, *S, C].
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: str = "f32"
    channels_last: bool = False

    @property
    def scales(self) -> tuple[float, ...]:
        """What pixels of each channel are multiplied by."""
        return tuple(1 / (WHITE * std) for std in self.std)

    @property
    def shifts(self) -> tuple[float, ...]:
        """What is added to them then."""
        return tuple(-mean / std for mean, std in zip(self.mean, self.std, strict=True))

    def blocks(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """What a kernel sees of images: blocks that have every channel, channels, and pixels of one
        channel that lie together.
        """
        if self.channels_last:
            return math.prod(shape[:-1]), shape[-1], 1
        return shape[0], shape[1], math.prod(shape[2:])


class Standardize(Op):
    """y = (x / 255 - mean) / std, mean and std of the channel, computed as x·(1 / (255·std)) +
    (-mean / std), each of the two numbers, the product and the sum rounded once.

    x u8[N, C, *S] -> floats of the same shape. Pixels have no gradient.
    """

    name, Attrs, operands = "standardize", StandardizeAttrs, ("x",)

    def infer(self, attrs: StandardizeAttrs, x: TensorType) -> tuple[TensorType, ...]:
        if attrs.dtype not in COMPUTED:
            raise DtypeError(f"standardize: to {attrs.dtype}; there are {', '.join(COMPUTED)}")
        if x.dtype != "u8":
            raise DtypeError(f"standardize: x is {x}; pixels are u8, from 0 to {WHITE}")
        if len(x.shape) < 2:
            raise ShapeError(f"standardize: x is {x}; images have a channel axis")
        channels = x.shape[-1 if attrs.channels_last else 1]
        if not len(attrs.mean) == len(attrs.std) == channels:
            raise ShapeError(
                f"standardize: {len(attrs.mean)} means and {len(attrs.std)} deviations for "
                f"{channels} channels of {x}"
            )
        for std in attrs.std:
            if not std > 0:
                raise ShapeError(f"standardize: std is {std}; it must be greater than 0")
        for number in (*attrs.scales, *attrs.shifts):
            check_number("standardize", number, attrs.dtype)
        return (TensorType(attrs.dtype, x.shape),)

    def reference(self, attrs: StandardizeAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        from noeira.ir.arrays import numpy_dtype

        dtype = numpy_dtype(attrs.dtype)
        column = (1, -1, 1)
        scales, shifts = (np.array(n, dtype).reshape(column) for n in (attrs.scales, attrs.shifts))
        blocks = x.reshape(attrs.blocks(x.shape)).astype(dtype)
        return ((blocks * scales + shifts).reshape(x.shape),)

    def vjp(self, attrs: StandardizeAttrs, back: Backward) -> dict[str, Value]:
        return {}

    def flops(self, attrs: StandardizeAttrs, x: TensorType) -> int:
        return 2 * x.size

    def samples(self) -> tuple[Sample, ...]:
        def sample(*shape: int, **attrs: Any) -> Sample:
            channels = shape[-1 if attrs.get("channels_last") else 1]
            numbers = {
                "mean": tuple(0.5 - 0.1 * c for c in range(channels)),
                "std": tuple(0.25 + 0.01 * c for c in range(channels)),
            }
            return Sample((Draw(TensorType("u8", shape), "index", 256),), numbers | attrs, ())

        return (
            sample(1, 1),
            sample(5, 3, 7, 9),
            sample(2, 2, 33, dtype="f64"),
            sample(3, 5, 7, 3, channels_last=True),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        x, grey = TensorType("u8", (2, 3, 4)), {"mean": (0.5,), "std": (0.2,)}
        three = {"mean": (0.5,) * 3, "std": (0.2,) * 3}
        return (
            BadSample((f32(2, 3, 4),), "pixels are u8", three),
            BadSample((x,), "1 means and 1 deviations for 3 channels", grey),
            BadSample((x,), "greater than 0", three | {"std": (0.2, 0.0, 0.2)}),
            BadSample((x,), "does not fit in f32", three | {"std": (1e-60,) * 3}),
            BadSample((x,), "to i32", three | {"dtype": "i32"}),
            BadSample((TensorType("u8", (2,)),), "channel axis", grey),
        )
