"""Winograd's algorithm in C: its matrices, every op at awkward sizes, cut in every way, on every
vector unit; how exact it is, and what a NaN does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import winograd_ops
from c_sweep import CKernels, CLibrary, compiler_or_skip, for_isa
from convolution_cases import NAMES, Shape, check
from fused_cases import draws_of, inputs
from needs import needs_compiler
from sweep import Case, reference
from vector_units import runnable

from noeira.codegen.c.isa import AVX512, ISA, ISAS
from noeira.codegen.c.target import CTarget
from noeira.codegen.kernels.convolution.c_convolving import CConvolving
from noeira.codegen.kernels.winograd.matrices import POINTS, Matrix, matrices
from noeira.codegen.kernels.winograd.rule import WinogradCut, choose
from noeira.codegen.kernels.winograd.work import applies, pays
from noeira.errors import VerifyError
from noeira.ir.body import Body, body_of
from noeira.ir.builder import Builder
from noeira.ir.fused import close
from noeira.ir.geometry import Geometry
from noeira.ir.plan import Choice, Stage

TAPS = (3, 3)
BOTH = pytest.mark.parametrize("tile", [4, 2])
ON_EACH = pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)

pytestmark = pytest.mark.ops(*NAMES)

# Ragged in both axes or none, smaller than a tile, of any padding, one channel, vectors that are
# not full, several bands and panels.
SHAPES = (
    Shape(2, 16, 32, (8, 8), TAPS, padding=(1, 1)),
    Shape(1, 5, 17, (5, 7), TAPS, padding=(1, 1)),
    Shape(3, 33, 20, (4, 9), TAPS, padding=(2, 0)),
    Shape(1, 70, 40, (13, 3), TAPS, padding=(0, 1, 2, 2)),
    Shape(2, 1, 1, (1, 1), TAPS, padding=(1, 1)),
    Shape(1, 19, 130, (6, 11), TAPS),
    Shape(1, 3, 4, (2, 5), TAPS, padding=(3, 0, 0, 4)),
)


def by_winograd(case: Case, isa: ISA, tile: int = 4, **edits: Any) -> Choice:
    """The choice of these kernels for a case, with some options edited."""
    cut = cut_of(case, isa, tile)
    cut = replace(cut, options=replace(cut.options, **edits))
    body, anchor = anchor_of(case, isa)
    return anchor.choice(body, anchor.read(body, cut.stages(), isa), isa)


def anchor_of(case: Case, isa: ISA) -> tuple[Body, CConvolving]:
    """What a case does, and how it is cut."""
    body = body_of(case.node)
    anchor = CTarget(isa).anchor(body)
    assert isinstance(anchor, CConvolving)
    return body, anchor


def cut_of(case: Case, isa: ISA, tile: int = 4) -> WinogradCut:
    """The cut by the rule."""
    body, anchor = anchor_of(case, isa)
    role, geometry, dtype, isa, _ = anchor.given(body, isa)
    return choose(role, geometry, dtype, isa, tile)


def times(matrix: Matrix, vector: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


@pytest.mark.parametrize("tile", list(POINTS))
def test_matrices_make_a_convolution(tile: int) -> None:
    known = matrices(tile)
    taps = [Fraction(n) for n in (2, -7, 5)]
    image = [Fraction((3 * n * n + 1) % 11 - 5) for n in range(tile + 2)]
    at_points = zip(times(known.taps, taps), times(known.image, image), strict=True)
    made = times(known.result, [a * b for a, b in at_points])
    assert made == [sum(taps[k] * image[i + k] for k in range(3)) for i in range(tile)]


@needs_compiler
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@BOTH
@ON_EACH
def test_every_op_at_awkward_sizes(isa: ISA, tile: int, dtype: str) -> None:
    full = isa is runnable()[0] and tile == 4 and dtype == "f32"
    pairs = list(product(SHAPES, NAMES))[:: 1 if full else 2]
    cases = [
        shape.case(name, dtype, tail=number % 2 == 0) for number, (shape, name) in enumerate(pairs)
    ]
    check(cases, isa, [by_winograd(case, isa, tile) for case in cases], full=full)


def edits(name: str) -> Iterator[dict[str, Any]]:
    """Options that a cut of an op may have."""
    if name == "convolution_weight":
        yield from ({"bands": 3, "panels": 2, "rows": 5}, {"panels": 3, "rows": 7})
        yield from ({"parts": 1, "tiles": 3, "rows": 4}, {"parts": 3, "tiles": 2, "split": False})
        return
    for first in (False, True):
        yield from ({"tiles_first": first, "blocks": 3, "panels": 2, "rows": 3},)
        yield from ({"tiles_first": first, "blocks": 1, "panels": 3, "rows": 2, "split": False},)


@needs_compiler
def test_every_cut() -> None:
    isa = runnable()[0]
    cases, choices = list[Case](), list[Choice]()
    for shape, name in product((SHAPES[i] for i in (3, 5)), NAMES):
        for edit in edits(name):
            case = shape.case(name, "f32", tail=len(choices) % 2 == 0)
            try:
                choices.append(by_winograd(case, isa, **edit))
            except VerifyError:
                continue
            cases.append(case)
    assert len(cases) >= 20
    check(cases, isa, choices)


def after_a_head(name: str) -> Case:
    """An op on relu(x · gain + shift), of which the zeros around images know nothing; then · 2."""
    builder = Builder("head")
    image, weight, made = (2, 6, 7, 19), (3, 3, 19, 18), (2, 6, 7, 18)
    other = made if name == "convolution_weight" else weight
    if name == "transposed_convolution":
        image, weight = made, weight
    size = {"transposed_convolution": (6, 7), "convolution_weight": TAPS}.get(name)
    x, operand, gain, shift, two = inputs(builder, image, other, image[-1:], image[-1:], ())
    normal = builder.emit("relu", builder.emit("add", builder.emit("multiply", x, gain), shift))
    attrs: dict[str, Any] = {"padding": (1, 1), "channels_last": True}
    attrs |= {"size": size} if size else {}
    found = builder.emit(winograd_ops.PREFIX + name, normal, operand, **attrs)
    found = builder.emit("multiply", found, two)
    node = close(tuple(builder.nodes), {found.name}, builder.nodes[0].origin)
    return Case(f"{name} after a head", node, draws_of(node))


@needs_compiler
@ON_EACH
def test_element_wise_ops_before_images(isa: ISA) -> None:
    cases = [after_a_head(name) for name in NAMES]
    check(cases, isa)
    check(cases[:1], isa, [by_winograd(cases[0], isa, tiles_first=False)])


def test_what_is_less_is_shared_by_memory() -> None:
    for batch, first in ((1, "tiles"), (32, "weights")):
        shape = Shape(batch, 64, 64, (32, 32), TAPS, padding=(1, 1))
        case = shape.case("convolution", "f32", False)
        assert cut_of(case, AVX512).stages()[0].name == first


def built(cases: list[Case], isa: ISA, tile: int = 4) -> CLibrary:
    """The kernels of cases."""
    choices = tuple(by_winograd(case, isa, tile) for case in cases)
    kernels = CKernels(CTarget(isa), tuple(cases), choices)
    return kernels.built(for_isa(compiler_or_skip(), isa))


def errors(tile: int) -> dict[str, float]:
    """The largest error of each op, relative to the largest result."""
    isa, found = runnable()[0], dict[str, float]()
    for name in NAMES:
        cases = [
            Shape(1, 64, 64, (18, 18), TAPS, padding=(1, 1)).case(name, "f32", False),
            Shape(1, 256, 32, (7, 8), TAPS, padding=(1, 1)).case(name, "f32", False),
        ]
        library = built(cases, isa, tile)
        for case in cases:
            arrays = case.arrays()
            ((made,), (wanted,)) = library.run(case, arrays), reference(case.node, arrays)
            error = float(abs(made - wanted).max() / abs(wanted).max())
            found[name] = max(error, found.get(name, 0))
    return found


@needs_compiler
@pytest.mark.parametrize(("tile", "most"), [(4, 4e-6), (2, 1e-6)])
def test_errors_are_small_beside_the_largest_result(tile: int, most: float) -> None:
    found = errors(tile)
    assert max(found.values()) < most, found


@needs_compiler
def test_a_nan_spreads_over_the_tiles_that_read_it_and_no_further() -> None:
    isa = runnable()[0]
    case = Shape(1, 16, 16, (12, 12), TAPS, padding=(1, 1)).case("convolution", "f32", False)
    library, arrays = built([case], isa), case.arrays()
    arrays[0][0, 5, 3, 2] = np.nan
    bad = np.isnan(library.run(case, arrays)[0]).all(axis=-1)[0]
    rows, columns = np.nonzero(bad)
    # Row 5 is read by the tiles of rows 4 to 7 alone, column 3 by those of columns 0 to 7.
    assert (rows.min(), rows.max(), columns.min()) == (4, 7, 0) and columns.max() < 8
    assert bad[4:8, 0:4].all() and bad[4:7, 4].all()


def test_it_pays_for_many_channels_and_pixels_of_f32() -> None:
    def paying(dtype: str = "f32", **edit: Any) -> bool:
        shape = replace(Shape(8, 16, 16, (16, 16), TAPS, padding=(1, 1)), **edit)
        return pays(geometry(shape), dtype)

    assert paying() and paying(batch=1) and paying(size=(7, 7))
    assert not any((paying(dtype="f64"), paying(channels=3), paying(filters=8)))
    assert not any((paying(stride=(2, 2)), paying(kernel=(1, 1)), paying(groups=2)))
    assert not any((paying(size=(2, 2)), paying(batch=1, size=(4, 4))))
    assert applies(geometry(SHAPES[1]), "f64") and not applies(geometry(SHAPES[1]), "bf16")


def geometry(shape: Shape) -> Geometry:
    """The numbers of a convolution."""
    body, anchor = anchor_of(shape.case("convolution", "f32", False), AVX512)
    return anchor.given(body, AVX512)[1]


@pytest.mark.parametrize("isa", ISAS.values(), ids=list(ISAS))
def test_cuts_fit_the_machine(isa: ISA) -> None:
    sides, channels = ((1, 1), (7, 9), (56, 56)), (1, 17, 64, 512, 2050)
    for batch, size, c, f in product((1, 33), sides, channels, channels):
        shape = Shape(batch, c, f, size, TAPS, padding=(1, 1))
        for name, dtype in product(NAMES, ("f32", "f64")):
            case = shape.case(name, dtype, False)
            body, anchor = anchor_of(case, isa)
            for tile in (2, 4):
                cut = cut_of(case, isa, tile)
                assert anchor.read(body, cut.stages(), isa) == cut
                tiles = cut.products.tiles
                assert max((rows + 1) * vectors for rows, vectors in tiles) < isa.registers


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("convolution", {"blocks": 999}, "blocks must be a whole number from 1 to 4"),
        ("convolution", {"panels": 9}, "panels must be a whole number from 1 to 2"),
        ("convolution_weight", {"bands": 9}, "bands must be a whole number of at most 1"),
        ("convolution_weight", {"parts": 2}, "tiles are those of a part: give both, or neither"),
        ("convolution", {"tile": 3}, "tile must be a power of two from 2 to 4"),
        ("convolution", {"split": False}, "winograd has no option split; it has none"),
    ],
)
def test_edited_cuts_are_refused(name: str, edit: dict[str, Any], message: str) -> None:
    case = replace(SHAPES[0], batch=1).case(name, "f32", False)
    body, anchor = anchor_of(case, AVX512)
    first, *rest = cut_of(case, AVX512).stages()
    edited = Stage(first.name, tuple((dict(first.options) | edit).items()))
    with pytest.raises(VerifyError, match=message):
        anchor.read(body, (edited, *rest), AVX512)


def test_a_block_too_large_for_a_stack_is_refused() -> None:
    shape = Shape(9, 64, 64, (32, 32), TAPS, padding=(1, 1))
    with pytest.raises(VerifyError, match="have room on a stack: more blocks or panels"):
        by_winograd(shape.case("convolution", "f32", False), AVX512, blocks=1)
