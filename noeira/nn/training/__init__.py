"""Training: the trainer, its results and its progress. Imports the compiler, unlike the rest of
`noeira.nn`.
"""

from noeira.nn.training.result import Epoch, TrainResult
from noeira.nn.training.trainer import Trainer

__all__ = ["Epoch", "TrainResult", "Trainer"]
