"""Training: the trainer, its results and its progress."""

from noeira.training.result import Epoch, TrainResult
from noeira.training.trainer import Trainer

__all__ = ["Epoch", "TrainResult", "Trainer"]
