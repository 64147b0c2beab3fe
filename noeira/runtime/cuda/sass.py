"""SASS, the machine instructions of a GPU: what nvdisasm or cuobjdump reads out of a cubin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from noeira.disk import temporary_folder
from noeira.errors import CompilerError
from noeira.runtime.build.process import first_lines, run
from noeira.runtime.cuda.toolkit import find_program

SECONDS = 120
# In the order of how well they read: only the first names the targets of branches.
TOOLS = {"nvdisasm": ("-c",), "cuobjdump": ("-sass",)}
ADVICE = """\
SASS is read by nvdisasm or cuobjdump, and neither was found. To get one:
  pip install nvidia-cuda-nvdisasm
or put the bin folder of NVIDIA's CUDA toolkit on PATH. PTX needs no tool."""
# The start of a kernel in what each prints.
STARTS = {
    "nvdisasm": re.compile(r"^\.text\.(\w+):$", flags=re.MULTILINE),
    "cuobjdump": re.compile(r"^\s*Function : (\w+)$", flags=re.MULTILINE),
}
# After the last instruction: the head of the next section, or of the next file.
END = re.compile(r"^(?://-{5,}|\s*\.section\b|\s*\.{10,}|Fatbin )", flags=re.MULTILINE)
# What fills a function up to the next multiple of 128 bytes, and the label of its end.
PADDING = re.compile(r"^(?:\s*/\*[0-9a-f]+\*/\s+NOP\s*;|\.L_x_\d+:)$")
# What an instruction is encoded as, in lines of its own too.
ENCODING = re.compile(r"[ \t]*/\* 0x[0-9a-f]{16} \*/[ \t]*$", flags=re.MULTILINE)


def find_disassembler() -> tuple[str, str] | None:
    """The name and the path of a tool that reads machine code; None without one."""
    for name in TOOLS:
        path = find_program(name)
        if path is not None:
            return name, path
    return None


def sass(cubin: bytes, kernels: Sequence[str] = (), folder: Path | None = None) -> dict[str, str]:
    """The instructions of kernels by name, of all of them if none is named, one a line.

    folder: one to write into, by default the system's for temporary files. Raises CompilerError
    without a tool, with advice; if the tool does not read this machine code; and for a kernel that
    is not in it, with those that are.
    """
    found = find_disassembler()
    if found is None:
        raise CompilerError(ADVICE)
    name, path = found
    if folder is None:
        import tempfile

        folder = Path(tempfile.gettempdir())
    with temporary_folder(folder) as place:
        (place / "unit.cubin").write_bytes(cubin)
        status, text = run((path, *TOOLS[name], "unit.cubin"), place, SECONDS)
    if status:
        raise CompilerError(
            f"{path} does not read this machine code: {first_lines(text, 5)}\n"
            "One as new as the compiler does: pip install nvidia-cuda-nvdisasm"
        )
    functions = functions_in(text, name)
    for kernel in kernels:
        if kernel not in functions:
            raise CompilerError(f"there is no kernel {kernel!r}: there are {', '.join(functions)}")
    return {kernel: functions[kernel] for kernel in kernels or functions}


def functions_in(text: str, tool: str) -> dict[str, str]:
    """The functions in what a tool printed, without how instructions are encoded."""
    starts = list(STARTS[tool].finditer(text))
    found = dict[str, str]()
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        body = text[start.end() : following.start() if following else len(text)]
        end = END.search(body)
        body = ENCODING.sub("", body[: end.start()] if end else body)
        lines = [line.rstrip() for line in body.splitlines() if is_code(line)]
        while lines and PADDING.match(lines[-1]):
            lines.pop()
        found[start[1]] = "\n".join([*lines, ""])
    return dict(sorted(found.items()))


def is_code(line: str) -> bool:
    """Whether a line is an instruction or the target of a branch."""
    return bool(line.strip()) and not line.startswith("\t.")
