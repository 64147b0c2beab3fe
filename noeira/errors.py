"""Every error noeira raises on purpose, each a NoeiraError.

situation                                                           class
a value of an option: batch=0, dtype="float32", loss="mse"          OptionError (a ValueError)
options that do not go together, or could have no effect            OptionError
types that do not go together; a class that is no proper module     CompositionError
a fused type that cannot be one kernel                              FusionError
an array of another shape, or of another number of rows             ShapeError (a ValueError)
an array of another dtype                                           DtypeError (a TypeError)
values in data: a label out of range, a file that cannot be read    DataError
a loss that is not finite                                           NotFiniteError
a text: `.nir`, `.plan`, a table of choices, a command line         ParseError
a graph or a plan that breaks a rule                                VerifyError
the C or CUDA compiler                                              CompilerError
a device, its driver or its library                                 DeviceError
… that is not there                                                 MissingError
… that has too little memory                                        DeviceMemoryError
… whose kernel did something wrong                                  KernelFault
a checkpoint                                                        CheckpointError
a call at the wrong time: a closed program, one without an entry    NoeiraError itself
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "CheckpointError",
    "CompilerError",
    "CompositionError",
    "DataError",
    "DeviceError",
    "DeviceMemoryError",
    "DtypeError",
    "FusionError",
    "KernelFault",
    "MissingError",
    "NoeiraError",
    "NotFiniteError",
    "OptionError",
    "ParseError",
    "ShapeError",
    "VerifyError",
]


class NoeiraError(Exception):
    """The parent of all errors that noeira raises on purpose; its message is meant for the user."""


class CompositionError(NoeiraError):
    """Types that do not go together: a wrong size, an instance where a type belongs, layers that do
    not fit.
    """


class FusionError(CompositionError):
    """A fused type that cannot be one kernel."""


class OptionError(NoeiraError, ValueError):
    """An option with a value that it cannot have, or one that would have no effect."""


class ShapeError(NoeiraError, ValueError):
    """An array or a value of the wrong shape or number of rows."""


class DtypeError(NoeiraError, TypeError):
    """An array or a value of the wrong dtype."""


class ParseError(NoeiraError):
    """A `.nir`, `.plan` or command-line text that cannot be read; names the line and what was
    expected.
    """


class VerifyError(NoeiraError):
    """A graph that breaks a rule of the IR; names the rule, the pass, and the lines around it."""


class CompilerError(NoeiraError):
    """The C or CUDA compiler is missing or failed; carries its command, its message and the kept
    source.
    """


class DeviceError(NoeiraError):
    """A device, driver or device library that is missing or failed."""


class MissingError(DeviceError):
    """Something that a GPU needs is not there. what: `pycuda`, `NVIDIA driver` or `GPU`."""

    def __init__(self, what: str, text: str, advice: str) -> None:
        super().__init__(f"{text}: {advice}")
        self.what, self.text, self.advice = what, text, advice

    def __reduce__(self) -> tuple[type[MissingError], tuple[str, str, str]]:
        return type(self), (self.what, self.text, self.advice)


class DeviceMemoryError(DeviceError):
    """A device, or the host, with less free memory than was asked for; `asked`, `free` and `total`
    are bytes.
    """

    def __init__(self, message: str, asked: int, free: int, total: int) -> None:
        super().__init__(message)
        self.asked, self.free, self.total = asked, free, total

    def __reduce__(self) -> tuple[type[DeviceMemoryError], tuple[object, ...]]:
        return type(self), (str(self), self.asked, self.free, self.total)


class KernelFault(DeviceError):
    """What a CUDA kernel run on the CPU did wrong: `kind`, such as "race" or "out of bounds",
    `kernel`, numbers of `block` and `thread`, `line` of the `.cu` (None if unknown), one sentence
    `text`; `others` are the further faults of the same launch.
    """

    def __init__(
        self,
        kind: str,
        kernel: str,
        block: int,
        thread: int,
        line: int | None,
        text: str,
        others: tuple[KernelFault, ...] = (),
    ) -> None:
        self.kind, self.kernel, self.block, self.thread = kind, kernel, block, thread
        self.line, self.text, self.others = line, text, others
        super().__init__("\n".join([self.sentence, *[other.sentence for other in others]]))

    @property
    def sentence(self) -> str:
        """This fault alone, on one line."""
        place = "an unknown line" if self.line is None else f"line {self.line}"
        who = f"block {self.block}, thread {self.thread}"
        return f"{self.kind} in {self.kernel} at {place}, {who}: {self.text}"

    def followed_by(self, others: Sequence[KernelFault]) -> KernelFault:
        """This fault with further ones of the same launch."""
        values = self.kind, self.kernel, self.block, self.thread, self.line, self.text
        return KernelFault(*values, tuple(others))

    def __reduce__(self) -> tuple[type[KernelFault], tuple[object, ...]]:
        values = self.kind, self.kernel, self.block, self.thread, self.line, self.text, self.others
        return type(self), values


class DataError(NoeiraError):
    """Data with values that cannot be, or that cannot be found, downloaded or read."""


class CheckpointError(NoeiraError):
    """A checkpoint that is damaged or belongs to another network."""


class NotFiniteError(NoeiraError):
    """Training met a loss that is not finite; every state is as it was before that step."""
