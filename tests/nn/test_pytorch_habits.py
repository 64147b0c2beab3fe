"""What people who know PyTorch or Keras write first: each has a message that says what to write."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import noeira
import noeira.training
from noeira.errors import (
    NoeiraError,
)
from noeira.habits import HABITS
from noeira.ir.types import TensorType
from noeira.ir.value import Value
from noeira.nn import Adam, CrossEntropy, Group, Linear, ReLU, Sequential
from noeira.training import EarlyStopping


class MLP(Sequential[Linear[8, 4], ReLU, Linear[4, 3]]):
    """A small network."""


NET = MLP()
PROGRAM: Any = noeira.compile(NET, loss=CrossEntropy, optimizer=Adam, batch=4, target="reference")
TRAINER: Any = noeira.Trainer(MLP, batch=4, target="reference")
VALUE: Any = Value("x", TensorType("f32", (4, 3)))
X, Y = np.ones((8, 8), np.float32), np.zeros(8, np.int32)
ONE_HOT = np.eye(3, dtype=np.float32)[Y]
TENSORS = (
    'program.tensors has them by name, and writes them: program.tensors.save("net.safetensors")'
)
LOAD = 'program.tensors.load("net.safetensors"), which takes arrays by name too'
STEP = "program.step(x, y) makes the gradients and the update, program.gradients(x, y) no update"
MODES = "there is nothing to switch: step trains, forward and evaluate are in evaluation mode"
DEVICE = 'a program is compiled for its device: noeira.compile(net, target="cuda")'
COMPILED = "of program = noeira.compile(net), "
FROZEN = 'parameters are frozen where they are trained: groups={"0.*": Group(frozen=True)}'
NO_ZERO = "leave it out: every step makes its gradients anew"


@pytest.mark.parametrize(
    ("owner", "name", "message"),
    [
        (NET, "to", f"MLP has no attribute 'to': {DEVICE}"),
        (NET, "train", f"MLP has no attribute 'train': {MODES}"),
        (NET, "state_dict", f"MLP has no attribute 'state_dict': {COMPILED}{TENSORS}"),
        (NET, "load_state_dict", f"MLP has no attribute 'load_state_dict': {COMPILED}{LOAD}"),
        (NET, "zero_grad", f"MLP has no attribute 'zero_grad': {NO_ZERO}"),
        (NET, "requires_grad_", f"MLP has no attribute 'requires_grad_': {FROZEN}"),
        (
            NET,
            "named_parameters",
            "MLP has no attribute 'named_parameters': net.parameters() has shapes by name, "
            "program.params arrays",
        ),
        (NET, "nothing", "MLP has no attribute 'nothing'"),
        (PROGRAM, "backward", f"a program has no backward: {STEP}"),
        (PROGRAM, "zero_grad", f"a program has no zero_grad: {NO_ZERO}"),
        (PROGRAM, "state_dict", f"a program has no state_dict: {TENSORS}"),
        (
            PROGRAM,
            "parameters",
            "a program has no parameters: program.params has arrays by name",
        ),
        (
            PROGRAM,
            "fit",
            "a program has no fit: a trainer does that: "
            "noeira.Trainer(net, loss=…).fit(train, test, epochs=5)",
        ),
        (PROGRAM, "predict", "a program has no predict: program.forward(x)"),
        (PROGRAM, "nothing", "'Program' object has no attribute 'nothing'"),
        (
            TRAINER,
            "save",
            'a trainer has no save: trainer.program.save("training.safetensors")',
        ),
        (TRAINER, "train", "a trainer has no train: trainer.fit(train, test, epochs=5)"),
        (
            TRAINER,
            "model",
            "a trainer has no model: trainer.net is the instance, trainer.program the program",
        ),
        (
            TRAINER,
            "history",
            "a trainer has no history: fit gives it: result = trainer.fit(…), then result.epochs",
        ),
        (TRAINER, "nothing", "'Trainer' object has no attribute 'nothing'"),
        (
            NET.parameter("0.weight"),
            "grad",
            "a parameter has no grad: its gradient is .grd, its values are .val",
        ),
        (VALUE, "sum", 'a value has no sum: scope.emit("sum", x, axes=(-1,))'),
        (
            VALUE,
            "mean",
            'a value has no mean: scope.emit("sum", x, axes=(-1,), scale=1 / n), '
            "n being the length of the axis",
        ),
        (VALUE, "nothing", "'Value' object has no attribute 'nothing'"),
        (
            noeira,
            "optim",
            "there is no optim in noeira: optimizers are in noeira.nn, "
            "such as noeira.nn.Adam(lr=1e-3)",
        ),
        (noeira, "Adam", "there is no Adam in noeira: it is in noeira.nn"),
        (
            noeira,
            "no_grad",
            "there is no no_grad in noeira: leave it out: forward and evaluate make no gradients",
        ),
        (
            noeira,
            "manual_seed",
            "there is no manual_seed in noeira: "
            "a seed is an option, of compile and of Trainer: seed=0",
        ),
        (
            noeira,
            "Trainor",
            "there is no Trainor in noeira; there are nn, compile, trace, Polyak, Trainer, "
            "TrainResult, Program, explain, suggest, summary",
        ),
    ],
)
def test_attributes(owner: Any, name: str, message: str) -> None:
    with pytest.raises(AttributeError) as found:
        getattr(owner, name)
    assert str(found.value) == message
    assert not hasattr(owner, name)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "from noeira.nn import StepLR",
            "there is no StepLR in noeira.nn: write StepDecay(epochs=30, gamma=0.1)",
        ),
        (
            "from noeira.nn import OneCycleLR",
            "there is no OneCycleLR in noeira.nn: write OneCycle(steps=5000)",
        ),
        (
            "from noeira.nn import CosineAnnealingLR",
            "there is no CosineAnnealingLR in noeira.nn: write Cosine(epochs=20)",
        ),
        (
            "from noeira.nn import Embedding",
            "there is no Embedding in noeira.nn: it is not there yet; "
            "docs/adding-an-op.md shows how one writes a layer",
        ),
        (
            "from noeira.training import ModelCheckpoint",
            "there is no ModelCheckpoint in noeira.training: "
            'fit(…, folder="runs/1", best="test_accuracy") writes checkpoints',
        ),
        (
            "from noeira.training import Earlystopping",
            "there is no Earlystopping in noeira.training; there are ConfusionMatrix, "
            "EarlyStopping, Epoch, Evaluation, Polyak, Step, TrainResult, Trainer",
        ),
        ("from noeira import Adam", "there is no Adam in noeira: it is in noeira.nn"),
    ],
)
def test_imports(line: str, message: str) -> None:
    with pytest.raises(ImportError) as found:
        exec(line)
    assert str(found.value) == message


def test_submodules_can_be_imported_and_are_named_before() -> None:
    program = (
        "import sys, noeira\n"
        "assert 'noeira.habits' not in sys.modules and 'numpy' not in sys.modules\n"
        "try: noeira.datasets\n"
        "except AttributeError as error: print(error)\n"
        "from noeira import datasets\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "noeira.datasets is a module of its own: import noeira.datasets\n"
    assert done.returncode == 0, done.stderr


def test_what_is_no_name_is_not_there() -> None:
    for module in (noeira, noeira.nn, noeira.training):
        assert not hasattr(module, "nothing.at.all") and not hasattr(module, "__nothing__")


def test_copies_and_pickles_need_no_habits() -> None:
    for made in (NET, VALUE, Group(lr_factor=0.1), EarlyStopping(patience=2)):
        for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert type(other) is type(made)
    assert pickle.loads(pickle.dumps(EarlyStopping(patience=2))) == EarlyStopping(patience=2)
    with pytest.raises(NoeiraError, match="cannot be pickled or copied"):
        copy.copy(PROGRAM)


def test_a_habit_is_nothing_that_there_is() -> None:
    owners = {"network": NET, "program": PROGRAM, "trainer": TRAINER, "value": VALUE}
    owners |= {"noeira": noeira, "noeira.nn": noeira.nn, "parameter": NET.parameter("0.bias")}
    for place, owner in owners.items():
        assert [name for name in HABITS[place] if name in dir(owner)] == []
