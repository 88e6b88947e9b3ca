"""An int8 network of TensorFlow Lite as ONNX, channels first and with pairs of quantize and dequantize, to compare what
both become on CMSIS-NN. It takes the layers of MLPerf Tiny's networks.

usage: doors.py NETWORK.tflite NETWORK.onnx
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from boardsmith import lite
from kws import Builder
from onnx import TensorProto, helper


def window(layer, x, y, kernel):
    """Returns the attributes of a layer with windows."""
    strides = [layer.option("StrideH"), layer.option("StrideW")]
    totals = [max((o - 1) * s + k - n, 0) * (layer.option("Padding") == 0)
              for o, s, k, n in zip(y.shape[1:], strides, kernel, x.shape[1:])]  # fmt: skip
    return {"strides": strides, "kernel_shape": list(kernel),
            "pads": [n // 2 for n in totals] + [n - n // 2 for n in totals]}  # fmt: skip


def weighted(b, layer, x, name):
    """Adds a convolution or a dense layer, and returns its result."""
    w, bias, y = layer.inputs[1], layer.inputs[2], layer.outputs[0]
    q, attributes = w.values, {"transB": 1}
    if layer.operator != "FULLY_CONNECTED":
        is_depthwise = layer.operator.startswith("DEPTHWISE")
        attributes = window(layer, x, y, q.shape[1:3]) | {"group": x.shape[3] if is_depthwise else 1}
        q = q.transpose((3, 0, 1, 2) if is_depthwise else (0, 3, 1, 2))
    scales = np.broadcast_to(w.scales, len(q))
    parameters = b.known(q, scales, np.int8), b.known(bias.values, scales * x.scale, np.int32)
    return b.add("Gemm" if "transB" in attributes else "Conv", name, *parameters, **attributes)


def convert(path):
    """Returns the model."""
    network, b = lite.Network(path), Builder(True)
    (x,), (y,) = network.inputs, network.outputs
    shape = (x.shape[0], x.shape[3], *x.shape[1:3]) if len(x.shape) == 4 else x.shape
    names = {x: b.add("DequantizeLinear", "input", *b.scale((x.scale, x.zero)))}
    for layer in network.layers:
        x, y = layer.inputs[0], layer.outputs[0]
        operands, options = [names[t] for t in layer.inputs if t in names], {}
        if layer.operator == "RESHAPE":
            names[y] = b.add("Flatten", *operands)
            continue
        if layer.operator in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            result = weighted(b, layer, x, *operands)
        else:
            if layer.operator == "AVERAGE_POOL_2D":
                options = window(layer, x, y, (layer.option("FilterHeight"), layer.option("FilterWidth")))
            operator = {"ADD": "Add", "AVERAGE_POOL_2D": "AveragePool", "SOFTMAX": "Softmax"}[layer.operator]
            result = b.add(operator, *operands, **options)
        if activation := layer.option("FusedActivationFunction"):
            assert activation in (1, 3)
            result = b.add("Relu", result) if activation == 1 else \
                b.add("Clip", result, b.constant(np.float32(0)), b.constant(np.float32(6)))
        names[y] = b.rounded(result, (y.scale, y.zero))

    b.nodes.pop()  # the last dequantize
    b.nodes[-1].output[0] = "output"
    ends = [helper.make_tensor_value_info(n, TensorProto.INT8, s) for n, s in (("input", shape), ("output", y.shape))]
    graph = helper.make_graph(b.nodes, path.stem, ends[:1], ends[1:], b.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


if __name__ == "__main__":
    onnx.save(convert(Path(sys.argv[1])), sys.argv[2])
