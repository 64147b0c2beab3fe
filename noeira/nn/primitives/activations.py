"""Activations and other element-wise layers: `ReLU` takes any shape, `ReLU[H]` one whose last axis
is H.
"""

from __future__ import annotations

from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.core.binding import as_written
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature, parse_signature
from noeira.nn.core.slots import number, size

__all__ = [
    "ELU",
    "GELU",
    "CenterHalf",
    "Clamp",
    "GELUTanh",
    "LeakyReLU",
    "Mish",
    "ReLU",
    "Scale",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Symexp",
    "Symlog",
    "Tanh",
]


class Elementwise(Module):
    """The parent of layers that change each element alone: (*) -> (*); with a DIM (*, DIM)."""

    DIM = size(None)
    op: ClassVar[str]

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        options = [slot.label for name, slot in cls.slots.items() if name != "DIM"]
        if options and len(args) == len(options) and isinstance(args[0], float):
            pairs = ", ".join(
                f"{label}={value!r}" for label, value in zip(options, args, strict=True)
            )
            raise CompositionError(
                f"{as_written(cls, args, named)}: DIM comes first; write {cls.__name__}.of({pairs})"
            )

    @classmethod
    def compose(cls) -> Signature:
        text = "(*) -> (*)" if cls.DIM is None else "(*, DIM) -> (*, DIM)"
        return parse_signature(text, cls.__name__).filled(cls.sizes)

    @classmethod
    def attrs(cls) -> dict[str, Any]:
        """The attributes of the node."""
        return {}

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit(cls.op, x, **cls.attrs())


class ReLU(Elementwise):
    """max(x, 0)"""

    op = "relu"


class Tanh(Elementwise):
    """tanh x"""

    op = "tanh"


class Sigmoid(Elementwise):
    """1 / (1 + exp(−x))"""

    op = "sigmoid"


class SiLU(Elementwise):
    """x · sigmoid(x), also called swish (Elfwing et al. 2017)"""

    op = "silu"


class GELU(Elementwise):
    """x · Φ(x), Φ the normal distribution function, through erf (Hendrycks and Gimpel 2016);
    PyTorch's default
    """

    op = "gelu"


class GELUTanh(Elementwise):
    """½ x (1 + tanh(√(2/π) (x + 0.044715 x³))), the approximation of GELU in the same paper"""

    op = "gelu_tanh"


class Mish(Elementwise):
    """x · tanh(softplus(x)) (Misra 2019)"""

    op = "mish"


class Softplus(Elementwise):
    """log(1 + exp x)"""

    op = "softplus"


class Symlog(Elementwise):
    """sign(x) · log(1 + |x|) (Hafner et al. 2023)"""

    op = "symlog"


class Symexp(Elementwise):
    """sign(x) · (exp |x| − 1), the inverse of `Symlog` (Hafner et al. 2023)"""

    op = "symexp"


class ELU(Elementwise):
    """x where x > 0, else alpha · (exp x − 1): `ELU`, `ELU.of(alpha=0.5)`, `ELU[DIM, alpha]`
    (Clevert et al. 2015)
    """

    ALPHA = number(1.0, low=0.0)
    op = "elu"

    @classmethod
    def attrs(cls) -> dict[str, Any]:
        return {"alpha": cls.ALPHA}


class LeakyReLU(Elementwise):
    """x where x > 0, else slope · x: `LeakyReLU`, `LeakyReLU.of(slope=0.1)`, `LeakyReLU[DIM,
    slope]` (Maas et al. 2013)
    """

    SLOPE = number(0.01)
    op = "leaky_relu"

    @classmethod
    def attrs(cls) -> dict[str, Any]:
        return {"slope": cls.SLOPE}


class CenterHalf(Elementwise):
    """x − ½: numbers from 0 to 1, such as those of pixels, about 0"""

    op = "subtract"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return x - 0.5


class Scale(Elementwise):
    """multiplier · x: `Scale.of(multiplier=0.125)`, `Scale[DIM, multiplier]`"""

    MULTIPLIER = number()
    op = "scale"

    @classmethod
    def attrs(cls) -> dict[str, Any]:
        return {"factor": cls.MULTIPLIER}


class Clamp(Elementwise):
    """min(max(x, low), high): `Clamp.of(low=-1.0, high=1.0)`, `Clamp[DIM, low, high]`; the gradient
    is 0 outside
    """

    LOW = number()
    HIGH = number()
    op = "clamp"

    @classmethod
    def check(cls) -> None:
        super().check()
        if cls.LOW > cls.HIGH:
            raise CompositionError(f"{cls!r}: low must not be above high")

    @classmethod
    def attrs(cls) -> dict[str, Any]:
        return {"low": cls.LOW, "high": cls.HIGH}
