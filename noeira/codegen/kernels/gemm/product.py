"""The matrix product that an op says it is, whatever it is cut for."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.ctext import added, plus, times
from noeira.codegen.lower import RESULT, operand_id, tail_code
from noeira.codegen.view import Elementwise
from noeira.errors import VerifyError
from noeira.ir.body import Body, body_of
from noeira.ir.builder import Builder
from noeira.ir.choices import Factor, Problem
from noeira.ir.graph import Node
from noeira.ir.product import Product
from noeira.ir.types import TensorType

# Rows of C that are made of dot products: more would not have room for their sums.
DOT_ROWS = 4


@dataclass(frozen=True)
class Partition:
    """`extent` cut into `count` pieces that differ by at most one, the larger ones first."""

    extent: int
    count: int

    @property
    def size(self) -> int:
        """The size of a larger piece."""
        return -(-self.extent // self.count)

    @property
    def larger(self) -> int:
        """How many pieces have that size; the others are one smaller."""
        return self.extent - self.count * (self.size - 1)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that occur, the larger first."""
        return (self.size,) if self.larger == self.count else (self.size, self.size - 1)

    def pieces(self, size: int) -> int:
        """How many pieces have this one of the `sizes`."""
        return self.larger if size == self.size else self.count - self.larger

    def start(self, index: str, scale: int = 1) -> str:
        """C text for where the piece of that index, a C variable, begins, times a number."""
        if self.larger == self.count:
            return times(index, self.size * scale)
        larger = f"({index} < {self.larger} ? {index} : {self.larger})"
        return times(f"({plus(times(index, self.size - 1), larger)})", scale)

    def length(self, index: str) -> str:
        """C text for the size of the piece of that index."""
        if self.larger == self.count:
            return str(self.size)
        return f"({index} < {self.larger} ? {self.size} : {self.size - 1})"


