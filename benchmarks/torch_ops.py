"""PyTorch's side of `elementwise.py`, `rows.py`, `convolutions.py`: times an op for each
request on its input.

A request has `op`, `sizes`, `seconds` and `dtype`. Outputs are preallocated where PyTorch has a way
to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch  # type: ignore[import-not-found]
from common import timed
from processes import print_result, requests
from torch.nn import functional  # type: ignore[import-not-found]

Call = Callable[[], object]
aten = torch.ops.aten


def activation(op: str, x: torch.Tensor) -> Call:
    """With a preallocated result."""
    out = torch.empty_like(x)
    return {
        "relu": lambda: torch.clamp_min(x, 0, out=out),
        "tanh": lambda: torch.tanh(x, out=out),
        "gelu": lambda: aten.gelu.out(x, approximate="none", out=out),
        "gelu_tanh": lambda: aten.gelu.out(x, approximate="tanh", out=out),
    }[op]


def gradient(op: str, d: torch.Tensor, x: torch.Tensor, out: torch.Tensor) -> Call:
    """Of an activation, with a preallocated result."""
    return {
        "relu": lambda: aten.threshold_backward.grad_input(d, x, 0, grad_input=out),
        "tanh": lambda: aten.tanh_backward.grad_input(d, x, grad_input=out),
        "gelu": lambda: aten.gelu_backward.grad_input(d, x, approximate="none", grad_input=out),
        "gelu_tanh": lambda: aten.gelu_backward.grad_input(
            d, x, approximate="tanh", grad_input=out
        ),
    }[op]


def adamw(x: torch.Tensor) -> Call:
    """The fused optimizer."""
    p = torch.nn.Parameter(x)
    p.grad = torch.randn_like(x)
    optimizer = torch.optim.AdamW([p], lr=1e-6, fused=True)
    return optimizer.step


def take(sizes: list[int], dtype: torch.dtype) -> Call:
    """Batches in a random order, one after the other."""
    samples, rows, width = sizes
    data, order = torch.randn(samples, width, dtype=dtype), torch.randperm(samples)
    out = torch.empty(rows, width, dtype=dtype)
    place = 0

    def call() -> None:
        nonlocal place
        if place + rows > samples:
            place = 0
        torch.index_select(data, 0, order[place : place + rows], out=out)
        place += rows

    return call


def both_ways(op: str, z: torch.Tensor) -> Call:
    """A loss and the gradient of its logits."""
    z.requires_grad_()
    if op.startswith("soft_cross"):
        target = torch.softmax(torch.randn_like(z), -1)
    else:
        target = torch.randint(z.shape[1], z.shape[:1])

    def loss(z: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(z, target)

    run = torch.compile(loss) if op.endswith("compiled") else loss
    return lambda: torch.autograd.grad(run(z), z)


def column(op: str, shape: list[int], dtype: torch.dtype) -> Call:
    """Column sums; of an activation's gradient where the name says so."""
    d, x = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)
    sums, out = torch.empty(shape[1], dtype=dtype), torch.empty_like(d)
    if op == "column_sum":
        return lambda: torch.sum(d, 0, out=sums)
    inner = gradient(op.removesuffix("_bias_grad"), d, x, out)

    def call() -> None:
        inner()
        torch.sum(out, 0, out=sums)

    return call


def softmax(op: str, x: torch.Tensor) -> Call:
    """Over the last axis, with a preallocated result."""
    y, d, out = torch.softmax(x, -1), torch.randn_like(x), torch.empty_like(x)
    if op == "softmax":
        return lambda: torch.softmax(x, -1, out=out)
    return lambda: aten._softmax_backward_data.out(d, y, -1, x.dtype, grad_input=out)


def convolution(op: str, sizes: list[int], dtype: torch.dtype) -> Call:
    """A convolution or one of its gradients, images and weights channels last."""
    batch, channels, filters, side, kernel, stride, groups = sizes
    padding = kernel // 2
    out = (side + 2 * padding - kernel) // stride + 1
    x, weight, d = (
        torch.randn(shape, dtype=dtype).contiguous(memory_format=torch.channels_last)
        for shape in (
            (batch, channels, side, side),
            (filters, channels // groups, kernel, kernel),
            (batch, filters, out, out),
        )
    )
    pairs = [stride] * 2, [padding] * 2, [1] * 2
    if op == "convolution":
        return lambda: functional.conv2d(x, weight, None, *pairs, groups)
    wanted = [op == "transposed_convolution", op == "convolution_weight", False]
    ends = False, [0, 0], groups, wanted
    return lambda: aten.convolution_backward(d, x, weight, None, *pairs, *ends)


def prepared(op: str, sizes: list[int], dtype: torch.dtype) -> Call | None:
    """The call that is timed; None for an op that PyTorch has not."""
    if op == "take":
        return take(sizes, dtype)
    if op.startswith(("cross_entropy", "soft_cross_entropy")):
        return both_ways(op, torch.randn(*sizes, dtype=dtype))
    if op == "column_sum" or op.endswith("_bias_grad"):
        return column(op, sizes, dtype)
    if "convolution" in op:
        return convolution(op, sizes, dtype)
    x = torch.randn(*sizes, dtype=dtype)
    if op.startswith("softmax"):
        return softmax(op, x)
    if op == "adamw":
        return adamw(x)
    if op.endswith("_grad"):
        return gradient(op.removesuffix("_grad"), torch.randn_like(x), x, torch.empty_like(x))
    return activation(op, x)


def main() -> None:
    """Answers requests until there are no more; an op is kept until another is asked for."""
    torch.set_num_threads(int(sys.argv[1]))
    known: tuple[object, ...] = ()
    call: Call | None = None
    for request in requests():
        op, sizes = request["op"], request["sizes"]
        dtype = {"f32": torch.float32, "f64": torch.float64}[request["dtype"]]
        if (op, sizes, dtype) != known:
            call = None
            known, call = (op, sizes, dtype), prepared(op, sizes, dtype)
        print_result(timed(call, request["seconds"]) if call else None)


if __name__ == "__main__":
    main()
