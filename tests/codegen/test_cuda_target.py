"""How the CUDA target runs a node, and what becomes of a network: its unit, its machine code."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fake_device import FakeDevice
from sweep import sample_case

from noeira.codegen.c.isa import AVX2
from noeira.codegen.c.target import CTarget
from noeira.codegen.cuda.arch import ARCHS, arch
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.kernel import kernel_text
from noeira.codegen.sharing import shared_kernels
from noeira.codegen.targets import target_named
from noeira.commands.support.files import plan_from
from noeira.compiler import lower, run_passes
from noeira.errors import DeviceError, NoeiraError, VerifyError
from noeira.ir.builder import Builder
from noeira.ir.choices import Choices
from noeira.ir.graph import Node
from noeira.ir.op import op
from noeira.ir.plan import Call, Choice, Stage
from noeira.ir.samples import Draw, Sample
from noeira.ir.text.dump import Dump
from noeira.ir.types import TensorType
from noeira.nn import Adam, CrossEntropy, Linear, LinearGELU, LinearReLU, ReLU, Sequential
from noeira.planning.check import checked_plan
from noeira.planning.memory import make_plan
from noeira.runtime.build.cache import open_cache
from noeira.runtime.build.library import build_library
from noeira.runtime.cuda.builder import CudaBuilder
from noeira.runtime.cuda.compiler import find_cuda_compiler
from noeira.runtime.cuda.toolchain import CudaToolchain
from noeira.runtime.cuda_cpu.device import CudaCpuDevice
from noeira.stages import stages_of

Tiny = Sequential[LinearReLU[3, 4], Linear[4, 2]]
TARGET = CudaTarget(arch("sm_80"))


def node(name: str, *shapes: tuple[int, ...], **attrs: object) -> Node:
    """An op over normal numbers of these shapes."""
    draws = tuple(Draw(TensorType("f32", shape)) for shape in shapes)
    return sample_case(op(name), Sample(draws, attrs)).node


def test_unit_of_a_tiny_network(golden: Callable[..., None]) -> None:
    golden(stages_of(Tiny, batch=2, target="cuda", loss=None).source.text)


def test_launches_of_a_training_step(golden: Callable[..., None]) -> None:
    plan = stages_of(Tiny, batch=5, target="cuda", arch="sm_90").plan
    golden("\n".join(line for line in str(plan).splitlines() if line.startswith("  call")))


def test_choice_depends_on_nothing_but_shape_and_gpu() -> None:
    product = node("matmul", (100, 784), (784, 256))
    for kind in ARCHS.values():
        target = CudaTarget(kind)
        assert target.name == f"cuda {kind.name}"
        assert target.choose(product) == CudaTarget(kind).choose(product)
        options = dict(target.choose(product).stages[0].options)
        assert options["grid"] >= 1 and options["block"] <= kind.block_threads
        assert options.get("shared", 0) <= kind.most_shared


@pytest.mark.parametrize("name", ["c avx512", "c plain", "cuda sm_75", "cuda sm_100"])
def test_targets_by_name(name: str) -> None:
    assert target_named(name).name == name


@pytest.mark.parametrize("name", ["cuda", "cuda sm_70", "c avx10", "opencl"])
def test_unknown_targets_by_name(name: str) -> None:
    with pytest.raises(DeviceError):
        target_named(name)


def test_more_rows_than_a_grid_dimension_could_have() -> None:
    # 65,535 is the most that y and z can have: rows go along x.
    for name in ("softmax", "softmax_grad", "relu"):
        rows = node(name, *((70_000, 3),) * len(op(name).operands))
        (stage,) = TARGET.choose(rows).stages
        assert dict(stage.options)["grid"] < 2**31
        kernel_text(Call(rows, Choice((stage,))), TARGET, "k")


def test_an_edited_launch_that_a_gpu_cannot_do() -> None:
    plan = stages_of(Tiny, batch=2, target="cuda", loss=None).plan
    (first, *_) = plan.calls
    options = dict(first.choice.stages[0].options)
    large = Stage("gemm", tuple((options | {"rows": 512, "columns": 512, "depth": 64}).items()))
    with pytest.raises(VerifyError) as caught:
        kernel_text(Call(first.node, Choice((large,))), TARGET, "k")
    assert "gemm" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("grid = 1, shared = 16", "block is missing"),
        ("grid = 0, block = 32", "grid must be a whole number of at least 1"),
        ("grid = 1, block = 1.5", "block must be a whole number of at least 1"),
        ("grid = 1, block = true", "block must be a whole number of at least 1"),
        ("grid = 1, block = 32, shared = -4", "shared must be a whole number of at least 0"),
        ("grid = 1, block = 2048", "at most 1,024 threads in a block, not 2,048"),
        ("grid = 1, block = 32, row_threads = 4", "map has no option row_threads"),
    ],
)
def test_launches_of_an_edited_plan(options: str, message: str) -> None:
    plan = stages_of(ReLU, batch=2, input=(4,), target="cuda", loss=None).plan
    edited = re.sub(r"map\{[^}]*\}", f"map{{{options}}}", str(plan))
    assert edited != str(plan)
    with pytest.raises(VerifyError, match=message):
        checked_plan(edited, target_named)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("row_threads = 0", "row_threads must be a whole number of at least 1"),
        ("block = 96, row_threads = 12", "row_threads must be a power of two up to 32"),
        ("block = 16, row_threads = 4", "block must be a multiple of 32, not 16"),
        ("block = 24, row_threads = 24", "block must be a multiple of 32, not 24"),
        ("block = 128, row_threads = 64", "or the whole block"),
        ("held = 3", "held must be a multiple of 4 of at least 4 for rows of 64 elements"),
        ("row_threads = 8, held = 4", "held must be a multiple of 4 of at least 8"),
    ],
)
def test_launches_of_rows_of_an_edited_plan(options: str, message: str) -> None:
    rows = node("softmax", (9, 64))
    (stage,) = TARGET.choose(rows).stages
    edits = dict(part.split(" = ") for part in options.split(", "))
    given = dict(stage.options) | {name: int(value) for name, value in edits.items()}
    edited = Stage(stage.name, tuple(given.items()))
    with pytest.raises(VerifyError, match=message):
        TARGET.cuts(rows, Choice((edited,)))


VIEW = """
from noeira.ir.op import Op
from noeira.ir.storage import Inside
from noeira.ir.types import TensorType

