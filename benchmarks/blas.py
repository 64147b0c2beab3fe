"""Matrix products of other libraries: OpenBLAS and oneDNN, found where a Python has them, called
from a native loop.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapes import Shape

ASK_FOLDERS = "import sys, sysconfig; print(sys.prefix, sysconfig.get_path('platlib'), sep='\\n')"

# Row major, in the enumerations of CBLAS.
LOOP = """
typedef {integer} integer;
typedef {prototype};
void noeira_products(function *product, long times, integer m, integer n, integer k, int ta, int tb,
                     const {ctype} *a, const {ctype} *b, {ctype} *c);
void noeira_products(function *product, long times, integer m, integer n, integer k, int ta, int tb,
                     const {ctype} *a, const {ctype} *b, {ctype} *c) {{
    const integer lda = ta ? m : k, ldb = tb ? k : n;
    for (long i = 0; i < times; i++)
        product({arguments}, m, n, k, 1, a, lda, b, ldb, 0, c, n);
}}
"""
PROTOTYPE = (
    "void function({first}, integer, integer, integer, {ctype}, const {ctype} *, integer, "
    "const {ctype} *, integer, {ctype}, {ctype} *, integer)"
)
CTYPES = {"f32": "float", "f64": "double"}
LETTERS = {"f32": "s", "f64": "d"}


@dataclass(frozen=True)
class Library:
    """A library with a matrix product: where it is, the function, and the C type of its sizes."""

    name: str
    path: Path
    symbol: str
    integer: str

    def words(self) -> list[str]:
        """For a worker's command line."""
        return [str(self.path), self.symbol, self.integer]

    def variables(self, threads: int) -> dict[str, str]:
        """Environment of a worker: its threads, and where the libraries that it needs lie."""
        count = str(threads)
        found = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), count)
        return found | {"LD_LIBRARY_PATH": str(self.path.parent)}


def libraries(python: str, dtype: str) -> Iterator[Library]:
    """OpenBLAS from scipy-openblas32 or from NumPy, and oneDNN, where a Python has them."""
    try:
        asked = subprocess.run(
            [python, "-c", ASK_FOLDERS], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return
    prefix, packages = map(Path, asked.stdout.split("\n")[:2])
    letter = LETTERS[dtype]
    own = [*packages.glob("scipy_openblas32/lib/libscipy_openblas*.so")]
    numpys = [*packages.glob("numpy.libs/libscipy_openblas64_*.so")]
    if own:
        yield Library("OpenBLAS", own[0], f"scipy_cblas_{letter}gemm", "int")
    elif numpys:
        yield Library("OpenBLAS", numpys[0], f"scipy_cblas_{letter}gemm64_", "long")
    dnnl = [*prefix.glob("lib/libdnnl.so")]
    if dnnl and dtype == "f32":
        yield Library("oneDNN", dnnl[0], "dnnl_sgemm", "long")


class Product:
    """The product of a library, called in a loop."""

    def __init__(self, path: str, symbol: str, integer: str, dtype: str) -> None:
        from noeira.codegen.language import C
        from noeira.codegen.source import Source
        from noeira.runtime.build.cache import open_cache
        from noeira.runtime.build.library import load
        from noeira.runtime.c.compiler import require_compiler
        from noeira.runtime.c.toolchain import CToolchain

        ctype, dnnl = CTYPES[dtype], symbol.startswith("dnnl")
        first = "char, char" if dnnl else "int, int, int"
        text = LOOP.format(
            integer=integer,
            ctype=ctype,
            prototype=PROTOTYPE.format(first=first, ctype=ctype),
            arguments="ta ? 'T' : 'N', tb ? 'T' : 'N'"
            if dnnl
            else "101, ta ? 112 : 111, tb ? 112 : 111",
        )
        cache = open_cache()
        toolchain = CToolchain(require_compiler(cache), cache)
        self.loop: Any = load(toolchain.build(Source(C, "blas", text, ""))).noeira_products
        size = ctypes.c_int if integer == "int" else ctypes.c_long
        self.loop.argtypes = [
            ctypes.c_void_p,
            ctypes.c_long,
            *[size] * 3,
            *[ctypes.c_int] * 2,
            *[ctypes.c_void_p] * 3,
        ]
        self.loop.restype = None
        self.library = ctypes.CDLL(path)
        self.function = ctypes.cast(getattr(self.library, symbol), ctypes.c_void_p)

    def run(self, times: int, shape: Shape, a: int, b: int, c: int) -> int:
        """So many products of matrices at these addresses."""
        sizes = shape.m, shape.n, shape.k, shape.transpose_a, shape.transpose_b
        self.loop(self.function, times, *sizes, a, b, c)
        return times


if __name__ == "__main__":
    sys.exit("run gemm.py")
