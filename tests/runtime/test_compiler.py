"""The line as a whole: dumps, warm starts, edits, compilers that fail, many processes at once."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler

import noeira
from noeira import job as job_module
from noeira.compiler import lower
from noeira.ir.graph import ComputeGraph, Value
from noeira.ir.op import OPS
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.scalar import Expr, var
from noeira.ir.text.dump import parse_dump
from noeira.ir.text.plan import parse_plans
from noeira.job import job_of
from noeira.nn import (
    SGD,
    Adam,
    CrossEntropy,
    Linear,
    LinearReLU,
    Module,
    Scope,
    Sequential,
    Xavier,
)
from noeira.runtime.build.library import Library
from noeira.runtime.c.toolchain import CToolchain, c_toolchain
from noeira.tracing import traced

Net = Sequential[LinearReLU[6, 5], Linear[5, 3]]
OPTIONS = {"loss": CrossEntropy, "optimizer": Adam(), "batch": 4}
SCRIPT = """
import sys
import numpy as np
import noeira
from noeira.compiler import lower
from noeira.nn import Adam, CrossEntropy, Linear, LinearReLU, Sequential

Net = Sequential[LinearReLU[6, 5], Linear[5, 3]]
program = noeira.compile(Net, loss=CrossEntropy, optimizer=Adam(), batch=4)
x, y = np.ones((4, 6), "f4"), np.zeros(4, "i4")
print(program.step(x, y).hex(), program.units[0].folder)
"""


def batch() -> tuple[np.ndarray, np.ndarray]:
    """A batch of ones."""
    return np.ones((4, 6), "f4"), np.zeros(4, "i4")


def start(**environment: str) -> subprocess.Popen:
    """A process that compiles and makes a step."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen) -> list[str]:
    """What it printed, as words."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.split()


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache that nothing else uses."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("NOEIRA_CACHE", str(folder))
    return folder


@needs_compiler
def test_every_stage_of_a_compile_is_dumped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NOEIRA_DUMP", str(tmp_path))
    # What an earlier compile, of more passes, left there changes no number.
    left = tmp_path / "sequential.step" / "09_fuse.nir"
    left.parent.mkdir()
    left.write_text("")
    program = noeira.compile(Net, **OPTIONS)
    left.unlink()
    names = sorted(p.name for p in left.parent.iterdir())
    assert names == [
        "00_trace.nir",
        "01_vjp.nir",
        "02_update.nir",
        "03_guard.nir",
        "04_dce.nir",
        "05_fuse.nir",
        "06_own.nir",
        "07_schedule.nir",
        "08_plan.plan",
    ]
    assert (tmp_path / "Sequential.c").read_text() == program.source
    toolchain = c_toolchain()
    assert toolchain is not None
    final = (tmp_path / "sequential.step" / "08_plan.plan").read_text()
    for name in names[:-1]:
        dump = parse_dump((tmp_path / "sequential.step" / name).read_text())
        assert str(lower(dump, toolchain.target)) == final


@needs_compiler
def test_the_unit_carries_its_plans() -> None:
    program = noeira.compile(Net, **OPTIONS)
    library = program.entries["step"].library  # type: ignore[attr-defined]
    import ctypes

    text = ctypes.string_at(
        ctypes.addressof(ctypes.c_char.in_dll(library, "noeira_plans"))
    ).decode()
    assert parse_plans(text) == [program.plans[n] for n in ("forward", "gradients", "step")]


@needs_compiler
def test_only_programs_with_ops_of_ones_own_have_no_key() -> None:
    class Third(Elementwise):
        name = "a_third"

        def expression(self, attrs: object) -> Expr:
            return var("x") / 3.0

    class Layer(Module):
        signature = "(*) -> (*)"

        @classmethod
        def trace(cls, scope: Scope, x: Value) -> Value:
            return scope.emit("a_third", x)

    toolchain = c_toolchain()
    assert toolchain is not None
    graphs = [str(job_of(net, batch=4, input=(3,)).forward()) for net in (Linear[3, 2], Layer)]
    try:
        assert toolchain.request("net", graphs[:1])
        assert not toolchain.request("net", graphs)
    finally:
        OPS.pop("a_third")


@needs_compiler
def test_a_warm_start_runs_no_pass_and_no_compiler(
    monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    x, y = batch()
    cold = noeira.compile(Net, **OPTIONS)
    from noeira import compiler

    def refuse(*args: object) -> None:
        raise AssertionError("a warm start came here")

    monkeypatch.setattr(compiler, "lower", refuse)
    monkeypatch.setattr(CToolchain, "build", refuse)
    warm = noeira.compile(Net, **OPTIONS)
    assert warm.step(x, y) == cold.step(x, y)
    others = [
        {"batch": 5},
        {"dtype": "f64"},
        {"optimizer": Adam(beta1=0.8)},
        {"optimizer": Adam(lr=0.1)},
        {"optimizer": SGD()},
        {"loss": CrossEntropy.of(smoothing=0.1)},
        {"init": Xavier},
    ]
    for other in others:
        with pytest.raises(AssertionError, match="a warm start came here"):
            noeira.compile(Net, **(OPTIONS | other))


@needs_compiler
def test_kernels_are_shared_and_each_is_one_symbol() -> None:
    class Deep(Sequential[LinearReLU[8, 8], LinearReLU[8, 8], LinearReLU[8, 8], Linear[8, 3]]):
        """Three layers alike."""

    toolchain = c_toolchain()
    assert toolchain is not None
    program = noeira.compile(Deep, batch=4)
    plan = program.plans["forward"]
    assert len(plan.calls) == 4
    assert program.source.count("static NOINLINE void k00_linear_relu(") == 1
    assert "k01_linear(" in program.source and "k02_" not in program.source


@needs_compiler
def test_an_edited_source_is_run_when_asked_and_says_so(
    monkeypatch: pytest.MonkeyPatch, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    x, y = batch()
    first = noeira.compile(Net, **OPTIONS)
    loss = first.step(x, y)
    source = Path(first.units[0].folder) / "unit.c"
    marker = "long noeira_sequential_step(char *arena, void *const *io, int max_threads, "
    text = source.read_text()
    assert marker in text
    source.write_text(text.replace("    return step;", "    return 42;"))
    monkeypatch.setenv("NOEIRA_EDITED", "1")
    with caplog.at_level(logging.WARNING, logger="noeira"):
        edited = noeira.compile(Net, **OPTIONS)
    assert "running the edited source" in caplog.text
    edited.step(x, y)
    assert edited.entries["step"].run(1) == 42
    monkeypatch.setenv("NOEIRA_EDITED", "0")
    plain = noeira.compile(Net, **OPTIONS)
    assert plain.step(x, y) == loss and plain.entries["step"].run(1) == 1


@needs_compiler
def test_a_compiler_that_fails_is_quoted(
    monkeypatch: pytest.MonkeyPatch, own_cache: Path, tmp_path: Path
) -> None:
    toolchain = c_toolchain()
    assert toolchain is not None
    real = " ".join(toolchain.compiler.command)
    broken = tmp_path / "cc"
    broken.write_text(
        f"""#!/bin/sh
