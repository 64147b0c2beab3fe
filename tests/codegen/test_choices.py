"""Tables of choices: their text, and what a program makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler
from tables import BATCH, Small, host, other_choices, products, step_graph

import noeira
from noeira.codegen.c.isa import AVX512
from noeira.codegen.c.target import CTarget
from noeira.codegen.choices import check_row, read_choices
from noeira.compiler import run_passes
from noeira.errors import NoeiraError, ParseError
from noeira.ir.choices import Choices, Factor, Problem, Row, parse_choices
from noeira.ir.plan import Stage
from noeira.ir.types import TensorType
from noeira.job import job_of
from noeira.nn import SGD, CrossEntropy
from noeira.runtime.c.toolchain import c_toolchain

pytest_plugins = ("command_line",)

Call = Callable[..., str]


def test_the_text_of_a_table_is_exact_both_ways() -> None:
    table = other_choices(CTarget(AVX512))
    text = str(table)
    assert parse_choices(text, check_row) == table
    assert str(parse_choices(text, check_row)) == text
    assert text.startswith("// noeira-choices 1\n# made by hand\n\ngemm f32[37, 3] @ transpose(")


def test_comments_are_kept_where_they_stand() -> None:
    target = CTarget(AVX512)
    one, two = other_choices(target).rows[:2]
    text = (
        f"// noeira-choices 1\n# at the top\n#   two lines\n\n# over the first\n"
        f"{one.decision}   # behind it, with a # of its own\n\n\n# over the second\n"
        f"#\n   {two.decision}\n# at the end\n"
    )
    table = parse_choices(text, check_row)
    assert table.head == ("at the top", "two lines") and table.foot == ("at the end",)
    assert table.rows[0].above == ("over the first",)
    assert table.rows[0].note == "behind it, with a # of its own"
    assert table.rows[1].above == ("over the second", "")
    assert parse_choices(str(table), check_row) == table
    again = table.merged([Row(one.problem, one.stages, "new")], head=("at the top", "added"))
    assert again.head == ("at the top", "two lines", "added")
    assert again.by_problem[one.problem].above == ("over the first",)
    assert again.by_problem[one.problem].note == "new"


def test_tables_are_in_the_order_of_their_sizes() -> None:
    def row(m: int, target: str = "c avx512") -> Row:
        factors = (Factor(TensorType("f32", (m, 8))), Factor(TensorType("f32", (8, 8))))
        return Row(Problem("gemm", factors, target), (Stage("gemm"),))

    table = Choices((row(3),)).merged([row(100), row(20), row(5, "c avx2")], [row(3).problem])
    assert [r.problem.factors[0].type.shape[0] for r in table.rows] == [5, 20, 100]
    assert table.merged([], [r.problem for r in table.rows]).rows == ()


def test_problems_differ_in_their_options() -> None:
    x, w = Factor(TensorType("f32", (1, 8, 9, 9))), Factor(TensorType("f32", (4, 8, 3, 3)))
    attrs = ({}, {"stride": 2}, {"stride": 2, "pads": (1, 1), "causal": True})
    problems = [Problem("conv", (x, w), "c avx512", tuple(own.items())) for own in attrs]
    table = Choices().merged([Row(one, (Stage(f"conv_{i}"),)) for i, one in enumerate(problems)])
    last = "conv f32[1, 8, 9, 9] @ f32[4, 8, 3, 3] {causal = true, pads = [1, 1], stride = 2} for c"
    assert last in str(table)
    # In whatever order they are written.
    turned = str(table).replace("causal = true, pads = [1, 1]", "pads = [1, 1], causal = true")
    for text in (str(table), turned):
        found = parse_choices(text, lambda problem, stages: None)
        rows = map(found.find, problems)
        assert [row.stages[0].name for row in rows if row] == ["conv_0", "conv_1", "conv_2"]


WRONG = {
    "the first line": ("noeira-choices 1\n", "line 1: expected // noeira-choices 1"),
    "no operand": ("{v}gemm for c avx512: {s}\n", "line 3: there is no dtype 'for'"),
    "no target": ("{v}gemm {p}: {s}\n", "line 3: expected 'for', got ':'"),
    "no stage": ("{v}gemm {p} for c avx512:\n", "line 3: expected a stage such as gemm{"),
    "another kernel": (
        "{v}map {p} for c avx512: {s}\n",
        "line 3: map f32[37, 20] @ f32[20, 33] for c avx512: there are no choices for map",
    ),
    "no kernel": (
        "{v}gemmm {p} for c avx512: {s}\n",
        "line 3: gemmm f32[37, 20] @ f32[20, 33] for c avx512: there are no choices for gemmm",
    ),
    "a language without choices": (
        "{v}gemm {p} for cuda sm_80: {s}\n",
        "line 3: gemm f32[37, 20] @ f32[20, 33] for cuda sm_80: there are no choices for gemm",
    ),
    "another target": (
        "{v}gemm {p} for c mmx: {s}\n",
        "line 3: there is no target 'c mmx'; there are c",
    ),
    "shapes that do not fit": (
        "{v}gemm f32[3, 4] @ f32[5, 6] for c avx512: {s}\n",
        "line 3: gemm f32[3, 4] @ f32[5, 6]: 4 columns do not fit 5 rows",
    ),
    "an option of the problem": (
        "{v}gemm {p} {{stride = 2}} for c avx512: {s}\n",
        "line 3: gemm f32[37, 20] @ f32[20, 33] {stride = 2}: a product of matrices has no options",
    ),
    "two dtypes": (
        "{v}gemm f32[3, 4] @ f64[4, 6] for c avx512: {s}\n",
        "line 3: gemm f32[3, 4] @ f64[4, 6]: expected two matrices of f32, or two of f64",
    ),
    "one operand": (
        "{v}gemm f32[3, 4] for c avx512: {s}\n",
        "line 3: gemm f32[3, 4]: expected two matrices",
    ),
    "another stage": ("{v}gemm {p} for c avx512: rows{{}}\n", "line 3: rows{}: "),
    "the same problem twice": (
        "{v}gemm {p} for c avx512: {s}\ngemm {p} for c avx512: {s}\n",
        "line 4: line 3 is for the same problem",
    ),
    "an option twice": (
        "{v}gemm {p} for c avx512: gemm{{a = 1, a = 1}}\n",
        "line 3: a is given twice",
    ),
    "a size of another shape": (
        "{v}gemm f32[1, 1] @ f32[1, 1] for c avx512: {s}\n",
        "line 3: ",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_what_is_wrong_with_a_table(mistake: str, tmp_path: Path) -> None:
    text, expected = WRONG[mistake]
    node = products(step_graph(), CTarget(AVX512))[0]
    stages = " ".join(map(str, CTarget(AVX512).candidates(node)[0].stages))
    head = "// noeira-choices 1\n\n"
    path = tmp_path / "x.choices"
    path.write_text(text.format(v=head, s=stages, p="f32[37, 20] @ f32[20, 33]"))
    with pytest.raises(ParseError) as error:
        read_choices(path)
    assert str(error.value).startswith(f"{path}, {expected}")


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoeiraError, match=r"the choices .*none\.choices cannot be read: No such"):
        noeira.compile(Small, choices=tmp_path / "none.choices")


def program(choices: Any = None, target: str = "cpu") -> noeira.Program:
    return noeira.compile(
        Small,
        loss=CrossEntropy,
        optimizer=SGD(lr=0.1),
        batch=BATCH,
        seed=3,
        target=target,
        choices=choices,
    )


def after_steps(made: noeira.Program) -> list[np.ndarray]:
    """The loss and all parameters after some steps."""
    random = np.random.default_rng(0)
    for _ in range(3):
        x = random.standard_normal((BATCH, 20)).astype(np.float32)
        loss = made.step(x, random.integers(0, 3, BATCH))
    return [np.float32(loss), *(value.copy() for value in made.params.values())]


def chosen_stages(made: noeira.Program) -> list[str]:
    """The stages of the products in the plan of the step."""
    calls = made.entries["step"].plan.calls  # type: ignore[attr-defined]
    target = host()
    return [" ".join(map(str, c.choice.stages)) for c in calls if target.problem(c.node)]


@needs_compiler
def test_a_program_runs_as_its_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    table = other_choices(host())
    by_rule, made = program(), program(table)
    rows = {" ".join(map(str, row.stages)) for row in table.rows}
    assert set(chosen_stages(made)) == rows
    assert not rows & set(chosen_stages(by_rule))
    assert made.choices is table and made.units[0].folder != by_rule.units[0].folder
    assert set(chosen_stages(program(table))) == rows, "a warm start has the table's plans"
    bits = set[bytes]()
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("NOEIRA_THREADS", threads)
        found = after_steps(program(table))
        bits.add(b"".join(array.tobytes() for array in found))
    assert len(bits) == 1
    for array, expected in zip(found, after_steps(program(target="reference")), strict=True):
        np.testing.assert_allclose(array, expected, rtol=2e-5, atol=2e-6)


@needs_compiler
def test_the_key_of_a_program_has_the_decisions_and_no_comments() -> None:
    table = other_choices(host())
    keys = list[str]()
    noted = table.merged([Row(row.problem, row.stages, "new note") for row in table.rows])
    for choices in (Choices(), table, noted, Choices(table.rows[1:])):
        toolchain = c_toolchain(choices)
        assert toolchain is not None
        keys.append(toolchain.request("net", ["graph"]))
    assert keys[1] == keys[2] and len(set(keys)) == 3


@needs_compiler
def test_the_setting_is_for_compiles_that_are_given_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "all.choices"
    path.write_text(str(other_choices(host())))
    monkeypatch.setenv("NOEIRA_CHOICES", str(path))
    made = program()
    assert made.choices.name == "all.choices"
    assert chosen_stages(made) == chosen_stages(program(str(path)))
    assert chosen_stages(program(Choices())) != chosen_stages(made)
    path.write_text("nonsense")
    with pytest.raises(ParseError, match=r"all\.choices, line 1"):
        program()


@needs_compiler
def test_reports_say_what_comes_from_a_table(call: Call, folder: Path) -> None:
    target = host()
    job = job_of(Small, loss=CrossEntropy, batch=5)
    (node, *_) = products(run_passes(job.forward()).graph, target)
    problem = target.problem(node)
    assert problem is not None
    stages = target.candidates(node)[-1].stages
    Path("one.choices").write_text(str(Choices((Row(problem, stages),))))
    Path("small.py").write_text(
        "from noeira.nn import Linear, LinearReLU, Sequential\n\n"
        "class Small(Sequential[LinearReLU[20, 33], Linear[33, 3]]):\n    '''Two.'''\n"
    )
    words = ("small.py:Small", "--batch", "5", "--entry", "forward", "--choices", "one.choices")
    text = call("explain", *words)
    assert "fused because you wrote LinearReLU[20, 33]   (from one.choices)" in text
    assert text.endswith("choices: 1 from one.choices, 1 by rule\n")
    assert '"chosen_by": "one.choices"' in call("explain", *words, "--json")
    listed = call("kernels", *words)
    assert f"{' '.join(map(str, stages))}   from one.choices\n" in listed
    assert "   by rule\n" in listed
    assert " ".join(map(str, stages)) in call("dump", *words, "--stage", "plan")
    assert "by rule" not in call("explain", *words[:-2]) + call("kernels", *words[:-2])
    assert call("run", *words)
    Path("x.plan").write_text(call("dump", *words, "--stage", "plan"))
    refused = call("run", "x.plan", "--choices", "one.choices", code=2)
    assert "was decided when x.plan was made" in refused
    made = noeira.compile(Small, batch=5, choices="one.choices")
    assert noeira.explain(made).launches[0].chosen_by == "one.choices"
