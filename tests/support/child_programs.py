"""Functions that tests run in processes of their own, with the environment that each asks for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pycuda_build import Build

SECONDS = 300


@dataclass(frozen=True)
class Program:
    """A function, whether its process has pycuda and the fake driver, and more variables."""

    function: Callable[..., None]
    pycuda: bool = True
    driver: bool = True
    settings: dict[str, str] = field(default_factory=dict)


class Programs(dict[str, Program]):
    """Programs of a module by name, which `python -m MODULE NAME` runs."""

    def __call__(
        self, *, pycuda: bool = True, driver: bool = True, **settings: str
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """A decorator that adds a function, run without pycuda or the driver if so said, and with
        these variables, such as FAKE_CUDA_DEVICES="0".
        """

        def add(function: Callable[..., None]) -> Callable[..., None]:
            self[function.__name__] = Program(function, pycuda, driver, settings)
            return function

        return add

    def main(self, *values: Any) -> None:
        """Runs the program that the command line names."""
        self[sys.argv[1]].function(*values)
        print("well")

    def check(self, name: str, module: str, build: Build) -> str:
        """Runs a program of a module in a process; checks that it came to its end, and gives what
        it wrote to standard error.
        """
        program = self[name]
        child = subprocess.run(
            [sys.executable, "-m", module, name],
            env=build.environment(program.pycuda, program.driver, **program.settings),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert child.returncode == 0, f"{child.stdout}\n{child.stderr}"
        assert child.stdout.splitlines()[-1] == "well", child.stdout
        return child.stderr


def refused(error: type[Exception], words: str, call: Callable[..., Any], *values: Any) -> Any:
    """Checks that a call raises an error whose message has these words, and gives it."""
    try:
        call(*values)
    except error as raised:
        assert words in str(raised), raised
        return raised
    raise AssertionError(f"{call} was not refused")
