"""Fifty whole networks beside ONNX's evaluator: ten kinds in five sizes.

BOARDSMITH_TESTS=full or soak exports all of them; a plain run draws three.
"""

from __future__ import annotations

import itertools
import os
import random
import tempfile
import unittest
from pathlib import Path

import numpy as np
from boardsmith import frontends
from networks import Network, Quantizer

SIZES = range(5)


def ints(n, *values):
    """Adds a constant of whole numbers."""
    return n.constant(np.array(values, np.int64))


def norm(n, x, channels):
    """Adds a normalization by what was learned."""
    spread = n.constant(np.abs(n.random.normal(size=channels)).astype(np.float32) + 0.5)
    return n.add("BatchNormalization", x, n.weight(channels), n.weight(channels), n.weight(channels), spread)


def head(n, x, channels, classes):
    """Adds the mean of each channel, a dense layer and softmax, and returns the model."""
    h = n.add("Flatten", n.add("GlobalAveragePool", x))
    return n.model(n.add("Softmax", n.add("Gemm", h, n.weight(classes, channels), n.weight(classes), transB=1)))


def perceptron(size):
    """Returns dense layers with an activation of each kind."""
    n, h, width = Network(f"perceptron{size}", x=(1 + size % 2, 7 + size)), "x", 7 + size
    for i in range(2 + size):
        h = n.add("Gemm", h, n.weight(10 + i, width), n.weight(10 + i), transB=1)
        h = n.add(("Relu", "Tanh", "Elu", "HardSwish", "Softplus", "Selu")[i], h)
        width = 10 + i
    return n.model(n.add("LogSoftmax", h, axis=-1))


def separable(size):
    """Returns depthwise and pointwise convolutions as of MobileNet, with ReLU6."""
    n, channels = Network(f"separable{size}", x=(1, 1 + size, 12, 10 + size)), 1 + size
    h = "x"
    for i in range(1 + size % 3):
        h = n.conv(h, channels, channels, kernel=(3, 5)[i % 2], group=channels, strides=[1 + i % 2] * 2)
        h = n.add("Clip", norm(n, h, channels), n.constant(np.float32(0)), n.constant(np.float32(6)))
        h = n.add("Relu", norm(n, n.conv(h, channels, channels + 4, kernel=1), channels + 4))
        channels += 4
    return head(n, h, channels, 3 + size)


def residual(size):
    """Returns residual blocks with squeeze and excitation."""
    n, c = Network(f"residual{size}", x=(1, 3, 8 + size, 8)), 4 + size
    h = n.conv("x", 3, c, strides=[1 + size % 2] * 2)
    for _ in range(1 + size % 3):
        side = n.conv(n.add("Relu", n.conv(h, c, c)), c, c)
        gate = n.conv(n.add("Relu", n.conv(n.add("GlobalAveragePool", side), c, 2, kernel=1)), 2, c, kernel=1)
        h = n.add("Relu", n.add("Add", h, n.add("Mul", side, n.add("HardSigmoid", gate))))
    return head(n, h, c, 4)


def unet(size):
    """Returns a network that reduces an image and enlarges it, with a connection between equal sizes."""
    n, c = Network(f"unet{size}", x=(1, 1, 8, 4 + 4 * (size % 2))), 3 + size
    left = n.add("Relu", n.conv("x", 1, c))
    low = n.add("LeakyRelu", n.conv(n.add("MaxPool", left, kernel_shape=[2, 2], strides=[2, 2]), c, 2 * c), alpha=0.1)
    if size < 3:
        up = n.add("ConvTranspose", low, n.weight(2 * c, c, 2, 2), n.weight(c), kernel_shape=[2, 2], strides=[2, 2])
    else:
        factors = n.constant(np.float32([1, 1, 2, 2]))
        up = n.conv(n.add("Resize", low, "", factors, mode=("nearest", "linear")[size - 3]), 2 * c, c)
    both = n.add("Concat", left, up, axis=1)
    return n.model(n.add("Sigmoid", n.conv(n.add("Relu", n.conv(both, 2 * c, c)), c, 2, kernel=1)))


def temporal(size):
    """Returns dilated causal convolutions of a signal."""
    n, c, h = Network(f"temporal{size}", x=(1, 2, 20 + size)), 2, "x"
    for i in range(2 + size % 2):
        pad = 2 ** (i + 1)
        side = n.add("Conv", h, n.weight(6, c, 3), n.weight(6), dilations=[2**i], pads=[pad, 0])
        h = n.add("Conv", h, n.weight(6, c, 1)) if c != 6 else h
        h, c = n.add("Add", h, n.add("Mul", n.add("Tanh", side), n.add("Sigmoid", side))), 6
    return n.model(n.add("ReduceMax", h, axes=[2], keepdims=0))


