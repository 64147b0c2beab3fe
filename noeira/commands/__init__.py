"""The commands of `noeira`: a module each, with `add_arguments(parser)` and `run(args) -> int`."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """What the list of commands says of one: what it does, how it is called, and what its own help
    says beside that.
    """

    help: str
    example: str
    note: str = ""


# Every command is the module of its name here, imported when it is called.
COMMANDS = {
    "explain": Command(
        "every launch of a training step: where it comes from, why, and what it costs",
        "noeira explain net.py:MLP --batch 100 --optimizer adam:lr=0.001",
    ),
    "suggest": Command(
        "the fused types a network could be written with, and what each would save",
        "noeira suggest net.py:MLP",
    ),
    "summary": Command(
        "parameters, FLOPs and memory of a network, without allocating it",
        "noeira summary net.py:MLP --batch 100",
    ),
    "dump": Command(
        "a stage of a compile as text, JSON or a picture: graph, plan, C or CUDA",
        "noeira dump net.py:MLP --stage fuse",
    ),
    "kernels": Command(
        "the distinct kernels of a step; of one of them its C or CUDA, or what that became",
        "noeira kernels net.py:MLP k00 --asm",
    ),
    "tune": Command(
        "time other choices for a network's kernels than the rules', and save what is faster",
        "noeira tune net.py:MLP --batch 100 --out mlp.choices",
        "It has no --target: tables of choices are for cpu alone, and CUDA is cut by rule.",
    ),
    "check": Command(
        "run CUDA kernels on the CPU, and report races, wrong accesses and threads that never meet",
        "noeira check net.py:MLP --batch 100 --order random --seed 1",
    ),
    "profile": Command(
        "the measured time of every launch of a step, beside the least this machine allows",
        "noeira profile net.py:MLP --batch 100 --sort time",
        "It has no --target: the launches of cpu are timed inside its C function. What those of a\n"
        "GPU take of it is said by noeira explain --target cuda --resources.",
    ),
    "train": Command(
        "train a network as a file says, with checkpoints and logs in a folder",
        "noeira train mnist.toml --set trainer.epochs=3",
        "The page docs/trainer.md has the sections and keys of the file.",
    ),
    "run": Command(
        "run a network, or a dumped stage, once and print the exact bits of its outputs",
        "noeira run 01_vjp.nir --seed 0",
    ),
    "diff": Command(
        "what differs between two graphs or plans",
        "noeira diff 00_trace.nir 01_vjp.nir",
    ),
    "list": Command(
        "the layers, losses, optimizers and ops that there are, with their formulas",
        "noeira list layers",
    ),
    "doctor": Command(
        "what this machine has of what noeira needs, and how to get the rest",
        "noeira doctor",
    ),
    "cache": Command(
        "what the cache of built programs holds, and emptying it",
        "noeira cache show",
    ),
}
