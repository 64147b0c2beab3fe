"""What changes images at random in training: `crop_flip`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.checks import expect
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import Limits, Op
from noeira.ir.samples import BadSample, Draw, Sample, f32
from noeira.ir.states import COUNTER
from noeira.ir.types import TensorType, Types

if TYPE_CHECKING:
    import numpy as np

# A flip is decided by so many bits, an offset by the 32 of a word.
FLIP_BITS = 24
WORD_BITS = 32
MOST_PADDING = 2**20


@dataclass(frozen=True)
class CropFlipAttrs(graph.Attrs):
    """padding: pixels of zeros around an image; flip: how probable it is that left and right are
    exchanged. adjoint: each pixel of x to where it was taken from. channels_last: whether x is
    [B, H, W, C].
    """

    padding: int = 4
    flip: float = 0.5
    adjoint: bool = False
    channels_last: bool = False

    @property
    def offsets(self) -> int:
        """Places of a crop along an axis."""
        return 2 * self.padding + 1

    @property
    def flipped_below(self) -> int:
        """The number of 24 bits below which a drawn one means a flip."""
        return round(self.flip * 2**FLIP_BITS)

    def planes(self, shape: tuple[int, ...]) -> tuple[int, int, int, int, int]:
        """What a kernel sees of images: how many, planes of each, rows, columns, and elements of a
        pixel that lie together.
        """
        if self.channels_last:
            batch, height, width, channels = shape
            return batch, 1, height, width, channels
        batch, channels, height, width = shape
        return batch, channels, height, width, 1


class CropFlip(Op):
    """y[b, c, i, j] = x[b, c, i + down, s(j) + right], 0 outside; s(j) is j, or W - 1 - j flipped:
    of each image with `padding` zeros around it a part of its size, perhaps its mirror image.

    With the words w of Philox-4x32-10 of (seed, stream) and (b, tick), down is ⌊w₀·(2·padding + 1)
    / 2³²⌋ - padding, right the same of w₁, and the image is flipped where the upper 24 bits of w₂
    are below 2²⁴·flip. x [B, C, H, W] of any dtype; seed, tick, stream i64[]. The adjoint is such a
    move too: with the other sign of down, and of right where the image is not flipped.
    """

    name, Attrs, operands = "crop_flip", CropFlipAttrs, ("x", "seed", "tick", "stream")
    moves = True

    def infer(
        self,
        attrs: CropFlipAttrs,
        x: TensorType,
        seed: TensorType,
        tick: TensorType,
        stream: TensorType,
    ) -> tuple[TensorType, ...]:
        if len(x.shape) != 4:
            axes = "[B, H, W, C]" if attrs.channels_last else "[B, C, H, W]"
            raise ShapeError(f"crop_flip: x is {x}; images are {axes}")
        for name, counter in (("seed", seed), ("tick", tick), ("stream", stream)):
            expect("crop_flip", name, counter, COUNTER)
        if not 0 <= attrs.padding <= MOST_PADDING:
            raise ShapeError(f"crop_flip: padding is {attrs.padding}: from 0 to {MOST_PADDING}")
        if not 0 <= attrs.flip <= 1:
            raise ShapeError(f"crop_flip: flip is {attrs.flip}, no probability")
        if not attrs.padding and not attrs.flipped_below:
            raise ShapeError("crop_flip: without padding and flip it does nothing")
        return (x,)

    def reference(
        self,
        attrs: CropFlipAttrs,
        x: np.ndarray,
        seed: np.ndarray,
        tick: np.ndarray,
        stream: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        images = x.reshape(attrs.planes(x.shape))
        batch, _, height, width, _ = images.shape
        down, right, flipped = moves(attrs, batch, int(seed), int(tick), int(stream))
        made = np.zeros_like(images)
        for one, image in enumerate(images):
            rows, columns = np.arange(height) + down[one], np.arange(width)
            columns = (columns[::-1] if flipped[one] else columns) + right[one]
            (i,) = np.nonzero((rows >= 0) & (rows < height))
            (j,) = np.nonzero((columns >= 0) & (columns < width))
            made[one][:, i[:, None], j] = image[:, rows[i][:, None], columns[j]]
        return (made.reshape(x.shape),)

    def result_limits(self, attrs: Any, operands: Types, limits: Limits) -> Limits:
        return limits[:1]

    def moved_together(self, attrs: CropFlipAttrs, x: TensorType, *counters: TensorType) -> int:
        """A pixel."""
        return x.shape[-1] if attrs.channels_last else 1

    def vjp(self, attrs: CropFlipAttrs, back: Backward) -> dict[str, Value]:
        opposite = replace(attrs, adjoint=not attrs.adjoint)
        return {"x": back.emit("crop_flip", back.cotangent, *back.inputs[1:], **vars(opposite))}

    def samples(self) -> tuple[Sample, ...]:
        counters = Draw(COUNTER, "index", 1000)

        def sample(shape: tuple[int, ...], dtype: str = "f32", **attrs: Any) -> Sample:
            floats = dtype == "f32"
            x = Draw(TensorType(dtype, shape), "normal" if floats else "index", 200)
            return Sample((x, counters, counters, counters), attrs, None if floats else ())

        return (
            sample((7, 3, 5, 9), padding=2),
            sample((9, 1, 3, 1), padding=4, flip=0.0),
            sample((5, 2, 17, 33), padding=0, flip=1.0, adjoint=True),
            sample((4, 6, 5, 3), padding=3, channels_last=True),
            sample((3, 3, 4, 8), padding=1, channels_last=True, adjoint=True),
            sample((6, 3, 4, 5), dtype="u8", padding=1),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        x, n = f32(2, 3, 8, 8), COUNTER
        return (
            BadSample((f32(2, 3, 8), n, n, n), "images are [B, C, H, W]"),
            BadSample((x, n, n, f32()), "stream is f32[], it must be i64[]"),
            BadSample((x, n, n, n), "padding is -1", {"padding": -1}),
            BadSample((x, n, n, n), "no probability", {"flip": 1.5}),
            BadSample((x, n, n, n), "does nothing", {"padding": 0, "flip": 0.0}),
        )


def moves(
    attrs: CropFlipAttrs, batch: int, seed: int, tick: int, stream: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How images are moved: for each of a batch rows down, columns to the right, and whether it is
    flipped.
    """
    import numpy as np

    from noeira.ir.random import WORD, philox

    words = philox(seed & WORD, stream & WORD, 0, batch, tick)
    offset = words[:, :2].astype(np.uint64) * np.uint64(attrs.offsets) >> np.uint64(WORD_BITS)
    down, right = offset.T.astype(np.int64) - attrs.padding
    flipped = words[:, 2] >> np.uint32(WORD_BITS - FLIP_BITS) < attrs.flipped_below
    if attrs.adjoint:
        return -down, np.where(flipped, right, -right), flipped
    return down, right, flipped
