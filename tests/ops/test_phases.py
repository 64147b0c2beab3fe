"""Calls of several phases: a column op of one's own, and a layer that reads its results per row."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from command_runs import python
from needs import needs_compiler, needs_cxx

import noeira
from noeira.codegen.c.isa import AVX2
from noeira.codegen.c.target import CTarget
from noeira.codegen.kernel import kernel_text
from noeira.codegen.target import Target
from noeira.codegen.targets import target_named
from noeira.compiler import run_passes
from noeira.errors import VerifyError
from noeira.ir.body import phases_of
from noeira.ir.choices import Choices, Row
from noeira.ir.graph import Value
from noeira.ir.op import OPS
from noeira.ir.plan import Call, Choice, Plan, Stage
from noeira.ir.text.plan import parse_plan
from noeira.job import job_of
from noeira.nn import MSE, SGD, Fused, Linear, Module, Scope, Sequential, Tanh
from noeira.planning.memory import make_plan
from noeira.runtime.c.toolchain import c_toolchain
from noeira.runtime.store import aligned_zeros
from noeira.tuning.trials import build_trials, problems_of

ROWS = 10
TARGETS = [
    "reference",
    pytest.param("cpu", marks=needs_compiler),
    pytest.param("cuda-cpu", marks=needs_cxx),
]
FILE = Path(__file__).parents[1] / "support" / "batch_norm.py"


@pytest.fixture(scope="module")
def norm() -> Iterator[ModuleType]:
    """The user's file; what it defines goes away again."""
    import batch_norm

    yield batch_norm
    own = [name for name, one in OPS.items() if type(one).__module__ == batch_norm.__name__]
    for name in [name for name in OPS if name.split(".d")[0] in own]:
        del OPS[name]
    del sys.modules[batch_norm.__name__]


class Flat(Module):
    """A layer that is a view."""

    signature = "(D) -> (D)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("reshape", x, shape=x.type.shape)


