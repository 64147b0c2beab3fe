"""Ops defined outside noeira, and what is said to a definition that is not right."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from needs import needs_compiler
from samples import of_dtype
from sweep import assert_agrees, sample_case
from sweep_units import C_SPLIT, CUDA_TURNS, Variant, all_ways, built

import noeira
from noeira.ir.op import OPS, op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import Draw, Sample, f32
from noeira.ir.scalar import Expr, call, var

OPS_FILE = '''
import numpy as np

from noeira.errors import ShapeError
from noeira.ir.op import Op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.scalar import var
from noeira.nn import Linear, Module, Sequential


class Cube(Elementwise):
    """x³"""

    name = "cube"

    def expression(self, attrs):
        return var("x") * var("x") * var("x")


class RowReverse(Op):
    """The last axis backwards: its own gradient."""

    name, kind, operands = "row_reverse", "row", ("x",)

    def infer(self, attrs, x):
        if not x.shape:
            raise ShapeError(f"row_reverse: {x} has no axis")
        return (x,)

    def reference(self, attrs, x):
        return (x[..., ::-1].copy(),)

    def vjp(self, attrs, back):
        return {"x": back.emit("row_reverse", back.cotangent)}


class Cubed(Module):
    signature = "(*) -> (*)"

    @classmethod
    def trace(cls, scope, x):
        return scope.emit("cube", x)


class Reversed(Module):
    signature = "(*) -> (*)"

    @classmethod
    def trace(cls, scope, x):
        return scope.emit("row_reverse", x)


Net = Sequential[Linear[3, 5], Cubed, Reversed, Linear[5, 2]]
'''


TEMPLATE = """{% from "macros.c.j2" import function, share %}
{% set g, f = k.view, k.functions[0] %}
{% call function(k, f) %}
    {{ share(g.rows, f) }}
    for (long row = first; row < last; row++)
        for (long i = 0; i < {{ g.columns }}; i++)
            y0[row * {{ g.columns }} + i] = a0[row * {{ g.columns }} + {{ g.columns - 1 }} - i];
{% endcall %}
"""


SCRIPT = """
import numpy as np
import noeira
from noeira.nn import MSE
from own import Net

