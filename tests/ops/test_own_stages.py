"""A kernel outside noeira whose head is a stage of its own, and whose tail stands in the next."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from needs import needs_compiler

import noeira
from noeira.codegen.anchor import ANCHORS
from noeira.ir.op import OPS
from noeira.nn import MSE, Fused, LeakyReLU, Linear, Module, Residual, Sequential

OWN = '''
from noeira.codegen.anchor import rows_operand
from noeira.codegen.c.anchor import CAnchor, SplitCut
from noeira.codegen.cuda.anchor import CudaAnchor
from noeira.codegen.scratch import Room
from noeira.ir.op import Op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.plan import Stage
from noeira.ir.scalar import call, select, var
from noeira.nn import Module, Param
from noeira.ir.random import constant


class Mirrored(Op):
    """x + x backwards along the rows, its own gradient"""

    name, kind, operands = "mirrored", "contraction", ("x",)
    takes = frozenset({"head", "tail"})

    def infer(self, attrs, x):
        return (x,)

    def reference(self, attrs, x):
        return (x + x[..., ::-1],)

    def vjp(self, attrs, back):
        return {"x": back.emit("mirrored", back.cotangent)}


class TwoStages:
    apart = True

    def stages(self, body, cut, machine):
        (stage,) = super().stages(body, cut, machine)
        return Stage("head", stage.options), Stage("rows", stage.options)

    def read(self, body, stages, machine):
        return self.rule(body, machine)

    def scratch(self, body, cut):
        type = rows_operand(body).type
        return (Room("made", type.dtype, type.size),)


class C(TwoStages, CAnchor):
    stem = "mirrored"


class Cuda(TwoStages, CudaAnchor):
    stem = "mirrored"


class Noise(Elementwise):
    name, operands = "some_noise", ("x", "seed", "tick", "stream")
    numbers = ("seed", "tick", "stream")

    def expression(self, attrs):
        drawn = call("uniform", var("seed"), var("tick"), var("stream"))
        return select(call("lt", drawn, 0.25), 0, var("x"))


class Mirror(Module):
    signature = "(*, D) -> (*, D)"

    @classmethod
    def trace(cls, scope, x):
        return scope.emit("mirrored", x)


class Noisy(Module):
    signature = "(*) -> (*)"

    @classmethod
    def trace(cls, scope, x):
        return scope.emit("some_noise", x, *scope.random()) if scope.phase == "train" else x


class Scaled(Module):
    factor = Param("1", init=constant(0.75))
    signature = "(*) -> (*)"

    @classmethod
    def trace(cls, scope, x):
        return scope.emit("multiply", x, scope.param("factor"))
'''
C = """{# A stage for the head, one for the rows. #}
{% from "macros.c.j2" import function, constants, elementwise, each_vector %}
{% set g, f, t, made = k.view, k.functions, k.view.dtype, k.scratch.made %}
{% call function(k, f[0]) %}
    {{ constants(k.head) }}
{% call(part, count) each_vector(g, f[0], k.head) %}
    {{ elementwise(k.head, g, part, count) }}
    store_{{ t }}{{ part }}({{ made }} + index, {{ k.head.result }}{{ count }});
{% endcall %}
{% endcall %}

{% call function(k, f[1]) %}
    {{ constants(k.tail) }}
{% call(part, count) each_vector(g, f[1], k.tail) %}
    {{ t }}v r0 = load_{{ t }}{{ part }}({{ made }} + index{{ count }});
    for (long lane = 0; lane < {{ g.part if part else g.lanes }}; lane++)
        r0[lane] += {{ made }}[row * {{ g.columns }} + {{ g.columns - 1 }} - column - lane];
    {{ elementwise(k.tail, g, part, count) }}
{% endcall %}
{% endcall %}
"""
CUDA = """{# A stage for the head, one for the rows. #}
{% from "macros.cu.j2" import function, constants, each, element %}
{% set g, f, t, made = k.view, k.functions, k.view.dtype, k.scratch.made %}
{% call function(k, f[0]) %}
    {{ constants(k.head) }}
{% call each(g.size, f[0], "index") %}
    {{ element(k.head, g.subscript) }}
    {{ made }}[index] = {{ k.head.result }};
{% endcall %}
{% endcall %}

{% call function(k, f[1]) %}
    {{ constants(k.tail) }}
{% call each(g.size, f[1], "index") %}
    const int row = index / {{ g.columns }}, column = index % {{ g.columns }};
    const int other = row * {{ g.columns }} + {{ g.columns - 1 }} - column;
    {{ t }}v r0 = {{ made }}[index] + {{ made }}[other];
    {{ element(k.tail, g.subscript) }}
{% endcall %}
{% endcall %}
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ModuleType]:
    """The module; what it defines goes away."""
    file = tmp_path / "own_stages.py"
    for name, text in ((file.name, OWN), ("mirrored.c.j2", C), ("mirrored.cu.j2", CUDA)):
        (tmp_path / name).write_text(text)
    spec = importlib.util.spec_from_file_location("own_stages", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_stages"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["own_stages"]
    for name in [name for name in OPS if name in ("mirrored", "some_noise")]:
        del OPS[name]
    for key in [key for key in ANCHORS if key[0] == "mirrored"]:
        del ANCHORS[key]


def network(own: ModuleType) -> type[Module]:
    """Heads and tails of the same constants, random numbers and operands; a tail that reads the
    head's value.
    """
    mirror, noisy, scaled = own.Mirror, own.Noisy, own.Scaled
    return Sequential[
        Linear[4, 19],
        Fused[LeakyReLU, mirror, LeakyReLU],
        Fused[noisy, mirror, noisy],
        Fused[scaled, mirror, scaled],
        Fused[noisy, LeakyReLU, Residual[mirror], LeakyReLU],
        Linear[19, 2],
    ]


@needs_compiler
@pytest.mark.parametrize("target", ["cpu", "cuda-cpu"])
def test_a_tail_apart_from_its_head_stands_by_itself(own: ModuleType, target: str) -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((5, 4)), random.standard_normal((5, 2))
    programs = [
        noeira.compile(network(own), loss=MSE, batch=5, dtype="f64", seed=1, target=t)
        for t in (target, "reference")
    ]
    losses = [program.gradients(x, y) for program in programs]
    np.testing.assert_allclose(*losses, rtol=1e-12)
    gradients = [program.store.arrays["gradients"] for program in programs]
    np.testing.assert_allclose(*gradients, rtol=1e-9, atol=1e-12)