def data(dtype: str = "f4") -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets."""
    random = np.random.default_rng(0)
    shapes = (3 * ROWS, 6), (3 * ROWS, 3)
    x, y = (random.standard_normal(shape).astype(dtype) for shape in shapes)
    return x + 1, y


def compiled(net: Any, **options: Any) -> noeira.Program:
    """A training program."""
    return noeira.compile(net, loss=MSE, optimizer=SGD(lr=0.1), batch=ROWS, seed=1, **options)


def planned(net: Any, target: Target) -> Plan:
    """The plan of a training step."""
    job = job_of(net, batch=ROWS, loss=MSE, optimizer=SGD(lr=0.1)).step()
    return make_plan(run_passes(job).graph, target.choose, target.name)


def fused_calls(plan: Plan) -> dict[str, Call]:
    """The calls of several phases, by their ops."""
    found = {}
    for call in plan.calls:
        if phases_of(call.node).several:
            found.setdefault(" ".join(part.op.name for part in call.node.parts), call)
    return found


# What the gradient of statistics is made of, from the two sums on: columns, then rows.
SUMS = "multiply multiply scale multiply divide column_statistics_grad add"
# The next running statistics.
KEPT = "subtract scale add subtract scale add"
FIRST = f"linear column_statistics {KEPT} own_normalize relu"
# The ops of calls, and their phases.
CALLS = {
    FIRST: "gemm column_statistics map map_2",
    f"column_statistics {KEPT} own_normalize tanh": "column_statistics map map_2",
    f"column_statistics {KEPT} own_normalize": "column_statistics map map_2",
    f"relu.d0 own_normalize_sums own_normalize.d0 {SUMS} sum": "own_normalize_sums map column",
    f"tanh.d0 own_normalize_sums own_normalize.d0 {SUMS}": "own_normalize_sums map map_2",
    f"own_normalize_sums own_normalize.d0 {SUMS}": "own_normalize_sums map map_2",
}


@pytest.mark.parametrize("name", ["c avx2", "cuda sm_90"])
def test_each_layer_is_one_call_and_so_is_its_gradient(norm: ModuleType, name: str) -> None:
    calls = fused_calls(planned(norm.Net, target_named(name)))
    stages = {ops: " ".join(s.name for s in call.choice.stages) for ops, call in calls.items()}
    assert stages == CALLS
    assert not fused_calls(planned(norm.Twin, target_named(name)))


@pytest.mark.parametrize("target", TARGETS)
def test_bits_are_those_of_the_unfused_twin(
    norm: ModuleType, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = data()
    found = dict[str, list[bytes]]()
    for threads in ("1", "2", "3") if target == "cpu" else ("1",):
        monkeypatch.setenv("NOEIRA_THREADS", threads)
        for net in (norm.Net, norm.Twin):
            program = compiled(net, target=target)
            losses = [program.step(x[i : i + ROWS], y[i : i + ROWS]) for i in (0, 10, 20)]
            arrays = [np.array(losses), program.forward(x)]
            arrays += [program.store.arrays[name] for name in ("params", "buffers", "gradients")]
            found[f"{net.__name__} {threads}"] = [array.tobytes() for array in arrays]
    (first, *others) = found.values()
    assert all(other == first for other in others), list(found)


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_agree_with_differences(norm: ModuleType, target: str) -> None:
    x, y = (array[:ROWS] for array in data("f8"))
    program = compiled(norm.Net, target=target, dtype="f64")
    program.gradients(x, y)
    gradient = program.store.arrays["gradients"].copy()
    params, random = program.store.arrays["params"], np.random.default_rng(0)
    used = np.flatnonzero(gradient)
    assert used.size > 100
    before = params.copy()
    for _ in range(3):
        direction, step = np.zeros_like(params), 1e-5
        direction[used] = random.standard_normal(used.size)
        losses = []
        for sign in (1, -1):
            params[...] = before + sign * step * direction
            losses.append(float(program.gradients(x, y)))
        slope = (losses[0] - losses[1]) / (2 * step)
        assert slope == pytest.approx(float(gradient @ direction), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("target", TARGETS)
def test_statistics_are_kept_for_evaluation(norm: ModuleType, target: str) -> None:
    x, y = (array[:ROWS] for array in data("f8"))
    program = compiled(norm.Net, target=target, dtype="f64")
    weight, bias = (program.params[f"0.0.{name}"].copy() for name in ("weight", "bias"))
    program.step(x, y)
    linear = x @ weight + bias
    mean, rstd = linear.mean(0), 1 / np.sqrt(linear.var(0) + norm.EPS)
    kept = program.module[0].child(1)
    np.testing.assert_allclose(kept.mean.val, norm.MOMENTUM * mean, rtol=1e-12)
    np.testing.assert_allclose(kept.rstd.val, 1 + norm.MOMENTUM * (rstd - 1), rtol=1e-12)


@needs_cxx
def test_check_mode_finds_nothing() -> None:
    found = python("check", f"{FILE}:Net", "--loss", "MSE", "--batch", str(ROWS))
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("name", ["c avx2", "cuda sm_90"])
def test_plans_can_be_read_back_and_edited(norm: ModuleType, name: str) -> None:
    target = target_named(name)
    plan = planned(norm.Net, target)
    assert parse_plan(str(plan)) == plan
    call = fused_calls(plan)[FIRST]
    text = kernel_text(call, target, "k")
    assert all(f" k_{stage}(" in text for stage in ("gemm", "column_statistics", "map", "map_2"))
    gemm, statistics, kept, spread = call.choice.stages
    for stages, said in (
        ((gemm, kept, spread), "the stages of the phase column_statistics are missing"),
        ((gemm, kept, statistics, spread), "it must stand before those of the phase map"),
        ((gemm, replace(statistics, name="column_statistic"), kept), "did you mean column_stat"),
        ((gemm, statistics, replace(kept, name="maps.x")), "there is no phase maps here"),
        ((gemm, statistics, replace(kept, name="map.x"), spread), "phase map: "),
        ((gemm, statistics, Stage("map", (("x", 3),)), spread), "phase map: "),
    ):
        with pytest.raises(VerifyError, match=said):
            target.cuts(call.node, replace(call.choice, stages=stages))
    with pytest.raises(VerifyError, match=f"needs a workspace of {call.choice.workspace:,} bytes"):
        target.cuts(call.node, Choice(call.choice.stages, call.choice.workspace - 1))


def test_a_table_decides_the_phase_that_it_is_about(norm: ModuleType) -> None:
    by_rule = CTarget(AVX2)
    call = fused_calls(planned(norm.Net, by_rule))[FIRST]
    problem, other = by_rule.problem(call.node), by_rule.candidates(call.node)[-1]
    assert problem is not None and problem.kind == "gemm"
    chosen = CTarget(AVX2, Choices((Row(problem, other.stages),))).choose(call.node)
    assert chosen.stages == (*other.stages, *call.choice.stages[1:])
    assert other.stages != call.choice.stages[:1]
    assert by_rule.completed(call.node, call.choice.stages[:1]) == call.choice


def test_explain_shows_stages_and_what_each_phase_moves(norm: ModuleType) -> None:
    options: dict[str, Any] = {"loss": MSE, "optimizer": SGD(lr=0.1), "batch": ROWS}
    found = noeira.explain(norm.Net, **options)
    first = found.launches[0]
    assert first.stages == ("gemm", "column_statistics", "map", "map_2")
    assert "└ 4 stages: gemm, column_statistics, map, map_2" in str(found)
    whole, columns = ROWS * 8, 8
    product = ROWS * 6 + 6 * 8 + columns + whole
    kept = (2 + 2 + 2) * columns
    assert first.bytes == 4 * (product + whole + 2 * columns + kept + whole + 4 * columns + whole)


def test_suggestions_count_no_updates_of_running_statistics(norm: ModuleType) -> None:
    options: dict[str, Any] = {"loss": MSE, "optimizer": SGD(lr=0.1), "batch": ROWS}
    (found,) = noeira.suggest(norm.Twin, **options)
    assert found.hint == f"9 launches; write {found.fused} for 1"
    assert found.hint in str(noeira.explain(norm.Twin, **options))
    # Nothing is gained by a neighbour that launches nothing.
    net = Sequential[Fused[norm.BatchNorm1D[6], Tanh], Flat, Linear[6, 2]]
    assert not noeira.suggest(net, **options)
    assert "launches; write" not in str(noeira.explain(net, **options))


@needs_compiler
def test_stages_in_files_run_again(norm: ModuleType, tmp_path: Path) -> None:
    network = (f"{FILE}:Net", "--loss", "MSE", "--batch", str(ROWS))
    assert python("dump", *network, "--all", str(tmp_path)).returncode == 0
    direct = python("run", *network)
    assert direct.returncode == 0, direct.stderr
    stages = sorted(path for path in tmp_path.iterdir() if path.suffix in (".plan", ".c"))
    assert len(stages) == 2
    for stage in stages:
        run = python("run", str(stage), "--import", str(FILE))
        assert run.stdout == direct.stdout, run.stderr


@needs_compiler
def test_candidates_of_a_phase_are_timed_in_their_call(norm: ModuleType) -> None:
    toolchain = c_toolchain()
    assert toolchain is not None
    graph = planned(norm.Net, toolchain.target).graph
    tried = problems_of(graph, toolchain.target, 3)

    def bind(entry: Any) -> None:
        for root in entry.slots:
            name = root.partition(" ")[2]
            value = next(v for v in graph.values() if v.name == name)
            entry.bind(root, aligned_zeros(value.type))

    trials = build_trials(graph, tried, toolchain, bind, threads=2, processors=2)
    assert min(trials.visit([len(one.candidates) - 1 for one in tried])) > 0
