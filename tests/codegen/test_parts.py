"""Units compiled in parts: the same program as one run of the compiler makes, in less time."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler

import noeira
from noeira.codegen.c import parts as parts_module
from noeira.codegen.c.functions import share_functions
from noeira.codegen.c.parts import Sections, parts, wanted
from noeira.codegen.c.render import render_c
from noeira.codegen.sharing import renumbered
from noeira.compiler import lower
from noeira.errors import CompilerError
from noeira.ir.plan import Plan
from noeira.job import job_of
from noeira.nn import Adam, CrossEntropy, Linear, LinearReLU, Module, Sequential, Zero
from noeira.runtime.build import library, own_sources
from noeira.runtime.build.library import build_library
from noeira.runtime.build.plan_file import read_plans, write_plans
from noeira.runtime.c import parts as part_build
from noeira.runtime.c.toolchain import CToolchain, c_toolchain
from noeira.runtime.program import Program

NET = Sequential[LinearReLU[40, 24], LinearReLU[24, 16], Linear[16, 5]]
OPTIONS = {"loss": CrossEntropy, "optimizer": Adam(lr=1e-2), "batch": 20, "seed": 3}
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((50, 40)).astype(np.float32)
Y = RANDOM.integers(0, 5, 50).astype(np.int32)

HELPER = """\
// Twice x.
static NOINLINE void {name}(const float *x, float *y) {{
    y[0] = {factor} * x[0];
}}

"""
KERNEL = """\
static NOINLINE void {name}(const int thread, const float *a0, float *y0) {{
    {name}_twice(a0, y0);
}}
"""


@pytest.fixture
def toolchain() -> CToolchain:
    """This machine's."""
    found = c_toolchain()
    if found is None:
        pytest.skip("there is no C compiler")
    return found


@pytest.fixture
def compiled_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the compiler compiles, part by part: filled as that happens."""
    texts, real = list[str](), part_build.run_all

    def run_all(commands: Sequence[tuple[str, ...]], folder: Path, seconds: float) -> Any:
        texts.extend((folder / command[-1]).read_text() for command in commands)
        return real(commands, folder, seconds)

    monkeypatch.setattr(part_build, "run_all", run_all)
    yield texts


def compiled(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: int = 50,
    net: type[Module] = NET,
    **options: Any,
) -> Program:
    """The program in a cache of its own, in parts of so many lines, with its data loaded."""
    monkeypatch.setenv("NOEIRA_CACHE", str(folder))
    monkeypatch.setattr(parts_module, "PART_LINES", lines)
    monkeypatch.setattr(part_build, "processor_count", lambda: 3)
    program = noeira.compile(net, **OPTIONS | options)
    program.load(X, Y, evaluation=(X, Y))
    return program


def objects(program: Program, unit: int) -> list[Path]:
    """The objects that were compiled for a unit and are of use to others."""
    return [*Path(program.units[unit].folder).glob("part-*.o")]


def functions(texts: Sequence[str]) -> list[str]:
    """The kernels' functions that entries call, as parts define them."""
    return [name for text in texts for name in re.findall(r"^NOINLINE void (\w+)\(", text, re.M)]


def kernel(name: str, factor: str = "2") -> tuple[str, tuple[str, ...]]:
    """A kernel with a helper, and its function that entries call."""
    helper = HELPER.format(name=f"{name}_twice", factor=factor)
    return helper + KERNEL.format(name=name), (name,)


def plan_of(toolchain: CToolchain) -> Plan:
    """The plan of a training step."""
    return lower(
        job_of(NET, batch=20, loss=CrossEntropy, optimizer=Adam()).step(), toolchain.target
    )


