"""The kinds of vector units whose code this machine runs."""

from __future__ import annotations

import shutil
import subprocess

from noeira.codegen.c.isa import AVX2, AVX512, ISA, NEON, PLAIN, isa_from_macros


def host_isa() -> ISA:
    """The widest that gcc knows it to have."""
    command = ["gcc", "-march=native", "-dM", "-E", "-x", "c", "/dev/null"]
    macros = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return isa_from_macros(macros)


def runnable() -> list[ISA]:
    """The kinds of vector unit whose code this machine runs."""
    if shutil.which("gcc") is None:
        return [PLAIN]
    narrower = {AVX512: [AVX2, PLAIN], AVX2: [PLAIN], NEON: [PLAIN], PLAIN: []}
    return [host_isa(), *narrower[host_isa()]]