random = np.random.default_rng(0)
x, y = random.standard_normal((4, 3)), random.standard_normal((4, 2))
programs = [
    noeira.compile(Net, loss=MSE, batch=4, dtype="f64", target=t) for t in ("cpu", "reference")
]
losses = [p.gradients(x, y) for p in programs]
np.testing.assert_allclose(*losses, rtol=1e-12)
grads = [p.store.arrays["gradients"] for p in programs]
np.testing.assert_allclose(*grads, rtol=1e-10, atol=1e-14)
"""


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


@needs_compiler
def test_ops_of_ones_own_file_have_kernels_and_gradients(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OPS_FILE)
    (tmp_path / "script.py").write_text(SCRIPT)
    missing = python(tmp_path, "script.py")
    template = tmp_path / "row_reverse.c.j2"
    assert f"row_reverse has no kernel in C: write {template}" in missing.stderr
    template.write_text(TEMPLATE)
    found = python(tmp_path, "script.py")
    assert found.returncode == 0, found.stderr


@needs_compiler
def test_run_knows_them_when_told_the_file(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OPS_FILE)
    (tmp_path / "row_reverse.c.j2").write_text(TEMPLATE)
    network = ("own.py:Net", "--loss", "MSE", "--batch", "4")
    python(tmp_path, "-m", "noeira", "dump", *network, "--all", "out")
    direct = python(tmp_path, "-m", "noeira", "run", *network)
    assert direct.returncode == 0, direct.stderr
    without = python(tmp_path, "-m", "noeira", "run", "out/00_trace.nir")
    assert without.returncode == 1 and "there is no op called 'cube'" in without.stderr
    stages = [
        path for path in (tmp_path / "out").iterdir() if path.suffix in (".nir", ".plan", ".c")
    ]
    assert len(stages) > 5
    for stage in stages:
        run = python(tmp_path, "-m", "noeira", "run", str(stage), "--import", "own.py")
        assert run.stdout == direct.stdout, run.stderr


def test_a_definition_run_again_takes_effect_at_once() -> None:
    class Layer(noeira.nn.Module):
        signature = "(*) -> (*)"

        @classmethod
        def trace(cls, scope: noeira.nn.Scope, x: object) -> object:
            return scope.emit("stretch", x)  # type: ignore[arg-type]

    for factor in (2.0, 3.0):

        class Stretch(Elementwise):
            name = "stretch"
            factor = 0.0

            def expression(self, attrs: object) -> object:  # type: ignore[override]
                return var("x") * self.factor

        Stretch.factor = factor
        program = noeira.compile(Layer, batch=1, input=(3,))
        assert program.forward(np.ones((1, 3), "f4"))[0, 0] == factor
    OPS.pop("stretch")


def test_slopes_belong_to_the_definition_that_they_are_slopes_of() -> None:
    def define(factor: float) -> type[Elementwise]:
        class Stretch(Elementwise):
            name = "stretch"

            def expression(self, attrs: object) -> object:  # type: ignore[override]
                return var("x") * factor

        return Stretch

    define(2.0)
    first, second = op("stretch.d0"), op("stretch.d0")
    assert first is second and first is op("stretch").slopes[0]
    assert pickle.loads(pickle.dumps(first)) is first
    OPS.pop("stretch")
    define(3.0)
    again = op("stretch.d0")
    assert again is not first and again.base is op("stretch")  # type: ignore[attr-defined]
    assert not [name for name in OPS if "." in name]
    OPS.pop("stretch")
    with pytest.raises(noeira.VerifyError, match="no op called 'stretch'"):
        op("stretch.d0")


@needs_compiler
@pytest.mark.parametrize("variant", [C_SPLIT, CUDA_TURNS], ids=str)
def test_powers_of_elements_have_kernels_and_slopes(variant: Variant) -> None:
    class Power(Elementwise):
        name, operands = "power_of_own_ops", ("x", "p")

        def expression(self, attrs: object) -> Expr:
            return call("pow", var("x"), var("p"))

        def samples(self) -> tuple[Sample, ...]:
            positive = Draw(f32(7, 33), "positive")
            return (Sample((positive, Draw(positive.type))),)

    names = (Power.name, f"{Power.name}.d0", f"{Power.name}.d1")
    cases = [
        sample_case(op(name), sample)
        for name in names
        for dtype in ("f64", "f32")
        for sample in of_dtype(op(name), op(name).samples(), dtype)
    ]
    library = built(cases, variant)
    for case in cases:
        arrays = case.arrays()
        assert_agrees(case, all_ways(library, case, arrays), arrays)
    x, y = (np.asarray(array) for array in cases[0].arrays())
    step = 1e-6
    slopes = ((x + step) ** y - (x - step) ** y, x ** (y + step) - x ** (y - step))
    for name, difference in zip(names[1:], slopes, strict=True):
        read = {"a.x": x, "a.p": y, "d": np.ones_like(x)}
        given = [read[operand] for operand in op(name).operands]
        (slope,) = op(name).reference(None, *given)
        np.testing.assert_allclose(slope, difference / (2 * step), rtol=1e-6, atol=1e-8)
    OPS.pop(names[0])


@needs_compiler
@pytest.mark.parametrize("variant", [C_SPLIT, CUDA_TURNS], ids=str)
def test_angles_and_whole_numbers_have_kernels_and_slopes(variant: Variant) -> None:
    class Wave(Elementwise):
        name = "wave_of_own_ops"

        def expression(self, attrs: object) -> Expr:
            x = var("x")
            return call("sin", 9 * x) * call("cos", x) + call("floor", 3 * x)

    names = (Wave.name, f"{Wave.name}.d0", f"{Wave.name}.d0.d1")
    cases = [
        sample_case(op(name), sample)
        for name in names
        for dtype in ("f64", "f32")
        for sample in of_dtype(op(name), op(name).samples(), dtype)
    ]
    library = built(cases, variant)
    for case in cases:
        arrays = case.arrays()
        assert_agrees(case, all_ways(library, case, arrays), arrays)
    x = np.linspace(-4, 4, 34)
    given = {"d": np.ones_like(x), "a.x": x}
    (slope,) = op(names[1]).reference(None, *(given[name] for name in op(names[1]).operands))
    expected = 9 * np.cos(9 * x) * np.cos(x) - np.sin(9 * x) * np.sin(x)
    np.testing.assert_allclose(slope, expected, rtol=1e-12, atol=1e-14)
    OPS.pop(names[0])
