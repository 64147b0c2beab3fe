"""The product of matrices that a convolution is, group by group, one of its factors a matrix of
patches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from noeira.codegen.c.rows import CRows
from noeira.codegen.kernels.convolution.c_patches import Patches
from noeira.codegen.kernels.convolution.c_walks import Walk, walks_of
from noeira.codegen.rows import pieces_of
from noeira.ir.geometry import Geometry


@dataclass(frozen=True)
class PatchProduct:
    """Of each group, for each walk: patches [places, steps] times factor [steps, columns], or, where
    they are `turned`, transposed patches [steps, places] times factor [places, columns].

    rows: of the result; groups, columns: of each. row: elements of a row of the other factor as it
    lies, [*K, C/groups, F] of a weight, [places, F] of a cotangent. crossed: whether columns of the
    product are rows of the weight, each of so many elements in a row: filters of a group.
    """

    walks: tuple[Walk, ...]
    groups: int
    own: int
    columns: int
    rows: int
    row: int
    turned: bool
    crossed: bool
    dtype: str
    lanes: int

    @cached_property
    def patches(self) -> tuple[Patches, ...]:
        """The matrices of patches, one a walk."""
        return tuple(Patches(walk, self.own) for walk in self.walks)

    @property
    def all_columns(self) -> int:
        """Columns of all groups."""
        return self.groups * self.columns

    @property
    def tap_size(self) -> int:
        """Elements of a tap of the weight."""
        return self.own * self.row

    @property
    def size(self) -> int:
        """Elements of the result."""
        return self.rows * self.all_columns

    @property
    def width(self) -> int:
        """Vectors that cover the columns of a group."""
        return pieces_of(self.columns, self.lanes)

    @property
    def rest(self) -> int:
        """Columns of a group beyond whole vectors."""
        return self.columns % self.lanes

    @property
    def grid(self) -> CRows:
        """The result as the elements that a tail runs over."""
        return CRows(self.dtype, self.lanes, self.rows, self.all_columns)

    @property
    def flat(self) -> CRows:
        """The result as one row."""
        return CRows(self.dtype, self.lanes, 1, self.size)

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
    def packed_size(self) -> int:
        """Elements of all of the other factor, panel by panel."""
        steps = sum(map(self.steps_of, self.patches))
        return steps * self.groups * self.width * self.lanes

    @property
    def flops(self) -> int:
        """Operations in all."""
        pairs = sum(self.rows_of(one) * self.steps_of(one) for one in self.patches)
        return 2 * pairs * self.all_columns


def forward_product(g: Geometry, dtype: str, lanes: int) -> PatchProduct:
    """y of x and the weight."""
    walks = walks_of(g, adjoint=False)
    own, columns = g.channels_of_group, g.filters_of_group
    rows = g.batch * g.pixels
    return PatchProduct(
        walks, g.groups, own, columns, rows, g.filters, False, False, dtype, lanes
    )


def image_product(g: Geometry, dtype: str, lanes: int) -> PatchProduct:
    """The cotangent of x, of that of y and the weight."""
    walks = walks_of(g, adjoint=True)
    own, columns = g.filters_of_group, g.channels_of_group
    rows = g.batch * math.prod(g.size)
    return PatchProduct(walks, g.groups, own, columns, rows, g.filters, False, True, dtype, lanes)


def weight_product(g: Geometry, dtype: str, lanes: int) -> PatchProduct:
    """The cotangent of the weight, of x and the cotangent of y."""
    walks = walks_of(g, adjoint=False)
    own, columns = g.channels_of_group, g.filters_of_group
    return PatchProduct(
        walks, g.groups, own, columns, g.taps * own, g.filters, True, False, dtype, lanes
    )
