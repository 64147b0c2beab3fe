"""What a command was given, a network or a file of one of its stages, and the machine to run it.

Every command that takes files takes them from here: the graph of a network or `.nir`, a plan, and
the toolchain for a kind of vector unit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noeira.codegen.c.isa import ISAS
from noeira.codegen.choices import ChoicesLike, chosen_table
from noeira.codegen.language import C, language_of
from noeira.codegen.target import Target
from noeira.codegen.targets import target_named
from noeira.commands.support.files import read_dump
from noeira.commands.support.network import DUMPED
from noeira.commands.support.options import CODE, STEP, given, stages_from
from noeira.commands.support.usage import UsageError
from noeira.compiler import lower, run_passes
from noeira.errors import NoeiraError, VerifyError
from noeira.ir.plan import Plan
from noeira.ir.text.dump import Dump
from noeira.runtime.build.cache import open_cache
from noeira.runtime.c.compiler import require_compiler
from noeira.runtime.c.toolchain import CToolchain

# What the vector unit of a machine can run beside its own.
ALSO_RUNS = {"avx512": ("avx2", "plain"), "avx2": ("plain",), "neon": ("plain",)}
# The options that have a meaning for a file; for a network all have.
GOES_WITH = {
    ".nir": CODE,
    ".plan": ("target",),
    ".c": ("target", "entry"),
    ".so": ("target", "entry"),
    ".cu": ("target", "entry"),
    ".cubin": ("target", "entry"),
}


@dataclass(frozen=True)
class Subject:
    """What a command works on. path: a file, or a network as `net.py:MLP`; ending: that of the
    file, "" for a network.
    """

    path: str
    ending: str
    args: argparse.Namespace

    @property
    def dump(self) -> Dump:
        """The graph of a network's entry, or of a `.nir`, with the passes that are still to do."""
        return read_dump(self.path) if self.ending == ".nir" else stages_from(self.args).traced

    @contextmanager
    def passes(self) -> Iterator[None]:
        """While passes run: what is wrong with those that a `.nir` names is said with its place."""
        try:
            yield
        except NoeiraError as error:
            if self.ending != ".nir":
                raise
            first, *context = str(error).splitlines()
            where = self.path if context else f"{self.path}, line 2"
            raise VerifyError("\n".join([f"{where}: {first}", *context])) from error

    def finished(self) -> Dump:
        """The graph after the passes that are still to do."""
        dump = self.dump
        with self.passes():
            return run_passes(dump)

    def plan(self, target: Target) -> Plan:
        """The graph, planned for a target."""
        dump = self.dump
        with self.passes():
            return lower(dump, target)


def subject(args: argparse.Namespace, kinds: Sequence[str] = DUMPED) -> Subject:
    """What was named, a network or a file of one of the kinds. Raises UsageError for another, and
    for options that can have no effect on it.
    """
    path = args.model
    ending = Path(path).suffix
    if ending in kinds:
        check_options(args, path, ending)
        return Subject(path, ending, args)
    if ":" not in path:
        raise UsageError(
            f"{path}: expected a file {', '.join(kinds)}, or a network such as net.py:MLP"
        )
    return Subject(path, "", args)


def check_options(args: argparse.Namespace, path: str, ending: str) -> None:
    """Raises UsageError for options that were decided when a file was made."""
    useless = given(args, [name for name in (*STEP, *CODE) if name not in GOES_WITH[ending]])
    if not useless:
        return
    option = useless[0]
    others = [kind for kind, options in GOES_WITH.items() if option[2:] in options]
    where = ", ".join([*others, "a network"])
    raise UsageError(f"{option} was decided when {path} was made; it goes with {where}")


def c_toolchain_for(isa: str | None, choices: ChoicesLike = None) -> CToolchain:
    """What builds C for a kind of vector unit, by default this machine's. Raises UsageError for one
    that it cannot run, CompilerError without a compiler.
    """
    cache = open_cache()
    compiler = require_compiler(cache)
    own = compiler.isa.name
    if isa is not None and not runs(own, isa):
        raise UsageError(f"this machine ({own}) cannot run {isa}")
    return CToolchain(compiler, cache, chosen_table(choices), ISAS[isa or own])


def runs(own: str, isa: str) -> bool:
    """Whether a machine with a kind of vector unit can run code for another."""
    return isa == own or isa in ALSO_RUNS.get(own, ())


def plan_target(plan: Plan, path: str, own: Target) -> Any:
    """The target that a plan was made for. Raises NoeiraError if a machine of target `own` cannot
    run it.
    """
    wanted = target_named(plan.target)
    fits = own.language == wanted.language
    if language_of(own.name) is C:
        fits = fits and runs(own.machine.name, wanted.machine.name)
    if not fits:
        raise NoeiraError(
            f"{path} is for {plan.target}, this machine is {own.name}: "
            f"run the .nir that it was made from"
        )
    return wanted