case "$*" in *unit.c* | *part*.c*) echo "unit.c:7: the disk is on fire" >&2; exit 1;; esac
exec {real} "$@"
"""
    )
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(noeira.CompilerError) as caught:
        noeira.compile(Net, **OPTIONS)
    message = str(caught.value)
    assert "the disk is on fire" in message and str(broken) in message
    kept = message.rsplit("source:", 1)[1].strip()
    assert "noeira_sequential_step" in Path(kept).read_text()


def test_without_a_compiler_the_reference_runs_and_says_so(own_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    process = start(PATH=str(tmp_path / "empty"), CC="", PYTHONPATH=blocked_ziglang(tmp_path))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "no C compiler was found: programs run on the NumPy reference" in err
    assert float.fromhex(out.split()[0]) > 0


def blocked_ziglang(folder: Path) -> str:
    """A path on which the package `ziglang`, installed or not, cannot run."""
    package = folder / "blocked" / "ziglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('not here')\n")
    (package / "__main__.py").write_text("raise SystemExit(1)\n")
    return str(package.parent)


@pytest.mark.parametrize("processes", [2, 4, pytest.param(16, marks=pytest.mark.slow)])
def test_many_processes_may_compile_the_same_at_once(own_cache: Path, processes: int) -> None:
    running = [start() for _ in range(processes)]
    results = {tuple(finish(p)) for p in running}
    assert len(results) == 1


@needs_compiler
def test_damaged_entries_are_rebuilt(own_cache: Path) -> None:
    loss, folder = finish(start())
    for name in ("unit.so", "unit.plan", "checksums"):
        path = Path(folder) / name
        path.write_bytes(path.read_bytes()[:50])
        again, _ = finish(start())
        assert again == loss


@needs_compiler
def test_a_read_only_cache_is_no_obstacle(own_cache: Path) -> None:
    own_cache.mkdir()
    blocked = own_cache / "not-a-folder"
    blocked.write_text("")
    process = start(NOEIRA_CACHE=str(blocked))
    loss, _ = finish(process)
    assert loss == finish(start())[0]


@needs_compiler
def test_a_program_keeps_no_files_of_the_cache() -> None:
    program = noeira.compile(Net, **OPTIONS)
    kept = [value for unit in program.units for value in vars(unit).values()]
    assert program.units[0].plans and not any(isinstance(value, Library) for value in kept)


def test_an_entry_is_traced_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    phases = list[str]()

    def spy(net: Any, options: Any, phase: Any, entry: str) -> ComputeGraph:
        phases.append(phase)
        return traced(net, options, phase, entry)

    monkeypatch.setattr(job_module, "traced", spy)
    job = job_of(Net, batch=4, loss=CrossEntropy, optimizer=Adam())
    assert job.entry("order").dump.graph.name == "sequential.order" and not phases
    assert job.entry().name == job.entry("step").name == "step" and phases == ["train"]
    assert [job.entry(name).name for name in ("gradients", "steps")] == ["gradients", "steps"]
    assert phases == ["train"], "they begin with what a step begins with"
    assert len(job.entries()) == 3 and phases == ["train", "eval"]


def test_jobs_name_their_entries() -> None:
    job = job_of(Net, batch=4, loss=CrossEntropy, optimizer=Adam())
    names = ["forward", "gradients", "step"]
    assert [entry.name for entry in job.entries()] == names
    assert [job.entry(name).name for name in job.makers_with_data] == [
        *names,
        "steps",
        "order",
        "evaluate",
    ]
    assert job.entry("steps").dump.graph.name == "sequential.steps"
    assert [entry.name for entry in job.training(10).entries] == ["steps", "steps.last"]
    assert [entry.name for entry in job.training(8).entries] == ["steps"]
    assert [entry.name for entry in job.evaluation(3).entries] == ["evaluate"]


def test_a_data_set_is_gone_through_in_turns() -> None:
    training = job_of(Net, batch=4, loss=CrossEntropy, optimizer=Adam()).training(10)
    assert training.steps == 3
    assert [training.done(taken) for taken in (0, 4, 8, 10)] == [0, 1, 2, 3]
    following = [training.following(taken) for taken in (0, 4, 8)]
    assert [(one.entry.name, one.calls) for one in following] == [
        ("steps", 2),
        ("steps", 1),
        ("steps.last", 1),
    ]


OWN_OP = """
import numpy as np
import noeira
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.scalar import var
from noeira.nn import Module


