"""Every error noeira raises on purpose."""

from __future__ import annotations

from collections.abc import Sequence


class NoeiraError(Exception):
    """The parent of all errors that noeira raises on purpose; its message is meant for the user."""


class CompositionError(NoeiraError):
    """Types that do not go together: a wrong size, an instance where a type belongs, layers that do
    not fit.
    """


class FusionError(CompositionError):
    """A fused type that cannot be one kernel."""


class ShapeError(NoeiraError, ValueError):
    """An array or a value of the wrong shape, batch size or range."""


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


class DeviceMemoryError(DeviceError):
    """A device that has not as much free memory as was asked for; `asked`, `free` and `total` are
    bytes.
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
    """A data set that cannot be found, downloaded or read."""


class CheckpointError(NoeiraError):
    """A checkpoint that is damaged or belongs to another network."""


class NotFiniteError(NoeiraError):
    """Training met a loss that is not finite; every state is as it was before that step."""
