"""The targets of `compile`: what each is written in, and how it is opened. A further one is a row
of TARGETS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.codegen.choices import ChoicesLike, chosen_table
from noeira.codegen.language import CUDA, C, Language, language_of
from noeira.errors import CompilerError, DeviceError, OptionError
from noeira.ir.choices import NO_CHOICES, Choices

if TYPE_CHECKING:
    from noeira.codegen.target import Target
    from noeira.runtime.reference import ReferenceToolchain
    from noeira.runtime.toolchain import Toolchain


@dataclass(frozen=True)
class RuntimeTarget:
    """Where programs run.

    language: of their kernels, None if there are none; runs: endings of the files that it runs as
    they are; has_choices: whether a table of tuned choices has a say; needs_gpu: whether that is
    the machine's.
    """

    name: str
    language: Language | None
    runs: tuple[str, ...]
    open_with: Callable[[Choices], Toolchain | ReferenceToolchain]
    has_choices: bool = False
    needs_gpu: bool = False

    def table(self, choices: ChoicesLike) -> Choices:
        """The table of choices meant: one that is given, or that of NOEIRA_CHOICES.

        Raises OptionError if one is given where there is nothing to choose, and as `chosen_table`.
        """
        if self.has_choices:
            return chosen_table(choices)
        if choices is None or choices is NO_CHOICES:
            return NO_CHOICES
        having = ", ".join(one.name for one in TARGETS.values() if one.has_choices)
        why = "runs no kernels" if self.language is None else "is cut by rule alone"
        raise OptionError(f"a table of choices is for target {having}: {self.name} {why}")

    def written_for(
        self, *, isa: str | None = None, arch: str | None = None, choices: Choices = NO_CHOICES
    ) -> Target:
        """What code is written for, where nothing need run: by default the vector unit of this
        machine, and a usual GPU. The reference has the code of C.

        Raises DeviceError for a machine that there is not, or one of another language.
        """
        from noeira.codegen.targets import target_named

        language = self.language or C
        for option, machine in (("isa", isa), ("arch", arch)):
            if machine is not None and option != language.option:
                raise DeviceError(
                    f"{option}={machine} has no effect on target {self.name}, which has "
                    f"{language.option}=…"
                )
        machine = isa or arch or USUAL_MACHINES[language]()
        return target_named(f"{language.name} {machine}", choices)

    def open(self, choices: Choices = NO_CHOICES) -> Toolchain | ReferenceToolchain:
        """What makes programs for it. Raises DeviceError or CompilerError if something is missing;
        `cpu` without a C compiler runs by the reference, and says so once.
        """
        return self.open_with(choices)


def open_cpu(choices: Choices) -> Toolchain | ReferenceToolchain:
    """C, or without a compiler the reference."""
    from noeira.runtime.c.toolchain import c_toolchain
    from noeira.runtime.reference import reference_without_compiler

    return c_toolchain(choices) or reference_without_compiler()


def open_cuda(choices: Choices) -> Toolchain:
    """CUDA on a GPU."""
    from noeira.runtime.cuda.toolchain import cuda_toolchain

    return cuda_toolchain(choices=choices)


def open_cuda_cpu(choices: Choices) -> Toolchain:
    """CUDA executed by the CPU."""
    from noeira.runtime.cuda_cpu.toolchain import cuda_cpu_toolchain

    return cuda_cpu_toolchain(choices=choices)


def open_reference(choices: Choices) -> ReferenceToolchain:
    """NumPy."""
    from noeira.runtime.reference import ReferenceToolchain

    return ReferenceToolchain()


def c_toolchain_for(target: Target) -> Toolchain:
    """C for the vector unit of this machine."""
    from noeira.runtime.build.cache import open_cache
    from noeira.runtime.c.compiler import require_compiler
    from noeira.runtime.c.toolchain import CToolchain

    cache = open_cache()
    compiler = require_compiler(cache)
    if compiler.isa != target.machine:
        own, wanted = compiler.isa.name, target.machine.name
        raise CompilerError(f"this machine's compiler builds for {own}, not {wanted}")
    return CToolchain(compiler, cache, target.choices)


def cuda_toolchain_for(target: Target) -> Toolchain:
    """CUDA for a kind of GPU."""
    from noeira.runtime.cuda.toolchain import cuda_toolchain

    return cuda_toolchain(target.machine, target.choices)


def own_isa() -> str:
    """The vector unit of this machine; without a compiler the one that needs none."""
    from noeira.codegen.c.isa import PLAIN
    from noeira.runtime.c.compiler import find_compiler

    compiler = find_compiler()
    return (compiler.isa if compiler else PLAIN).name


def usual_gpu() -> str:
    """The kind of GPU that CUDA is written for where none decides."""
    from noeira.codegen.cuda.arch import DEFAULT_ARCH

    return DEFAULT_ARCH


USUAL_MACHINES = {C: own_isa, CUDA: usual_gpu}
TOOLCHAINS = {C: c_toolchain_for, CUDA: cuda_toolchain_for}
TARGETS = {
    target.name: target
    for target in (
        RuntimeTarget("cpu", C, (".c", ".so"), open_cpu, has_choices=True),
        RuntimeTarget("cuda", CUDA, (".cu", ".cubin"), open_cuda, needs_gpu=True),
        RuntimeTarget("cuda-cpu", CUDA, (".cu",), open_cuda_cpu),
        RuntimeTarget("reference", None, (), open_reference),
    )
}


def toolchain_for(target: Target) -> Toolchain:
    """What builds units for a target, which need not run here. Raises CompilerError where no
    compiler does, with how to get one.
    """
    return TOOLCHAINS[language_of(target.name)](target)


def target_called(name: str) -> RuntimeTarget:
    """The target of that name. Raises OptionError that lists them."""
    if not isinstance(name, str) or name not in TARGETS:
        raise OptionError(f"there is no target {name!r}; there are {', '.join(TARGETS)}")
    return TARGETS[name]


def first_of_each_language() -> dict[Language, RuntimeTarget]:
    """For each language the target that sources are written for where nothing is run."""
    found = dict[Language, RuntimeTarget]()
    for target in TARGETS.values():
        if target.language is not None:
            found.setdefault(target.language, target)
    return found


def running(ending: str) -> tuple[str, ...]:
    """The targets that run files of an ending as they are, those that need no GPU first."""
    found = [target for target in TARGETS.values() if ending in target.runs]
    return tuple(one.name for one in sorted(found, key=lambda one: one.needs_gpu))
