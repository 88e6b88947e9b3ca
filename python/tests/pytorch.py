"""A network of PyTorch for tests: writes NAME.pt2, NAME.tar, NAME.inputs.npz and NAME.outputs.npz.

The expected outputs are PyTorch's own. Prints the reason if there is no PyTorch.

usage: pytorch.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import torch
except ImportError as missing:
    print(missing)
    sys.exit()

import boardsmith.frontends
import numpy as np
from boardsmith import ExportError


class Convolutional(torch.nn.Module):
    """A padded, a depthwise and a pointwise convolution, normalization, pooling, a dense layer and softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.depthwise = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8, stride=2)
        self.pointwise = torch.nn.Conv2d(8, 16, 1)
        self.dense = torch.nn.Linear(18, 5)

    def forward(self, image: torch.Tensor, register: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes an image, and a second input whose name is a keyword of C."""
        x = torch.relu(self.norm(self.first(image)))
        x = torch.nn.functional.max_pool2d(torch.relu(self.depthwise(x)), 2)
        x = torch.relu(self.pointwise(x)).mean((2, 3))
        x = torch.cat((x, register), 1)
        best = torch.argmax(self.dense(x), -1) - 5  # counted from the end
        x = x * self.dense.weight[best] + self.dense.weight[best, best]
        return torch.softmax(self.dense(x), -1), torch.argmax(x, -1)


class Counter(torch.nn.Module):
    """A network with a state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the sum of all inputs so far."""
        return self.count.add_(x)


def saved(network: torch.nn.Module, path: Path, *inputs: torch.Tensor) -> Path:
    """Saves a network as its user does."""
    torch.export.save(torch.export.export(network, inputs), path)
    return path


def main(folder: Path) -> None:
    """Writes the network, and checks that one with a state is refused."""
    torch.manual_seed(41)
    network = Convolutional().eval()
    for values in (network.norm.running_mean, network.norm.running_var, network.norm.weight, network.norm.bias):
        values.data.uniform_(0.5, 2)
    inputs = torch.randn(1, 1, 16, 12), torch.randn(1, 2)
    path = saved(network, folder / "torch.pt2", *inputs)
    report = boardsmith.frontends.from_torch(path, folder / "torch.tar")
    outputs = [x.detach().numpy() for x in network(*inputs)]
    np.savez(folder / "torch.inputs.npz", **{t.name: x.numpy() for t, x in zip(report.inputs, inputs, strict=True)})
    np.savez(folder / "torch.outputs.npz", **{t.name: x for t, x in zip(report.outputs, outputs, strict=True)})
    try:
        boardsmith.frontends.from_torch(saved(Counter(), folder / "counter.pt2", torch.ones(3)), folder / "counter.tar")
    except ExportError as error:
        assert "changes count" in str(error), error
    else:
        raise AssertionError("a network with a state became an archive")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
