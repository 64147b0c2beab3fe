"""What the compiler made of one kernel of CUDA: its PTX, cut out of the unit's, and its SASS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from noeira.errors import CompilerError
from noeira.runtime.cuda.builder import has_machine_code
from noeira.runtime.targets import toolchain_for
from noeira.stages import Stages

# A kernel from its name to the bracket that closes it, the only one at the start of a line.
ENTRY = re.compile(r"^(?:\.\w+ )*\.entry (\w+)\(.*?^\}\n", flags=re.MULTILINE | re.DOTALL)
# What PTX declares outside of kernels, and its name.
DECLARATION = re.compile(
    r"^\.(?:extern|shared|global|const)\b[^=;\n]*?(\w+)(?:\[\d*\])*(?: *=[^;]*)?;$", re.M
)


def ptx(stages: Stages, names: Sequence[str]) -> str:
    """The PTX of kernels. Raises CompilerError without a compiler."""
    text = toolchain_for(stages.target).build(stages.source).entry.read("unit.ptx").decode()
    return "\n".join(ptx_parts(text, names))


def ptx_parts(text: str, names: Sequence[str]) -> Iterator[str]:
    """The kernels in a unit's PTX, each under the shared and constant arrays that it names. Raises
    CompilerError for one that is missing.
    """
    found = {match[1]: match[0] for match in ENTRY.finditer(text)}
    declared = {match[1]: match[0] for match in DECLARATION.finditer(text)}
    for name in names:
        if name not in found:
            raise CompilerError(f"the unit's PTX has no kernel {name}; it has {', '.join(found)}")
        words = set(re.findall(r"\w+", found[name]))
        yield "".join(f"{line}\n" for key, line in declared.items() if key in words) + found[name]


def machine_code(stages: Stages, names: Sequence[str]) -> str:
    """The SASS of kernels. Raises CompilerError without a compiler or a tool that reads it, and for
    a GPU that the compiler makes no machine code for.
    """
    from noeira.runtime.build.cache import open_cache
    from noeira.runtime.cuda.sass import sass

    library = toolchain_for(stages.target).build(stages.source)
    if not has_machine_code(library):
        raise CompilerError(
            f"the compiler here makes no machine code for {stages.plan.target.split()[-1]}, which "
            "the driver makes of PTX: see --ptx"
        )
    found = open_cache().work(lambda folder: sass(library.binary, names, folder))
    return "\n".join(f"{name}:\n{text}" for name, text in found.items())
