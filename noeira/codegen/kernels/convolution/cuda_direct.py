"""How CUDA runs a convolution whose groups have one channel: a thread makes an element of the
result by itself, as hardly anything that it reads is read by others.

The gradient of the weight sums over the places of all images: in pieces, which a second stage adds
in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from noeira.codegen.ctext import index_type, plus, quotient, remainder, times
from noeira.codegen.cuda.anchor import BLOCK, BLOCKS_EACH, blocks_for, launched
from noeira.codegen.cuda.arch import ACCESS_BYTES, WARP, Arch, ceil_to
from noeira.codegen.cuda.rows import CudaRows
from noeira.codegen.cut import option, written
from noeira.codegen.elements import ctype
from noeira.codegen.kernels.convolution.cuda_phases import AXES
from noeira.codegen.kernels.convolution.cuda_product import ADJOINT, FORWARD, WEIGHT, Convolved
from noeira.codegen.kernels.convolution.cuda_sides import leaves
from noeira.codegen.kernels.convolution.cuda_window import digits, joined, scaled
from noeira.codegen.kernels.gemm.product import Partition
from noeira.codegen.scratch import Room
from noeira.errors import VerifyError
from noeira.ir.geometry import Geometry, Sizes
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

# Places of images that a thread sums, at least.
PIECE_PLACES = 64


@dataclass(frozen=True)
class DirectCut:
    """grid, block: of the launch whose threads make elements; splits: pieces of each sum, which any
    launch adds.
    """

    grid: int = option()
    block: int = option(least=WARP)
    splits: int = option(1)
    total_grid: int = option(1, stage="total", name="grid")
    total_block: int = option(1, stage="total", name="block")

    algorithm = "channel by channel"


def direct_cut(p: Convolved, machine: Arch) -> DirectCut:
    """The cut by rule: as many pieces of long sums as give all multiprocessors something to do."""
    splits = 1
    if p.kind == WEIGHT:
        wanted = BLOCK * BLOCKS_EACH * machine.multiprocessors // p.size
        splits = max(1, min(wanted, p.k // PIECE_PLACES))
    total = blocks_for(p.size, BLOCK, machine), BLOCK
    grid = blocks_for(splits * p.size, BLOCK, machine)
    return DirectCut(grid, BLOCK, splits, *(total if splits > 1 else (1, 1)))


def direct_stages(p: Convolved, cut: DirectCut) -> tuple[Stage, ...]:
    """The stages of a cut. Raises VerifyError for more pieces than there are places."""
    most = p.k if p.kind == WEIGHT else 1
    if cut.splits > most:
        raise VerifyError(f"{p.kind}: splits must be at most {most}, not {cut.splits}")
    first = launched(p.kind, written(cut))
    total = ("grid", cut.total_grid), ("block", cut.total_block)
    return (first, launched("total", total)) if cut.splits > 1 else (first,)


def direct_scratch(p: Convolved, cut: DirectCut, dtype: str) -> tuple[Room, ...]:
    """Where the sums of pieces lie."""
    size = cut.splits * piece_stride(p, dtype)
    return (Room("piece_sums", dtype, size),) if cut.splits > 1 else ()


def piece_stride(p: Convolved, dtype: str) -> int:
    """Elements from the sums of a piece to those of the next, whole accesses."""
    return ceil_to(p.size, ACCESS_BYTES // DTYPE_BYTES[dtype])


@dataclass(frozen=True)
class Tap:
    """A loop over the taps along an axis. C text: `place`, where a tap meets it; `beyond`, whether
    that is nowhere, empty if it never is.
    """

    axis: str
    count: int
    place: str
    beyond: str


@dataclass(frozen=True)
class Direct:
    """What the template sees of such a convolution, with C text over the `item` of a thread."""

    product: Convolved
    dtype: str
    lanes: int

    @property
    def one_channel(self) -> bool:
        """That it is such a convolution."""
        return True

    @property
    def geometry(self) -> Geometry:
        """The numbers of the convolution."""
        return self.product.geometry

    @property
    def of_weight(self) -> bool:
        """Whether it is the gradient of the weight."""
        return self.product.kind == WEIGHT

    @property
    def ctype(self) -> str:
        """The C type of an element."""
        return ctype(self.dtype)

    @property
    def all(self) -> CudaRows:
        """All elements of the result in one row."""
        return CudaRows(self.dtype, self.lanes, 1, self.product.size)

    @property
    def pixels(self) -> CudaRows:
        """All elements of the first operand in one row."""
        return CudaRows(self.dtype, self.lanes, 1, prod(self.product.shapes[0]))

    @property
    def stride(self) -> int:
        """Elements from the sums of a piece to those of the next, whole accesses."""
        return piece_stride(self.product, self.dtype)

    def items(self, cut: DirectCut) -> int:
        """What threads do."""
        return self.product.size * cut.splits

    def largest(self, cut: DirectCut) -> int:
        """The largest number that is reckoned with."""
        return max(self.product.largest, self.stride * cut.splits)

    def int(self, cut: DirectCut) -> str:
        """The C type of indices."""
        return index_type(self.largest(cut))

    def piece(self, cut: DirectCut) -> tuple[str, str]:
        """C text for the number of the item's piece, and for the element it is a sum of."""
        items, size = self.items(cut), self.product.size
        return quotient("item", size, items), remainder("item", size, items)

    def places(self, cut: DirectCut) -> tuple[str, str]:
        """C text for the first place of a `piece`, and for that behind its last."""
        pieces = Partition(self.product.k, cut.splits)
        start = pieces.start("piece")
        return start, plus(start, pieces.length("piece"))

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes."""
        return AXES[-len(self.geometry.size) :]

    @property
    def channels(self) -> int:
        """Channels of the result."""
        return self.geometry.channels if self.product.kind == ADJOINT else self.geometry.filters

    @property
    def channel(self) -> str:
        """C text for that of an element."""
        return remainder("index", self.channels, self.product.size)

    @property
    def own(self) -> tuple[str, ...]:
        """C text for where an element lies along the axes of the result."""
        g = self.geometry
        extents = {FORWARD: g.out, ADJOINT: g.size, WEIGHT: g.kernel}[self.product.kind]
        rest = quotient("index", self.channels, self.product.size)
        return digits(rest, extents, self.product.size // self.channels)

    @property
    def image(self) -> str:
        """C text for the image that an element is of; of the weight's gradient, a `place`."""
        g = self.geometry
        if self.of_weight:
            return quotient("place", g.pixels, self.product.k)
        image = self.channels * prod(g.out if self.product.kind == FORWARD else g.size)
        return quotient("index", image, self.product.size)

    @property
    def taps(self) -> tuple[Tap, ...]:
        """The loops over taps; of the weight's gradient each has its one tap."""
        g, kind = self.geometry, self.product.kind
        own, found = tuple(f"own_{axis}" for axis in self.axes), list[Tap]()
        places = digits("place", g.out, self.product.k) if self.of_weight else own
        numbers = g.stride, g.before, g.dilation, g.kernel, g.size, g.out
        each = zip(self.axes, own, places, leaves(g), *numbers, strict=True)
        for axis, mine, place, beyond, stride, before, dilation, taps, size, out in each:
            tap = mine if self.of_weight else f"{axis}_tap"
            if kind == ADJOINT:
                at, met = joined(plus(mine, str(before)), scaled(tap, -dilation)), axis
                tests = [f"{axis} < 0"]
                if stride > 1:
                    tests.append(f"{axis} % {stride} != 0")
                    met = f"{axis} / {stride}"
                tests.append(f"{met} >= {out}")
            else:
                at = plus(scaled(place, stride, -before), times(tap, dilation))
                tests = [f"{axis} < 0"] * beyond[0] + [f"{axis} >= {size}"] * beyond[1]
            found.append(Tap(axis, taps, at, " || ".join(tests)))
        return tuple(found)

    @property
    def factors(self) -> tuple[str, str]:
        """C text for where the two factors of a term lie, `more` filters behind the first of a
        channel.
        """
        g, kind, inner = self.geometry, self.product.kind, self.geometry.filters_of_group
        taps = nested("0", tuple(f"{axis}_tap" for axis in self.axes), g.kernel)
        if kind == ADJOINT:
            pairs = zip(self.axes, g.stride, strict=True)
            met = tuple(axis if stride == 1 else f"{axis} / {stride}" for axis, stride in pairs)
            filter = plus(times("channel", inner), "more" if inner > 1 else "0")
            d = plus(times(nested("image", met, g.out), g.filters), filter)
            return d, plus(times(taps, g.filters), filter)
        channel = quotient("channel", inner, g.filters)
        x = plus(times(nested("image", self.axes, g.size), g.channels), channel)
        if kind == WEIGHT:
            return x, plus(times("place", g.filters), "channel")
        return x, plus(times(taps, g.filters), "channel")

    @property
    def several(self) -> int:
        """Filters of a channel that a term of a transposed convolution is of, 0 if one."""
        inner = self.geometry.filters_of_group
        return inner if self.product.kind == ADJOINT and inner > 1 else 0


def nested(first: str, numbers: tuple[str, ...], extents: Sizes) -> str:
    """C text for the number of a place along axes of these extents, `first` times all of them."""
    found = first
    for number, extent in zip(numbers, extents, strict=True):
        found = number if found == "0" else f"({found} * {extent} + {number})"
    return found
