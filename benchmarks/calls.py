"""What a call from Python costs: ways to call C, and our calls beside what they do in C and peers'.

    python benchmarks/calls.py                                  ours alone
    python benchmarks/calls.py --peers FOLDER --python PYTHON   and the peers', in their own Python

Calls are at batch 1 of 784-256-128-10. `in C` is one of many steps of a native call, `native call`
one step through ctypes, `call` what a user writes. cffi is measured where it is installed, a module
in C where the headers of this Python are.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import subprocess
import sysconfig
import tempfile
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import (
    Table,
    ask_for_priority,
    common_parser,
    digits,
    length,
    main,
    microseconds,
    one_of,
    share_note,
    timed,
    timed_batches,
)
from networks import MLP, batch_of
from processes import Outcome, interleaved, ours, peer, print_result, reasons

# What is called, the peers' name for it, and the peers.
CALLS = {"forward": "mlp_infer_b1", "step": "mlp_b1", "steps": "mlp_b1"}
PEERS = {"mlp_infer_b1": ("torch:eager", "jax:jit"), "mlp_b1": ("torch:eager_fused", "jax:jit")}
# The steps of an epoch: so many that a batch of measured ones seldom meets its end.
SAMPLES = 100_000
REPEATS, CALLED = 20, 5_000

MODULE = "noeira_calls"
EMPTY = "long empty(char *a, void *const *b, int c, long d, double e)"
EMPTY_TEXT = f"{EMPTY};\n{EMPTY} {{ return d + c + (a != 0) + (b != 0) + (e > 0); }}\n"
MODULE_TEXT = f"""\
#include <Python.h>
{EMPTY};
static PyObject *call(PyObject *self, PyObject *const *given, Py_ssize_t count) {{
    (void)self, (void)count;
    char *const a = PyLong_AsVoidPtr(given[0]);
    void *const *const b = PyLong_AsVoidPtr(given[1]);
    const long c = PyLong_AsLong(given[2]), d = PyLong_AsLong(given[3]);
    const double e = PyFloat_AsDouble(given[4]);
    long result;
    Py_BEGIN_ALLOW_THREADS
    result = empty(a, b, (int)c, d, e);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(result);
}}
static PyMethodDef methods[] = {{
    {{"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL, ""}}, {{0}}}};
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "{MODULE}", "", -1, methods}};
PyMODINIT_FUNC PyInit_{MODULE}(void) {{ return PyModule_Create(&module); }}
"""


def measure(name: str, seconds: float) -> None:
    """Measure one of our calls in this process, and print the result as a peer does."""
    ask_for_priority()
    import numpy as np

    import noeira
    from noeira.nn import Adam, CrossEntropy

    # A learning rate so small that the gradients never shrink to where arithmetic gets slow.
    program = noeira.compile(MLP, loss=CrossEntropy, optimizer=Adam(lr=1e-12), batch=1)
    x, y = batch_of(1)
    if name == "steps":
        data = np.broadcast_to(x, (SAMPLES, 784)), np.broadcast_to(y, (SAMPLES,))
        program.load(*data, shuffle=False)
    calls: dict[str, tuple[str, Callable[[], object]]] = {
        "forward": ("forward", lambda: program.forward(x)),
        "step": ("step", lambda: program.step(x, y)),
        "steps": ("steps", lambda: program.steps(1)),
    }
    entry, call = calls[name]
    call()
    native = program.entries[entry]
    in_c = timed_batches(rewinding(program, native.run), seconds / 2).median
    one = timed(rewinding(program, native.run), seconds / 2, inner=10).median
    timing = timed(rewinding(program, call), seconds, inner=10)
    print_result(timing, in_c=in_c, native=one)


def rewinding(program: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """The call; before the resident data come to their end they begin anew."""
    resident, budget = program.training, SAMPLES // 2
    if resident is None:
        return call

    def rewound(steps: int = 1) -> Any:
        nonlocal budget
        if budget < steps:
            resident.cursor[...], budget = 0, SAMPLES // 2
        budget -= steps
        return call(steps) if steps > 1 else call()

    return rewound


def outcomes(name: str, options: argparse.Namespace) -> list[Outcome]:
    """Ours first, then the peers."""
    config = CALLS[name]
    words = "--one", name, "--seconds", options.seconds
    sides = [ours(__file__, *words, threads=options.threads)]
    names = PEERS[config] if options.peers else ()
    sides += [peer(n, config, options.seconds, options) for n in names]
    return interleaved(sides, options.rounds)


def row(name: str, found: list[Outcome]) -> tuple[str, ...]:
    """In C, through ctypes, as a user calls it; what Python adds; peers, and the best's ratio."""
    own, *peers = found
    records = [run.record for run in own.runs]
    in_c, native = (min(record[key] for record in records) for key in ("in_c", "native"))
    ran = [o.timing.median for o in peers if o.runs]
    call = own.timing.median
    cells = [microseconds(o.timing.median) if o.runs else "–" for o in peers]
    ratio = [f"{min(ran) / call:.2f}"] if ran else ["–"] if peers else []
    added = digits(1e6 * (call - native))
    return name, *map(microseconds, (in_c, native, call)), added, *cells, *ratio


def ways() -> Iterator[tuple[str, float | None]]:
    """Ways to call a C function of five arguments that does nothing: nanoseconds of a call."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        library = built(folder, "empty.so", EMPTY_TEXT)
        types = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_double
        numbers: tuple[Any, ...] = (123_456, 123_456, 2, 1, 0.05)
        for label, kind in (("ctypes", ctypes.CDLL), ("ctypes, GIL held", ctypes.PyDLL)):
            function = kind(str(library))["empty"]
            function.argtypes, function.restype = types, ctypes.c_long
            yield f"{label}, numbers", nanoseconds(function, *numbers)
        function = ctypes.CDLL(str(library))["empty"]
        function.restype = ctypes.c_long
        made = [t(n) for t, n in zip(types, numbers, strict=True)]
        yield "ctypes, objects made before (ours)", nanoseconds(function, *made)
        yield "cffi, ABI mode", through_cffi(library, numbers)
        yield "a module in C", through_module(folder, numbers)


def built(folder: Path, name: str, text: str, *flags: str) -> Path:
    """A shared library of that text. Raises CalledProcessError."""
    from noeira.runtime.c.compiler import require_compiler

    source = folder / f"{name}.c"
    source.write_text(text)
    command = [*require_compiler().command, "-O2", "-shared", "-fPIC", *flags]
    words = [*command, str(source), "-o", str(folder / name)]
    subprocess.run(words, check=True, capture_output=True)
    return folder / name


def through_cffi(library: Path, numbers: tuple[Any, ...]) -> float | None:
    """None without cffi."""
    if importlib.util.find_spec("cffi") is None:
        return None
    cffi: Any = importlib.import_module("cffi")

    ffi: Any = cffi.FFI()
    ffi.cdef(f"{EMPTY};")
    a, b = ffi.cast("char *", numbers[0]), ffi.cast("void *const *", numbers[1])
    return nanoseconds(ffi.dlopen(str(library)).empty, a, b, *numbers[2:])


def through_module(folder: Path, numbers: tuple[Any, ...]) -> float | None:
    """None if Python's headers are not there."""
    include, suffix = sysconfig.get_path("include"), sysconfig.get_config_var("EXT_SUFFIX")
    try:
        path = built(folder, f"{MODULE}{suffix}", EMPTY_TEXT + MODULE_TEXT, f"-I{include}")
    except subprocess.CalledProcessError:
        return None
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return nanoseconds(module.call, *numbers)


def nanoseconds(function: Callable[..., Any], *given: Any) -> float:
    """Of a call, at best of many rounds."""
    rounds = timeit.repeat(lambda: function(*given), number=CALLED, repeat=REPEATS)
    return 1e9 * min(rounds) / CALLED


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """Ways to call, then our calls."""
    found = dict(ways())
    rows = tuple((n, "–" if t is None else f"{t:.0f}") for n, t in found.items())
    yield Table("A call of C that does nothing", ("", "ns"), rows, records=(dict(found),))
    measured = {name: outcomes(name, options) for name in CALLS}
    failed = [line for outcome in measured.values() for line in reasons(outcome[:1])]
    if failed:
        raise SystemExit("; ".join(failed))
    peers = ["torch", "jax", "best peer / call"] if options.peers else []
    everything = [o for outcome in measured.values() for o in outcome]
    notes = [share_note(o.timing for o in everything if o.runs)]
    notes += [f"{n}: {line}" for n, outcome in measured.items() for line in reasons(outcome)]
    yield Table(
        f"Calls at batch 1 of 784-256-128-10, {options.threads} threads: median µs",
        ("", "in C", "native call", "call", "Python adds", *peers),
        tuple(row(name, outcome) for name, outcome in measured.items()),
        tuple(notes),
        tuple({"call": n, **o.record()} for n, outcome in measured.items() for o in outcome),
    )


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_parser(__doc__)
    length(parser, full=(3, 2.0), quick=(1, 0.5))
    one_of(parser, CALLS)
    return parser


if __name__ == "__main__":
    main(parser(), tables, measure)
