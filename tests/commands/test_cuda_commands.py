"""Commands on target `cuda`: kernels, explain and dump, for a GPU that need not be there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import staged
from needs import needs_compiler, needs_cxx, needs_nvrtc

import noeira
from noeira.codegen.cuda.arch import ARCHS
from noeira.codegen.cuda.target import CudaTarget
from noeira.commands.support.machine_code import ptx_parts
from noeira.dump import Dumper
from noeira.errors import CompilerError
from noeira.nn import MSE, Linear, LinearReLU, ReLU, Sequential, Tanh
from noeira.report.explain import explain
from noeira.report.resources import (
    HEAD,
    NO_COMPILER,
    launch_cells,
    resource_lines,
    stage_uses,
    uses_of,
)
from noeira.runtime.cuda import compiler as cuda_compiler
from noeira.runtime.cuda.builder import unit_resources
from noeira.runtime.cuda.resources import Resources
from noeira.runtime.cuda.toolchain import cuda_toolchain
from noeira.stages import stages_of

pytest_plugins = ("command_line",)

Elements = Sequential[ReLU, Tanh]
MLP = Sequential[LinearReLU[784, 256], Linear[256, 10]]
CUDA = ("--batch", "5", "--target", "cuda", "--arch", "sm_90")


@pytest.fixture
def elements(folder: Path) -> tuple[str, ...]:
    """The network and options of a command on two kernels without parameters."""
    (folder / "elements.py").write_text(
        "from noeira.nn import ReLU, Sequential, Tanh\n\n\n"
        'class Elements(Sequential[ReLU, Tanh]):\n    """Two kernels."""\n'
    )
    return "elements.py:Elements", "--input", "6", "--loss", "MSE", "--optimizer", "none"


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without NVRTC and nvcc."""
    monkeypatch.setattr(cuda_compiler, "nvrtc_candidates", lambda: iter(()))
    monkeypatch.setattr(cuda_compiler, "nvcc_candidates", lambda: iter(()))


def test_kernels(call: Callable[..., str], elements: tuple[str, ...]):
    text = call("kernels", *elements, *CUDA)
    assert text.startswith("@elements.forward for cuda sm_90: 2 kernels, 2 launches\n")
    assert "map{grid = 1, block = 256}" in text
    one = call("kernels", *elements, *CUDA, "tanh")
    assert one.startswith("// @elements.forward\n//   %1.tanh = tanh(%0.relu)")
    assert 'extern "C" __global__' in one and "k00_relu" not in one


@needs_nvrtc
def test_ptx_of_one_kernel(call: Callable[..., str], elements: tuple[str, ...]):
    text = call("kernels", *elements, *CUDA, "tanh", "--ptx")
    assert text.count(".entry") == 1 and ".entry k01_tanh(" in text
    assert text.endswith("}\n") and "noeira_plans" not in text


@needs_nvrtc
def test_ptx_of_every_stage(call: Callable[..., str]):
    options = ("--batch", "3000", "--target", "cuda", "--arch", "sm_90")
    text = call("kernels", "net.py:Joined", *options, "k02", "--ptx")
    stages = ["k02_cross_entropy_rows", "k02_cross_entropy_total"]
    assert re.findall(r"\.entry (\w+)", text) == stages


def test_ptx_is_cut_with_the_arrays_that_it_names():
    text = (
        ".extern .shared .align 16 .b8 shared[];\n.global .align 1 .b8 plans[2] = {1, 2};\n"
        ".visible .entry a(\n\t.param .u64 a_0\n)\n{\n\tmov.u32 %r1, shared;\n}\n"
        "\t// .globl\tb\n.visible .entry b(\n\t.param .u64 b_0\n)\n.maxntid 8, 1, 1\n{\n\tret;\n}\n"
    )
    aligned = text.replace("\tret;", "\t.local .align 8 .b8 depot[8];\n\tret;")
    first, second = ptx_parts(aligned, ["a", "b"])
    assert first.startswith(".extern .shared .align 16 .b8 shared[];\n.visible .entry a(")
    assert second.startswith(".visible .entry b(") and second.endswith("\tret;\n}\n")
    with pytest.raises(CompilerError, match="the unit's PTX has no kernel c; it has a, b"):
        list(ptx_parts(text, ["c"]))


