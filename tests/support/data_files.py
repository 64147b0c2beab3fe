"""Small stand-ins for the files of data sets, and a place where they are served."""

from __future__ import annotations

import gzip
import hashlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np


def idx(array: np.ndarray) -> bytes:
    """A u8 array as the bytes of an idx file."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def md5(content: bytes) -> str:
    """The checksum in hexadecimal."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def mnist_files() -> dict[str, bytes]:
    """Four files such as those of MNIST, of 6 and 3 images: the content of each by name."""
    numbers = np.random.default_rng(0)
    contents = {}
    for part, count in (("train", 6), ("t10k", 3)):
        images = numbers.integers(0, 256, (count, 28, 28)).astype(np.uint8)
        contents[f"{part}-images-idx3-ubyte"] = idx(images)
        contents[f"{part}-labels-idx1-ubyte"] = idx(np.arange(count, dtype=np.uint8))
    return contents


def write(folder: Path, contents: dict[str, bytes], compress: bool = True) -> None:
    """The files as a mirror or a user has them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


class Quiet(SimpleHTTPRequestHandler):
    """A file server that prints nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def mirror(folder: Path) -> Iterator[str]:
    """The URL of a server of `folder`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def closed_port() -> str:
    """A URL where nobody listens."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/"
