"""`noeira run`: the same bits from every stage, values from files, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import staged
from needs import needs_compiler, needs_cxx
from safetensors.numpy import load_file, save_file

from noeira.runtime.c.compiler import find_compiler

pytest_plugins = ("command_line",)

Call = Callable[..., str]
STATEFUL = Path(__file__).parents[1] / "support" / "stateful_layers.py"
TINY = ["--batch", "5", "--isa", "avx2"]


def test_run_on_the_reference(call: Callable[..., str], dumped: Path):
    direct = call("run", "net.py:Joined", "--batch", "5", "--target", "reference")
    assert re.fullmatch(r"loss = 1\.548714 \(0x3fc63c4[3-7]\)\n", direct)
    for path in sorted(dumped.glob("*.nir")):
        assert call("run", str(path), "--target", "reference") == direct
    assert call("run", staged("plan"), "--target", "reference") == direct
    assert call("run", "net.py:Joined", "--seed", "1", "--target", "reference") != direct
    message = call("run", "stages/Joined.c", "--target", "reference", code=2)
    assert "stages/Joined.c goes with --target cpu" in message


@needs_compiler
def test_run_from_every_stage_gives_the_same_bits(call: Callable[..., str], dumped: Path):
    direct = call(
        "run", "net.py:Joined", "--batch", "5", "--seed", "3", "--save", "direct.safetensors"
    )
    expected = load_file("direct.safetensors")
    paths = [p for p in sorted(dumped.iterdir()) if p.suffix in (".nir", ".plan", ".c", ".so")]
    assert len(paths) == 11
    for path in paths:
        assert call("run", str(path), "--seed", "3", "--save", "out.safetensors") == direct
        found = load_file("out.safetensors")
        assert set(found) == set(expected)
        for name, array in expected.items():
            assert found[name].tobytes() == array.tobytes(), (path.name, name)


@needs_compiler
def test_the_direct_run_is_what_a_program_does(call: Callable[..., str], folder: Path):
    import noeira
    from noeira.commands.support.network import load_network
    from noeira.commands.support.values import drawn_input
    from noeira.nn import Adam, CrossEntropy

    program = noeira.compile(
        load_network("net.py:Plain"), loss=CrossEntropy, optimizer=Adam(), batch=5, seed=7
    )
    x, y = (drawn_input(given, 7, i) for i, given in enumerate(program.inputs))
    loss = program.step(x, y)
    call("run", "net.py:Plain", "--batch", "5", "--seed", "7", "--save", "out.safetensors")
    found = load_file("out.safetensors")
    assert float(found["%loss"]) == loss
    for name, array in program.params.items():
        assert array.tobytes() == found[name].tobytes()


@needs_compiler
def test_an_edited_source_runs_as_it_stands(call: Callable[..., str], dumped: Path):
    path = dumped / "Joined.c"
    text = path.read_text()
    kernel = re.search(r"static NOINLINE void k\d+_cross_entropy\(", text)
    assert kernel is not None
    end = text.index("}", text.index("y0[0] =", kernel.start()))
    path.write_text(f"{text[:end]}    y0[0] = 5.0f;\n{text[end:]}")
    first, second = call("run", str(path)).splitlines()
    assert first == f"running {path} as it stands (edited)"
    assert second == "loss = 5 (0x40a00000)"
    path.write_text(text.replace("long step = 0;", "long step = oops;"))
    assert "oops" in call("run", str(path), code=1)


def test_run_with_given_values(call: Callable[..., str], dumped: Path):
    rng = np.random.default_rng(0)
    shapes = {"0.weight": (4, 3), "0.bias": (3,), "1.weight": (3, 2), "1.bias": (2,)}
    weights = {name: rng.normal(size=s).astype(np.float32) for name, s in shapes.items()}
    inputs = {"x": rng.normal(size=(5, 4)).astype(np.float32), "target": np.array([0, 1, 1, 0, 1])}
    save_file(weights, "w.safetensors")
    np.savez("i.npz", **inputs)  # type: ignore[arg-type]
    words = ("run", staged("trace"), "--target", "reference")
    text = call(*words, "--weights", "w.safetensors", "--inputs", "i.npz")
    hidden = np.maximum(inputs["x"] @ weights["0.weight"] + weights["0.bias"], 0)
    z = hidden @ weights["1.weight"] + weights["1.bias"]
    lse = np.log(np.exp(z).sum(1))
    loss = float((lse - z[np.arange(5), inputs["target"]]).mean())
    assert float(text.split()[2]) == pytest.approx(loss, rel=1e-5)
    np.savez("short.npz", x=inputs["x"])
    message = call(*words, "--inputs", "short.npz", code=1)
    assert "short.npz has x; it must have x, target" in message
    save_file({**weights, "oops": np.zeros(3)}, "more.safetensors")
    assert (
        "more.safetensors: these are not the network's tensors: it has oops, which is none of them"
        in call(*words, "--weights", "more.safetensors", code=1)
    )
    save_file({"0.bias": weights["0.bias"]}, "fewer.safetensors")
    message = call(*words, "--weights", "fewer.safetensors", code=1)
    assert (
        "fewer.safetensors: these are not the network's tensors: it lacks 0.weight, and there are "
        "2 more differences\n" in message
    )
    save_file({**weights, "0.bias": np.zeros(4, np.float32)}, "wrong.safetensors")
    assert "it has 0.bias as float32[4], not float32[3]" in call(
        *words, "--weights", "wrong.safetensors", code=1
    )
    np.save("array.npy", np.zeros(3))
    assert (
        "array.npy is an array of NumPy: program.tensors.load takes arrays by name, as numpy.load "
        "gives them" in call(*words, "--weights", "array.npy", code=1)
    )
    assert "array.npy is no .npz file" in call(*words, "--inputs", "array.npy", code=1)
    assert "there is no file none" in call(*words, "--weights", "none", code=2)
    assert "there is no file none.npz" in call(*words, "--inputs", "none.npz", code=2)


def test_what_was_saved_can_be_given(call: Callable[..., str], dumped: Path):
    words = ("run", "net.py:Joined", "--batch", "5", "--target", "reference")
    call(*words, "--seed", "4", "--save", "new/folder/o.safetensors")
    found = load_file("new/folder/o.safetensors")
    again = call(*words, "--weights", "new/folder/o.safetensors", "--save", "again.safetensors")
    assert again != call(*words, "--seed", "4")
    assert int(load_file("again.safetensors")["%adam.step"]) == int(found["%adam.step"]) + 1
    forward = ("run", "net.py:Joined", "--batch", "5", "--loss", "none", "--target", "reference")
    call(*forward, "--weights", "new/folder/o.safetensors", "--save", "forward.safetensors")
    assert set(load_file("forward.safetensors")) == {"%1.linear"}
    message = call(*words, "--weights", "net.py", code=1)
    assert "net.py is no safetensors file, or its beginning is damaged: program.save, " in message
    message = call(*words, "--save", "o.npz", code=1)
    assert ".npz is the ending of another format: write o.safetensors" in message


def test_states_of_modules_are_saved_and_asked_for(call: Callable[..., str], folder: Path):
    Path("normed.py").write_text(STATEFUL.read_text(encoding="utf-8"), encoding="utf-8")
    words = ("run", "normed.py:Net", "--batch", "5", "--target", "reference")
    call(*words, "--save", "o.safetensors")
    found = load_file("o.safetensors")
    assert {"0.weight", "1.mean", "1.scale", "1.calls"} <= set(found) and found["1.calls"] == 1
    call(*words, "--weights", "o.safetensors", "--save", "again.safetensors")
    again = load_file("again.safetensors")
    assert again["1.calls"] == 2 and not (again["1.mean"] == found["1.mean"]).any()
    for lacking in ("1.mean", "1.calls"):
        save_file({n: a for n, a in found.items() if n != lacking}, "fewer.safetensors")
        for loss in ((), ("--loss", "none")):
            message = call(*words, *loss, "--weights", "fewer.safetensors", code=1)
            assert (
                f"fewer.safetensors: these are not the network's tensors: it lacks {lacking}"
                in (message)
            )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "Joined.c --batch 5",
            "--batch was decided when stages/Joined.c was made; it goes with",
        ),
        ("trace --loss MSE", "--loss was decided when stages/00_trace.nir was made; it g"),
        ("trace --entry step", "it goes with .c, .so, .cu, .cubin, a network"),
        ("plan --isa avx2", "_plan.plan was made; it goes with .nir, a network"),
        ("plan --choices x", "was made; it goes with .nir, a network"),
        ("Joined.c --entry forward", "there is no entry forward; there are step"),
        ("Joined.c --target cuda", "stages/Joined.c goes with --target cpu; others run graphs"),
    ],
)
def test_options_that_have_no_effect(words: str, expected: str, call: Call, dumped: Path):
    name, *options = words.split()
    assert expected in call("run", staged(name), *options, code=2)


@needs_compiler
def test_a_network_runs_for_a_vector_unit_that_this_machine_has(call: Call, dumped: Path):
    compiler = find_compiler()
    assert compiler is not None
    other = "avx512" if compiler.isa.name == "neon" else "neon"
    for model in ("net.py:Joined", staged("trace")):
        message = call("run", model, "--isa", other, code=2)
        assert f"this machine ({compiler.isa.name}) cannot run {other}" in message
        assert "loss = 1." in call("run", model, "--isa", "plain")


@needs_cxx
def test_a_network_runs_for_a_kind_of_gpu(call: Call, dumped: Path):
    words = ("--target", "cuda-cpu", "--arch", "sm_90")
    assert "loss = 1.5" in call("run", staged("trace"), *words)
    message = call("run", staged("trace"), "--target", "cuda", "--arch", "sm_90", code=2)
    assert "--arch goes with --target cuda-cpu" in message


def test_large_outputs_are_shortened(call: Callable[..., str]):
    words = ("run", "net.py:Plain", "--batch", "5", "--loss", "none", "--target", "reference")
    head, *elements, more = call(*words).splitlines()
    assert re.fullmatch(r"2\.linear: f32\[5, 2\], sha256 [0-9a-f]{16}", head)
    assert len(elements) == 8 and elements[0].startswith("  [0, 0] = ")
    assert more == "  … and 2 more"


def damage(text: str, old: str, new: str) -> str:
    """The text with one part changed."""
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("trace", "// noeira-ir 1", "// noeira-ir 9", "line 1: expected "),
        ("trace", "to do: vjp", "to do: vjq", "line 2: there is no pass 'vjq'"),
        ("trace", "return %loss", "return %1.linear", "line 2: vjp: the graph does not ret"),
        ("trace", "update{", 'update{op = "sdg", ', "line 2: there is no op called 'sdg'"),
        ("trace", '"beta1"', '"beta11"', "line 2: adam has no attribute 'beta11'"),
        ("trace", "to do: vjp", "to do: dce", "line 2: update: no node gives %grads"),
        ("trace", "input %x: f32[5, 4]", "input %x: f32[5, 4", "line 10: expected ','"),
        ("trace", "relu(%0.linear)", "relu(%0.lnear)", "%0.lnear is not defined above"),
        ("trace", "= zero()", "= zeros()", "there is no distribution 'zeros'"),
        ("trace", "  return %loss\n}\n", "", "the text ends too early"),
        ("plan", "arena 768", "arena x", "expected a whole number, got 'x'"),
        ("plan", "call %0.relu: ", "call %0.rel: ", "no node has %0.rel as its first"),
        ("Joined.c", "const char noeira_plans[] =", "const char plans[] =", "expected the plans"),
        ("Joined.c", "noeira-plan 1", "noeira-plan 7", "line 1: expected "),
    ],
)
def test_damaged_files(
    name: str, old: str, new: str, expected: str, call: Callable[..., str], dumped: Path
):
    path = Path(staged(name))
    path.write_text(damage(path.read_text(), old, new))
    message = call("run", str(path), "--seed", "0", code=1)
    assert message.startswith(f"noeira: {path}") and message.count("\n") == 1
    assert expected in message and re.search(r"line \d+: ", message)


def test_binary_files_are_no_graphs(call: Callable[..., str], folder: Path):
    (folder / "x.nir").write_bytes(b"\xff\xfe\x00")
    assert "x.nir, line 1: expected text" in call("run", "x.nir", code=1)
    (folder / "x.so").write_bytes(b"\x7fELF\x02")
    assert "x.so is damaged" in call("run", "x.so", code=1)


@needs_compiler
def test_libraries_that_noeira_did_not_build(call: Callable[..., str], dumped: Path):
    whole = (dumped / "Joined.so").read_bytes()
    (dumped / "Joined.so").write_bytes(whole[: len(whole) // 2])
    assert "Joined.so is damaged: its end is missing" in call("run", "stages/Joined.so", code=1)
    import _ctypes

    path = getattr(_ctypes, "__file__", None)
    if path:
        assert "has no noeira_plans" in call("run", path, code=1)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("arena + 512 size 60", "arena + 720 size 60", "inside the arena of 768 bytes"),
        ("arena + 512 size 60", "arena + 512 size 6", "%0.relu has 60 bytes"),
        ("place %x: input %x", "place %x: input %y", "the graph has no input %y"),
        ("place %0.relu: arena", "place %0.lost: arena", "the graph has no value %0.lost"),
        ("arena + 640 size 20", "arena + 768 size 20", "inside the arena of 768 bytes"),
        ("input %x + 0", "input %x + 4", "place %x: it ends at 84, input x at 80"),
        ("output %loss + 0 size 4 live 2 to 13", "literal 2.0", "it cannot write to a literal"),
    ],
)
def test_plans_that_would_leave_their_memory(
    old: str, new: str, expected: str, call: Callable[..., str], folder: Path
):
    plan = call("dump", "net.py:Joined", *TINY, "--stage", "plan")
    (folder / "x.plan").write_text(damage(plan, old, new))
    assert expected in call("run", "x.plan", "--target", "reference", code=1)


WIDE = """\
// noeira-ir 1
// done: trace   to do: dce, fuse, own, schedule
graph @wide.forward {
  input %x: f32[90000000]
  return %x
}
"""


@pytest.mark.parametrize("arguments", [((90_000_000,), np.dtype("f4")), ()])
def test_a_host_without_the_memory_is_named(
    arguments: tuple[Any, ...], call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where NumPy asks for it, which says how much, or Python, which does not."""

    def none(*_: Any) -> np.ndarray:
        raise MemoryError(*arguments)

    (folder / "wide.nir").write_text(WIDE)
    monkeypatch.setattr("noeira.commands.support.values.fill", none)
    said = call("run", "wide.nir", "--target", "reference", code=1)
    asked = "asked for 360.00 MB, " if arguments else ""
    assert re.fullmatch(rf"noeira: out of memory on the host: {asked}.* are free\n", said)


@needs_compiler
def test_a_plan_for_another_machine(call: Callable[..., str], folder: Path):
    plan = call("dump", "net.py:Joined", "--batch", "5", "--isa", "neon", "--stage", "plan")
    (folder / "x.plan").write_text(plan)
    assert "x.plan is for c neon, this machine is c " in call("run", "x.plan", code=1)
