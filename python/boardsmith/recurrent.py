"""LSTM, GRU and RNN of ONNX as the nodes of each step of time: equal kernels, of which only the calls take flash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .graph import Graph, Node

ACTIVATIONS: dict[str, Callable[..., str]] = {
    "sigmoid": lambda g, x, **_: g.add("Sigmoid", x),
    "tanh": lambda g, x, **_: g.add("Tanh", x),
    "relu": lambda g, x, **_: g.add("Relu", x),
    "softsign": lambda g, x, **_: g.add("Softsign", x),
    "softplus": lambda g, x, **_: g.add("Softplus", x),
    "leakyrelu": lambda g, x, alpha=0.01, **_: g.add("LeakyRelu", x, alpha=alpha),
    "thresholdedrelu": lambda g, x, alpha=1.0, **_: g.add("ThresholdedRelu", x, alpha=alpha),
    "elu": lambda g, x, alpha=1.0, **_: g.add("Elu", x, alpha=alpha),
    "hardsigmoid": lambda g, x, alpha=0.2, beta=0.5: g.add("HardSigmoid", x, alpha=alpha, beta=beta),
    "scaledtanh": lambda g, x, alpha=1.0, beta=1.0: g.add(
        "Mul", g.add("Tanh", g.add("Mul", x, g.constant(beta, "float32"))), g.constant(alpha, "float32")),
    "affine": lambda g, x, alpha=1.0, beta=0.0: g.add(
        "Add", g.add("Mul", x, g.constant(alpha, "float32")), g.constant(beta, "float32")),
}  # fmt: skip


class Recurrent:
    """One direction of an LSTM, a GRU or an RNN, as nodes for each step of time."""

    GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
    DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}

    def __init__(self, graph: Graph, node: Node, direction: int, directions: int) -> None:
        self.g, self.node = graph, node
        self.hidden = int(node.get("hidden_size") or graph.shape(node.input(2))[2])
        names = node.get("activations") or self.DEFAULTS[node.op] * directions
        alphas, betas = list(node.get("activation_alpha") or ()), list(node.get("activation_beta") or ())
        each = len(self.DEFAULTS[node.op])
        self.activations = [self._activation(name, alphas, betas) for name in names][direction * each :][:each]
        self.direction = direction

    def _activation(self, name: str, alphas: list[float], betas: list[float]) -> Callable[[str], str]:
        """Takes the parameters that this function has of the two lists, which are in the order of the functions."""
        function = ACTIVATIONS.get(name.lower())
        if function is None:
            raise self.node.refuse(f"activation {name} is not supported; {', '.join(ACTIVATIONS)} are")
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        lists = ("alpha", alphas), ("beta", betas)
        parameters = {name: values.pop(0) for name, values in lists if name in names and values}
        return lambda x: function(self.g, x, **parameters)

    def _part(self, index: int, *shape: int) -> str:
        """Returns an operand's part for this direction, reshaped; "" if it is left out."""
        name = self.node.input(index)
        if not name:
            return ""
        if name in self.g.constants:
            return self.g.constant(self.g.constants[name][self.direction].reshape(shape), self.g.dtype(name))
        at = self.g.constant([self.direction])
        return self.g.reshape(self.g.add("Gather", name, at, axis=0), *shape)

    def _transposed(self, index: int, rows: int, columns: int) -> str:
        part = self._part(index, rows, columns)
        if part in self.g.constants:
            return self.g.constant(self.g.constants[part].T.copy(), self.g.dtype(part))
        return self.g.add("Transpose", part, perm=[1, 0])

    def _sum(self, first: str, *others: str) -> str:
        """Adds the sum of values, some of which may be left out."""
        for other in filter(None, others):
            first = self.g.add("Add", first, other)
        return first

    def _clipped(self, x: str) -> str:
        limit = self.node.get("clip")
        if limit is None:
            return x
        return self.g.add("Clip", x, self.g.constant(-limit, "float32"), self.g.constant(limit, "float32"))

    def run(self, steps: Sequence[str], batch: int, size: int) -> tuple[list[str], str, str]:
        """Returns the hidden state after each step, and the last hidden and cell state, for the inputs of each step."""
        g, n, gates = self.g, self.hidden, self.GATES[self.node.op]
        weights, recurrent = self._transposed(1, gates * n, size), self._transposed(2, gates * n, n)
        zero = g.constant(np.zeros((batch, n)), "float32")
        h = self._part(5, batch, n) or zero
        c = self._part(6, batch, n) or zero if self.node.op == "LSTM" else ""
        bias = self._part(3, 2, gates * n)
        own, other = g.split(bias, 2, 0) if bias else ("", "")
        peepholes = g.split(self._part(7, 3, n), 3, 0) if self.node.op == "LSTM" and self.node.input(7) else []

        states = []
        step = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.node.op]
        for x in steps:
            h, c = step(self._sum(g.add("MatMul", x, weights), own), h, c, recurrent, other, peepholes)
            states.append(h)
        return states, h, c

    def _rnn(self, x: str, h: str, c: str, recurrent: str, bias: str, _: list[str]) -> tuple[str, str]:
        return self.activations[0](self._clipped(self._sum(x, self.g.add("MatMul", h, recurrent), bias))), c

    def _lstm(self, x: str, h: str, c: str, recurrent: str, bias: str, peepholes: list[str]) -> tuple[str, str]:
        g, (f, gf, hf) = self.g, self.activations
        i, o, forget, new = g.split(self._sum(x, g.add("MatMul", h, recurrent), bias), 4, 1)
        if peepholes:
            i = g.add("Add", i, g.add("Mul", peepholes[0], c))
            forget = g.add("Add", forget, g.add("Mul", peepholes[2], c))
        i = f(self._clipped(i))
        if self.node.get("input_forget", 0):
            forget = g.add("Sub", g.constant(1, "float32"), i)
        else:
            forget = f(self._clipped(forget))
        c = g.add("Add", g.add("Mul", forget, c), g.add("Mul", i, gf(self._clipped(new))))
        if peepholes:
            o = g.add("Add", o, g.add("Mul", peepholes[1], c))
        return g.add("Mul", f(self._clipped(o)), hf(c)), c

    def _gru(self, x: str, h: str, c: str, recurrent: str, bias: str, _: list[str]) -> tuple[str, str]:
        g, (f, gf) = self.g, self.activations
        z, r, new = g.split(x, 3, 1)
        if self.node.get("linear_before_reset", 0):
            hz, hr, hn = g.split(self._sum(g.add("MatMul", h, recurrent), bias), 3, 1)
            z, r = (f(self._clipped(self._sum(a, b))) for a, b in ((z, hz), (r, hr)))
            new = self._sum(new, g.add("Mul", r, hn))
        else:
            rz, rr, rn = g.split(recurrent, 3, 1)
            bz, br, bn = g.split(bias, 3, 1) if bias else ("", "", "")
            z, r = (f(self._clipped(self._sum(a, g.add("MatMul", h, w), b))) for a, w, b in ((z, rz, bz), (r, rr, br)))
            new = self._sum(new, g.add("MatMul", g.add("Mul", r, h), rn), bn)
        new = gf(self._clipped(new))
        kept = g.add("Sub", g.constant(1, "float32"), z)
        return g.add("Add", g.add("Mul", kept, new), g.add("Mul", z, h)), c