def recurrent(size):
    """Returns an LSTM, a GRU or an RNN in one or both directions, with a dense layer for its last state."""
    op = ("LSTM", "GRU", "RNN", "LSTM", "GRU")[size]
    gates, both, hidden = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], size % 2, 4 + size
    n = Network(f"recurrent{size}", x=(5 + size, 1, 3))
    parts = [n.weight(1 + both, gates * hidden, k) for k in (3, hidden)]
    bias = n.weight(1 + both, 2 * gates * hidden)
    states = n.add(op, "x", *parts, bias, hidden_size=hidden, direction="bidirectional" if both else "forward",
                   **({"linear_before_reset": size // 4} if op == "GRU" else {}))  # fmt: skip
    last = n.add("Flatten", n.add("Gather", states, ints(n, -1), axis=0))
    return n.model(n.add("Gemm", last, n.weight((1 + both) * hidden, 4)), n.nodes[0].output[0])


def transformer(size):
    """Returns layers of attention with several heads, normalization and a gated unit."""
    n, steps, width, heads = Network(f"transformer{size}", x=(1, 4 + size, 8)), 4 + size, 8, 2 ** (size % 3)
    h = "x"
    for _ in range(1 + size % 2):
        q, k, v = (n.add("Transpose", n.add("Reshape", n.add("MatMul", h, n.weight(width, width)),
                                            ints(n, 1, steps, heads, width // heads)), perm=perm)
                   for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))  # fmt: skip
        scores = n.add("Div", n.add("MatMul", q, k), n.constant(np.float32(np.sqrt(width / heads))))
        if size % 2:
            hidden = np.triu(np.full((steps, steps), -1e9, np.float32), 1)
            scores = n.add("Add", scores, n.constant(hidden))
        seen = n.add("Transpose", n.add("MatMul", n.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        h = n.add("Add", h, n.add("MatMul", n.add("Reshape", seen, ints(n, 1, steps, width)), n.weight(width, width)))
        h = n.add("LayerNormalization", h, n.weight(width), n.weight(width), axis=-1)
        inner = n.add("MatMul", h, n.weight(width, 16))
        gelu = n.add("Mul", inner, n.add("Add", n.add("Erf", inner), n.constant(np.float32(1))))
        h = n.add("Add", h, n.add("MatMul", gelu, n.weight(16, width)))
    return n.model(n.add("ReduceMean", h, axes=[1], keepdims=0))


def detector(size):
    """Returns boxes and classes for two scales of an image."""
    n, h, outputs, c = Network(f"detector{size}", x=(1, 3, 16, 16 - 4 * (size % 2))), "x", [], 3
    for _ in range(2):
        h, c = n.add("Relu", n.conv(h, c, 6 + size, strides=[2, 2])), 6 + size
        flat = n.add("Transpose", n.conv(h, c, 4 + 3, kernel=1), perm=[0, 2, 3, 1])
        outputs.append(n.add("Reshape", flat, ints(n, 1, -1, 7)))
    every = n.add("Concat", *outputs, axis=1)
    boxes, classes = (n.add("Slice", every, ints(n, a), ints(n, b), ints(n, 2)) for a, b in ((0, 4), (4, 7)))
    return n.model(n.add("Exp", n.add("Clip", boxes, "", n.constant(np.float32(2)))), n.add("Sigmoid", classes))


def autoencoder(size):
    """Returns a bottleneck of a spectrum, and how far the result is from the input."""
    n, widths, h = Network(f"autoencoder{size}", x=(2, 16 + size)), (16 + size, 12, 4, 12, 16 + size), "x"
    for before, after in itertools.pairwise(widths):
        h = n.add("Add", n.add("MatMul", h, n.weight(before, after)), n.weight(after))
        h = n.add("PRelu", h, n.weight(after)) if after <= 12 else h
    off = n.add("Sub", "x", h)
    return n.model(h, n.add("ReduceMean", n.add("Mul", off, off), axes=[1], keepdims=size % 2))


def quantized(size):
    """Returns a network of another kind with pairs of quantize and dequantize."""
    n, c = Network(f"quantized{size}", x=(1, 3, 9, 8 + size)), 6 + size
    h = n.add("Relu", n.conv("x", 3, c, strides=[1 + size % 2, 1]))
    if size % 2:
        h = n.add("Add", h, n.add("Relu", n.conv(h, c, c, group=c)))
    h = n.add("MaxPool" if size < 3 else "AveragePool", h, kernel_shape=[2, 2], strides=[2, 2])
    h = n.add("Flatten", n.add("GlobalAveragePool", n.conv(h, c, 8, kernel=1)))
    return Quantizer(n.model(n.add("Softmax", n.add("Gemm", h, n.weight(5, 8), n.weight(5), transB=1)))).run()


KINDS = (perceptron, separable, residual, unet, temporal, recurrent, transformer, detector, autoencoder, quantized)


class Networks(unittest.TestCase):
    """The networks."""

    def test_networks(self):
        """Each becomes an archive whose C computes what ONNX's evaluator does."""
        every = [(kind, size) for kind in KINDS for size in SIZES]
        chosen = every if os.environ.get("BOARDSMITH_TESTS") else random.sample(every, 3)
        for kind, size in chosen:
            with self.subTest(kind.__name__, size=size), tempfile.TemporaryDirectory() as folder:
                verdict = frontends.export_onnx(kind(size), Path(folder, "net.tar")).verdict
                self.assertTrue(verdict.verified, verdict)


if __name__ == "__main__":
    unittest.main()
