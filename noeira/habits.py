"""What people who come from PyTorch or Keras write, and what is written here: one table, which the
messages about names and options that there are not read. docs/from-pytorch.md tells it at length.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

# What several places say.
DEVICE = 'a program is compiled for its device: noeira.compile(net, target="cuda")'
FROZEN = 'parameters are frozen where they are trained: groups={"0.*": Group(frozen=True)}'
MODES = "there is nothing to switch: step trains, forward and evaluate are in evaluation mode"
NO_ZERO = "leave it out: every step makes its gradients anew"
STEP = "program.step(x, y) makes the gradients and the update, program.gradients(x, y) no update"
TENSORS = (
    'program.tensors has them by name, and writes them: program.tensors.save("net.safetensors")'
)
LOAD_TENSORS = 'program.tensors.load("net.safetensors"), which takes arrays by name too'
TRAINER = "a trainer does that: noeira.Trainer(net, loss=…).fit(train, test, epochs=5)"
NOT_YET = "it is not there yet; docs/adding-an-op.md shows how one writes a layer"
LR = "the optimizer has it: optimizer=Adam(lr=1e-3)"
CLIP = "clip=ClipNorm(1.0)"
OPTIMIZER = "the optimizer is compiled in: noeira.compile(net, loss=…, optimizer=Adam(lr=1e-3))"
SCHEDULE = "the schedule is an option, of compile and of Trainer: schedule=Cosine(epochs=20)"

OPTIONS = {
    **dict.fromkeys(("lr", "learning_rate"), LR),
    "weight_decay": "the optimizer has it: optimizer=AdamW(weight_decay=0.01)",
    "device": 'write target="cuda"',
    **dict.fromkeys(
        ("clip_grad_norm", "max_grad_norm", "max_norm", "gradient_clip_val", "clipnorm"),
        f"write {CLIP}",
    ),
    "clip_grad_value": "write clip=ClipValue(0.5)",
    "criterion": "write loss=CrossEntropy",
    "optim": "write optimizer=Adam(lr=1e-3)",
    **dict.fromkeys(("scheduler", "lr_scheduler"), "write schedule=Cosine(epochs=20)"),
    **dict.fromkeys(("epochs", "max_epochs"), "fit takes it: Trainer(…).fit(train, epochs=5)"),
    **dict.fromkeys(("shuffle", "callbacks", "folder", "stop"), "fit takes it"),
    "precision": 'write dtype="f32"',
    "accumulate_grad_batches": "write accumulate=4",
}

# Place -> name or option -> what is said of it.
HABITS: dict[str, dict[str, str]] = {
    # An instance, `net = MLP()`.
    "network": {
        **dict.fromkeys(("to", "cuda"), DEVICE),
        "cpu": 'a program is compiled for its device: noeira.compile(net, target="cpu")',
        **dict.fromkeys(("train", "eval"), MODES),
        "forward": "noeira.compile(net).forward(x)",
        "backward": STEP,
        "zero_grad": NO_ZERO,
        "state_dict": f"of program = noeira.compile(net), {TENSORS}",
        "save": f"of program = noeira.compile(net), {TENSORS}",
        **dict.fromkeys(
            ("load_state_dict", "load"), f"of program = noeira.compile(net), {LOAD_TENSORS}"
        ),
        "requires_grad_": FROZEN,
        "named_parameters": "net.parameters() has shapes by name, program.params arrays",
        "float": 'the dtype is that of the instance: Net(dtype="f32")',
        "double": 'the dtype is that of the instance: Net(dtype="f64")',
        "fit": TRAINER,
    },
    "program": {
        **dict.fromkeys(("to", "cuda", "cpu"), DEVICE),
        **dict.fromkeys(("train", "eval"), MODES),
        "backward": STEP,
        "zero_grad": NO_ZERO,
        "state_dict": TENSORS,
        "load_state_dict": LOAD_TENSORS,
        **dict.fromkeys(("parameters", "named_parameters"), "program.params has arrays by name"),
        "fit": TRAINER,
        "predict": "program.forward(x)",
        "optimizer": OPTIMIZER,
        **dict.fromkeys(("net", "model"), "program.module"),
    },
    "trainer": {
        "save": 'trainer.program.save("training.safetensors")',
        "load": 'trainer.restore("training.safetensors")',
        "train": "trainer.fit(train, test, epochs=5)",
        "test": "trainer.evaluate(test)",
        "forward": "trainer.predict(x)",
        "model": "trainer.net is the instance, trainer.program the program",
        "history": "fit gives it: result = trainer.fit(…), then result.epochs",
        "lr": "trainer.program.lr",
        "optimizer": OPTIMIZER,
    },
    # A parameter of an instance, `net[0].weight`.
    "parameter": {
        "grad": "its gradient is .grd, its values are .val",
        "data": "its values are .val",
        "numpy": "its values are .val, a NumPy array",
        "detach": "its values are .val, a NumPy array",
        **dict.fromkeys(("requires_grad", "requires_grad_"), FROZEN),
    },
    # A value while a module is traced.
    "value": {
        "sum": 'scope.emit("sum", x, axes=(-1,))',
        "mean": 'scope.emit("sum", x, axes=(-1,), scale=1 / n), n being the length of the axis',
        "shape": "x.type.shape",
        "dtype": "x.type.dtype",
        **dict.fromkeys(("reshape", "view", "flatten"), 'scope.emit("reshape", x, shape=(…))'),
        **dict.fromkeys(
            ("permute", "transpose", "T"), 'scope.emit("transpose", x, axes=(0, 2, 1))'
        ),
        "exp": 'scope.emit("exp", x)',
        "log": 'scope.emit("log", x)',
        "relu": 'scope.emit("relu", x)',
        "tanh": 'scope.emit("tanh", x)',
        "sigmoid": 'scope.emit("sigmoid", x)',
        "softmax": 'scope.emit("softmax", x)',
        **dict.fromkeys(("matmul", "dot"), 'scope.emit("matmul", x, w)'),
    },
    "noeira": {
        "optim": "optimizers are in noeira.nn, such as noeira.nn.Adam(lr=1e-3)",
        "save": "program.save writes a training to go on with, program.tensors.save the weights",
        "load": "program.restore goes on with training, program.tensors.load takes weights",
        **dict.fromkeys(("tensor", "from_numpy", "Tensor"), "data are NumPy arrays"),
        "no_grad": "leave it out: forward and evaluate make no gradients",
        "manual_seed": "a seed is an option, of compile and of Trainer: seed=0",
        "device": 'the device is an option, of compile and of Trainer: target="cuda"',
        "cuda": 'the device is an option, of compile and of Trainer: target="cuda"',
        "float32": 'the dtype is an option, of compile and of Trainer: dtype="f32"',
        "float64": 'the dtype is an option, of compile and of Trainer: dtype="f64"',
    },
    "noeira.nn": {
        "StepLR": "write StepDecay(epochs=30, gamma=0.1)",
        "ExponentialLR": "write StepDecay(epochs=1, gamma=0.9)",
        "OneCycleLR": "write OneCycle(steps=5000)",
        "CosineAnnealingLR": "write Cosine(epochs=20)",
        "LinearLR": "write Warmup(steps=500)",
        "PolynomialLR": "write Polynomial(steps=1000)",
        **dict.fromkeys(
            (*("Embedding", "MultiheadAttention", "Transformer", "LSTM", "GRU", "RNN"),),
            NOT_YET,
        ),
        "RandomCrop": "write RandomCropFlip.of(4, flip=0.0)",
        "RandomHorizontalFlip": "write RandomFlip",
        "Normalize": "for pixels of 8 bits, write Standardize[mean, std], of each channel one",
        **{
            f"{norm}Norm{axes}d": f"write {norm}Norm{axes}D"
            for norm, several in (("Batch", (1, 2, 3)), ("Instance", (1, 2)))
            for axes in several
        },
        **{f"Conv{axes}d": f"write Conv{axes}D[3, 64, 3]" for axes in (1, 2, 3)},
        **{f"ConvTranspose{axes}d": f"write Conv{axes}DTranspose[64, 32, 4]" for axes in (1, 2, 3)},
        **{
            f"{kind}Pool{axes}d": f"write {kind}Pool{axes}D[2]"
            for kind in ("Max", "Avg")
            for axes in (1, 2, 3)
        },
        "PixelUnshuffle": "write SpaceToDepth[2], the opposite of DepthToSpace[2]",
        "Unflatten": "write Reshape[3, 8, 8], the whole shape of a sample",
        **dict.fromkeys(
            ("ConstantPad1d", "ConstantPad2d", "ZeroPad2d"), "write Pad[left, right, top, bottom]"
        ),
    },
    "noeira.training": {
        "ModelCheckpoint": 'fit(…, folder="runs/1", best="test_accuracy") writes checkpoints',
        **dict.fromkeys(("LearningRateScheduler", "ReduceLROnPlateau", "LRScheduler"), SCHEDULE),
        "CSVLogger": 'fit(…, folder="runs/1") writes metrics.csv',
        "TensorBoard": 'fit(…, folder="runs/1", tensorboard=True)',
        "Callback": "a callback is any object with on_step, on_evaluation or on_epoch",
        "DataLoader": "fit takes arrays, (x, y), and makes its own batches; or an iterable of them",
    },
    "compile": OPTIONS,
    "Trainer": OPTIONS,
    "fit": {
        "batch_size": "Trainer takes it: Trainer(…, batch=32)",
        "batch": "Trainer takes it: Trainer(…, batch=32)",
        **dict.fromkeys(
            ("validation_data", "val", "valid", "validation", "val_data"), "write test=(x, y)"
        ),
        "verbose": "write progress=False",
        **dict.fromkeys(
            ("lr", "learning_rate"), "Trainer takes it: Trainer(…, optimizer=Adam(lr=…))"
        ),
        **dict.fromkeys(("optimizer", "loss", "metrics", "schedule", "clip"), "Trainer takes it"),
        "checkpoint": 'write folder="runs/1"',
    },
    "noeira dump": dict.fromkeys(("--out", "--output", "--dir"), "--all DIR writes every stage"),
    "Group": {
        **dict.fromkeys(
            ("lr", "learning_rate"),
            "write lr_factor=0.1, by which the lr of the optimizer is multiplied",
        ),
        "requires_grad": "write frozen=True",
    },
    "EarlyStopping": {
        "monitor": 'write measure="test_loss"',
        "min_delta": "write least=0.001",
        "mode": 'the measure says it: measure="largest test_accuracy"',
        "restore_best_weights": "write restore=True",
    },
}


def instead(place: str, name: str) -> str:
    """`: what to write`, for a habit; empty for anything else."""
    text = HABITS.get(place, {}).get(name)
    return f": {text}" if text else ""


def refuse_attribute(owner: Any, place: str, name: str) -> NoReturn:
    """The end of a `__getattr__`: raises AttributeError, which says what to write for a habit, and
    otherwise what Python says.
    """
    if advice := instead(place, name):
        raise AttributeError(f"a {place} has no {name}{advice}")
    object.__getattribute__(owner, name)
    raise AttributeError(name)


def refuse_name(module: str, name: str, advice: Callable[[], str]) -> NoReturn:
    """The end of a module's `__getattr__`: raises AttributeError or, for `from module import name`,
    ImportError. advice: what is said of a name that is no habit.
    """
    # Such an import asks for the attribute first, and would replace an AttributeError, whatever it
    # says, by a message of its own; a submodule that is not imported yet must come out as missing.
    importing = sys._getframe(2).f_code.co_name == "_handle_fromlist"
    if name.startswith("__") or (importing and is_submodule(module, name)):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if is_submodule(module, name):
        raise AttributeError(f"{module}.{name} is a module of its own: import {module}.{name}")
    text = f"there is no {name} in {module}{instead(module, name) or advice()}"
    raise ImportError(text) if importing else AttributeError(text)


def is_submodule(module: str, name: str) -> bool:
    """Whether `module.name` can be imported."""
    from importlib.util import find_spec

    return name.isidentifier() and find_spec(f"{module}.{name}") is not None
