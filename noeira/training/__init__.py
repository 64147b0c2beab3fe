"""Training: the trainer, its records, early stopping, the confusion matrix, and target networks."""

from typing import TYPE_CHECKING, Any

from noeira.habits import refuse_name as _refuse_name
from noeira.training.confusion import ConfusionMatrix
from noeira.training.measure import EarlyStopping
from noeira.training.polyak import Polyak
from noeira.training.result import Epoch, Evaluation, Step, TrainResult
from noeira.training.trainer import Trainer

__all__ = [
    "ConfusionMatrix",
    "EarlyStopping",
    "Epoch",
    "Evaluation",
    "Polyak",
    "Step",
    "TrainResult",
    "Trainer",
]

# Type checkers know the names above and nothing else.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        _refuse_name("noeira.training", name, lambda: f"; there are {', '.join(__all__)}")