@dataclass(frozen=True)
class Gemm:
    """C[m, n] = op(a)[m, k] @ op(b)[k, n], all row major.

    A transposed operand is stored [k, m] or [n, k]. `a` and `b` are operand ids, `result` is the
    name that the kernel's tail has for an element of C. `partial` is an output of shape [m, n] in
    the GEMM's dtype: it holds the sums between blocks of k. Without one the scratch does.
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    result: str
    transpose_a: bool = False
    transpose_b: bool = False
    partial: str | None = None

    @property
    def size(self) -> int:
        """Elements of C."""
        return self.m * self.n

    @property
    def last_column(self) -> int:
        """The number of the last column of C."""
        return self.n - 1

    @property
    def a_row(self) -> int:
        """Elements of `a` between rows of op(a)."""
        return 1 if self.transpose_a else self.k

    @property
    def a_step(self) -> int:
        """Elements of `a` between steps of k."""
        return self.m if self.transpose_a else 1

    @property
    def b_column(self) -> int:
        """Elements of `b` between columns of op(b)."""
        return self.k if self.transpose_b else 1

    @property
    def b_step(self) -> int:
        """Elements of `b` between steps of k."""
        return 1 if self.transpose_b else self.n

    def a_offset(self, rows: int) -> int:
        """Elements of `a` to so many rows of op(A) further."""
        return rows * self.a_row

    def dot_products(self, row_tiles: Partition) -> bool:
        """Whether elements can be dot products of rows of A and of B: their elements are contiguous
        and so few that their sums have room in registers.
        """
        return self.transpose_b and self.a_step == 1 and row_tiles.size <= DOT_ROWS

    def a_place(self, row: str, k: str) -> str:
        """C text for the address of op(a)[row, k]; an empty name stands for 0."""
        return self.a + place(row, self.a_row) + place(k, self.a_step)

    def b_place(self, k: str, column: str) -> str:
        """C text for the address of op(b)[k, column]."""
        return self.b + place(k, self.b_step) + place(column, self.b_column)

    @property
    def formula(self) -> str:
        """The product as one writes it: `C[100, 784] = a0[100, 256] @ transpose(a1[784, 256])`."""
        a, b = f"{self.a}[{self.m}, {self.k}]", f"{self.b}[{self.k}, {self.n}]"
        if self.transpose_a:
            a = f"transpose({self.a}[{self.k}, {self.m}])"
        if self.transpose_b:
            b = f"transpose({self.b}[{self.n}, {self.k}])"
        return f"C[{self.m}, {self.n}] = {a} @ {b}"


def place(index: str, factor: int) -> str:
    """What is added to an address for an index, a C variable or "" for 0."""
    return added(times(index or "0", factor))


def product_of(node: Node) -> Product:
    """The product that a node says it is. Raises VerifyError for one that the kernel cannot do."""
    product = node.op.product(node.attrs, *node.types)
    if fault := fault_of(node, product):
        raise VerifyError(f"{node.op.name}: {fault}")
    return product


def fault_of(node: Node, product: Product) -> str:
    """Why the kernel cannot do what a node says it is; empty if it can."""
    op, result = node.op, node.outputs[0].type
    given = {name: v.type for name, v in zip(node.operands, node.inputs, strict=True)}
    if op.takes != {"tail"}:
        return (
            "the kernel gemm does the element-wise ops after a product, and none before it: "
            'write takes = frozenset({"tail"})'
        )
    if product.batch != 1:
        return (
            f"a batch of {product.batch} products is none that the kernel gemm does: "
            "give the op a template of its own"
        )
    types = f"{', '.join(f'{name} {type}' for name, type in given.items())} -> {result}"
    if {name: type.size for name, type in given.items()} != product.operands:
        sizes = ", ".join(f"{size} of {name}" for name, size in product.operands.items())
        return f"its product reads {sizes}, and nothing else; the op is {types}"
    if result.size != product.size:
        return f"its product has {product.size} elements; the op is {types}"
    dtypes = {type.dtype for type in (*given.values(), result)}
    return "" if len(dtypes) == 1 else f"a product is of one dtype; the op is {types}"


def gemm_of(body: Body) -> Gemm:
    """The product of a contraction; its first result holds the sums between blocks of k."""
    assert body.anchor is not None
    anchor, product = body.anchor, product_of(body.anchor)
    a, b = (operand_id(body, anchor, place_of(anchor, n)) for n in (product.left, product.right))
    partial = body.targets[0] if body.outputs[0].type.dtype == dtype_of(body) else None
    turned = product.transpose_left, product.transpose_right
    return Gemm(product.m, product.n, product.k, a, b, RESULT, *turned, partial)


def place_of(node: Node, name: str) -> int:
    """The position of an operand among those that are given."""
    return node.operands.index(name)


def dtype_of(body: Body) -> str:
    """The dtype that a contraction sums in."""
    assert body.anchor is not None
    return body.anchor.outputs[0].type.dtype


def gemm_tail(body: Body) -> Elementwise:
    """The code after a contraction; a bias is added first."""
    assert body.anchor is not None
    bias = product_of(body.anchor).bias
    return tail_code(body, bias=place_of(body.anchor, bias) if bias else None)


def gemm_problem(body: Body, target: str) -> Problem:
    """The problem that a contraction is, its operands as they are stored."""
    gemm, dtype = gemm_of(body), dtype_of(body)
    a = (gemm.k, gemm.m) if gemm.transpose_a else (gemm.m, gemm.k)
    b = (gemm.n, gemm.k) if gemm.transpose_b else (gemm.k, gemm.n)
    factors = (
        Factor(TensorType(dtype, a), gemm.transpose_a),
        Factor(TensorType(dtype, b), gemm.transpose_b),
    )
    return Problem("gemm", factors, target)


def problem_body(problem: Problem) -> Body:
    """The product that a problem is. Raises VerifyError if it is no product of matrices."""
    shapes = [factor.type.shape for factor in problem.factors]
    dtypes = {factor.type.dtype for factor in problem.factors}
    if len(shapes) != 2 or any(len(shape) != 2 for shape in shapes):
        raise VerifyError(f"{problem.product}: expected two matrices, such as f32[100, 784]")
    if len(dtypes) != 1 or not dtypes <= {"f32", "f64"}:
        raise VerifyError(f"{problem.product}: expected two matrices of f32, or two of f64")
    (_, k), (rows, _) = (
        shape[::-1] if factor.transposed else shape
        for shape, factor in zip(shapes, problem.factors, strict=True)
    )
    if problem.options:
        names = ", ".join(name for name, _ in problem.options)
        raise VerifyError(
            f"{problem.product}: a product of matrices has no options, such as {names}"
        )
    if k != rows:
        raise VerifyError(f"{problem.product}: {k} columns do not fit {rows} rows")
    builder = Builder("problem")
    a, b = (builder.input(f"v{i}", factor.type) for i, factor in enumerate(problem.factors))
    transposed = (factor.transposed for factor in problem.factors)
    attrs = dict(zip(("transpose_a", "transpose_b"), transposed, strict=True))
    builder.emit("matmul", a, b, **attrs)
    return body_of(builder.nodes[0])
