"""Products of matrices by ops of one's own, which say what they are to noeira's kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType

import pytest
from sweep import assert_agrees, sample_case
from sweep_units import C_SPLIT, CUDA, CUDA_TURNS, C, Variant, all_ways, built

from noeira.codegen.targets import target_named
from noeira.errors import VerifyError
from noeira.ir.op import op
from noeira.ir.product import Product
from noeira.ir.samples import drawn

Define = Callable[[str], ModuleType]
# A layer whose bias, if there is one, stands first; its weight is the transposed left operand.
OWN = """
from dataclasses import dataclass
from noeira.ir import graph
from noeira.ir.op import Op
from noeira.ir.ops.contraction import Contraction
from noeira.ir.product import Product
from noeira.ir.types import TensorType

@dataclass(frozen=True)
class TurnedAttrs(graph.Attrs):
    biased: bool = True

class Turned(Contraction):
    name, operands, Attrs = "turned_linear", ("bias", "x", "weight"), TurnedAttrs

    def given_operands(self, attrs):
        return self.operands if attrs.biased else self.operands[1:]

    def infer(self, attrs, bias, x, weight):
        return (TensorType(x.dtype, (weight.shape[1], x.shape[-1])),)

    def reference(self, attrs, bias, x, weight):
        product = weight.T @ x.reshape(-1, x.shape[-1])
        return (product if bias is None else product + bias,)

    def product(self, attrs, bias, x, weight):
        k, m = weight.shape
        turned = dict(transpose_left=True, bias="bias" if bias else "")
        return Product(m, x.shape[-1], k, "weight", "x", **turned)
"""


@pytest.mark.parametrize("variant", [C, C_SPLIT, CUDA, CUDA_TURNS], ids=str)
def test_an_op_says_which_product_it_is(define: Define, variant: Variant) -> None:
    define(OWN)
    shapes = [((5,), (2, 3, 5), (6, 4)), ((1,), (9, 1), (9, 1)), ((33,), (40, 33), (40, 17))]
    cases = [sample_case(op("turned_linear"), drawn(*three)) for three in shapes]
    bare = drawn(*shapes[0][1:], attrs={"biased": False})
    cases.append(sample_case(op("turned_linear"), bare))
    library = built(cases, variant)
    for case in cases:
        arrays = case.arrays()
        assert_agrees(case, all_ways(library, case, arrays), arrays)
    assert op("turned_linear").flops(None, *(d.type for d in cases[0].draws)) == 20 * (2 * 6 + 1)


# The class of an op, the shapes of its operands, and what is said of it.
REFUSED = {
    "no product": (
        """class Own(Op):
    name, kind, template = "own", "contraction", "gemm"
    operands, takes = ("a", "b"), frozenset({"tail"})""",
        "own: no product of matrices: define `product` in Own",
    ),
    "a factor": (
        """class Own(Contraction):
    name, operands = "own", ("a", "b", "scale")

    def product(self, attrs, a, b, scale):
        return Product(3, 5, 4, "a", "b")""",
        "own: its product reads 12 of a, 20 of b, and nothing else; the op is a f32[3, 4], "
        "b f32[4, 5], scale f32[] -> f32[3, 5]",
    ),
    "a batch": (
        """class Own(Contraction):
    name, operands = "own", ("a", "b")

    def product(self, attrs, a, b):
        return Product(3, 5, 4, "a", "b", batch=2)""",
        "own: a batch of 2 products is none that the kernel gemm does: give the op a template",
    ),
    "a head": (
        """class Own(Contraction):
    name, operands, takes = "own", ("a", "b"), frozenset({"head", "tail"})

    def product(self, attrs, a, b):
        return Product(3, 5, 4, "a", "b")""",
        "own: the kernel gemm does the element-wise ops after a product, and none before it",
    ),
    "another size": (
        """class Own(Contraction):
    name, operands = "own", ("a", "b")

    def product(self, attrs, a, b):
        return Product(4, 4, 3, "a", "b")""",
        "own: its product reads 12 of a, 12 of b, and nothing else; the op is a f32[3, 4], "
        "b f32[4, 5] -> f32[3, 5]",
    ),
    "another dtype": (
        """class Own(Contraction):
    name, operands = "own", ("a", "b")

    def infer(self, attrs, a, b):
        return (TensorType("f64", (3, 5)),)

    def product(self, attrs, a, b):
        return Product(3, 5, 4, "a", "b")""",
        "own: a product is of one dtype; the op is a f32[3, 4], b f32[4, 5] -> f64[3, 5]",
    ),
}
INFER = """

    def infer(self, attrs, *types):
        return (TensorType("f32", (3, 5)),)
"""


@pytest.mark.parametrize("target", ["c avx2", "cuda sm_80"])
@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_the_kernel_cannot_do(define: Define, target: str, text: str, said: str) -> None:
    define(OWN.split("@dataclass")[0] + text + (INFER if "infer" not in text else ""))
    rule = op("own")
    shapes = ((3, 4), (4, 5), ())[: len(rule.operands)]
    node = sample_case(rule, drawn(*shapes)).node
    with pytest.raises(VerifyError, match=re.escape(said)):
        target_named(target).choose(node)


def test_ops_of_noeira_say_which_products_they_are() -> None:
    def product(name: str, *shapes: tuple[int, ...], **attrs: bool) -> Product:
        node = sample_case(op(name), drawn(*shapes, attrs=attrs)).node
        return node.op.product(node.attrs, *(v.type for v in node.inputs))

    assert product("linear", (2, 3, 4), (4, 5), (5,)) == Product(
        6, 5, 4, "x", "weight", bias="bias"
    )
    assert product("matmul", (2, 3, 4), (2, 3, 5), transpose_a=True) == Product(
        4, 5, 6, "a", "b", transpose_left=True
    )
    assert product("matmul", (3, 4), (5, 4), transpose_b=True).flops == 2 * 3 * 4 * 5