class FromThird(Op):
    'x without its first three elements, where they lie'

    name, operands = "from_third", ("x",)

    def infer(self, attrs, x):
        return (TensorType(x.dtype, (x.size - 3,)),)

    def reference(self, attrs, x):
        return (x.ravel()[3:],)

    def storage(self, attrs, operands):
        return Inside(0, 3)
"""


def test_a_view_that_begins_within_an_access_is_refused_with_its_place(
    define: Callable[[str], ModuleType],
) -> None:
    define(VIEW)
    builder = Builder("view")
    x = builder.input("x", TensorType("f32", (11,)))
    view = builder.emit("from_third", builder.emit("relu", x))
    dump = Dump(builder.done([builder.emit("relu", view)]))
    assert lower(dump, CTarget(AVX2)).place["from_third"].offset == 12
    message = (
        r"place %from_third: arena \+ 12 size 32 live 0 to 1: for cuda sm_80 it must begin at a "
        "multiple of 16 bytes, .*: copy a view that does not"
    )
    with pytest.raises(VerifyError, match=message):
        lower(dump, TARGET)
    plan = make_plan(run_passes(dump).graph, TARGET.choose, TARGET.name)
    with pytest.raises(VerifyError, match=message):
        plan_from(str(plan))


@pytest.mark.parametrize(
    ("inner", "outer", "said"),
    [
        (3, 0, "%inner holds it from element 3 on, let that be a multiple of 4"),
        (4, 6, "%outer holds it from element 6 on, let that be a multiple of 4"),
    ],
)
def test_a_pack_that_holds_a_value_within_an_access_is_named(
    inner: int, outer: int, said: str
) -> None:
    builder = Builder("packs")
    x = builder.input("x", TensorType("f32", (3,)))
    parts = [builder.emit(name, x) for name in ("tanh", "relu")]
    held = builder.emit("pack", *parts, size=8, offsets=(0, inner), hint="inner")
    whole = builder.emit("pack", held, size=16, offsets=(outer,), hint="outer")
    dump = Dump(builder.done([builder.emit("sum", whole)]))
    lower(dump, CTarget(AVX2))
    with pytest.raises(VerifyError, match=f"must begin at a multiple of 16 bytes, .*: {said}"):
        lower(dump, TARGET)


def test_an_edited_plan_without_room_for_its_partial_sums() -> None:
    tall = node("matmul", (16, 60_000), (60_000, 16))
    choice = TARGET.choose(tall)
    assert [stage.name for stage in choice.stages] == ["gemm", "total"]
    with pytest.raises(VerifyError, match=r"needs a workspace of [\d,]+ bytes, not 64"):
        kernel_text(Call(tall, replace(choice, workspace=64)), TARGET, "k")


def test_a_distinct_kernel_is_one_symbol_of_the_machine_code() -> None:
    compiler, nm = find_cuda_compiler(), shutil.which("nm")
    if compiler is None or nm is None:
        pytest.skip("there is no CUDA compiler, or no nm")
    nets = [
        Sequential[LinearReLU[8, 8], LinearReLU[8, 8], Linear[8, 8]],
        Sequential[Linear[8, 8], ReLU],
    ]
    for net in nets:
        stages = stages_of(net, batch=4, loss=CrossEntropy, optimizer=Adam, target="cuda")
        source = stages.target.render("symbols", [stages.plan])
        library = build_library(source, CudaBuilder(compiler, arch("sm_80")), open_cache())
        listed = subprocess.run([nm, library.path], capture_output=True, text=True, check=True)
        found = re.findall(r" T (k\d+_\w+)$", listed.stdout, flags=re.MULTILINE)
        kernels = shared_kernels([stages.plan], stages.target)
        expected = [name for kernel in kernels for name in kernel.functions]
        assert sorted(found) == sorted(expected)
        assert len(found) == len(set(found))


def test_equal_layers_share_a_kernel() -> None:
    net = Sequential[LinearGELU[8, 8], LinearGELU[8, 8], LinearGELU[8, 8]]
    stages = stages_of(net, batch=4, loss=None, target="cuda")
    assert len(stages.plan.calls) == 3
    assert len(stages.kernels) == 1


def test_no_host_header_is_needed(tmp_path: Path) -> None:
    text = stages_of(Tiny, batch=3, target="cuda").source.text
    assert "#include" not in text
    assert not re.search(r"\blong\b(?! long)(?<!long long)", re.sub(r"long long", "", text))


@pytest.mark.parametrize(
    ("stage", "edited", "message"),
    [
        ("block = 256", "block = 100", "block must be at most 32, or a multiple of 32"),
        ("block = 256", "block = 2048", "at most 1,024 threads in a block, not 2,048"),
        ("shared = 1024", "shared = 512", "shared must be 1024 here"),
        ("shared = 1024", "shared = 200000", "at most 166,912 bytes of shared memory for a block"),
        ("grid = 1", "grid = 0", "grid must be a whole number of at least 1"),
    ],
)
def test_edited_plans_that_a_gpu_cannot_run(stage: str, edited: str, message: str) -> None:
    plan = str(stages_of(Tiny, batch=5, target="cuda").plan)
    (line,) = (line for line in plan.splitlines() if line.startswith("  call %d.1.bias: column{"))
    assert stage in line
    with pytest.raises(VerifyError, match=re.escape(message)):
        plan_from(plan.replace(line, line.replace(stage, edited)))


def test_a_table_of_choices_is_for_c() -> None:
    with pytest.raises(NoeiraError, match="for target cpu: cuda is cut by rule alone"):
        stages_of(Tiny, target="cuda", choices=Choices())


@pytest.mark.parametrize(
    ("device", "kind", "loaded"),
    [
        ("sm_90", "sm_90", "unit.cubin"),
        ("sm_87", "sm_86", "unit.cubin"),
        ("sm_103", "sm_100", "unit.cubin"),
        ("sm_120", "sm_100", "unit.ptx"),
        ("cpu", "sm_80", "unit.cubin"),
    ],
)
def test_what_a_device_loads(device: str, kind: str, loaded: str) -> None:
    """Machine code runs within a major number of the architecture; what is newer takes PTX."""
    entry: Any = SimpleNamespace(path=Path)
    library: Any = SimpleNamespace(path=Path("unit.cubin"), entry=entry)
    used = CudaCpuDevice() if device == "cpu" else FakeDevice()
    used.arch = device
    builder: Any = None
    toolchain = CudaToolchain("cuda", arch(kind), builder, open_cache(), lambda: used)
    assert toolchain.path(library) == Path(loaded)
