"""The product of matrices that a convolution is, group by group, one of its factors a matrix of
patches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from noeira.codegen.c.rows import CRows
from noeira.codegen.kernels.patches.matrix import Patches
from noeira.codegen.kernels.patches.walks import Walk, walks_of
from noeira.codegen.rows import pieces_of
from noeira.ir.geometry import Geometry


@dataclass(frozen=True)
class PatchProduct:
    """Of each bundle of groups, for each walk: patches [places, steps] times factor [steps,
    columns], or, where they are `turned`, transposed patches [steps, places] times factor [places,
    columns].

    Groups of few columns are taken together as one product, a `bundle` of them filling a vector:
    the factor then has zeros where a column is of another group than a step, so that a NaN of a
    group goes to all; or, where patches are turned, what is made there is left out of the result.

    image, factor: the operands, by name. groups: bundles; own, columns: channels of one in the
    image, and of its product. rows: of the result. row: elements of a row of the other factor as it
    lies, [*K, C/groups, F] of a weight, [places, F] of a cotangent. crossed: whether columns of the
    product are rows of the weight. headed: whether element-wise ops before the convolution make
    the image as it is copied.
    """

    image: str
    factor: str
    walks: tuple[Walk, ...]
    groups: int
    bundle: int
    own: int
    columns: int
    rows: int
    row: int
    turned: bool
    crossed: bool
    dtype: str
    lanes: int
    headed: bool = False

    @cached_property
    def patches(self) -> tuple[Patches, ...]:
        """The matrices of patches, one a walk."""
        return tuple(Patches(walk, self.own) for walk in self.walks)

    @property
    def all_columns(self) -> int:
        """Columns of all bundles."""
        return self.groups * self.columns

    @property
    def group_own(self) -> int:
        """Channels of a group in the image."""
        return self.own // self.bundle

    @property
    def group_columns(self) -> int:
        """Columns of a group."""
        return self.columns // self.bundle

    @property
    def all_groups(self) -> int:
        """Groups in all."""
        return self.groups * self.bundle

    @property
    def tap_size(self) -> int:
        """Elements of a tap of the weight."""
        return self.row * (self.group_columns if self.crossed else self.group_own)

    @property
    def diagonal(self) -> bool:
        """Whether the result is what is made for steps and columns of the same group alone."""
        return self.turned and self.bundle > 1

    @property
    def made(self) -> int:
        """Elements that are made, for the result or to be left out."""
        return self.rows * (self.bundle if self.turned else 1) * self.all_columns

    @property
    def width(self) -> int:
        """Vectors that cover the columns of a group."""
        return pieces_of(self.columns, self.lanes)

    @property
    def rest(self) -> int:
        """Columns of a group beyond whole vectors."""
        return self.columns % self.lanes

    @property
    def pixels(self) -> CRows:
        """The image as the elements that a head runs over."""
        walk = self.walks[0]
        return CRows(self.dtype, self.lanes, walk.batch * walk.pixels, walk.channels)

    @property
    def grid(self) -> CRows:
        """The result as the elements that a tail runs over."""
        return CRows(self.dtype, self.lanes, self.rows, self.all_columns)

    def rows_of(self, patches: Patches) -> int:
        """Rows of the product of a walk."""
        return patches.steps if self.turned else patches.walk.places

    def steps_of(self, patches: Patches) -> int:
        """Steps that its elements are summed over."""
        return patches.walk.places if self.turned else patches.steps

    @property
    def most_rows(self) -> int:
        """Rows of the walk that has most."""
        return max(map(self.rows_of, self.patches))

    @property
    def most_steps(self) -> int:
        """Steps of the walk that has most."""
        return max(map(self.steps_of, self.patches))

    @property
    def must_pack(self) -> bool:
        """Whether the other factor does not lie as tiles read it: transposed, with zeros between
        groups, or with columns that fill no whole vectors.
        """
        return self.crossed or self.rest > 0 or (self.bundle > 1 and not self.turned)

    @property
    def packed_size(self) -> int:
        """Elements of all of the other factor, panel by panel."""
        steps = sum(map(self.steps_of, self.patches))
        return steps * self.groups * self.width * self.lanes

    @property
    def flops(self) -> int:
        """Operations in all."""
        pairs = sum(self.rows_of(one) * self.steps_of(one) for one in self.patches)
        return 2 * pairs * self.all_columns


def bundled(groups: int, columns: int, lanes: int) -> int:
    """How many groups of so many columns may be taken together, at most."""
    return max(n for n in range(1, groups + 1) if bundles(n, groups, columns, lanes))


def bundles(bundle: int, groups: int, columns: int, lanes: int) -> bool:
    """Whether so many groups of so many columns may be taken together."""
    return groups % bundle == 0 and (bundle * columns <= lanes or bundle == 1)


def product_of(
    role: str, g: Geometry, dtype: str, lanes: int, headed: bool = False, bundle: int = 1
) -> PatchProduct:
    """The product that one of the three ops is: `convolution`, y of x and the weight;
    `transposed_convolution`, the cotangent of x of that of y and the weight; `convolution_weight`,
    the cotangent of the weight of x and that of y. bundle: groups that are taken together.
    """
    rows = {
        "convolution": g.batch * g.pixels,
        "transposed_convolution": g.batch * math.prod(g.size),
        "convolution_weight": g.taps * g.channels_of_group,
    }
    image, factor = {
        "convolution": ("x", "weight"),
        "transposed_convolution": ("d", "weight"),
        "convolution_weight": ("x", "d"),
    }[role]
    own, columns = g.channels_of_group, g.filters_of_group
    crossed = image == "d"
    if crossed:
        own, columns = columns, own
    return PatchProduct(
        image,
        factor,
        walks_of(g, adjoint=crossed),
        g.groups // bundle,
        bundle,
        own * bundle,
        columns * bundle,
        rows[role],
        g.filters,
        role == "convolution_weight",
        crossed,
        dtype,
        lanes,
        headed,
    )
