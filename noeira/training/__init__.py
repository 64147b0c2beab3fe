"""Training: the trainer, its results and its progress, and target networks."""

from noeira.training.polyak import Polyak
from noeira.training.result import Epoch, TrainResult
from noeira.training.trainer import Trainer

__all__ = ["Epoch", "Polyak", "TrainResult", "Trainer"]
