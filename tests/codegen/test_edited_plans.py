"""What is said of the stages of an edited plan, for every kernel on both targets."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_sweep import TARGET as CUDA
from cuda_sweep import CudaKernels
from samples import retyped
from sweep import reference, sample_case
from swept_ops import every_op

from noeira.codegen.c.isa import AVX512
from noeira.codegen.c.target import CTarget
from noeira.codegen.kernel import kernel_text
from noeira.codegen.target import Target
from noeira.commands.support.files import plan_from
from noeira.errors import VerifyError
from noeira.ir.body import body_of
from noeira.ir.graph import Node
from noeira.ir.op import op
from noeira.ir.plan import Call, Choice, Stage
from noeira.ir.samples import Draw, Sample, f32
from noeira.ir.types import TensorType
from noeira.nn import Linear, LinearReLU, ReLU, Sequential
from noeira.stages import stages_of

C = CTarget(AVX512)
TARGETS = pytest.mark.parametrize("target", [C, CUDA], ids=["c", "cuda"])
# Large enough for several stages; then other kernels.
LARGE: tuple[tuple[str, tuple[tuple[int, ...], ...], dict[str, Any]], ...] = (
    ("sum", ((300, 1000),), {}),
    ("mse", ((300, 1000), (300, 1000)), {}),
    ("sum", ((5000, 300),), {"axes": (0,)}),
    ("matmul", ((16, 60_000), (60_000, 16)), {}),
    ("relu", ((300, 1000),), {}),
    ("softmax", ((300, 1000),), {}),
)


def nodes() -> list[Node]:
    """A node for each sample of every op, and large ones."""
    found = [
        sample_case(rule, retyped(sample, dtype)).node
        for rule in every_op()
        if rule.launches
        for sample in rule.samples()
        for dtype in ("f32", "f64")
    ]
    for name, shapes, attrs in LARGE:
        draws = tuple(Draw(TensorType("f32", shape)) for shape in shapes)
        found.append(sample_case(op(name), Sample(draws, attrs)).node)
    z, numbers = TensorType("f32", (5000, 100)), TensorType("i32", (5000,))
    for name in ("cross_entropy", "top_k"):
        draws = Draw(z), Draw(numbers, "index", 100)
        found.append(sample_case(op(name), Sample(draws, {})).node)
    return found


NODES = nodes()


def edited(choice: Choice, number: int, **options: Any) -> Choice:
    """A choice with other options of a stage; None takes one away."""
    stages = list(choice.stages)
    given = dict(stages[number].options) | options
    kept = tuple((name, value) for name, value in given.items() if value is not None)
    stages[number] = Stage(stages[number].name, kept)
    return replace(choice, stages=tuple(stages))


@TARGETS
def test_the_stages_of_every_rule_are_read_as_they_were_written(target: Target) -> None:
    for node in NODES:
        choice = target.choose(node)
        target.cuts(node, choice)
        assert target.completed(node, choice.stages) == choice


@TARGETS
def test_what_there_is_not_is_refused_for_every_kernel(target: Target) -> None:
    for node in NODES:
        choice = target.choose(node)
        for number, stage in enumerate(choice.stages):
            with pytest.raises(VerifyError, match=f"{stage.name} has no option nonsense; it has "):
                target.cuts(node, edited(choice, number, nonsense=3))
            named = replace(stage, name=stage.name[:-1])
            stages = (*choice.stages[:number], named, *choice.stages[number + 1 :])
            with pytest.raises(VerifyError, match="stage"):
                target.cuts(node, replace(choice, stages=stages))
        if choice.workspace:
            with pytest.raises(VerifyError, match=r"needs a workspace of [\d,]+ bytes, not "):
                target.cuts(node, replace(choice, workspace=choice.workspace - 1))
            with pytest.raises(VerifyError, match=r"needs a workspace of .*, and has none"):
                target.cuts(node, replace(choice, workspace=0))


@TARGETS
def test_every_option_is_checked(target: Target) -> None:
    """A number where a switch belongs and the reverse; 0, and less."""
    for node in NODES:
        choice = target.choose(node)
        for number, stage in enumerate(choice.stages):
            for name, value in stage.options:
                others = (1, "x", 2.5) if isinstance(value, bool) else (True, "x", 2.5, -1)
                for other in others:
                    with pytest.raises(VerifyError, match=rf"{name} must be"):
                        target.cuts(node, edited(choice, number, **{name: other}))


def node_of(stem: str) -> Node:
    """The large node of a kernel."""
    return next(node for node in reversed(NODES) if body_of(node).stem == stem)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("column", {"rows": 1}, r"needs a workspace of 6,000,000 bytes, not 48,000"),
        ("column", {"rows": None}, r"with these options the stages are column"),
        ("column", {"vectors": 20}, r"vectors must be a whole number from 1 to 19, not 20"),
        ("sum", {"size": 64}, r"needs a workspace of [\d,]+ bytes, not"),
        ("sum", {"split": None}, r"with these options the stages are sum"),
        ("top_k", {"rows": 3}, r"needs a workspace of"),
        ("gemm", {"row_tile": 1, "row_tiles": None}, r"no option row_tile; .*did you mean row_t"),
    ],
)
def test_numbers_that_would_reach_beyond_the_workspace(
    name: str, options: dict[str, Any], message: str
) -> None:
    node = node_of(name)
    with pytest.raises(VerifyError, match=message):
        C.cuts(node, edited(C.choose(node), 0, **options))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("column", {"rows": 8}, r"grid must be 6250 here"),
        ("column", {"grid": 1}, r"grid must be \d+ here"),
        ("sum", {"size": 4099}, r"size must be a multiple of 4, not 4099"),
        ("cross_entropy", {"grid": 1}, r"with these options the stages are cross_entropy"),
    ],
)
def test_launches_that_would_leave_out_elements(
    name: str, options: dict[str, Any], message: str
) -> None:
    node = node_of(name)
    with pytest.raises(VerifyError, match=message):
        CUDA.cuts(node, edited(CUDA.choose(node), 0, **options))


@pytest.mark.parametrize(
    ("name", "shapes", "options"),
    [
        # Fewer threads in a block than elements beyond whole accesses, and for a row than elements
        # before and after these.
        ("relu", ((7,),), {"block": 1}),
        ("relu", ((3,),), {"block": 2}),
        ("softmax", ((5, 257),), {"row_threads": 4, "held": None}),
        ("sum", ((5, 257),), {"row_threads": 1}),
    ],
)
def test_few_threads_do_all_elements(
    name: str, shapes: tuple[tuple[int, ...], ...], options: dict[str, int | None]
) -> None:
    attrs = {"axes": (1,)} if name == "sum" else {}
    case = sample_case(op(name), Sample(tuple(Draw(f32(*shape)) for shape in shapes), attrs))
    kernels = CudaKernels((case,), (edited(CUDA.choose(case.node), 0, **options),))
    arrays = case.arrays()
    for made, wanted in zip(
        kernels.built(check=True).run(case, arrays), reference(case.node, arrays), strict=True
    ):
        np.testing.assert_allclose(made, wanted, atol=1e-4)


@TARGETS
def test_a_stage_that_is_misspelt_is_named(target: Target) -> None:
    node = node_of("column")
    choice = target.choose(node)
    misspelt = replace(choice, stages=(Stage("chunk", choice.stages[0].options), choice.stages[1]))
    with pytest.raises(VerifyError, match=r"there is no stage chunk here: did you mean chunks\?"):
        target.cuts(node, misspelt)


def test_other_numbers_give_the_same_kernel_in_other_pieces() -> None:
    node = node_of("column")
    choice = edited(C.choose(node), 0, rows=1000, vectors=3)
    assert C.cuts(node, choice)[0].rows == 1000
    assert "top + 1000 < 5000" in kernel_text(Call(node, choice), C, "k")


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_plan_is_checked_before_it_runs(target: str) -> None:
    net = Sequential[LinearReLU[3, 4], Linear[4, 2]]
    text = str(stages_of(net, batch=5, target=target).plan)
    plan_from(text)
    for stage in ("gemm", "column"):
        line = next(line for line in text.splitlines() if f" {stage}{{" in line)
        for wrong, message in (
            (line.replace(f"{stage}{{", f"{stage[:-1]}{{"), "stage"),
            (line.replace("{", "{nonsense = 3, "), "has no option nonsense"),
        ):
            with pytest.raises(VerifyError, match=message):
                plan_from(text.replace(line, wrong))
    (line,) = re.findall(r"  call .*workspace.*", text)[:1] or [""]
    if line:
        with pytest.raises(VerifyError, match="needs a workspace"):
            plan_from(text.replace(line, line.partition(" workspace")[0]))


def moved(text: str, name: str, offset: int) -> str:
    """The text of a plan with the place of a value at another offset of the arena."""
    return re.sub(rf"(place %{name}: arena \+) \d+", rf"\1 {offset}", text)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_what_is_needed_at_the_same_time_may_not_overlap(target: str) -> None:
    net = Sequential[Linear[3, 4], ReLU, Linear[4, 2]]
    plan = stages_of(net, batch=5, target=target).plan
    text, place = str(plan), plan.place
    first, second = "0.linear", "1.relu"
    both = moved(text, second, place[first].offset)
    message = (
        rf"place %{first}: arena .*\nand place %{second}: arena .*\n"
        r"have bytes in common, and both are needed at call %1.relu, number 1"
    )
    with pytest.raises(VerifyError, match=message):
        plan_from(both)
    # The last byte of one is enough, and where the lives do not meet the bytes may.
    with pytest.raises(VerifyError, match="bytes in common"):
        plan_from(moved(text, second, place[first].offset + 64))
    assert plan_from(moved(text, "2.linear", place[first].offset)).place
    with pytest.raises(VerifyError, match="what lies in the arena begins at a multiple of 64"):
        plan_from(moved(text, first, place[first].offset + 4))


def test_a_workspace_may_not_lie_in_a_value() -> None:
    net = Sequential[Linear[3, 4], ReLU, Linear[4, 2]]
    plan = stages_of(net, batch=5000, target="cuda").plan
    call = next(c for c in plan.calls if c.choice.workspace)
    at = plan.calls.index(call)
    value = next(
        v for v in (*call.node.inputs, *call.node.outputs) if plan.place[v.name].kind == "arena"
    )
    offset = plan.place[value.name].offset
    text = str(plan).replace(
        f"workspace arena + {call.workspace} size", f"workspace arena + {offset} size"
    )
    assert text != str(plan)
    with pytest.raises(VerifyError, match=rf"bytes in common, and both are .*, number {at}"):
        plan_from(text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"(%1.relu: .* live \d+ to) \d+", r"\1 2", r"live 1 to 2: by its graph it is place %1.re"),
        (r"%loss: output %loss", "%loss: arena", r"by its graph it is place %loss: output %loss"),
        (r"(%0.weight: state %params \+) \d+", r"\1 4", r"by its graph it is place %0.weight: sta"),
        (r"literal 1.0", "literal 2.0", r"literal 2.0: by its graph it is place .*: literal 1.0"),
    ],
)
def test_a_value_lies_where_its_graph_lets_it(old: str, new: str, message: str) -> None:
    net = Sequential[Linear[3, 4], ReLU, Linear[4, 2]]
    text = str(stages_of(net, batch=5, optimizer=None, target="cpu").plan)
    edited = re.sub(old, new, text, count=1)
    assert edited != text
    with pytest.raises(VerifyError, match=message):
        plan_from(edited)
