"""The operator cases of ONNX, with what it expects: run on every target, and counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import onnx_axes
import onnx_elements
import onnx_images
import pytest
from needs import needs_compiler, needs_cxx
from onnx_cases import Case, Sorted, all_cases, cases_of, faults_of, sorted_cases

KINDS = {"images": onnx_images, "elements": onnx_elements, "axes": onnx_axes}
RULES = {name: rule for kind in KINDS.values() for name, rule in kind.RULES.items()}
# Modules of ONNX whose cases are quickly made, and cover what layers are made of.
QUICK = (
    *("conv", "convtranspose", "globalaveragepool", "globalmaxpool", "upsample", "resize"),
    *("batch_normalization", "instance_normalization", "groupnormalization"),
    *("depthtospace", "spacetodepth", "layernormalization", "rmsnormalization", "softmax"),
    *("logsoftmax", "softmax_cross_entropy_loss", "negativeloglikelihoodloss", "argmax"),
    *("concat", "slice", "pad", "split", "transpose", "reshape", "expand", "reducemax"),
    *("reducemean", "reducesum", "gemm", "matmul", "add", "div", "max", "clip", "where"),
    *("elu", "gelu", "leakyrelu", "mish", "relu", "sigmoid", "softplus", "swish", "tanh"),
    *("adagrad", "adam", "momentum"),
)
# Of each operator the first so many cases are run in the quick tests.
FIRST = {"reference": 99, "cpu": 2, "cuda-cpu": 1}
# One process makes the cases for all tests.
pytestmark = pytest.mark.xdist_group("onnx")
each_kind = pytest.mark.parametrize("kind", KINDS)
each_target = pytest.mark.parametrize(
    "target",
    [
        "reference",
        pytest.param("cpu", marks=needs_compiler),
        pytest.param("cuda-cpu", marks=needs_cxx),
    ],
)
Golden = Callable[..., None]


@cache
def quick() -> Sorted:
    """The cases of some modules."""
    return sorted_cases([case for name in QUICK for case in cases_of(name)], RULES)


@cache
def every() -> Sorted:
    """All cases."""
    return sorted_cases(all_cases(), RULES)


def of_kind(found: Sorted, kind: str, first: int = 9999) -> list[Case]:
    """The first so many cases of each operator of a kind."""
    rules = KINDS[kind].RULES
    return [case for name, cases in found.run.items() if name in rules for case in cases[:first]]


def check(cases: list[Case], target: str, quickly: bool = False) -> None:
    """Every result is what ONNX expects."""
    assert cases
    assert not (faults := faults_of(cases, target, quickly)), "\n".join(faults)


def test_no_operator_has_two_rules() -> None:
    assert len(RULES) == sum(len(kind.RULES) for kind in KINDS.values())


@each_target
@each_kind
def test_some_of_each_operator(kind: str, target: str) -> None:
    check(of_kind(quick(), kind, FIRST[target]), target, quickly=True)


def test_what_runs_of_some(golden: Golden) -> None:
    golden(quick().table())


@pytest.mark.slow
@each_target
@each_kind
def test_all_cases(kind: str, target: str) -> None:
    check(of_kind(every(), kind), target)


@pytest.mark.slow
def test_what_runs(golden: Golden) -> None:
    golden(every().table())


@pytest.mark.slow
def test_every_rule_runs() -> None:
    assert set(every().run) == set(RULES)