@needs_compiler
def test_parts_make_the_same_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = compiled(tmp_path / "parts", monkeypatch)
    monkeypatch.setattr(part_build, "build_in_parts", lambda *_: None)
    whole = compiled(tmp_path / "whole", monkeypatch)
    assert apart.source == whole.source
    assert len(objects(apart, 0)) == 4 and not objects(whole, 0)
    assert apart.steps(7) == whole.steps(7)
    assert apart.evaluate() == whole.evaluate()
    assert apart.gradients(X[:20], Y[:20]) == whole.gradients(X[:20], Y[:20])
    for name, value in apart.params.items():
        assert value.tobytes() == whole.params[name].tobytes()
    assert apart.forward(X).tobytes() == whole.forward(X).tobytes()
    if shutil.which("nm") is not None:
        for unit in (0, 1):
            assert kernels_of(apart, unit) == kernels_of(whole, unit)


def kernels_of(program: Program, unit: int) -> list[str]:
    """The functions of a unit's library that its entries call, each of which is there once."""
    library = Path(program.units[unit].folder) / "unit.so"
    listed = subprocess.run(["nm", library], capture_output=True, text=True, check=True)
    names = [line.split()[-1].split(".")[0] for line in listed.stdout.splitlines()]
    called = re.findall(r"^            (k\d+_\w+)\(thread", program.units[unit].source, re.M)
    found = sorted(name for name in names if name in called)
    assert len(found) == len(set(called))
    return found


@needs_compiler
def test_a_second_unit_compiles_only_what_the_first_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled_parts: list[str]
) -> None:
    program = compiled(tmp_path, monkeypatch)
    once = functions(compiled_parts)
    assert len(once) == len(set(once))
    names = [{*re.findall(r"\b(k\d+_\w+?)(?=\()", unit.source)} for unit in program.units]
    shared = {name for name in names[0] & names[1] if "matmul" in name}
    assert shared, "the products of the step are those of the steps over data in memory"
    # A start that finds the first unit in the cache takes its kernels too.
    compiled_parts.clear()
    again = noeira.compile(NET, **OPTIONS)
    assert not compiled_parts
    again.load(X[:45], Y[:45])
    assert compiled_parts and not {*functions(compiled_parts)} & names[0]


class Renamed(NET):
    """The same network under a name of its own."""


@needs_compiler
def test_another_learning_rate_compiles_the_plans_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled_parts: list[str]
) -> None:
    first = compiled(tmp_path, monkeypatch)
    compiled_parts.clear()
    changes: list[dict[str, Any]] = [{"optimizer": Adam(lr=2e-2)}, {"init": Zero}]
    for changed in changes:
        other = compiled(tmp_path, monkeypatch, **changed)
        assert len(compiled_parts) == 2
        assert all(text.startswith("extern const char noeira_plans") for text in compiled_parts)
        assert other.steps(3) != first.steps(3)
        compiled_parts.clear()
    # Its entries bear the name of the network; its kernels do not.
    compiled(tmp_path, monkeypatch, net=Renamed)
    assert compiled_parts and not functions(compiled_parts)


@needs_compiler
def test_a_part_that_is_gone_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled_parts: list[str]
) -> None:
    first = compiled(tmp_path, monkeypatch)
    compiled_parts.clear()
    objects(first, 0)[0].write_bytes(b"damaged")
    other = compiled(tmp_path, monkeypatch, optimizer=Adam(lr=2e-2))
    assert len(compiled_parts) > 2 and other.steps(1) == first.steps(1)


@needs_compiler
def test_plans_that_other_sources_wrote_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOEIRA_CACHE", str(tmp_path))
    with monkeypatch.context() as other:
        other.setattr(own_sources, "_known", ["other sources"])
        other.setattr(library, "write_plans", lambda plans: b"plans of other classes")
        noeira.compile(Linear[3, 2]).prepare()
    # The first has the same text, the second starts warm.
    for _ in range(2):
        assert noeira.compile(Linear[3, 2]).forward(X[:, :3]).shape == (50, 2)


