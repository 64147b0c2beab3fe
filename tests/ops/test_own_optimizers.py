"""Optimizers defined outside noeira: a few expressions give the reference, C and CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from needs import needs_compiler
from sweep import arrays_not_ok, assert_agrees, assert_kept, same_in_place, sample_case
from sweep_units import C_SPLIT, CUDA_TURNS, Variant, all_ways, built

import noeira
from noeira.errors import OptionError, VerifyError
from noeira.ir.bounded import BELOW_ONE, NOT_NEGATIVE
from noeira.ir.graph import Attrs
from noeira.ir.layouts import Range
from noeira.ir.op import OPS
from noeira.ir.ops.flat_update import FlatUpdate
from noeira.ir.ops.optimizer import Optimizer as OptimizerOp
from noeira.ir.ops.optimizer import OptimizerAttrs, OptimizerOptions
from noeira.ir.scalar import Expr, call
from noeira.nn import CrossEntropy, Linear, LinearReLU, Optimizer, Sequential


@dataclass(frozen=True)
class LionOptions(OptimizerOptions):
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {
        "beta1": BELOW_ONE,
        "beta2": BELOW_ONE,
        "weight_decay": NOT_NEGATIVE,
    }


@dataclass(frozen=True)
class LionAttrs(OptimizerAttrs, LionOptions):
    pass


class LionOp(OptimizerOp):
    """Lion (Chen et al. 2023), as their algorithm 2."""

    name, Attrs, moments = "own_lion", LionAttrs, ("m",)

    def update(
        self, attrs: LionAttrs, p: Expr, g: Expr, lr: Expr, t: Expr, m: Expr
    ) -> dict[str, Expr]:
        sign = call("sign", attrs.beta1 * m + (1 - attrs.beta1) * g)
        return {
            "p": p - lr * (sign + attrs.weight_decay * p),
            "m": attrs.beta2 * m + (1 - attrs.beta2) * g,
        }


@dataclass(frozen=True)
class Lion(LionOptions, Optimizer):
    """A value for it."""

    op: ClassVar[str] = "own_lion"
    lr: float = 1e-3


@dataclass(frozen=True)
class RMSpropOptions(OptimizerOptions):
    alpha: float = 0.99
    eps: float = 1e-8


@dataclass(frozen=True)
class RMSpropAttrs(OptimizerAttrs, RMSpropOptions):
    pass


class RMSpropOp(OptimizerOp):
    """RMSprop as in PyTorch, without momentum."""

    name, Attrs = "own_rmsprop", RMSpropAttrs
    moments = positive = ("square",)

    def update(
        self, attrs: RMSpropAttrs, p: Expr, g: Expr, lr: Expr, t: Expr, square: Expr
    ) -> dict[str, Expr]:
        square = attrs.alpha * square + (1 - attrs.alpha) * g * g
        return {"p": p - lr * g / (call("sqrt", square) + attrs.eps), "square": square}


@dataclass(frozen=True)
class RMSprop(RMSpropOptions, Optimizer):
    """A value for it."""

    op: ClassVar[str] = "own_rmsprop"
    lr: float = 1e-2


@dataclass(frozen=True)
class AverageAttrs(Attrs):
    decay: float = 0.9
    ranges: tuple[Range, ...] = ()


class Average(FlatUpdate):
    """The average of parameters over steps, with the first of them alone at the first step."""

    name, Attrs = "own_average", AverageAttrs
    operands, results = ("average", "p", "step", "ok"), ("average",)
    scalars, varying = ("step",), ("decay",)

    def update(self, attrs: AverageAttrs, average: Expr, p: Expr, step: Expr) -> dict[str, Expr]:
        decay = attrs.decay * (1 - call("pow", attrs.decay, step))
        return {"average": decay * average + (1 - decay) * p}


OWN = [OPS.pop(name) for name in ("own_lion", "own_rmsprop", "own_average")]


@pytest.fixture(autouse=True)
def defined() -> Iterator[None]:
    """The ops are there for these tests alone."""
    before = dict(OPS)
    OPS.update((rule.name, rule) for rule in OWN)
    yield
    OPS.clear()
    OPS.update(before)


@needs_compiler
@pytest.mark.parametrize("variant", [C_SPLIT, CUDA_TURNS], ids=str)
def test_kernels_agree_with_the_reference(variant: Variant) -> None:
    cases = [sample_case(rule, sample) for rule in OWN for sample in rule.samples()]
    library = built(cases, variant)
    for number, case in enumerate(cases):
        arrays = case.arrays(number)
        assert_agrees(case, all_ways(library, case, arrays), arrays)
        same_in_place(library.run, case, arrays)
        not_ok = arrays_not_ok(case)
        assert_kept(case, not_ok)
        assert_agrees(case, all_ways(library, case, not_ok), not_ok)


NET = Sequential[LinearReLU[6, 33], Linear[33, 3]]


@pytest.mark.parametrize("target", ["reference", "cpu", "cuda-cpu"])
def test_lion_trains_as_its_formula_says(target: Any) -> None:
    optimizer = Lion(lr=1e-2, weight_decay=0.1)
    random = np.random.default_rng(1)
    x, y = random.standard_normal((17, 6)), random.integers(0, 3, 17)
    options: Any = {"loss": CrossEntropy, "batch": 17, "dtype": "f64", "target": target}
    program = noeira.compile(NET, optimizer=optimizer, **options)
    moments = {name: np.zeros_like(value) for name, value in program.params.items()}
    for _ in range(5):
        before = {name: value.copy() for name, value in program.params.items()}
        program.step(x, y)
        twin = noeira.compile(NET, **options)
        for name, value in before.items():
            twin.params[name][...] = value
        twin.gradients(x, y)
        for name, value in before.items():
            g, m = twin.store.view("grd", name), moments[name]
            decay = 0.1 if name.endswith("weight") else 0.0
            expected = value - 1e-2 * (np.sign(0.9 * m + (1 - 0.9) * g) + decay * value)
            np.testing.assert_allclose(program.params[name], expected, rtol=1e-12, err_msg=name)
            moments[name] = 0.99 * m + (1 - 0.99) * g
    for name, moment in moments.items():
        np.testing.assert_allclose(program.store.moment("m", name), moment, rtol=1e-10)


def test_rmsprop_is_that_of_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    random = np.random.default_rng(1)
    x, y = random.standard_normal((17, 6)), random.integers(0, 3, 17)
    program = noeira.compile(NET, loss=CrossEntropy, optimizer=RMSprop, batch=17, dtype="f64")
    params = {n: torch.tensor(v.copy(), requires_grad=True) for n, v in program.params.items()}
    optimizer = torch.optim.RMSprop(list(params.values()), lr=1e-2)
    for _ in range(20):
        optimizer.zero_grad()
        hidden = torch.relu(torch.tensor(x) @ params["0.weight"] + params["0.bias"])
        logits = hidden @ params["1.weight"] + params["1.bias"]
        expected = torch.nn.functional.cross_entropy(logits, torch.tensor(y))
        expected.backward()
        optimizer.step()
        assert program.step(x, y) == pytest.approx(expected.item(), rel=1e-10)
    for name, param in params.items():
        np.testing.assert_allclose(program.params[name], param.detach().numpy(), rtol=1e-8)


def test_options_are_checked_as_those_of_noeiras_own() -> None:
    with pytest.raises(OptionError, match="Lion: beta1 must be at least 0 and less than 1"):
        Lion(beta1=1.0)
    with pytest.raises(OptionError, match="Lion has no option beta; it has lr, beta1, beta2"):
        Lion(beta=1.0)  # type: ignore[call-arg]
    wrong = r"own_lion: the range 0:4 \(lr_factor = -1.0\): Lion: lr_factor must be 0 or greater"
    with pytest.raises(VerifyError, match=wrong):
        LionOp().types(
            LionAttrs(ranges=(Range(0, 4, (("lr_factor", -1.0),)),)),
            [draw.type for draw in LionOp().sample(8).operands],
        )


def with_update(update: Any) -> OptimizerOp:
    """An optimizer with one moment and that method."""
    made: Any = type(
        "Wrong",
        (OptimizerOp,),
        {"name": "own_wrong", "moments": ("m",), "update": update, "__module__": __name__},
    )
    return made()


# A method, and what is said of it.
WRONG = {
    "operands": (
        lambda self, attrs, p, g: {"p": p, "m": g},
        "own_wrong: update must take self, attrs, p, g, m, lr, t",
    ),
    "a tuple": (
        lambda self, attrs, p, g, m, lr, t: (p, m),
        "own_wrong: update must give expressions for p, m in a dict, got (p, m)",
    ),
    "results": (
        lambda self, attrs, p, g, m, lr, t: {"p": p},
        "own_wrong: update must give expressions for p, m in a dict, got p",
    ),
    "a number": (
        lambda self, attrs, p, g, m, lr, t: {"p": p, "m": 0},
        "own_wrong: its expression for m must be an expression, not 0: write lift(0.0)",
    ),
    "a stranger": (
        lambda self, attrs, p, g, m, lr, t: {"p": p, "m": Expr("var", ("x",))},
        "own_wrong: its expression for m uses x, which is no operand",
    ),
    "a comparison": (
        lambda self, attrs, p, g, m, lr, t: {"p": p, "m": call("eq", t, 1)},
        "own_wrong: its expression for m is a comparison",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_one_message_for_each_mistake(mistake: str) -> None:
    update, said = WRONG[mistake]
    rule = with_update(update)
    types = [draw.type for draw in rule.sample(8).operands]
    with pytest.raises(VerifyError, match=re.escape(said)):
        rule.types(rule.Attrs(), types)


def test_what_moments_are_called() -> None:
    with pytest.raises(VerifyError, match="Wrong: a moment cannot be called lr"):
        type("Wrong", (OptimizerOp,), {"name": "own_wrong", "moments": ("lr",)})
    with pytest.raises(VerifyError, match="Wrong: its Attrs must derive from OptimizerAttrs"):
        type("Wrong", (OptimizerOp,), {"name": "own_wrong", "Attrs": AverageAttrs})


def test_a_function_that_no_common_number_can_be() -> None:
    rule = with_update(
        lambda self, attrs, p, g, m, lr, t: {"p": p - call("softplus", lr) * g, "m": m}
    )
    case = sample_case(rule, rule.sample(8))
    with pytest.raises(
        VerifyError, match="own_wrong: of what all elements have in common there is no softplus"
    ):
        built([case], C_SPLIT)
