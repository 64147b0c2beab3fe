"""The kernel of matrix products in C: every size, transpose and cut, on every vector unit."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from c_sweep import CKernels, compiler_or_skip, for_isa
from fused_cases import draws_of, inputs
from sweep import Case, assert_agrees, same_bits
from vector_units import runnable

from noeira.codegen.c.isa import AVX2, AVX512, ISA, ISAS
from noeira.codegen.c.target import CTarget
from noeira.codegen.kernels.gemm.c_cut import GemmCut, gemm_scratch
from noeira.codegen.kernels.gemm.c_rule import choose_gemm
from noeira.codegen.kernels.gemm.product import DOT_ROWS, Gemm, Partition, gemm_of
from noeira.codegen.scratch import Room
from noeira.ir.arrays import rounded
from noeira.ir.body import body_of
from noeira.ir.builder import Builder
from noeira.ir.fused import close
from noeira.ir.plan import Choice

SIZES = (1, 7, 16, 17, 33, 100, 127, 257)
# Beside what the sweeps try, more threads than there are tiles.
MANY_THREADS = 1000, False

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.ops("matmul", "linear"),
]


@dataclass(frozen=True)
class Product:
    """A product to build: y1 = relu(product * factor + bias), y0 = y1 + residual with a tail, which
    then may end in 16 bits, so that no result has room for its sums. Without a cut the rule's.
    """

    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    tail: bool = False
    narrowed: bool = False
    cut: GemmCut | None = None

    def case(self, dtype: str) -> Case:
        """The node, and its operands."""
        builder = Builder("product")
        a = (self.k, self.m) if self.transpose_a else (self.m, self.k)
        b = (self.n, self.k) if self.transpose_b else (self.k, self.n)
        shapes = ((), (self.n,), (self.m, self.n))[: 3 * self.tail]
        left, right, *others = inputs(builder, a, b, *shapes, dtype=dtype)
        turned: dict[str, Any] = {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b}
        found = builder.emit("matmul", left, right, **turned)
        outputs = {found.name}
        if self.tail:
            factor, bias, residual = others
            scaled = builder.emit("add", builder.emit("multiply", found, factor), bias)
            active = builder.emit("relu", scaled)
            found = builder.emit("add", active, residual)
            outputs = {active.name, found.name}
        if self.narrowed:
            outputs = {builder.emit("cast", found, dtype="bf16").name}
        body = tuple(builder.nodes)
        node = close(body, outputs, body[0].origin) if len(body) > 1 else body[0]
        return Case(str(self), node, draws_of(node))

    def choice(self, case: Case, target: CTarget) -> Choice:
        """The stages of its kernel."""
        if self.cut is None:
            return target.choose(case.node)
        body = body_of(case.node)
        return target.anchor(body).choice(body, self.cut, target.machine)


def check(products: Sequence[Product], dtype: str, isa: ISA) -> list[list[np.ndarray]]:
    """The results of products, which must be right, and the same for any number of threads. What is
    right of those that are narrowed the caller knows.
    """
    target, compiler = CTarget(isa), for_isa(compiler_or_skip(), isa)
    cases = [one.case(dtype) for one in products]
    pairs = zip(products, cases, strict=True)
    choices = tuple(one.choice(case, target) for one, case in pairs)
    library = CKernels(target, tuple(cases), choices).built(compiler)
    found = list[list[np.ndarray]]()
    for one, case in zip(products, cases, strict=True):
        arrays = case.arrays()
        runs = (library.run(case, arrays, way) for way in (*library.ways, MANY_THREADS))
        found.append(same_bits(case, runs, "the number of threads"))
        if not one.narrowed:
            assert_agrees(case, found[-1], arrays)
    return found


def by_rule(m: int, n: int, k: int, isa: ISA, *, transpose_b: bool = False) -> GemmCut:
    """What the rule chooses for f32."""
    return choose_gemm(Gemm(m, n, k, "a0", "a1", "r0", transpose_b=transpose_b), "f32", isa)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)
def test_every_size_and_transpose(isa: ISA, dtype: str) -> None:
    products = list[Product]()
    for number, m in enumerate(SIZES):
        for turn in range(4):
            n, k = SIZES[(number * 3 + turn) % 8], SIZES[(number * 5 + 3 * turn + 1) % 8]
            tail = (number + turn) % 2 == 0
            products.append(Product(m, n, k, turn == 1, turn > 1, tail))
    check(products, dtype, isa)


@pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)
def test_several_blocks_of_k(isa: ISA) -> None:
    products = list[Product]()
    for m, n in ((100, 90), (1, 90), (3, 257)):
        for transpose_b in (False, True):
            cut = by_rule(m, n, 900, isa, transpose_b=transpose_b)
            cut = replace(cut, blocks=Partition(900, 7), pack_b=transpose_b)
            several = Product(m, n, 900, transpose_b=transpose_b, cut=cut)
            followed = replace(several, tail=True)
            products += [several, followed, replace(followed, narrowed=True)]
    found = check(products, "f32", isa)
    for (_, wide), (narrow,) in zip(found[1::3], found[2::3], strict=True):
        assert narrow.tobytes() == rounded(wide, "bf16").tobytes()


def test_large_shape() -> None:
    large = Product(300, 1000, 900)
    check([large, replace(large, transpose_b=True, tail=True)], "f32", runnable()[0])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)
def test_dot_products(isa: ISA, dtype: str) -> None:
    products, target = list[Product](), CTarget(isa)
    for (m, n), k in product(((1, 1), (1, 257), (2, 100), (3, 33), (4, 7)), (1, 15, 16, 129)):
        products += [Product(m, n, k, transpose_b=True, tail=tail) for tail in (False, m > 1)]
    for one in products:
        body = body_of(one.case(dtype).node)
        assert target.anchor(body).rule(body, isa).dots(gemm_of(body))
    check(products, dtype, isa)


def test_bits_do_not_depend_on_the_choice() -> None:
    isa = runnable()[0]
    lanes = isa.lanes("f32")
    width = -(-150 // lanes)
    halves = Partition(width, -(-width // 2))
    first = GemmCut(
        *(Partition(37, 37), Partition(width, width), Partition(65, 65)),
        *(1, True, False, False, "f32", lanes),
    )
    tiles = replace(first, row_tiles=Partition(37, 13), panels=halves, blocks=Partition(65, 4))
    cuts = (
        *(
            None,
            first,
            replace(first, blocks=Partition(65, 1), group=3, by_rows=False, pack_b=True),
        ),
        *(replace(tiles, group=2, by_rows=False), replace(tiles, pack_b=True)),
    )
    outputs = check([Product(37, 150, 65, cut=cut) for cut in cuts], "f32", isa)
    assert len({output.tobytes() for (output,) in outputs}) == 1


@pytest.mark.parametrize("isa", ISAS.values(), ids=list(ISAS))
def test_choices_fit_the_machine(isa: ISA) -> None:
    sizes = product((1, 2, 3, 6, 7, 33, 100, 1024, 50257), (1, 10, 64, 257, 4096), (1, 784, 4096))
    for (m, n, k), transpose_b in product(sizes, (False, True)):
        gemm = Gemm(m, n, k, "a0", "a1", "r0", transpose_b=transpose_b)
        choice = choose_gemm(gemm, "f32", isa)
        if not choice.dots(gemm):
            assert max((rows + 1) * vectors for rows, vectors in choice.tiles) < isa.registers
        assert choice.row_tiles.extent == m and choice.blocks.extent == k
        assert choice.panels.extent == -(-n // choice.lanes)
        copied = choice.group * choice.copy_size if choice.pack_b else 0
        assert copied * 4 <= 8192 * isa.vector_bytes
        assert choice.pack_b or not transpose_b or m <= DOT_ROWS


def test_choices_are_those_that_measured_well() -> None:
    def tiles(m: int, n: int, k: int, isa: ISA) -> tuple[tuple[int, int], ...]:
        return by_rule(m, n, k, isa).tiles

    assert tiles(100, 256, 784, AVX512) == ((5, 4),)
    assert tiles(1020, 1024, 1024, AVX512) == ((6, 4),)
    assert tiles(1020, 1024, 1024, AVX2) == ((6, 2),)
    assert tiles(1, 256, 784, AVX512) == ((1, 4),)
    assert tiles(100, 10, 128, AVX512) == ((13, 1), (12, 1))


def test_cut() -> None:
    for extent in range(1, 40):
        for count in range(1, extent + 1):
            cut = Partition(extent, count)
            assert sum(size * cut.pieces(size) for size in cut.sizes) == extent
            assert sum(cut.pieces(size) for size in cut.sizes) == count
            assert len(cut.sizes) == 1 or cut.sizes[0] == cut.sizes[1] + 1


def test_places_of_pieces_are_written_without_what_is_known() -> None:
    assert Partition(8, 8).start("panel", 16) == "panel * 16"
    assert Partition(8, 2).start("panel", 16) == "panel * 64"
    assert Partition(3, 3).start("tile") == "tile"
    assert Partition(3, 2).start("tile", 8) == "(tile + (tile < 1 ? tile : 1)) * 8"


def test_workspace_holds_sums_that_no_output_can() -> None:
    gemm = Gemm(300, 1000, 4096, "a0", "a1", "r0", partial="y0")
    inside = replace(gemm, partial=None)
    choice = by_rule(300, 1000, 4096, AVX512)
    assert choice.chained
    assert gemm_scratch(gemm, choice) == ()
    assert gemm_scratch(inside, choice) == (Room("partial", "f32", 300 * 1000),)
    assert gemm_scratch(inside, replace(choice, blocks=Partition(4096, 1))) == ()
    apart = replace(choice, blocks=Partition(4096, 3), apart=True)
    assert gemm_scratch(gemm, apart) == (Room("sums", "f32", 3 * 300 * 1000),)


def test_few_tiles_of_a_long_sum_are_made_apart() -> None:
    def choice(m: int, n: int, k: int) -> GemmCut:
        return by_rule(m, n, k, AVX512)

    assert choice(16, 16, 60000).apart
    assert choice(16, 16, 60000).items >= 16
    assert not choice(16, 16, 400).apart
    assert not choice(1024, 1024, 60000).apart


@pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)
def test_blocks_summed_apart(isa: ISA) -> None:
    products = list[Product]()
    for m, n, k in ((16, 16, 3000), (37, 150, 65), (1, 10, 700), (5, 33, 401)):
        for transpose_a, transpose_b in ((False, False), (True, False), (False, True)):
            cut = by_rule(m, n, k, isa, transpose_b=transpose_b)
            cut = replace(cut, blocks=Partition(k, 5), group=1, by_rows=False, apart=True)
            one = Product(m, n, k, transpose_a, transpose_b, cut=replace(cut, pack_b=transpose_b))
            products += [one, replace(one, tail=m > 1)]
    check(products, "f32", isa)
