"""Ops of one's own that move elements, which stay neighbours as their class says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sweep import sample_case
from sweep_units import CUDA, CUDA_TURNS, Variant, all_ways, built

from noeira.codegen.kernel import kernel_text
from noeira.codegen.targets import target_named
from noeira.errors import VerifyError
from noeira.ir.op import op
from noeira.ir.plan import Call
from noeira.ir.samples import Sample, drawn

OWN = """
from dataclasses import dataclass
import math
import numpy as np
from noeira.ir import graph
from noeira.ir.op import Op

@dataclass(frozen=True)
class RollAttrs(graph.Attrs):
    shift: int = 1

class Roll(Op):
    name, operands, Attrs, moves, mixes_samples = "roll", ("x",), RollAttrs, True, True

    def infer(self, attrs, x):
        return (x,)

    def reference(self, attrs, x):
        return (np.roll(x, -attrs.shift, -1),)
"""
TOGETHER = """
    def moved_together(self, attrs, x):
        return math.gcd(attrs.shift, x.shape[-1])
"""
TEMPLATE = """{% from "copies.cu.j2" import moved %}
{% set x, y = k.operand.x, k.result.y %}
{% set width, shift = k.cut.pieces(y.columns, y.bytes), k.cut.pieces(k.attrs.shift, y.bytes) %}
{% call(type) moved(k, y.columns) %}
    const int from = (column + {{ shift }}) % {{ width }};
    const {{ type }} value = ((const {{ type }} *){{ x }})[row * {{ width }} + from];
{% endcall %}
"""
SHIFTS = ((8, 1), (8, 2), (16, 4), (7, 3), (16, 8))
Define = Callable[[str], ModuleType]
TARGET = target_named("cuda sm_80")


@pytest.mark.parametrize("together", ["", TOGETHER], ids=["by one", "as many as stay together"])
@pytest.mark.parametrize("variant", [CUDA, CUDA_TURNS], ids=str)
def test_an_offset_of_any_name_is_kept(
    define: Define, tmp_path: Path, variant: Variant, together: str
) -> None:
    define(OWN + together)
    (tmp_path / "roll.cu.j2").write_text(TEMPLATE)
    cases = [sample_case(op("roll"), drawn((5, n), attrs={"shift": by})) for n, by in SHIFTS]
    library = built(cases, variant)
    for case, (_, shift) in zip(cases, SHIFTS, strict=True):
        (x,) = case.arrays()
        (y,) = all_ways(library, case, [x])
        assert np.array_equal(y, np.roll(x, -shift, -1)), case.label


def test_what_a_description_of_movement_allows(define: Define, tmp_path: Path) -> None:
    define(OWN + "\n    def moved_together(self, attrs, x):\n        return 4\n")
    (tmp_path / "roll.cu.j2").write_text(TEMPLATE)
    node = sample_case(op("roll"), drawn((5, 8), attrs={"shift": 2})).node
    said = "accesses of 16 bytes do not fit 2 elements of 4 bytes: `moved_together` of the op"
    with pytest.raises(VerifyError, match=said):
        kernel_text(Call(node, TARGET.choose(node)), TARGET, "k")


# Operands of ops of noeira's, the attributes, and the bytes of an access.
MOVED = (
    ("copy", drawn((3, 7, 4)), 16),
    ("copy", drawn((5, 3)), 4),
    ("concat", drawn((3, 8), (3, 2)), 8),
    ("slice", drawn((3, 8), attrs={"starts": (2,), "lengths": (4,)}), 8),
    ("pad", drawn((3, 8), attrs={"starts": (4,), "lengths": (16,)}), 16),
    ("slice", drawn((3, 6, 8), attrs={"axes": (1,), "starts": (2,), "lengths": (3,)}), 16),
    ("transpose", drawn((3, 5, 6), attrs={"axes": (1, 0, 2)}), 8),
    ("transpose", drawn((3, 7), attrs={"axes": (1, 0)}), 4),
)


@pytest.mark.parametrize(("name", "sample", "access"), MOVED, ids=str)
def test_accesses_are_as_large_as_what_stays_together(
    name: str, sample: Sample, access: int
) -> None:
    (stage,) = TARGET.choose(sample_case(op(name), sample).node).stages
    assert dict(stage.options)["access"] == access