class Times(Elementwise):
    name = "times"

    def expression(self, attrs):
        return var("x") * {factor}.0


class TimesModule(Module):
    signature = "(*) -> (*)"

    @classmethod
    def trace(cls, scope, x):
        return scope.emit("times", x)


if __name__ == "__main__":
    program = noeira.compile(TimesModule, batch=1, input=(3,))
    print(program.forward(np.ones((1, 3), "f4"))[0, 0])
"""


def test_a_changed_op_of_the_users_own_gives_no_stale_kernel(
    own_cache: Path, tmp_path: Path
) -> None:
    script = tmp_path / "own.py"
    for factor in (2, 3, 2):
        script.write_text(OWN_OP.replace("{factor}", str(factor)))
        run = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        assert float(run.stdout) == factor


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm, which lists symbols, is not installed")
@needs_compiler
def test_each_distinct_kernel_is_one_symbol_of_the_binary() -> None:
    program = noeira.compile(Net, **OPTIONS)
    library = Path(program.units[0].folder) / "unit.so"
    listed = subprocess.run(["nm", str(library)], capture_output=True, text=True, check=True).stdout
    # A compiler may adapt a function to its callers; `k00_linear.constprop.0` is still that one.
    found = [line.split()[-1].split(".")[0] for line in listed.splitlines()]
    kernels = set(re.findall(r"^    (k\d\d_\w+)\(share", program.source, re.MULTILINE))
    calls = [plan.calls for plan in program.plans.values()]
    assert 1 < len(kernels) < sum(map(len, calls))
    assert {name: found.count(name) for name in kernels} == dict.fromkeys(kernels, 1)