def test_a_fault_is_reported_at_its_line_of_the_unit(
    toolchain: CToolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "PART_LINES", 50)
    monkeypatch.setattr(part_build, "processor_count", lambda: 2)
    source = render_c("broken", [plan_of(toolchain)], toolchain.target)
    sections = source.sections
    assert sections is not None
    wrong = re.sub(
        r"^    \(void\)",
        "    wrong = 1;\n    (void)",
        sections.kernels[-1].text,
        count=1,
        flags=re.M,
    )
    digest = "of another text"
    kernels = (*sections.kernels[:-1], replace(sections.kernels[-1], text=wrong, digest=digest))
    text = source.text.replace(sections.kernels[-1].text, wrong)
    line = text[: text.index("wrong = 1;")].count("\n") + 1
    broken = replace(source, text=text, sections=replace(sections, kernels=kernels))
    with pytest.raises(CompilerError, match=rf"unit\.c:{line}:\d+: error: .wrong. undeclared"):
        build_library(broken, toolchain.builder, toolchain.cache)


def test_parts_are_of_equal_size_and_hold_each_kernel_once(toolchain: CToolchain) -> None:
    source = render_c("net", [plan_of(toolchain)], toolchain.target)
    assert source.sections is not None
    sections = source.sections
    assert len(parts(sections, 1)) == 3
    entries, *kernels = two(sections)
    held = [digest for part in kernels for digest in part.holds]
    assert sorted(held) == sorted(section.digest for section in sections.kernels)
    assert sorted([*held, *entries.holds]) == sorted(wanted(sections))
    (plans,) = parts(sections, 2, wanted(sections))
    assert not plans.holds and "noeira-plan 1" in plans.text
    texts = [part.text for part in parts(sections, 2) if part != plans]
    assert not any("noeira-plan 1" in text for text in texts)


def two(sections: Sections) -> list[parts_module.Part]:
    """The entries, and the kernels in two parts."""
    groups = parts_module.groups(sections.kernels, 2)
    sizes = [sum(section.lines for section in group) for group in groups]
    largest = max(section.lines for section in sections.kernels)
    assert abs(sizes[0] - sizes[1]) <= largest
    made = [parts_module.kernels_part(sections.head, group) for group in groups]
    return [parts_module.entries_part(sections), *made]


def test_functions_that_are_alike_are_kept_once() -> None:
    first, second, other = share_functions([kernel("k00_a"), kernel("k01_b"), kernel("k02_c", "3")])
    assert first == kernel("k00_a")[0]
    assert "Twice" not in second and "k00_a_twice(a0, y0);" in second
    assert other == kernel("k02_c", "3")[0]


def test_a_function_that_needs_its_kernel_stays() -> None:
    texts = [(f"#define FACTOR 2\n\n{text}", names) for text, names in map(scaled, "ab")]
    assert share_functions(texts)[1] == texts[1][0]


def scaled(name: str) -> tuple[str, tuple[str, ...]]:
    """A kernel whose helper uses a macro of the kernel."""
    return kernel(f"k_{name}", "FACTOR")


def test_numbers_of_kernels_do_not_make_an_edit() -> None:
    assert renumbered("k07_a(k03_b_tile); k07_a;") == "k00_a(k01_b_tile); k00_a;"


def test_plans_as_bytes(toolchain: CToolchain) -> None:
    plan = plan_of(toolchain)
    assert read_plans(write_plans([plan, plan])) == (plan, plan)
    for module, name in (
        ("builtins", "print"),
        ("noeira.ir.builder", "contextlib.os.getcwd"),
        ("noeira.ir.builder", "contextlib"),
        ("noeira.ir.graph", "replace"),
    ):
        lengths = bytes([len(module)]), bytes([len(name)])
        words = b"\x8c" + lengths[0] + module.encode() + b"\x8c" + lengths[1] + name.encode()
        with pytest.raises(UnpicklingError, match=rf"a plan has no {module}\.{name}"):
            read_plans(b"\x80\x05" + words + b"\x93.")