def recurrent(g: Graph, node: Node) -> None:
    """LSTM, GRU, RNN."""
    x, batch_first = node.input(0), node.get("layout", 0)
    shape = g.shape(x)
    steps, batch, size = (shape[1], shape[0], shape[2]) if batch_first else shape
    if (lengths := node.input(4)) and not (lengths in g.constants and (g.constants[lengths] == steps).all()):
        raise node.refuse("sequence_lens other than the length of the input are not supported: pad the sequences")
    if batch_first and (node.input(5) or node.input(6)):
        raise node.refuse("initial states with layout 1 are not supported: use layout 0")

    directions = {"reverse": [True], "bidirectional": [False, True]}.get(node.get("direction"), [False])
    inputs = [g.reshape(part, batch, size) for part in g.split(x, steps, 1 if batch_first else 0)]
    hidden, last, cells = [], [], []
    for i, backwards in enumerate(directions):
        part = Recurrent(g, node, i, len(directions))
        states, h, c = part.run(inputs[::-1] if backwards else inputs, batch, size)
        hidden.append(states[::-1] if backwards else states)
        last.append(h)
        cells.append(c)

    n, count = part.hidden, len(directions)
    for name, values in ((node.output(1), last), (node.output(2), cells)):
        if name:
            shape = (batch, 1, n) if batch_first else (1, batch, n)
            g.add("Concat", *(g.reshape(v, *shape) for v in values), to=name, axis=1 if batch_first else 0)
    if node.output(0):
        every = [g.reshape(state, 1, 1, batch, n) for step in zip(*hidden) for state in step]
        y = g.reshape(g.add("Concat", *every, axis=0), steps, count, batch, n,
                      to=None if batch_first else node.output(0))  # fmt: skip
        if batch_first:
            g.add("Transpose", y, perm=[2, 0, 1, 3], to=node.output(0))
