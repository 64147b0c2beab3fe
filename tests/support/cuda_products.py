"""What the tests of CUDA products share: a product cut in some way, its kernel, a chain of fma."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from cuda_sweep import TARGET, launch_stages
from guarded import guarded
from sweep import TOLERANCE

from noeira.codegen.cuda.prelude import device_prelude
from noeira.codegen.cuda.rows import CudaFunction
from noeira.codegen.definitions import identifiers
from noeira.codegen.environment import template
from noeira.codegen.kernels.gemm.cuda_cut import CudaGemmCut, cuda_gemm_cut, gemm_launches
from noeira.codegen.kernels.gemm.product import Gemm
from noeira.codegen.layout import laid_out
from noeira.codegen.scratch import bytes_of, scratch_arrays
from noeira.codegen.view import Elementwise, Kernel, Operand, Store
from noeira.ir.plan import Stage
from noeira.runtime.cuda_cpu.module import CudaCpuModule, Region
from noeira.runtime.cuda_cpu.shared_library import build

NUMPY = {"f32": np.float32, "f64": np.float64}
TRANSPOSES = tuple(product((False, True), repeat=2))
ORDERS = (("forward", 0), ("reverse", 0), ("random", 1))


@dataclass(frozen=True)
class Product:
    """A product cut in some way, and the kernel that makes it."""

    cut: CudaGemmCut
    symbol: str = "gemm"

    @property
    def gemm(self) -> Gemm:
        return self.cut.gemm

    @property
    def stages(self) -> tuple[Stage, ...]:
        return gemm_launches(self.cut)

    @property
    def names(self) -> list[str]:
        """The functions of the stages."""
        alone = len(self.stages) == 1
        return [self.symbol if alone else f"{self.symbol}_{one.name}" for one in self.stages]

    def arrays(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Operands, as they are stored."""
        g, random = self.gemm, np.random.default_rng(seed)
        a = (g.k, g.m) if g.transpose_a else (g.m, g.k)
        b = (g.n, g.k) if g.transpose_b else (g.k, g.n)
        dtype = NUMPY[self.cut.dtype]
        return random.standard_normal(a).astype(dtype), random.standard_normal(b).astype(dtype)

    def text(self) -> str:
        """The kernel, and beside it one that takes an element a thread: the chain of fma."""
        g, dtype, ctype = self.gemm, self.cut.dtype, self.cut.ctype
        cut = cuda_gemm_cut(g, self.stages, dtype, TARGET.machine)
        pairs = zip(self.names, self.stages, strict=True)
        functions = tuple(CudaFunction(name, dict(stage.options)) for name, stage in pairs)
        shapes = (("a0", g.m * g.k), ("a1", g.k * g.n), ("y0", g.m * g.n))
        a0, a1, y0 = (Operand(name, ctype, dtype, (size,), size) for name, size in shapes)
        tail = Elementwise(dtype, stores=(Store("y0", g.result, dtype),))
        none = Elementwise(dtype)
        scratch = scratch_arrays(cut.scratch, 0)
        view = Kernel(
            self.symbol, (a0, a1), (y0,), None, none, tail, functions, cut, g, scratch=scratch
        )
        splits = self.cut.pieces
        starts = [splits.start(str(i)) for i in range(splits.count)]
        a = f"a[row * {g.a_row} + k * {g.a_step}]"
        b = f"b[k * {g.b_step} + column * {g.b_column}]"
        chain = f"""
extern "C" __global__ void {self.symbol}_chain(const {ctype} *a, const {ctype} *b, {ctype} *c) {{
    const int starts[] = {{{", ".join(f"({s}) * {self.cut.depth}" for s in starts)}, {g.k}}};
    const int row = blockIdx.x, column = threadIdx.x;
    {ctype} total = 0;
    for (int piece = 0; piece < {splits.count}; piece++) {{
        {ctype} sum = 0;
        for (int k = starts[piece]; k < starts[piece + 1]; k++)
            sum = fma_{dtype}({a}, {b}, sum);
        total = piece ? total + sum : sum;
    }}
    c[row * {g.n} + column] = total;
}}
"""
        return laid_out(template("kernels/gemm/gemm.cu.j2").render(k=view)) + chain


def numbered(cuts: Sequence[CudaGemmCut]) -> tuple[Product, ...]:
    """Products with names of their own."""
    return tuple(Product(cut, f"gemm_{number}") for number, cut in enumerate(cuts))


def built(products: Sequence[Product], folder: Path, check: bool = False) -> CudaCpuModule:
    """The kernels in one unit."""
    folder.mkdir()
    body = "\n".join(one.text() for one in products)
    return CudaCpuModule(build(device_prelude(identifiers(body)) + body, folder, check))


def run(
    unit: CudaCpuModule, one: Product, order: str = "forward", seed: int = 0, check: bool = False
) -> np.ndarray:
    """C, from guarded operands. Raises KernelFault."""
    g, cut = one.gemm, one.cut
    a, b = (guarded(array, 64) for array in one.arrays())
    c = guarded(np.full((g.m, g.n), np.nan, NUMPY[cut.dtype]), 64)
    size = bytes_of(cut.scratch)
    workspace = guarded(np.full(-(-size // 64) * 64, 0xFF, "u1"), 64)
    space = workspace.ctypes.data if size else 0
    regions = [Region(x.ctypes.data, x.nbytes, n, True, False) for x, n in ((a, "a0"), (b, "a1"))]
    regions.append(Region(c.ctypes.data, c.nbytes, "y0", False, True, c.itemsize))
    if size:
        regions.append(Region(space, size, "workspace", False, True, c.itemsize))
    pointers = [space, a.ctypes.data, b.ctypes.data, c.ctypes.data]
    launch_stages(unit, one.names, one.stages, pointers, order, seed, regions if check else ())
    if check:
        assert not regions[2].never_written(), one.gemm.formula
    return c


def chain(unit: CudaCpuModule, one: Product) -> np.ndarray:
    """C by one chain of fma for each element, or for each of its pieces."""
    a, b = one.arrays()
    c = np.empty((one.gemm.m, one.gemm.n), NUMPY[one.cut.dtype])
    pointers = [array.ctypes.data for array in (a, b, c)]
    unit.launch(f"{one.symbol}_chain", one.gemm.m, one.gemm.n, 0, pointers)
    return c


def check_products(
    products: Sequence[Product], folder: Path, orders: Sequence[tuple[str, int]] = ORDERS
) -> None:
    """Every product: the bits of the chain in every order, the float64 product, no fault."""
    unit, checked = built(products, folder / "plain"), built(products, folder / "check", True)
    for one in products:
        what = f"{one.gemm.formula} {one.cut.dtype} {one.stages[0]}"
        a, b = (x.astype("f8") for x in one.arrays())
        a, b = (
            x.T if turned else x
            for x, turned in ((a, one.gemm.transpose_a), (b, one.gemm.transpose_b))
        )
        expected = chain(unit, one)
        limit = TOLERANCE[one.cut.dtype] * np.maximum(abs(a) @ abs(b), 1)
        assert np.all(abs(expected - a @ b) <= limit), what
        for order, seed in orders:
            found = run(unit, one, order, seed)
            assert found.tobytes() == expected.tobytes(), f"{what} {order}"
        assert run(checked, one, check=True).tobytes() == expected.tobytes(), what


def gemm_of_shape(m: int, n: int, k: int, transposes: tuple[bool, bool] = (False, False)) -> Gemm:
    return Gemm(m, n, k, "a0", "a1", "r0", *transposes)
