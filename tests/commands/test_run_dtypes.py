"""`noeira run` of graphs with 16-bit floats: values from files, saved, literals, states, on every
target; and what is said where there is no such kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from needs import needs_compiler, needs_cxx
from safetensors.numpy import load_file, save_file

pytest_plugins = ("command_line",)

Call = Callable[..., str]
GRAPH = """\
// noeira-ir 1
// done: -   to do: -
graph @half {
  input %x: DTYPE[5, 7]
  input %label: i32[5, 7] < 100
  state %scale: DTYPE[7]
  %wide = cast(%label) {dtype = "DTYPE"} : DTYPE[5, 7]   from net: Half by trace
  %sum = add(%x, %scale) : DTYPE[5, 7]   from net: Half by trace
  %product = multiply(%sum, %wide) : DTYPE[5, 7]   from net: Half by trace
  %third = constant() {value = 0.3333, dtype = "DTYPE"} : DTYPE[]   from net: Half by trace
  %y = multiply(%product, %third) : DTYPE[5, 7]   from net: Half by trace
  %scale.next = relu(%scale) : DTYPE[7]   from net: Half by trace
  update %scale = %scale.next
  return %y
}
"""


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@needs_compiler
@needs_cxx
def test_values_from_files_and_saved(call: Call, folder: Path, dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bf16" else np.float16)
    Path("half.nir").write_text(GRAPH.replace("DTYPE", dtype))
    x = np.linspace(-2, 3, 35).reshape(5, 7).astype(kind)
    label = np.arange(35, dtype=np.int64).reshape(5, 7)
    scale = np.linspace(-1, 1, 7).astype(kind)
    np.savez("in.npz", x=x, label=label)
    save_file({"scale": scale}, "scale.safetensors")
    step = (lambda a: a.astype(np.float32), lambda a: a.astype(kind))
    wide, narrow = step
    product = narrow(wide(narrow(wide(x) + wide(scale))) * label.astype(np.float32))
    expected = narrow(wide(product) * wide(np.array(0.3333, kind)))
    printed = set[str]()
    for target in ("reference", "cpu", "cuda-cpu"):
        words = ("--target", target, "--inputs", "in.npz", "--weights", "scale.safetensors")
        printed.add(call("run", "half.nir", *words, "--save", "out.safetensors"))
        found = load_file("out.safetensors")
        assert {array.dtype for array in found.values()} == {kind}
        assert found["%y"].tobytes() == expected.tobytes()
        assert found["scale"].tobytes() == np.maximum(scale, kind.type(0)).tobytes()
    assert len(printed) == 1
    call("run", "half.nir", "--target", "cpu")
    # Values that were saved can be given.
    call("run", "half.nir", "--weights", "out.safetensors", "--inputs", "in.npz")


def test_another_dtype_is_refused(call: Call, folder: Path) -> None:
    Path("half.nir").write_text(GRAPH.replace("DTYPE", "bf16"))
    np.savez("in.npz", x=np.ones((5, 7), np.float32), label=np.zeros((5, 7), np.int32))
    said = call("run", "half.nir", "--target", "reference", "--inputs", "in.npz", code=1)
    assert "x is float32; this program takes bfloat16: write x.astype(ml_dtypes.bfloat16)" in said


@needs_compiler
def test_a_kernel_that_is_not_there(call: Call, folder: Path) -> None:
    lines = GRAPH.replace("DTYPE", "bf16").splitlines()
    origin = "   from net: Half by trace"
    made = "%loss, %loss.lse = soft_cross_entropy(%y, %y) : f32[], f32[5]"
    lines.insert(-3, f"  {made}{origin}")
    lines[-2] = "  return %loss"
    Path("half.nir").write_text("\n".join(lines) + "\n")
    assert "loss = " in call("run", "half.nir", "--target", "reference")
    said = call("run", "half.nir", code=1)
    assert "soft_cross_entropy has no kernel for bf16 in C: it has f32, f64" in said
