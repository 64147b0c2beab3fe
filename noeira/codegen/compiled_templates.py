"""Compiled templates on disk: Jinja takes milliseconds for each, and a process needs dozens."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import jinja2
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket

from noeira import __version__, config
from noeira.disk import replace_file


class CompiledTemplates(BytecodeCache):
    """A file for each template under a name that says where that lies and what compiled it: the
    versions of noeira, whose filters may be at work already, of Jinja and of Python. Jinja finds in
    it what text it is of.

    What is damaged, or cannot be read or written, counts as not there.
    """

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        made_by = f"{__version__}|{jinja2.__version__}|{MAGIC_NUMBER.hex()}"
        return hashlib.sha256(f"{made_by}|{name}|{filename}".encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            digest, _, code = file_of(bucket).read_bytes().partition(b"\n")
            # A damaged code object could do anything.
            if digest == digest_of(code):
                bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        code = bucket.bytecode_to_string()
        with suppress(OSError):
            replace_file(file_of(bucket), digest_of(code) + b"\n" + code)


def file_of(bucket: Bucket) -> Path:
    """Where a compiled template lies."""
    return config.cache_folder() / config.TEMPLATES / bucket.key


def digest_of(code: bytes) -> bytes:
    """64 hexadecimal digits."""
    return hashlib.sha256(code).hexdigest().encode()