@needs_nvrtc
def test_sass_without_a_tool_gives_advice(
    call: Callable[..., str], elements: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("noeira.runtime.cuda.sass.find_program", lambda name: None)
    message = call("kernels", *elements, *CUDA, "tanh", "--sass", code=1)
    assert "pip install nvidia-cuda-nvdisasm" in message


@needs_nvrtc
def test_sass_of_one_kernel(
    call: Callable[..., str], elements: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    def sass(binary: bytes, names: tuple[str, ...], folder: Path) -> dict[str, str]:
        assert binary.startswith(b"\x7fELF") and b".text.k01_tanh" in binary and folder.is_dir()
        return dict.fromkeys(names, "EXIT ;\n")

    monkeypatch.setattr("noeira.runtime.cuda.sass.sass", sass)
    assert call("kernels", *elements, *CUDA, "tanh", "--sass") == "k01_tanh:\nEXIT ;\n"


@needs_nvrtc
def test_resources(call: Callable[..., str], elements: tuple[str, ...]):
    text = call("kernels", *elements, *CUDA, "--resources")
    head, _, titles, relu, tanh, *_ = text.splitlines()
    assert head == "@elements.forward for cuda sm_90: 2 kernels, 2 launches"
    assert tuple(re.split(" {2,}", titles)) == HEAD
    assert re.match(r"k00_relu +map +1 +256 +\d+ +0 \+ 0 +0 / 0 +0 +100 % +threads", relu)
    assert tanh.startswith("k01_tanh")
    one = call("kernels", *elements, *CUDA, "--resources", "tanh")
    assert tanh in one and relu not in one and one.startswith("@elements.forward for cuda sm_90: 1")


@needs_nvrtc
def test_a_second_call_compiles_nothing(
    call: Callable[..., str], elements: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    first = call("kernels", *elements, *CUDA, "--resources")
    monkeypatch.setattr(cuda_compiler.CudaCompiler, "compile", None)
    assert call("kernels", *elements, *CUDA, "--resources") == first


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler(call: Callable[..., str], elements: tuple[str, ...]):
    for words in (("--resources",), ("tanh", "--ptx"), ("tanh", "--sass")):
        message = call("kernels", *elements, *CUDA, *words, code=1)
        assert "no CUDA compiler was found" in message and "pip install" in message
    assert "2 kernels" in call("kernels", *elements, *CUDA)
    text = call("explain", *elements, *CUDA, "--resources")
    assert NO_COMPILER in text and "occupancy" not in text.splitlines()[2]
    found = json.loads(call("explain", *elements, *CUDA, "--resources", "--json"))
    assert found["note"] == NO_COMPILER
    assert json.loads(call("explain", *elements, *CUDA, "--json"))["note"] == ""
    text = call("dump", *elements, *CUDA, "--all", "stages")
    assert "no Elements.cubin: no CUDA compiler was found" in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--target cuda relu --asm", "--asm is for --target cpu: CUDA has --ptx, --sass and"),
        ("relu --ptx", "--ptx is for --target cuda: C has --asm"),
        ("relu --sass", "--sass is for --target cuda: C has --asm"),
        ("--resources", "--resources is for --target cuda"),
        ("--target cuda --ptx", "--ptx shows one kernel: give its NAME too"),
        ("--target cuda --sass", "--sass shows one kernel: give its NAME too"),
        ("--target cuda relu --ptx --sass", "--sass does not go with --ptx"),
    ],
)
def test_forms_that_do_not_go_with_the_target(
    words: str, expected: str, call: Callable[..., str], elements: tuple[str, ...]
):
    assert expected in call("kernels", *elements, *words.split(), code=2)


def words(line: str) -> str:
    """A line with one space between words."""
    return " ".join(line.split())


def test_stages_in_a_table():
    known = {
        "k_rows": Resources("k_rows", 40, static_shared=1024, spill_stores=8, spill_loads=12),
        "k_total": Resources("k_total", 16),
    }
    stages = stages_of(
        Sequential[ReLU, Tanh], batch=1, loss=None, input=(6,), target="cuda", arch="sm_90"
    )
    (call, _) = stages.plan.calls
    (stage,) = call.choice.stages
    two = [("rows", 64), ("total", 0)]
    choice = type(call.choice)(
        tuple(
            type(stage)(name, (("grid", 3), ("block", 128), *([("shared", size)] if size else [])))
            for name, size in two
        )
    )
    call = type(call)(call.node, choice)
    uses = stage_uses(call, "k", known, ARCHS["sm_90"])
    assert [use.shared for use in uses] == [1088, 0]
    assert launch_cells(uses) == ("40 / 16", "1,088 / 0", "20 / 0", "75 % / 100 %")
    _, rows, total, *_ = resource_lines({"k": uses})
    assert words(rows) == "k_rows rows 3 128 40 1,024 + 64 8 / 12 0 75 % registers"
    assert words(total) == "k_total total 3 128 16 0 + 0 0 / 0 0 100 % threads"
    # A kernel that was edited away is left out.
    assert len(stage_uses(call, "k", {"k_total": known["k_total"]}, ARCHS["sm_90"])) == 1


@needs_nvrtc
def test_explain_says_what_launches_take():
    options = {"batch": 5, "loss": None, "input": (6,), "target": "cuda", "arch": "sm_80"}
    found = explain(Elements, resources=True, **options)
    assert found.target == "cuda sm_80" and not found.note
    for launch in found.launches:
        (use,) = launch.uses
        assert use.resources.kernel == launch.kernel and use.occupancy.fraction > 0
    head = str(found).splitlines()[2].split()
    assert head[-4:] == ["registers", "shared", "spills", "occupancy"]
    value = found.to_json()["launches"][0]["resources"][0]
    assert value["registers"] > 0 and value["occupancy"]["limit"]
    # C has no such columns.
    plain = explain(Elements, batch=5, loss=None, input=(6,), isa="avx2", resources=True)
    assert "occupancy" not in str(plain) and plain.to_json()["launches"][0]["resources"] == []


def test_explain_compiles_nothing_unless_asked(
    call: Callable[..., str], elements: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cuda_compiler, "find_cuda_compiler", None)
    assert "occupancy" not in call("explain", *elements, *CUDA)
    message = call("explain", *elements, "--resources", code=2)
    assert "--resources is for --target cuda" in message


@needs_nvrtc
@needs_cxx
def test_a_program_executed_by_the_cpu_is_explained_for_its_gpu():
    program = noeira.compile(Elements, loss=MSE, batch=5, input=(6,), target="cuda-cpu")
    found = explain(program, resources=True)
    assert found.target == "cuda sm_80"
    assert all(launch.uses for launch in found.launches)


def test_the_source_has_a_name_of_its_own(call: Callable[..., str], elements: tuple[str, ...]):
    text = call("dump", *elements, *CUDA, "--stage", "source")
    assert text.startswith("// noeira: Elements for cuda sm_90\n")
    c = call("dump", *elements, "--stage", "source", "--isa", "avx2")
    assert c.startswith("// noeira: Elements for c avx2\n")


@needs_nvrtc
def test_all_stages_of_cuda(call: Callable[..., str], elements: tuple[str, ...], folder: Path):
    call("dump", *elements, *CUDA, "--all", "stages")
    names = {path.name for path in (folder / "stages").iterdir()}
    assert {"00_trace.nir", "Elements.cu", "Elements.cubin"} <= names
    assert not {"Elements.c", "Elements.so"} & names
    cubin = folder / "stages" / "Elements.cubin"
    whole = cubin.read_bytes()
    assert whole.startswith(b"\x7fELF") and whole.endswith(b"}\n\0")
    cubin.write_bytes(whole[:-1])
    assert "Elements.cubin is damaged: its end is missing" in call("run", str(cubin), code=1)


def test_dumps_of_both_targets_differ_in_the_choices_alone(call: Callable[..., str], folder: Path):
    call("dump", "net.py:Joined", "--batch", "5", "--isa", "avx2", "--all", "c")
    call("dump", "net.py:Joined", "--batch", "5", "--target", "cuda", "--all", "cuda")
    graphs = sorted(path.name for path in (folder / "c").glob("*.nir"))
    assert graphs == sorted(path.name for path in (folder / "cuda").glob("*.nir"))
    for name in graphs:
        assert (folder / "c" / name).read_text() == (folder / "cuda" / name).read_text()
    plans = [Path(staged("plan", target)).read_text() for target in ("c", "cuda")]
    assert without_choices(plans[0]) == without_choices(plans[1])
    assert "block = 256" in plans[1] and "block = " not in plans[0]


def without_choices(text: str) -> str:
    """A plan but for its target, how calls are cut, and where room for that moves values."""
    text = re.sub(r"^(plan @[\w.]+) for .*$", r"\1 {", text, flags=re.MULTILINE)
    text = re.sub(r"^(  call [^:]*): .*$", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"^  arena \d+$", "  arena", text, flags=re.MULTILINE)
    return re.sub(r"^(  place .*: arena) \+ \d+", r"\1", text, flags=re.MULTILINE)


@needs_cxx
@needs_compiler
@pytest.mark.parametrize(("target", "file"), [("cuda-cpu", "Elements.cu"), ("cpu", "Elements.c")])
def test_a_dump_of_every_compile(
    target: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Elements(Sequential[ReLU, Tanh]):
        """Two kernels."""

    monkeypatch.setenv("NOEIRA_DUMP", str(tmp_path))
    noeira.compile(Elements, batch=2, input=(3,), target=target)
    assert Dumper.start("").folder == tmp_path
    assert [path.name for path in tmp_path.glob("*.c*")] == [file]


ALL_ARCHS = [
    name if name == "sm_90" else pytest.param(name, marks=pytest.mark.slow) for name in ARCHS
]


@needs_nvrtc
@pytest.mark.parametrize("arch", ALL_ARCHS)
def test_kernels_of_the_mlp_on_every_gpu(arch: str):
    stages = stages_of(MLP, batch=100, target="cuda", arch=arch)
    assert isinstance(stages.target, CudaTarget)
    library = cuda_toolchain(stages.target.machine).build(stages.source)
    uses = uses_of(stages.kernels, library, stages.target.machine)
    found = [use for stages in uses.values() for use in stages]
    assert not any(use.resources.spills or use.resources.stack for use in found)
    # Each distinct kernel is one symbol for each of its stages, and there is no other.
    compiled = {one.kernel for one in unit_resources(library.entry)}
    assert compiled == {use.resources.kernel for use in found}
    assert compiled == {name for kernel in stages.kernels for name in kernel.functions}
    assert len(found) == len(compiled)


@needs_nvrtc
def test_ptx_has_wide_accesses(call: Callable[..., str], elements: tuple[str, ...], folder: Path):
    (folder / "mlp.py").write_text(
        "from noeira.nn import Linear, LinearReLU, Sequential\n\n\n"
        'class MLP(Sequential[LinearReLU[784, 256], Linear[256, 10]]):\n    """Digits."""\n'
    )
    cuda = ("--batch", "100", *CUDA[2:])
    texts = [
        call("kernels", *elements, *CUDA[2:], "--batch", "64", "tanh", "--ptx"),
        call("kernels", "mlp.py:MLP", *cuda, "k00", "--ptx"),
        call("kernels", "mlp.py:MLP", *cuda, "adam", "--ptx"),
    ]
    for text in texts:
        assert "ld.global.v4.f32" in text.replace(".nc", "") and "st.global.v4.f32" in text
