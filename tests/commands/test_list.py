"""`noeira list`: everything that can stand in a network is there, each with a formula."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import noeira.nn
from noeira.ir.op import OPS
from noeira.nn import (
    Clipping,
    ElementwiseLoss,
    Group,
    Initializer,
    Loss,
    Metric,
    Module,
    Optimizer,
    Schedule,
    TimedSchedule,
)
from noeira.nn.combinators.declarations import Declaration
from noeira.report.vocabulary import KINDS, vocabulary

pytest_plugins = ("command_line",)

BASES = (Module, Declaration, Loss, Metric, Optimizer, Initializer, Schedule, Clipping)
ABSTRACT = (*BASES, ElementwiseLoss, TimedSchedule)
PARENTS = (*BASES, Group)


def test_every_public_type_and_every_op_has_a_formula():
    words = vocabulary()
    public = [getattr(noeira.nn, name) for name in noeira.nn.__all__]
    types = {
        kind.__name__
        for kind in public
        if isinstance(kind, type) and issubclass(kind, PARENTS) and kind not in ABSTRACT
    }
    ops = {name for name, op in OPS.items() if "." not in name and not op.foreign}
    assert {word.name for word in words if word.kind != "ops"} == types
    assert ops <= {word.name for word in words if word.kind == "ops"}
    assert all(word.formula and len(word.formula) < 200 for word in words)
    assert {word.kind for word in words} == set(KINDS)


def test_list(call: Callable[..., str]):
    text = call("list")
    assert re.search(
        r"\n  Linear\[IN, OUT\] or Linear\.of\(IN, OUT, bias=…\) +y = x W \+ b, \(", text
    )
    assert re.search(r"\n  Sequential\[A, B, …\] +C\(B\(A\(x\)\)\)\n", text)
    assert re.search(r"\n  SiLU or SiLU\.of\(DIM=…\) +x · sigmoid\(x\), also called", text)
    assert re.search(r"\n  ClipNorm\(max_norm=…\) +By the norm of all gradients", text)
    assert text.index("layers: ") < text.index("losses: ") < text.index("ops: ")
    assert call("list", "losses").startswith("losses: of (prediction, target)\n  BCEWithLogits or ")


def test_one_name_in_any_case(call: Callable[..., str]):
    text = call("list", "ADAM")
    assert (
        text.startswith("Adam(lr=0.001, beta1=0.9,")
        and "\nadam(p, g, lr, step, ok, m, v, clip)" in text
    )
    assert "m = beta1 · m + (1 − beta1) · g" in text
    (found,) = json.loads(call("list", "relu", "--json"))["words"][1:]
    assert found["kind"] == "ops" and found["written"] == "relu(x)"
    assert "there is no type or op Lineer; did you mean" in call("list", "Lineer", code=2)
    assert call("list", "group").startswith("Group(lr_factor=1.0, weight_decay=None, frozen=False)")
    assert call("list", "earlystopping").startswith("EarlyStopping(patience=5, least=0.0, ")
    assert "\n  EarlyStopping(" in call("list", "training")
    unlike = call("list", "zzzz", code=2)
    assert re.search(r"there is no type or op zzzz; there are .*, … and \d+ more", unlike)
    assert len(unlike) < 400


def test_an_op_of_ones_own(call: Callable[..., str], folder: Path):
    (folder / "cube.py").write_text(
        "from noeira.ir.ops.elementwise import Elementwise\nfrom noeira.ir.scalar import var\n\n\n"
        'class Cube(Elementwise):\n    """x³"""\n\n    name = "cube_of_the_list"\n\n'
        '    def expression(self, attrs):\n        x = var("x")\n        return x * x * x\n'
    )
    try:
        assert "  cube_of_the_list(x)" in call("list", "ops", "--import", "cube.py")
    finally:
        OPS.pop("cube_of_the_list", None)
