"""How kernels are cut that have no class of their own."""

from __future__ import annotations

import pytest

from noeira.codegen.anchor import described
from noeira.codegen.environment import KERNELS
from noeira.codegen.targets import target_named
from noeira.ir.body import body_of
from noeira.ir.builder import Builder
from noeira.ir.graph import Attrs
from noeira.ir.op import Op
from noeira.ir.types import TensorType

LANGUAGES = {"c": "c avx2", "cuda": "cuda sm_80"}


class Reverse(Op):
    """Rows from their ends."""

    name, kind, operands = "default_rows", "row", ("x",)

    def infer(self, attrs: Attrs, x: TensorType) -> tuple[TensorType, ...]:
        return (x,)


class Greatest(Op):
    """The greatest element of rows, and of all."""

    name, kind, totals = "default_totals", "row", True
    operands, results = ("x",), ("", "all")

    def infer(self, attrs: Attrs, x: TensorType) -> tuple[TensorType, ...]:
        return TensorType(x.dtype, x.shape[:-1]), TensorType(x.dtype, ())


class Moved(Op):
    """The same elements."""

    name, operands, moves = "default_moves", ("x",), True

    def infer(self, attrs: Attrs, x: TensorType) -> tuple[TensorType, ...]:
        return (x,)


class Other(Op):
    """The same elements, by arithmetic."""

    name, operands = "default_others", ("x",)

    def infer(self, attrs: Attrs, x: TensorType) -> tuple[TensorType, ...]:
        return (x,)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("role", ["rows", "row_totals", "moves", "others"])
def test_an_op_says_how_its_kernel_is_cut(language: str, role: str) -> None:
    target = target_named(LANGUAGES[language])
    builder = Builder("defaults")
    name = {"row_totals": "default_totals"}.get(role, f"default_{role}")
    builder.emit(name, builder.input("x", TensorType("f32", (4, 10))))
    assert target.anchor(body_of(builder.nodes[0])) is getattr(target.defaults, role)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_class_of_a_kernel_says_what_holds_anyway(language: str) -> None:
    defaults = vars(target_named(LANGUAGES[language]).defaults).values()
    known = {type(one) for one in defaults}
    for path in sorted(KERNELS.glob(f"*/{language}.py")):
        found = type(described(path.parent.name, language))
        own = {name for name in vars(found) if not name.startswith("__")} - {"stem"}
        assert own or not set(found.__bases__) <= known, f"{path}: there is nothing to describe"
