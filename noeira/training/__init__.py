"""Training: the trainer, its records, early stopping, the confusion matrix, and target networks."""

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
