"""Residual networks in PyTorch, with the names that torchvision has, or those that are usual for
CIFAR-10.
"""

from __future__ import annotations

from typing import Any


def basic_block(torch: Any, ic: int, oc: int, padded: bool) -> Any:
    """The basic block; it halves the image where it widens it. padded: by a shortcut without
    parameters.
    """
    nn, halves = torch.nn, ic != oc

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(ic, oc, 3, 2 if halves else 1, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(oc)
            self.conv2 = nn.Conv2d(oc, oc, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(oc)
            self.downsample = None
            if halves and not padded:
                self.downsample = nn.Sequential(
                    nn.Conv2d(ic, oc, 1, 2, bias=False), nn.BatchNorm2d(oc)
                )

        def forward(self, x: Any) -> Any:
            h = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
            if self.downsample is not None:
                x = self.downsample(x)
            elif halves:
                more = (oc - ic) // 2
                x = nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, more, more))
            return (h + x).relu()

    return Block()


def torch_resnet(
    torch: Any,
    widths: tuple[int, ...],
    blocks: tuple[int, ...],
    classes: int,
    stem: str = "imagenet",
    padded: bool = False,
) -> Any:
    """The network, its statistics and scales no longer as they begin. padded: that for CIFAR-10,
    whose head is called `linear`.
    """
    nn, large = torch.nn, stem == "imagenet"

    class ResNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            kernel, stride = (7, 2) if large else (3, 1)
            self.conv1 = nn.Conv2d(3, widths[0], kernel, stride, kernel // 2, bias=False)
            self.bn1 = nn.BatchNorm2d(widths[0])
            before = widths[0]
            for index, (width, count) in enumerate(zip(widths, blocks, strict=True), start=1):
                ends = [(before, width), *[(width, width)] * (count - 1)]
                made = [basic_block(torch, *pair, padded) for pair in ends]
                setattr(self, f"layer{index}", nn.Sequential(*made))
                before = width
            setattr(self, "linear" if padded else "fc", nn.Linear(before, classes))

        def forward(self, x: Any) -> Any:
            x = self.bn1(self.conv1(x)).relu()
            x = nn.functional.max_pool2d(x, 3, 2, 1) if large else x
            for index in range(1, len(widths) + 1):
                x = getattr(self, f"layer{index}")(x)
            return (self.linear if padded else self.fc)(x.mean((2, 3)))

    torch.manual_seed(0)
    made = ResNet()
    with torch.no_grad():
        for name, tensor in made.state_dict().items():
            if name.endswith(("running_var", "bn1.weight", "bn2.weight", "downsample.1.weight")):
                tensor.uniform_(0.5, 1.5)
            elif name.endswith(("running_mean", "bias")):
                tensor.uniform_(-0.2, 0.2)
    return made


def saved(made: Any, path: Any) -> None:
    """A file as of a training, with the counters of batch normalisations."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in made.state_dict().items()}, path)
