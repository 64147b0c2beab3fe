"""The search for better choices, and the command that fills a table with them."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler
from tables import host, other_choices, products, step_graph

import noeira
from noeira.codegen.c.isa import AVX2, ISAS
from noeira.codegen.c.target import CTarget
from noeira.codegen.choices import check_row, read_choices
from noeira.commands import tune
from noeira.ir.builder import Builder
from noeira.ir.choices import Choices, Factor, Problem, Row
from noeira.ir.plan import Choice, Stage
from noeira.ir.types import TensorType
from noeira.passes.schedule import Schedule
from noeira.runtime.c.toolchain import c_toolchain
from noeira.runtime.store import aligned_zeros
from noeira.tuning.search import CLEARLY, search, survivors, until
from noeira.tuning.trials import Tried, build_trials, problems_of

pytest_plugins = ("command_line",)

Call = Callable[..., str]


@pytest.mark.parametrize("isa", ISAS.values(), ids=list(ISAS))
def test_candidates_are_many_distinct_and_fit(isa: Any) -> None:
    target = CTarget(isa)
    for node in products(step_graph(), target):
        problem = target.problem(node)
        assert problem is not None
        found = target.candidates(node)
        assert found[0] == target.rule(node)
        assert len(found) == len(set(found)) > 5
        for choice in found:
            check_row(problem, choice.stages)
            assert target.completed(node, choice.stages) == choice


SHAPES = ((37, 50, 19), (1, 300, 70), (130, 7, 33))


@needs_compiler
@pytest.mark.parametrize("dtype", ["f32", pytest.param("f64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("turned", ["nn", "tn", "nt"])
def test_every_candidate_computes_the_product(turned: str, dtype: str) -> None:
    toolchain = c_toolchain()
    assert toolchain is not None
    a_turned, b_turned = turned[0] == "t", turned[1] == "t"
    builder, results = Builder("products"), []
    random = np.random.default_rng(0)
    arrays = dict[str, np.ndarray]()
    for number, (m, k, n) in enumerate(SHAPES):
        a = builder.input(f"a{number}", TensorType(dtype, (k, m) if a_turned else (m, k)))
        b = builder.input(f"b{number}", TensorType(dtype, (n, k) if b_turned else (k, n)))
        results.append(builder.emit("matmul", a, b, transpose_a=a_turned, transpose_b=b_turned))
        for value in (a, b):
            arrays[value.name] = aligned_zeros(value.type)
            arrays[value.name][...] = random.standard_normal(value.type.shape)
    graph = Schedule()(builder.done(results))
    tried = problems_of(graph, toolchain.target, 16)

    def bind(entry: Any) -> None:
        for name, array in arrays.items():
            entry.bind(f"input {name}", array)

    trials = build_trials(graph, tried, toolchain, bind, threads=2, processors=2)
    for turn in range(max(len(one.candidates) for one in tried)):
        for value in results:
            trials.step.output(value.name)[...] = np.nan
        times = trials.visit([turn % len(one.candidates) for one in tried])
        assert min(times) > 0
        for number, value in enumerate(results):
            a, b = arrays[f"a{number}"], arrays[f"b{number}"]
            expected = (a.T if a_turned else a) @ (b.T if b_turned else b)
            tolerance = 1e-12 if dtype == "f64" else 1e-4
            np.testing.assert_allclose(
                trials.step.output(value.name), expected, rtol=tolerance, atol=tolerance
            )


@needs_compiler
def test_a_row_of_the_table_is_tried_again_however_few_candidates_there_are() -> None:
    graph = step_graph()
    first, *_ = problems_of(graph, CTarget(AVX2), 8)
    known = first.candidates[5]
    row = Row(first.problem, known.stages)
    again, *_ = problems_of(graph, CTarget(AVX2, Choices((row,))), 1)
    assert again.candidates == (first.candidates[0], known)


@needs_compiler
def test_candidates_may_have_several_stages_and_a_workspace() -> None:
    toolchain = c_toolchain()
    assert toolchain is not None
    builder = Builder("sums")
    x = builder.input("x", TensorType("f32", (600, 40)))
    graph = Schedule()(builder.done([builder.emit("sum", x, axes=(0,))]))
    (node,) = graph.launching()
    rule = toolchain.target.choose(node)
    chunks, total = rule.stages
    options = tuple((key, 64 if key == "rows" else value) for key, value in chunks.options)
    other = Choice((Stage("chunks", options), total), 10 * 40 * 4)
    assert rule.workspace < other.workspace
    problem = Problem("column", (Factor(x.type),), toolchain.target.name)
    tried = [Tried(problem, (node.outputs[0].name,), (rule, other))]
    array = aligned_zeros(x.type)
    array[...] = np.random.default_rng(0).integers(0, 9, array.shape)
    trials = build_trials(graph, tried, toolchain, lambda e: e.bind("input x", array), 2, 2)
    for pick in (0, 1):
        trials.step.output(node.outputs[0].name)[...] = np.nan
        trials.visit([pick])
        np.testing.assert_array_equal(trials.step.output(node.outputs[0].name), array.sum(0))


class Fake:
    """Trials whose times are given, with a disturbance now and then."""

    def __init__(self, *times: Sequence[float]) -> None:
        node = products(step_graph(), CTarget(AVX2))[0]
        choices = CTarget(AVX2).candidates(node)
        problem = CTarget(AVX2).problem(node)
        assert problem is not None
        self.tried = [Tried(problem, ("y",), choices[: len(own)]) for own in times]
        self.times, self.visits = times, 0
        self.slow = itertools.cycle([1.0, 1.002, 1.5, 1.001, 1.0, 1.003, 1.0])

    def visit(self, picks: Sequence[int]) -> list[float]:
        self.visits += 1
        return [own[pick] * next(self.slow) for own, pick in zip(self.times, picks, strict=True)]


def found_by(
    fake: Fake, over: Callable[[int], bool] = lambda done: False
) -> list[tuple[int, bool]]:
    """Which candidate of each problem is found, and whether it is worth a row."""
    outcomes = search(fake, over)  # type: ignore[arg-type]
    return [(o.tried.candidates.index(o.choice), o.better) for o in outcomes]


def test_the_fastest_is_found_through_disturbances() -> None:
    times = [1.0, *(1.0 + 0.02 * i for i in range(1, 8)), 0.9, *(1.1 + 0.1 * i for i in range(7))]
    fake = Fake(times, [1.0, 0.99, 2.0], [1.0], [1.0, 1.2, 0.96, 0.95])
    assert found_by(fake) == [(8, True), (1, False), (0, False), (3, True)]
    assert 1.0 < CLEARLY < 1.05


def test_clearly_slower_ones_are_timed_once() -> None:
    assert survivors({0: [2.0], 1: [1.0], 2: [1.4], 3: [1.6]}, range(4), 1.5) == [0, 1, 2]


def test_a_search_that_is_stopped_gives_what_it_has() -> None:
    fake = Fake([1.0, 0.8, 0.9])
    assert found_by(fake, lambda done: fake.visits >= 2) == [(1, True)]
    assert found_by(Fake([1.0, 0.8, 0.9]), lambda done: True) == []
    fake = Fake([1.0, 0.8, 0.9], [1.0, 1.1])
    fake.slow = itertools.cycle([1.0])
    assert found_by(fake, lambda done: fake.visits >= 2) == [(1, True)]
    fake = Fake([1.0, 0.8, 0.9], [1.0, 1.1])
    fake.slow = itertools.cycle([1.0])
    assert found_by(fake, lambda done: fake.visits >= 4) == [(1, True), (0, False)]


def test_the_first_problems_are_timed_however_short_the_time() -> None:
    over = until(0.0, lambda: False, rounds=1)
    assert not over(0) and over(1)
    assert until(0.0, lambda: False)(0) and until(float("inf"), lambda: True, rounds=1)(0)


@needs_compiler
def test_a_very_short_search_finds_something(call: Call, folder: Path) -> None:
    text = tuned(call, "--seconds", "0.001", "--out", "deep/down/mine.choices")
    assert text.count("gemm f32") + text.count("gemm transpose") > 0
    assert read_choices(Path("deep/down/mine.choices")).head


def tuned(call: Call, *words: str, code: int = 0) -> str:
    few = ("--candidates", "3", "--threads", "1", "--optimizer", "sgd", "--batch", "5")
    return call("tune", "net.py:Plain", *few, *words, code=code)


@needs_compiler
def test_tune_prints_a_table_and_writes_one(call: Call, folder: Path) -> None:
    text = tuned(call)
    assert text.startswith("Plain for c ") and "call " in text
    assert "%0.linear" in text and "gemm f32[5, 4] @ f32[4, 3]" in text
    assert "plain.choices: " in text
    table = read_choices(Path("plain.choices"))
    assert table.head[0].startswith("made by noeira tune for c ")
    assert table.head[0].endswith(", 1 thread")
    noeira.explain(noeira.nn.Sequential[noeira.nn.Linear[4, 3]], choices="plain.choices")


@needs_compiler
def test_tune_adds_to_a_table(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = host()
    table = other_choices(target)
    Path("mine.choices").write_text(str(table))
    monkeypatch.setattr("noeira.tuning.search.CLEARLY", 0.0)
    tuned(call, "--out", "mine.choices")
    found = read_choices(Path("mine.choices"))
    assert set(table.rows) <= set(found.rows), "rows of other problems stay"
    new = [row for row in found.rows if row.problem not in table.by_problem]
    assert all(" µs, by rule " in row.note for row in new)
    assert found.head == (table.head[0], found.head[1])
    tuned(call, "--out", "mine.choices")
    assert len(read_choices(Path("mine.choices")).head) == 2


@needs_compiler
def test_the_first_ctrl_c_ends_the_search_and_keeps_what_it_found(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(trials: Any, over: Callable[[int], bool]) -> Any:
        turns = itertools.count()

        def asked(done: int) -> bool:
            if next(turns) == 4:
                os.kill(os.getpid(), signal.SIGINT)
            return over(done)

        return search(trials, asked)

    monkeypatch.setattr(tune, "GROUP", 2)
    monkeypatch.setattr(tune, "search", interrupted)
    text = tuned(call, code=1)
    assert "plain.choices: " in text and "(stopped early)" in text
    assert text.count("gemm f32") + text.count("gemm transpose") == 2
    assert read_choices(Path("plain.choices")).head


@needs_compiler
def test_the_second_ctrl_c_ends_at_once(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = itertools.count()

    def interrupted(trials: Any, over: Callable[[int], bool]) -> Any:
        if next(groups):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return search(trials, over)

    monkeypatch.setattr(tune, "GROUP", 1)
    monkeypatch.setattr(tune, "search", interrupted)
    text = tuned(call, code=1)
    assert "(stopped early)" in text and read_choices(Path("plain.choices")).head
    assert text.count("gemm f32") + text.count("gemm transpose") == 1
    groups = itertools.count(1)
    Path("plain.choices").unlink()
    assert "stopped before anything was timed" in tuned(call, code=1)
    assert not Path("plain.choices").exists()


@needs_compiler
def test_what_cannot_be_tuned(call: Call, folder: Path) -> None:
    other = "neon" if host().machine.name != "neon" else "avx2"
    assert f" cannot run {other}" in tuned(call, "--isa", other, code=2)
    assert "cannot be written" in tuned(call, "--out", "net.py/x.choices", code=1)
    text = call("tune", "noeira.nn:ReLU", "--input", "5", "--loss", "none")
    assert "ReLU has no matrix product" in text and not Path("relu.choices").exists()
    Path("bad.choices").write_text("nonsense\n")
    assert "bad.choices, line 1" in tuned(call, "--out", "bad.choices", code=1)
