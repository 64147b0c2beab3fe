"""Networks as Python types: layers, combinators, losses, metrics, optimizers and initial values."""

from typing import TYPE_CHECKING, Any

from noeira.nn.combinators import (
    Fused,
    LinearELU,
    LinearGELU,
    LinearGELUTanh,
    LinearMish,
    LinearReLU,
    LinearSigmoid,
    LinearSiLU,
    LinearTanh,
    Parallel,
    Repeat,
    Residual,
    Sequential,
)
from noeira.nn.core.init import (
    Deterministic,
    Initializer,
    Kaiming,
    Normal,
    ScaledKaiming,
    TruncNormalIn,
    Xavier,
    Zero,
)
from noeira.nn.core.module import Module
from noeira.nn.core.names import refuse as _refuse
from noeira.nn.core.parameters import Param, Parameter, ParamInfo, State, StateInfo
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import derived, flag, module, modules, number, size
from noeira.nn.loss import MSE, CrossEntropy, Loss, Losses, SoftCrossEntropy
from noeira.nn.metrics import Accuracy, Metric, TopK
from noeira.nn.optimizer import SGD, Adam, AdamW, Optimizer
from noeira.nn.primitives.activations import (
    ELU,
    GELU,
    Clamp,
    GELUTanh,
    LeakyReLU,
    Mish,
    ReLU,
    Scale,
    Sigmoid,
    SiLU,
    Softplus,
    Symlog,
    Tanh,
)
from noeira.nn.primitives.linear import Linear

__all__ = [
    "ELU",
    "GELU",
    "MSE",
    "SGD",
    "Accuracy",
    "Adam",
    "AdamW",
    "Clamp",
    "CrossEntropy",
    "Deterministic",
    "Fused",
    "GELUTanh",
    "Initializer",
    "Kaiming",
    "LeakyReLU",
    "Linear",
    "LinearELU",
    "LinearGELU",
    "LinearGELUTanh",
    "LinearMish",
    "LinearReLU",
    "LinearSiLU",
    "LinearSigmoid",
    "LinearTanh",
    "Loss",
    "Losses",
    "Metric",
    "Mish",
    "Module",
    "Normal",
    "Optimizer",
    "Parallel",
    "Param",
    "ParamInfo",
    "Parameter",
    "ReLU",
    "Repeat",
    "Residual",
    "Scale",
    "ScaledKaiming",
    "Scope",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SoftCrossEntropy",
    "Softplus",
    "State",
    "StateInfo",
    "Symlog",
    "Tanh",
    "TopK",
    "TruncNormalIn",
    "Xavier",
    "Zero",
    "derived",
    "flag",
    "module",
    "modules",
    "number",
    "size",
]

# Type checkers know the names above and nothing else.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        _refuse(name, __all__)
