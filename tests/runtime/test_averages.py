"""The moving average of the parameters: against PyTorch, and where it stands in for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from needs import needs_cxx
from program_networks import data, flat
from torch_twin import Twin, TwinNet

import noeira
from noeira.errors import CheckpointError, NoeiraError, OptionError
from noeira.ir.states import EMA
from noeira.nn import SGD, Cosine, CrossEntropy, NameMap

TARGETS = ["reference", "cpu", pytest.param("cuda-cpu", marks=[needs_cxx, pytest.mark.slow])]


def program_of(target: str = "cpu", **options: object) -> noeira.Program:
    """The network of the twin, with a batch of 20."""
    return noeira.compile(
        TwinNet, loss=CrossEntropy, optimizer=SGD(lr=0.5), batch=20, target=target, **options
    )


@pytest.mark.parametrize("target", TARGETS)
def test_the_average_is_that_of_pytorch(target: str) -> None:
    x, y = data(20)
    program = program_of(target, ema=0.9)
    twin = Twin(program)
    utils = twin.torch.optim.swa_utils
    average = utils.AveragedModel(twin.net, multi_avg_fn=utils.get_ema_multi_avg_fn(0.9))
    optimizer = twin.torch.optim.SGD(twin.net.parameters(), lr=0.5)
    for _ in range(20):
        twin.step(optimizer, x, y)
        average.update_parameters(twin.net)
        program.step(x, y)
    twin.check(program, 1e-4, 1e-5)
    with program.averaged():
        inside = program.forward(x)
    wanted = average(twin.torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(inside, wanted, rtol=1e-4, atol=1e-5)
    twin.check(program, 1e-4, 1e-5)


def test_the_average_stands_in_for_the_parameters() -> None:
    x, y = data(20)
    program, plain = program_of(ema=0.5), program_of()
    start = flat(program)
    program.load(x, y, evaluation=(x, y))
    # Before the first update the average is what the network began with.
    with program.averaged():
        assert flat(program).tobytes() == start.tobytes()
    losses = [program.step(x, y) for _ in range(3)]
    assert losses == [plain.step(x, y) for _ in range(3)]
    last, average = flat(program), program.store.arrays[EMA].copy()
    outside = program.evaluate()
    with program.averaged():
        assert flat(program).tobytes() == average.tobytes()
        assert program.evaluate()["loss"] != outside["loss"]
        for refused in (lambda: program.step(x, y), lambda: program.steps(1)):
            with pytest.raises(NoeiraError, match="inside averaged"):
                refused()
        with pytest.raises(NoeiraError, match="inside averaged"), program.averaged():
            pass
    assert flat(program).tobytes() == last.tobytes()
    assert program.evaluate() == outside
    assert program.step(x, y) == plain.step(x, y)


def test_nothing_of_training_happens_where_averages_stand_in(tmp_path: Path) -> None:
    x, y = data(20)
    program = program_of(ema=0.5, schedule=Cosine(epochs=3))
    other = noeira.compile(program.module, loss=CrossEntropy, optimizer=SGD(lr=0.5), batch=20)
    with program.averaged():
        program.load(x, y)
    program.steps(3)
    program.save(path := tmp_path / "saved")
    last, wanted = flat(program), path.read_bytes()
    with program.averaged():
        program.tensors.save(tmp_path / "averages")
        for refused in (
            lambda: other.step(x, y),
            lambda: other.run("step", x, y),
            lambda: other.averaged().__enter__(),
            lambda: program.save(path),
            lambda: program.restore(path),
        ):
            with pytest.raises(NoeiraError) as error:
                refused()
            assert str(error.value) == (
                "inside averaged() the network has its averages: train, save and restore after "
                "the block"
            )
    assert flat(program).tobytes() == last.tobytes() and path.read_bytes() == wanted


def test_until_the_first_update_the_average_is_what_the_parameters_are() -> None:
    program, trained = program_of(ema=0.5), program_of(seed=1)
    program.tensors.load(dict(trained.tensors))
    with program.averaged():
        assert flat(program).tobytes() == flat(trained).tobytes()


def test_a_file_before_the_first_update_has_the_parameters_as_averages(tmp_path: Path) -> None:
    program, trained = program_of(ema=0.5), program_of(seed=1)
    program.prepare().tensors.load(dict(trained.tensors))
    program.save(tmp_path / "begun")
    trained.step(*data(20))
    trained.tensors.load(tmp_path / "begun", averaged=True)
    assert flat(program).tobytes() == flat(trained).tobytes()


def test_another_program_of_a_network_leaves_its_averages() -> None:
    program = program_of(ema=0.5)
    other = noeira.compile(program.module, batch=20)
    for _ in range(3):
        program.step(*data(20))
    last, average = flat(program), program.store.arrays[EMA].copy()
    with other.averaged():
        assert flat(other).tobytes() == average.tobytes()
    assert flat(program).tobytes() == last.tobytes()
    assert program.store.arrays[EMA].tobytes() == average.tobytes()


def test_averages_are_read_from_a_file_of_training(tmp_path: Path) -> None:
    path, bare = tmp_path / "training.safetensors", tmp_path / "bare.safetensors"
    program, other = program_of(ema=0.5), noeira.compile(TwinNet, batch=20, target="reference")
    for _ in range(3):
        program.step(*data(20))
    program.save(path)
    last, average = flat(program), program.store.arrays[EMA].copy()
    assert last.tobytes() != average.tobytes()
    for averaged, expected in ((False, last), (True, average)):
        other.tensors.load(path, averaged=averaged)
        assert flat(other).tobytes() == expected.tobytes()
    with program.averaged():
        program.tensors.save(bare)
    other.tensors.load(path)
    other.tensors.load(bare)
    assert flat(other).tobytes() == average.tobytes()
    with pytest.raises(CheckpointError) as caught:
        other.tensors.load(bare, averaged=True)
    assert str(caught.value) == (
        f"{bare} has no averages of the parameters: program.save writes them with those of a "
        "program that is compiled with ema=…"
    )
    with pytest.raises(OptionError, match="which need no names="):
        other.tensors.load(path, averaged=True, names=NameMap.of(TwinNet))
    # With another choice of averages, training does not go on from the file.
    with pytest.raises(CheckpointError, match=r"keeps no %ema\."):
        program_of().restore(path)


def test_the_average_comes_back_after_an_error() -> None:
    program = program_of(ema=0.5)
    program.step(*data(20))
    before = flat(program)
    with pytest.raises(ZeroDivisionError), program.averaged():
        raise ZeroDivisionError
    assert flat(program).tobytes() == before.tobytes()
    program.step(*data(20))


def test_without_an_average_there_is_a_message() -> None:
    with pytest.raises(NoeiraError) as error, program_of().averaged():
        pass
    assert str(error.value) == ("there is no average of the parameters: compile(…, ema=0.999)")
    for wrong in (1.0, -0.1, "much", True):
        with pytest.raises(OptionError, match="ema is the decay of a moving average"):
            program_of(ema=wrong)
