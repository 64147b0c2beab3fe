"""The command line: what every command prints, and what it says of every mistake."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import staged
from command_runs import python
from needs import needs_compiler
from timing import seconds_of_children

from noeira.__main__ import main
from noeira.commands import COMMANDS
from noeira.commands.support import assembly
from noeira.commands.support.usage import sample_shapes
from noeira.ir.text.dump import parse_dump
from noeira.runtime.c.compiler import find_compiler

pytest_plugins = ("command_line",)

TINY = ["--batch", "5", "--isa", "avx2"]


def test_help_is_quick():
    assert min(seconds_of_children(lambda: python("--help")) for _ in range(5)) < 0.150
    found = python("--help")
    assert found.returncode == 0
    assert all(name in found.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_with_an_example(name: str, call: Callable[..., str]):
    text = call(name, "--help")
    assert f"example:\n  {COMMANDS[name].example}" in text
    assert COMMANDS[name].example.startswith(f"noeira {name}")


@pytest.mark.parametrize("name", ["tune", "profile"])
def test_a_command_for_one_target_says_why(name: str, call: Callable[..., str]):
    assert f"\n{COMMANDS[name].note}\n" in call(name, "--help")
    assert COMMANDS[name].note.startswith("It has no --target: ")


def test_explain(call: Callable[..., str], golden: Callable[..., None]):
    golden(call("explain", "net.py:Plain", *TINY))


def test_explain_in_a_narrow_terminal(
    call: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    wide = call("explain", "net.py:Plain", *TINY)
    assert max(map(len, wide.splitlines())) > 80
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = re.sub(r"\x1b\[\d+m", "", call("explain", "net.py:Plain", *TINY)).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2] == " #  kernel                  FLOPs  bytes  FLOPs/byte"
    assert lines[4] == "    0: Linear[4, 3]"


def test_explain_as_json(call: Callable[..., str]):
    found = json.loads(call("explain", "net.py:Joined", *TINY, "--json"))
    assert {"kernel", "op", "origin", "fused", "flops", "bytes"} <= set(found["launches"][0])
    assert found["launches"][0]["origin"]["pass"] == "trace"
    assert found["arena_bytes"] > 0


def test_suggest(call: Callable[..., str], golden: Callable[..., None]):
    golden(call("suggest", "net.py:Plain", "--batch", "5"))
    assert "nothing to suggest" in call("suggest", "net.py:Joined", "--batch", "5")


def test_suggest_as_json(call: Callable[..., str]):
    (found,) = json.loads(call("suggest", "net.py:Plain", "--batch", "5", "--json"))["suggestions"]
    text = call("suggest", "net.py:Plain", "--batch", "5")
    assert found["path"] == "0" and found["places"] == [["0", "1"]]
    assert found["wrote"] == ["Linear[4, 3]", "ReLU"] and found["write"] == "LinearReLU[4, 3]"
    assert f"saves {found['launches_saved']} launches" in text
    assert f"and {found['bytes_saved']:,} bytes" in text
    nothing = call("suggest", "net.py:Joined", "--batch", "5", "--json")
    assert json.loads(nothing) == {"suggestions": []}


def test_summary(call: Callable[..., str]):
    assert "elements" in call("summary", "net.py:Plain", *TINY)
    assert json.loads(call("summary", "net.py:Plain", "--json"))["count"] == 23


def test_kernels(call: Callable[..., str], golden: Callable[..., None]):
    golden(call("kernels", "net.py:Joined", *TINY))
    golden(call("kernels", "net.py:Joined", *TINY, "finite"), "one")
    assert call("kernels", "net.py:Joined", "finite", *TINY).startswith("// @joined.step")
    assert "is a part of 2 names: k" in call("kernels", "net.py:Joined", *TINY, "count", code=2)
    assert "there is no kernel gelu; there are k00_linear_relu," in call(
        "kernels", "net.py:Joined", *TINY, "gelu", code=2
    )


@needs_compiler
def test_assembly(call: Callable[..., str], monkeypatch: pytest.MonkeyPatch):
    assert "--asm shows one kernel" in call("kernels", "net.py:Joined", "--asm", code=2)
    monkeypatch.setattr(assembly.shutil, "which", lambda name: None)
    text = call("kernels", "net.py:Joined", "adam", "--asm")
    assert text.startswith("# as the compiler lists it") and "_adam" in text


@pytest.mark.skipif(shutil.which("objdump") is None, reason="there is no objdump")
@needs_compiler
def test_disassembly(call: Callable[..., str]):
    text = call("kernels", "net.py:Joined", "adam", "--asm")
    assert re.match(r"k\d+_adam", text) and "sqrt" in text
    assert "_finite:" not in text


@pytest.mark.parametrize("stage", ["trace", "update", "schedule", "plan"])
def test_dump(stage: str, call: Callable[..., str], golden: Callable[..., None]):
    golden(call("dump", "net.py:Joined", *TINY, "--stage", stage))


def test_dump_of_the_source(call: Callable[..., str]):
    text = call("dump", "net.py:Joined", *TINY, "--stage", "source")
    assert text.startswith("// noeira: Joined for c avx2\n") and "noeira_plans[]" in text


def test_dump_after_a_pass(call: Callable[..., str]):
    dump = parse_dump(call("dump", "net.py:Joined", *TINY, "--stage", "vjp"))
    assert dump.done == ("trace", "vjp")
    assert dump.todo[0].startswith("update{")
    message = call("dump", "net.py:Joined", *TINY, "--stage", "cast", code=2)
    assert "there are trace, vjp, update, guard, dce, fuse, own, schedule, plan, source" in message
    assert call("dump", "net.py:Joined", *TINY, "--stage", "schedule") == call(
        "dump", "net.py:Joined", *TINY
    )


@pytest.mark.parametrize("form", ["json", "dot", "mermaid"])
@pytest.mark.parametrize("stage", ["trace", "schedule", "plan"])
def test_dump_in_other_forms(form: str, stage: str, call: Callable[..., str]):
    text = call("dump", "net.py:Joined", *TINY, "--stage", stage, "--format", form)
    if form == "json":
        assert json.loads(text)["graph"]["name"] == "joined.step"
    else:
        assert text.startswith({"dot": 'digraph "joined.step" {', "mermaid": "flowchart TD"}[form])


def test_a_network_without_loss(call: Callable[..., str]):
    text = call("dump", "net.py:Joined", *TINY, "--loss", "none")
    assert "graph @joined.forward {" in text
    message = call("dump", "net.py:Joined", "--loss", "none", "--stage", "vjp", code=2)
    assert (
        "there is no stage vjp; there are trace, dce, fuse, own, schedule, plan, source" in message
    )


def test_all_stages_are_numbered_files(dumped: Path):
    names = sorted(path.name for path in dumped.iterdir())
    library = ["Joined.so"] if find_compiler() else []
    passes = ["trace", "vjp", "update", "guard", "dce", "fuse", "own", "schedule"]
    graphs = [f"{i:02}_{name}.nir" for i, name in enumerate(passes)]
    assert names == [*graphs, f"{len(graphs):02}_plan.plan", "Joined.c", *library]


def test_diff(call: Callable[..., str], dumped: Path, golden: Callable[..., None]):
    assert call("diff", staged("trace"), staged("trace")) == "the graphs are the same\n"
    text = call("diff", staged("dce"), staged("fuse"), code=1)
    golden(text)
    renamed = (dumped / "00_trace.nir").read_text().replace("%x", "%pixels")
    (dumped / "renamed.nir").write_text(renamed)
    assert "1 node changed: %0.linear" in call(
        "diff", staged("trace"), "stages/renamed.nir", code=1
    )
    same = call("diff", "--names", staged("trace"), "stages/renamed.nir")
    assert same == "the graphs are the same\n"
    message = call("diff", "net.py", staged("trace"), code=2)
    assert "net.py: diff takes graphs and plans, .nir and .plan, as noeira dump writes" in message


def test_diff_of_plans(call: Callable[..., str], dumped: Path):
    plan = Path(staged("plan")).read_text()
    assert call("diff", *[staged("plan")] * 2) == "the plans are the same\n"
    target = plan.split("plan @joined.step for ")[1].split(" {")[0]
    (arena,) = re.findall(r"\n  arena (\d+)", plan)
    other = plan.replace(f"  arena {arena}\n", f"  arena {int(arena) + 64}\n")
    other = re.sub(r"(  place %0.relu: arena \+ )\d+", rf"\g<1>{arena}", other)
    other = other.replace("call %0.relu: gemm{row_tiles = 1", "call %0.relu: gemm{row_tiles = 2")
    other = other.replace(target, "c plain")
    (dumped / "other.plan").write_text(other)
    text = call("diff", staged("plan"), "stages/other.plan", code=1)
    memory = f"arena: {int(arena):,} to {int(arena) + 64:,} bytes"
    facts = memory, "1 call changed: %0.relu", "1 place changed: %0.relu"
    assert text.splitlines()[:5] == ["no node differs", f"target: {target} to c plain", *facts]
    assert text.count("call %0.relu: gemm{") == 2
    same = call("diff", staged("plan"), staged("schedule"), code=1)
    assert same.startswith("no node differs\n"), "of a plan and a graph, the graphs"


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ("frob", 2, "there is no command frob; there are explain, suggest,"),
        ("explian net.py:Plain", 2, "there is no command explian; did you mean explain?"),
        ("explain", 2, "MODEL is missing (see noeira explain --help)"),
        ("help frob", 2, "there is no command frob; there are explain, suggest,"),
        ("cache frob", 2, "there is no action frob; there are show, clear"),
        ("explain net.py:Plain --quux", 2, "there is no option --quux (see noeira explain --help)"),
        ("dump net.py:Plain --out d", 2, "there is no option --out: --all DIR writes every stage"),
        ("explain net.py:Plain other", 2, "other is one argument too many"),
        ("explain net.py:Plain --batchs 5", 2, "no option --batchs; did you mean --batch? (see"),
        ("explain net.Plain", 2, "write a colon before the network's name, net:Plain"),
        ("explain net.py.Plain", 2, "before the network's name, net.py:Plain"),
        ("explain net.py:Nope", 2, "net.py has no Nope; it has Plain, Joined"),
        ("explain net.py:answer", 2, "net.py has answer, but it is no network; it has Plain,"),
        ("explain net.py", 2, "write the network's name after a colon, net.py:Plain"),
        ("explain step.nir", 2, "step.nir: expected a network, such as net.py:MLP; `noeira run`"),
        ("explain ne.py:Plain", 2, "there is no file ne.py; did you mean net.py?"),
        ("explain nothing.here:Net", 2, "there is no module nothing.here"),
        ("explain noeira.nn:Linear", 1, "Linear needs its parameters: write Linear[IN, OUT]"),
        (
            "explain net.py:Plain --batch 0",
            2,
            "--batch must be a whole number of at least 1, not '0'",
        ),
        ("explain net.py:Plain --input 3,a", 2, "--input must be a shape such as 3,32,32"),
        ("explain net.py:Plain --input 3", 1, "Plain takes (*, 4), not (3,)"),
        ("explain net.py:Plain --optimizer adma", 2, "no optimizer adma; did you mean Adam? There"),
        (
            "explain net.py:Plain --optimizer Adam(lr=",
            2,
            "cannot be read: write a name, as",
        ),
        ("explain net.py:Plain --clip 1.0", 2, "1.0 cannot be read: write a name, as in ClipNorm("),
        ("explain net.py:Plain --clip ClipNorm(-1)", 2, "ClipNorm: max_norm must be 0 or greater"),
        ("explain net.py:Plain --schedule cosine", 2, "write schedule=Cosine(epochs=20)"),
        ("explain net.py:Plain --schedule cosin:steps=3", 2, "no schedule cosin; did you mean"),
        ("explain net.py:Plain --groups 0.*", 2, "write PATTERN:key=value, as in '*.bias:lr_fa"),
        ("explain net.py:Plain --groups 7.*:frozen=true", 1, "groups: '7.*' matches no parameter"),
        ("explain net.py:Plain --accumulate 3", 1, "accumulate=3 does not divide batch=100"),
        ("explain net.py:Plain --ema 1", 1, "ema is the decay of a moving average"),
        ("explain net.py:Plain --optimizer net.py:Adam", 2, "net.py has no Adam; it has Plain,"),
        ("explain net.py:Plain --optimizer net.py:Plain", 2, "optimizer must be one such as Adam("),
        ("explain net.py:Plain --loss net.py:Plain", 2, "loss must be a loss type such as"),
        ("explain net.py:Plain --loss none --optimizer adam", 2, "--optimizer goes with a loss"),
        ("explain net.py:Plain --bat 5", 2, "there is no option --bat; did you mean --batch?"),
        ("explain net.py:Plain --batch", 2, "--batch needs a value (see"),
        ("explain net.py:Plain --json=1", 2, "--json takes no value, such as '1'"),
        ("explain net.py:Plain --isa sse", 2, "--isa: there is no vector unit sse; there are avx5"),
        ("explain net.py:Plain --arch sm_90", 2, "--arch is for --target cuda; cpu has --isa"),
        ("explain net.py:Plain --target cuda --isa avx2", 2, "--isa is for --target cpu, not cuda"),
        ("explain net.py:Plain --target cudda", 2, "no target cudda; did you mean cuda? There are"),
        ("dump net.py:Plain --stage fused", 2, "there is no stage fused; did you mean fuse? There"),
        ("dump net.py:Plain --stage vjp --all x", 2, "--all does not go with --stage"),
        ("suggest net.py:Plain --isa avx2", 2, "there is no option --isa"),
        (
            "run net.py:Plain --target reference --isa avx2",
            2,
            "--isa is for code, and the reference",
        ),
        ("run net.py:Plain --arch sm_90", 2, "--arch is for --target cuda; cpu has --isa"),
        ("tune net.py:Plain --seconds 0", 2, "--seconds must be a number of seconds above 0"),
        (
            "explain net.py:Plain --loss Hinge",
            2,
            "there is no loss Hinge; there are BCEWithLogits, ",
        ),
        (
            "explain net.py:Plain --optimizer lamb",
            2,
            "no optimizer lamb; there are SGD, Adagrad, Adam, AdamW, LaProp, Lion, RMSprop, none",
        ),
        (
            "explain net.py:Plain --optimizer adam:rate=1",
            2,
            "Adam has no option rate; it has lr,",
        ),
        ("explain net.py:Plain --optimizer adam:lr", 2, "options are written adam:key=value"),
        ("explain net.py:Plain --optimizer sgd:lr=x", 2, "'x' is not a number"),
        ("explain net.py:Plain --optimizer adam:beta1=2", 2, "beta1 must be at least 0 and less"),
        ("explain net.py:Plain --init Normal", 2, "write Normal[mean, std]"),
        (
            "explain net.py:Plain --init Magic",
            2,
            "no initialiser Magic; there are Deterministic, Kai",
        ),
        ("explain net.py:Plain --entry fit", 2, "no entry fit; there are forward, gradients, step"),
        ("dump net.py:Plain --stage source --format dot", 2, "the stage source is text"),
        ("dump net.py:Plain --all out --format dot", 2, "--all writes texts"),
        ("dump net.py:Plain --all net.py", 2, "net.py is a file; --all takes a folder"),
        ("run net.py:Plain --seed x", 2, "--seed must be a whole number, not 'x'"),
        ("run nothing.nir", 2, "there is no file nothing.nir"),
        (
            "run net.txt",
            2,
            "expected a file .nir, .plan, .c, .so, .cu, .cubin, or a network such as net.py:MLP",
        ),
        ("diff one.nir two.nir", 2, "there is no file one.nir"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_mistakes(words: str, code: int, expected: str, capsys: pytest.CaptureFixture[str]):
    try:
        found = main(words.split())
    except SystemExit as end:
        found = end.code
    output, errors = capsys.readouterr()
    assert found == code and not output
    assert expected in errors and "Traceback" not in errors
    assert "usage:" not in errors and errors.startswith("noeira: ")
    assert errors.count("\n") == 1


def test_the_other_commands_are_there(call: Callable[..., str]):
    shown = call("cache", "show")
    assert "programs" in shown and "facts for a quick start" in shown
    found = python("--version")
    assert re.fullmatch(r"noeira \d+\.\d+\.\d+\S*\n", found.stdout)


def test_shapes_of_samples_may_be_written_as_in_python() -> None:
    assert sample_shapes("3,32,32") == sample_shapes("(3, 32, 32)") == (3, 32, 32)
    assert sample_shapes("(3,); 4, 5") == ((3,), (4, 5))
