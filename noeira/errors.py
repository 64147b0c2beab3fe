"""Every error noeira raises on purpose."""

from __future__ import annotations


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


class DataError(NoeiraError):
    """A data set that cannot be found, downloaded or read."""


class CheckpointError(NoeiraError):
    """A checkpoint that is damaged or belongs to another network."""


class NotFiniteError(NoeiraError):
    """Training met a loss that is not finite; every state is as it was before that step."""
