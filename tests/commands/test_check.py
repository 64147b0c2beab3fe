"""`noeira check`: clean kernels are called clean, and every kind of fault has its place."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import staged
from needs import needs_cxx

from noeira.errors import KernelFault
from noeira.report.check import MEANINGS, CheckedKernel, CheckReport, Found
from noeira.runtime.build import compiler_search
from noeira.runtime.cuda_cpu import shared_library

pytest_plugins = ("command_line",)

ELEMENTS = """\
from noeira.nn import ReLU, Sequential, Tanh


class Elements(Sequential[ReLU, Tanh]):
    \"\"\"Two kernels, no parameters.\"\"\"
"""
OPTIONS = ("--input", "8", "--loss", "none", "--batch", "4")
LOAD = "const f32x4 x0s = load_f32x4(a0 + index);"
STORE = "store_f32x4(y0 + index, y0s);"


@pytest.fixture
def unit(call: Callable[..., str], folder: Path) -> str:
    """The source of a network of two kernels."""
    (folder / "elements.py").write_text(ELEMENTS)
    return call("dump", "elements.py:Elements", *OPTIONS, "--target", "cuda", "--stage", "source")


def edited(folder: Path, text: str, old: str, new: str) -> str:
    """A file with the unit whose first kernel is edited, every `old` in it."""
    first = text.index('extern "C" __global__')
    end = text.index("\n}\n", first)
    assert old in text[first:end]
    (folder / "edited.cu").write_text(text[:first] + text[first:end].replace(old, new) + text[end:])
    return "edited.cu"


@needs_cxx
@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_clean_kernels(order: str, call: Callable[..., str], folder: Path):
    (folder / "elements.py").write_text(ELEMENTS)
    options = ("--input", "6", "--loss", "MSE", "--optimizer", "none", "--batch", "5")
    text = call("check", "elements.py:Elements", *options, "--order", order, "--seed", "3")
    head, _, titles, *rows = text.split("\n\n")[0].splitlines() + text.split("\n\n")[1].splitlines()
    assert head.startswith("elements for cuda sm_80: forward, evaluate; threads in " + order)
    assert ("seed 3" in head) == (order == "random")
    assert titles.split() == ["kernel", "stage", "launches", "found"] or rows
    assert re.search(r"^k00_relu +map +2 +clean$", text, flags=re.MULTILINE)
    *_, count, source = text.splitlines()
    assert re.fullmatch(r"\d+ kernels, \d+ launches: clean", count)
    path = Path(source.removeprefix("source: "))
    assert path.name == "unit.cu" and path.read_text().startswith("// noeira: Elements for cuda")


@needs_cxx
@pytest.mark.parametrize("loss", ["CrossEntropy", "MSE"])
def test_every_entry_of_a_network_is_clean(loss: str, call: Callable[..., str]):
    found = json.loads(
        call(
            "check", "net.py:Joined", "--loss", loss, "--batch", "5", "--order", "reverse", "--json"
        )
    )
    assert found["clean"] and found["order"] == "reverse"
    assert found["entries"] == ["forward", "gradients", "step", "steps", "order", "evaluate"]
    assert all(kernel["clean"] and kernel["launches"] for kernel in found["kernels"])


@needs_cxx
@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("out of bounds", "access < 8", "access <= 8"),
        ("uninitialised", LOAD, LOAD.replace("a0", "y0")),
        ("read-only", STORE, f"{STORE} ((float *)a0)[index] = 0;"),
        ("race", STORE, f"{STORE} y0[0] = x0s.at[0];"),
        ("unwritten output", "access < 8", "access < 7"),
        ("misaligned", LOAD, LOAD.replace("a0 + index", "a0 + (index ? index - 1 : 0)")),
        (
            "divergence",
            "    if (access < 8) {",
            "    if (threadIdx.x < 64)\n        __syncthreads();\n    else\n"
            "        __syncthreads();\n    if (access < 8) {",
        ),
        (
            "deadlock",
            "    if (access < 8) {",
            "    if (threadIdx.x % 2)\n        __shfl_sync(0xffffffff, 0.0f, 0);\n    else\n"
            "        __syncthreads();\n    if (access < 8) {",
        ),
    ],
)
def test_faults(kind: str, old: str, new: str, call: Callable[..., str], folder: Path, unit: str):
    file = edited(folder, unit, old, new)
    text = call("check", file, code=1)
    assert re.search(rf"^k00_relu +map +1 .*{kind}", text, flags=re.MULTILINE), text
    assert re.search(r"^k01_tanh +map +1 +clean$", text, flags=re.MULTILINE), text
    assert re.search(rf"^{kind} in k00_relu", text, flags=re.MULTILINE)
    assert "of stage map for %0.relu in forward" in text and f"source: {file}" in text
    assert MEANINGS[kind].split(":")[0] in " ".join(text.split())
    found = json.loads(call("check", file, "--json", code=1))
    relu, tanh = found["kernels"]
    assert not found["clean"] and not relu["clean"] and tanh["clean"]
    fault = next(fault for fault in relu["faults"] if fault["kind"] == kind)
    assert fault["meaning"] == MEANINGS[kind] and fault["entry"] == "forward"
    if kind != "unwritten output":
        lines = (folder / file).read_text().splitlines()
        assert lines[fault["line"] - 1].strip() == fault["source_line"] != ""
        assert f"{file}:{fault['line']}:  {fault['source_line']}" in text


@needs_cxx
def test_a_kernel_without_end_is_stopped_by_ctrl_c(
    call: Callable[..., str], folder: Path, unit: str
):
    # It begins with a message in a file, so that it is known to run.
    mark = 'fclose(fopen("begun", "w")); for (volatile int i = 0; i < 1;) {}'
    file = edited(folder, "#include <stdio.h>\n" + unit, STORE, f"{STORE} {mark}")
    words = [sys.executable, "-m", "noeira", "check", file]
    with subprocess.Popen(words, start_new_session=True) as process:
        try:
            limit = time.monotonic() + 60
            while not Path("begun").exists() and process.poll() is None:
                assert time.monotonic() < limit
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == -signal.SIGINT
        finally:
            process.kill()


@needs_cxx
def test_one_kernel_alone(call: Callable[..., str], folder: Path, unit: str):
    file = edited(folder, unit, "access < 8", "access <= 8")
    text = call("check", file, "--kernel", "tanh")
    assert "1 kernel, 1 launch: clean" in text and "k00_relu" not in text
    message = call("check", file, "--kernel", "gelu", code=2)
    assert "there is no kernel gelu; there are k00_relu, k01_tanh" in message


@needs_cxx
def test_files_of_every_stage(call: Callable[..., str], folder: Path):
    (folder / "elements.py").write_text(ELEMENTS)
    call("dump", "elements.py:Elements", *OPTIONS, "--target", "cuda", "--all", "cuda")
    for name in ("trace", "schedule", "plan", "Elements.cu"):
        assert "2 kernels, 2 launches: clean" in call("check", staged(name, "cuda"))
    assert "for cuda sm_90: forward" in call("check", staged("trace", "cuda"), "--arch", "sm_90")
    network = call("check", "elements.py:Elements", *OPTIONS, "--arch", "sm_90")
    assert "for cuda sm_90: forward" in network
    call("dump", "elements.py:Elements", *OPTIONS, "--all", "c")
    message = call("check", staged("plan", "c"), code=1)
    assert "check is for CUDA: check the .nir that it was made from" in message


@needs_cxx
def test_a_kernel_that_no_longer_compiles(call: Callable[..., str], folder: Path, unit: str):
    file = edited(folder, unit, LOAD, LOAD.replace("load_", "lod_"))
    message = call("check", file, code=1)
    line = 1 + (folder / file).read_text().split("lod_")[0].count("\n")
    assert message.startswith("noeira: edited.cu does not compile:\n")
    assert f"edited.cu:{line}:" in message and "lod_f32x4" in message
    assert "unit.cu" not in message and "unit.cpp" not in message


@needs_cxx
def test_an_edited_source_in_the_cache_is_what_is_checked(
    call: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder / "elements.py").write_text(ELEMENTS.replace("ReLU, Tanh]", "ReLU, Tanh, ReLU]"))
    words = ("check", "elements.py:Elements", *OPTIONS)
    path = Path(call(*words).splitlines()[-1].removeprefix("source: "))
    text = path.read_text()
    try:
        path.write_text(text.replace("access < 8", "access <= 8"))
        monkeypatch.setenv("NOEIRA_EDITED", "1")
        found = call(*words, code=1)
        assert "out of bounds in k00_relu" in found and f"source: {path}" in found
    finally:
        path.write_text(text)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("net.py:Joined --isa avx2", "--isa is for C; check is for CUDA"),
        (
            "unit.cu --arch sm_90",
            "--arch was decided when unit.cu was made; it goes with .nir",
        ),
        ("unit.c", "unit.c: expected a file .nir, .plan, .cu, or a network such as net.py:MLP"),
        (
            "net.py:Joined --order backward",
            "no order backward; there are forward, reverse, random",
        ),
        ("net.py:Joined --seed x", "--seed must be a whole number"),
    ],
)
def test_wrong_usage(words: str, expected: str, call: Callable[..., str]):
    assert expected in call("check", *words.split(), code=2)


@needs_cxx
def test_other_mistakes(call: Callable[..., str], folder: Path, unit: str):
    (folder / "unit.cu").write_text(unit)
    assert "there is no entry step; there are forward" in call(
        "check", "unit.cu", "--entry", "step", code=2
    )
    message = call("check", "elements.py:Elements", *OPTIONS, "--entry", "step", code=2)
    assert "there is no entry step; there are forward" in message
    assert "there is no file nothing.cu" in call("check", "nothing.cu", code=2)
    (folder / "none.cu").write_text("// nothing\n")
    assert "none.cu, line 1: expected the plans of a unit" in call("check", "none.cu", code=1)
    (folder / "other.cu").write_text(unit.replace("k00_relu", "relu_by_hand"))
    assert "clean" in call("check", "other.cu")


def test_without_a_compiler(call: Callable[..., str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiler_search, "commands", lambda *_: iter(()))
    message = call("check", "net.py:Joined", code=1)
    assert "no C++ compiler was found" in message and "apt install g++" in message


def test_a_report_shows_a_fault_of_each_line_once():
    kernel = CheckedKernel("k00_sum_rows", "rows", launches=3)
    for thread, line in ((4, 2), (5, 2), (6, 3)):
        fault = KernelFault("race", kernel.kernel, 0, thread, line, f"thread {thread}")
        kernel.add(Found("step", "%s", fault))
    for name in ("%a", "%b"):
        fault = KernelFault("unwritten output", kernel.kernel, 0, 0, 0, f"{name} is not written")
        kernel.add(Found("step", "%s", fault))
    kernel.add(Found("step", "%s", KernelFault("strange", kernel.kernel, 0, 0, None, "it is odd")))
    report = CheckReport(
        "net", "cuda sm_80", Path("unit.cu"), "one;\n  two;\nthree;\n", ("step",), "random", 7,
        (kernel, CheckedKernel("k01_relu", "map", 3)),
    )  # fmt: skip
    assert len(kernel.faults) == 5 and not report.is_clean
    text = str(report)
    assert "threads in random order, seed 7" in text
    assert "race in k00_sum_rows, block 0, thread 4\n  of stage rows for %s in step\n" in text
    assert "  unit.cu:2:  two;\n  thread 4\n" in text and "thread 5" not in text
    assert "unwritten output in k00_sum_rows\n" in text and "%b is not written" in text
    assert "strange in k00_sum_rows" in text and "a GPU does not allow" in text
    assert "2 kernels, 6 launches: 5 faults in 1 kernel" in text
    assert max(map(len, text.splitlines()[8:])) <= 100
    assert report.to_json()["kernels"][0]["faults"][0]["source_line"] == "two;"


def test_every_kind_of_fault_is_explained():
    texts = [path.read_text() for path in shared_library.RUNTIME.glob("*.cpp")]
    kinds = {kind for text in texts for kind in re.findall(r'report\(\s*"([a-z -]+)"', text)}
    assert kinds | {"unwritten output"} == MEANINGS.keys()
    page = (Path(__file__).parents[2] / "docs" / "cuda.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| ([a-z -]+) \| ", page, re.M)) >= MEANINGS.keys() - {"memory"}
