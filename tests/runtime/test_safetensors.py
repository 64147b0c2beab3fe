"""Files of tensors: what the package safetensors makes of ours and we of its; every structural lie
is refused by name.
"""

from __future__ import annotations

import json
import os
import re
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import noeira
from noeira.errors import CheckpointError, DtypeError
from noeira.nn import Linear, LinearReLU, Sequential
from noeira.runtime.safetensors import OWN, read, write

Net = Sequential[LinearReLU[5, 4], Linear[4, 3]]
BITS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def compiled(seed: int = 0, dtype: str = "f32") -> noeira.Program:
    return noeira.compile(Net, target="reference", seed=seed, dtype=dtype)  # type: ignore[arg-type]


def same(found: Any, expected: Any) -> bool:
    """Whether two sets of tensors are the same, bit for bit."""
    return {n: (a.dtype, a.shape, a.tobytes()) for n, a in found.items()} == {
        n: (a.dtype, a.shape, a.tobytes()) for n, a in expected.items()
    }


def test_the_package_reads_what_is_written_and_writes_what_is_read(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    tensors = {
        kind: random.standard_normal((3, 5)).astype(kind)
        for kind in ("float64", "float32", "float16", ml_dtypes.bfloat16)
    }
    tensors = {str(np.dtype(kind)): array for kind, array in tensors.items()}
    tensors |= {kind: np.array(7, kind) for kind in ("int64", "int32", "uint8", "bool")}
    tensors |= {"größe.0": tensors["float32"].T, "one": np.zeros((1, 1, 2), np.int32)}
    write(tmp_path / "ours.safetensors", tensors, "Net")
    assert same(load_file(tmp_path / "ours.safetensors"), tensors)
    assert same(read(tmp_path / "ours.safetensors").tensors, tensors)
    assert read(tmp_path / "ours.safetensors").network == "Net"
    with safe_open(tmp_path / "ours.safetensors", "np") as file:
        metadata = file.metadata()
    assert metadata["noeira"] == noeira.__version__ and metadata["noeira.network"] == "Net"
    assert re.fullmatch("[0-9a-f]{64}", metadata["noeira.checksum"])
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    contiguous |= {"none": np.zeros((0, 3), np.float32), "small": np.ones(3, np.int16)}
    save_file(contiguous, tmp_path / "theirs.safetensors", metadata={"by": "hand"})
    found = read(tmp_path / "theirs.safetensors")
    assert same(found.tensors, contiguous) and found.network == ""
    # Equal tensors give equal files, and elements begin at 64 bytes.
    write(tmp_path / "again.safetensors", tensors, "Net")
    ours = (tmp_path / "ours.safetensors").read_bytes()
    assert ours == (tmp_path / "again.safetensors").read_bytes()
    assert (8 + int.from_bytes(ours[:8], "little")) % 64 == 0


def test_writing_needs_no_second_copy(tmp_path: Path) -> None:
    tensors = {str(index): np.ones((1000, 250)) for index in range(8)}
    tracemalloc.start()
    write(tmp_path / "net.safetensors", tensors, "Net")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < tensors["0"].nbytes / 2


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_weights_go_out_and_come_back(tmp_path: Path, dtype: str) -> None:
    path, trained = tmp_path / "net.safetensors", compiled(1, dtype)
    for stored, kind in BITS.items():
        trained.tensors.save(path, dtype=stored)
        found = load_file(path)
        # By way of f32, as everywhere here; an independent rounding for what is not wider.
        expected = {n: a.astype(np.float32).astype(kind) for n, a in trained.tensors.items()}
        if stored in ("f32", "f64"):
            expected = {n: a.astype(kind) for n, a in trained.tensors.items()}
        assert same(found, expected)
        for wide in ("f32", "f64"):
            loaded = compiled(2, wide)
            loaded.tensors.load(path)
            assert same(loaded.tensors, {n: a.astype(BITS[wide]) for n, a in expected.items()})
    trained.tensors.save(path)
    assert same(load_file(path), trained.tensors)
    save_file(load_file(path), path)
    loaded = compiled(2, dtype)
    loaded.tensors.load(path)
    assert same(loaded.tensors, trained.tensors)


def test_numbers_are_rounded_to_the_nearest_and_ties_to_even(tmp_path: Path) -> None:
    path, trained = tmp_path / "net.safetensors", compiled()
    step = 2.0**-7
    values = [1 + step / 2, 1 + 3 * step / 2, 1 + step / 2 + 2.0**-20, -1 - step / 2]
    trained.params["0.bias"][...] = values
    trained.tensors.save(path, dtype="bf16")
    expected = np.array([1, 1 + 2 * step, 1 + step, -1], ml_dtypes.bfloat16)
    assert load_file(path)["0.bias"].tobytes() == expected.tobytes()


def test_numbers_that_a_dtype_has_not_are_refused(tmp_path: Path) -> None:
    path, trained = tmp_path / "net.safetensors", compiled(1, "f64")
    trained.params["1.weight"][2, 1] = 70000
    with pytest.raises(DtypeError, match=r"^1\.weight\[2, 1\] is 70000\.0, and f16 has no such n"):
        trained.tensors.save(path, dtype="f16")
    assert not path.exists()
    trained.params["1.weight"][2, 1] = 1e300
    trained.params["1.weight"][0, 0] = np.inf
    trained.tensors.save(path)
    other = compiled(2)
    before = {name: array.copy() for name, array in other.tensors.items()}
    message = r"has 1\.weight\[2, 1\] = 1e\+300, and float32 has no such number; they are of Seq"
    with pytest.raises(CheckpointError, match=message):
        other.tensors.load(path)
    assert same(other.tensors, before)
    trained.params["1.weight"][2, 1] = np.nan
    trained.tensors.save(path)
    other.tensors.load(path)
    assert np.isnan(other.params["1.weight"][2, 1]) and np.isinf(other.params["1.weight"][0, 0])


@pytest.mark.parametrize("kind", ["int64", "bool", "uint16", ml_dtypes.float8_e4m3fn])
def test_what_is_no_float_of_ours_is_refused_by_name(tmp_path: Path, kind: Any) -> None:
    program, path = compiled(), tmp_path / "net.safetensors"
    save_file({**program.tensors, "1.bias": np.ones(3, kind)}, path)
    name = np.dtype(kind).name
    with pytest.raises(CheckpointError, match=rf"it has 1\.bias as {name}\[3\], not float32\[3\]$"):
        program.tensors.load(path)


ENTRY = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'


def lies(*changes: tuple[str, str]) -> bytes:
    """The header of one tensor with something else in it."""
    text = f'{{"a":{ENTRY}}}'
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text.encode()


LIES = {
    "its header is no JSON: 'Expecting": b"{oops}",
    "its header is no JSON: \"'utf-8' codec": b'{"\xff":1}',
    "its header is no JSON: 'maximum recursion": b'{"a":' + b"[" * 100_000 + b"}",
    "its header is no JSON: 'NaN is no JSON'": lies(("[2]", "[NaN]")),
    "its header has 'a' twice": lies(("}}", f'}},"a":{ENTRY}}}')),
    "its header has 'dtype' twice": lies(('"shape"', '"dtype":"F32","shape"')),
    "__metadata__ in its header is no object": lies(('"a"', '"__metadata__":{"x":1},"a"')),
    "its tensor 'a' has not dtype, shape and": lies(("shape", "shapes")),
    "'a' is of dtype 'F33', which safetensors": lies(("F32", "F33")),
    "as F4, several elements in a byte": lies(("F32", "F4")),
    "'a' has the shape [-2]": lies(("[2]", "[-2]")),
    "'a' has the shape [True]": lies(("[2]", "[true]")),
    "'a' has the shape [2.0]": lies(("[2]", "[2.0]")),
    "'a' has the shape [1, 1, 1": lies(("[2]", f"[{'1,' * 70}2]")),
    "'a' has the shape [4611686018427387904, 0]": lies(("[2]", f"[{2**62},0]"), ("8]", "0]")),
    "its bytes do not give its checksum": lies(
        ('"a"', f'"__metadata__":{json.dumps(dict.fromkeys(OWN, "1"))},"a"'),
        ('checksum": "1', r'checksum": "\ud800'),
    ),
    "'a' has the place [8, 0]": lies(("[0,8]", "[8,0]")),
    "'a' has the place [0, 8, 9]": lies(("[0,8]", "[0,8,9]")),
    "'a' has 8 bytes, which is not F32[3]": lies(("[2]", "[3]")),
    "'a' has 8 bytes, which is not F64[2]": lies(("F32", "F64")),
    "its tensors 'a' and 'b' overlap": lies(("}}", f'}},"b":{ENTRY}}}')),
    "its bytes 0 to 4 are of no tensor": lies(("[0,8]", "[4,12]")),
    "its end is missing: they have 16 bytes, and the file 8": lies(("[2]", "[4]"), ("8]", "16]")),
    "there is more behind its tensors: they have 4": lies(("[2]", "[1]"), ("8]", "4]")),
}


@pytest.mark.parametrize("message", LIES)
def test_a_header_that_lies_is_refused(tmp_path: Path, message: str) -> None:
    path, header = tmp_path / "lie.safetensors", LIES[message]
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(CheckpointError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path} ") and message in str(caught.value)


def other_files(folder: Path) -> dict[str, tuple[str, str]]:
    """Files of other kinds: what is said of each."""
    (folder / "folder").mkdir()
    (folder / "empty").write_bytes(b"")
    (folder / "text.json").write_text('{"a": 1}')
    (folder / "old.pt").write_bytes(b"\x80\x02}q\x00.")
    with zipfile.ZipFile(folder / "new.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
    with zipfile.ZipFile(folder / "any.zip", "w") as archive:
        archive.writestr("a.txt", b"a")
    np.savez(folder / "net.npz", a=np.zeros(3))
    np.save(folder / "one.npy", np.zeros(3))
    (folder / "lfs").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    (folder / "x.gguf").write_bytes(b"GGUF\x03\0\0\0\0\0\0\0")
    huge = (10**12).to_bytes(8, "little") + b"{}"
    (folder / "huge").write_bytes(huge)
    os.mkfifo(folder / "pipe")
    pickled, torch = "can run code when it is loaded: write ", "safetensors.torch.save_file("
    no_file = "is no safetensors file, or its beginning is damaged: program.save, "
    return {
        "folder": ("is a folder: give the path of a safetensors file", ""),
        "pipe": ("is no file on a disk: give the path", ""),
        "none": ("cannot be read: No such file or directory", ""),
        "empty": (no_file, ""),
        "text.json": (no_file, "safetensors.numpy.save_file write those"),
        "old.pt": (f"is a pickle, which {pickled}", torch),
        "new.pt": (f"is a file of PyTorch's, a pickle, which {pickled}", torch),
        "any.zip": ("is a zip archive, no safetensors file: write a safetensors file where", ""),
        "net.npz": ("is an .npz archive of NumPy: program.tensors.load takes arrays by name", ""),
        "one.npy": ("is an array of NumPy: program.tensors.load takes", ""),
        "lfs": ("is a pointer of Git LFS, not what it points at: fetch it with git lfs pull", ""),
        "x.gguf": ("is a GGUF file: write a safetensors file where it was made", ""),
        "huge": ("its header would have 1,000,000,000,000 bytes, more than any has", ""),
    }


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    program = compiled()
    for name, parts in other_files(tmp_path).items():
        for load in (program.tensors.load, program.restore):
            with pytest.raises(CheckpointError) as caught:
                load(tmp_path / name)
            text = str(caught.value)
            assert text.startswith(f"{tmp_path / name} ") and all(p in text for p in parts), text


def test_a_file_of_another_form_says_what_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    write(path, {"a": np.zeros(3)}, "Net")
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"noeira.form":"1"', b'"noeira.form":"2"'))
    with pytest.raises(CheckpointError, match=r"is of form 2, written by noeira .* reads form 1: "):
        read(path)
    path.write_bytes(content.replace(b'"noeira.form"', b'"noeira.farm"'))
    with pytest.raises(CheckpointError, match=r"damaged, .*: its metadata lack noeira\.form; take"):
        read(path)
    path.write_bytes(content[:-1] + b"\x01")
    with pytest.raises(CheckpointError, match="its bytes do not give its checksum; take another"):
        read(path)


def test_odd_names_do_not_spoil_the_message(tmp_path: Path) -> None:
    header = {"a\n\x1b[31m" + "x" * 200: json.loads(ENTRY)}
    text = json.dumps(header).encode()
    path = tmp_path / "odd.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(CheckpointError) as caught:
        compiled().tensors.load(path)
    assert str(caught.value).isprintable()
    with pytest.raises(CheckpointError, match="can be called __metadata__"):
        write(path, {"__metadata__": np.zeros(3)}, "Net")


@pytest.mark.parametrize("ending", ["npz", "pt", "PTH", "h5"])
def test_no_file_is_written_under_the_ending_of_another_format(ending: str) -> None:
    with pytest.raises(CheckpointError, match=r"another format: write net\.safetensors$"):
        compiled().save(f"net.{ending}")
