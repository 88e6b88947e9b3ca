"""An int8 network of TensorFlow Lite as C that calls Arm's CMSIS-NN: tflite_to_c.py kws.tflite FOLDER [LICENCE]

Writes FOLDER/kws.c and its description FOLDER/kws.json. Layers: Conv2D, DepthwiseConv2D, FullyConnected, AveragePool2D,
MaxPool2D, Add, Softmax and Reshape. Needs nothing but Python. Memory between layers is planned here, with the buffers
that CMSIS-NN takes on cores without Helium; the C returns -1 if the library asks for a larger one.
"""

import json
import math
import struct
import sys
from pathlib import Path

INT32, INT8 = 2, 9  # TensorType
ALIGN = 4


class Table:
    """A table of a FlatBuffers file; fields by their number in TensorFlow's schema.fbs."""

    def __init__(self, data, at):
        self.data, self.at, self.fields = data, at, at - struct.unpack_from("<i", data, at)[0]

    def _find(self, field):
        size = struct.unpack_from("<H", self.data, self.fields)[0]
        place = 4 + 2 * field
        offset = struct.unpack_from("<H", self.data, self.fields + place)[0] if place < size else 0
        return self.at + offset if offset else None

    def number(self, field, form="b", default=0):
        at = self._find(field)
        return default if at is None else struct.unpack_from("<" + form, self.data, at)[0]

    def _vector(self, field):
        at = self._find(field)
        if at is None:
            return 0, 0
        at += struct.unpack_from("<I", self.data, at)[0]
        return at + 4, struct.unpack_from("<I", self.data, at)[0]

    def numbers(self, field, form="i"):
        at, count = self._vector(field)
        return list(struct.unpack_from(f"<{count}{form}", self.data, at))

    def tables(self, field):
        at, count = self._vector(field)
        return [Table(self.data, i + struct.unpack_from("<I", self.data, i)[0]) for i in range(at, at + 4 * count, 4)]

    def table(self, field):
        at = self._find(field)
        return None if at is None else Table(self.data, at + struct.unpack_from("<I", self.data, at)[0])


class Tensor:
    def __init__(self, index, table, buffers):
        self.name = f"t{index}"
        self.shape, self.type = table.numbers(0), table.number(1)
        quantization = table.table(4)
        self.scales = quantization.numbers(2, "f") if quantization else []
        self.zero = (quantization.numbers(3, "q") or [0])[0] if quantization else 0
        form, self.bytes = {INT8: ("b", 1), INT32: ("i", 4)}.get(self.type, ("B", 1))
        self.values = buffers[table.number(2, "I")].numbers(0, "B")
        if self.values:
            raw = bytes(self.values)
            self.values = list(struct.unpack(f"<{len(raw) // self.bytes}{form}", raw))
        self.count = math.prod(self.shape)

    def dims(self):
        """n, h, w, c of a tensor of at most four dimensions."""
        return [1] * (4 - len(self.shape)) + self.shape


def fixed_point(real):
    """A Q31 multiplier and a shift to the left, as TensorFlow Lite computes them."""
    if real == 0:
        return 0, 0
    fraction, shift = math.frexp(real)
    value = math.floor(fraction * (1 << 31) + 0.5)
    if value == 1 << 31:
        value, shift = value // 2, shift + 1
    return (0, 0) if shift < -31 else (value, shift)


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def c_dims(n, h, w, c):
    return f"&(cmsis_nn_dims){{{n}, {h}, {w}, {c}}}"


def c_call(function, *arguments):
    return f"{function}(" + ", ".join(str(a) for a in arguments) + ")"


def activation(kind, out):
    scale, zero = out.scales[0], out.zero
    limits = {0: (None, None), 1: (0, None), 2: (-1, 1), 3: (0, 6)}.get(kind)
    if limits is None:
        raise ValueError(f"activation {kind} is not supported")
    low, high = (None if x is None else zero + round(x / scale) for x in limits)
    return max(-128, -128 if low is None else low), min(127, 127 if high is None else high)


class Network:
    def __init__(self, path):
        data = path.read_bytes()
        if data[4:8] != b"TFL3":
            raise ValueError(f"{path} is no TensorFlow Lite file")
        model = Table(data, struct.unpack_from("<I", data)[0])
        graphs, buffers = model.tables(2), model.tables(4)
        if len(graphs) != 1:
            raise ValueError(f"{path} has {len(graphs)} graphs; one is supported")
        self.codes = [max(c.number(0), c.number(3, "i")) for c in model.tables(1)]
        self.tensors = [Tensor(i, t, buffers) for i, t in enumerate(graphs[0].tables(0))]
        self.inputs, self.outputs = graphs[0].numbers(1), graphs[0].numbers(2)
        self.constants, self.steps, self.same = [], [], {}
        for operator in graphs[0].tables(3):
            self.add(operator)
        self.placed, self.total = self.plan()

    def add(self, operator):
        code = self.codes[operator.number(0, "I")]
        ins = [self.tensors[i] if i >= 0 else None for i in operator.numbers(1)]
        out = self.tensors[operator.numbers(2)[0]]
        if out.type != INT8 or ins[0].type != INT8:
            raise ValueError(f"layer {len(self.steps)}: only int8 is supported")
        emit = {0: self.sum, 1: self.pool, 3: self.conv, 4: self.depthwise, 9: self.dense, 17: self.pool,
                22: self.reshape, 25: self.softmax}.get(code)
        if emit is None:
            raise ValueError(f"layer {len(self.steps)}: operator {code} of TensorFlow Lite is not supported")
        call, scratch, size = emit(operator.table(4), ins, out, code)
        used = [t for t in ins if t is not None and not t.values]
        self.steps.append((call, [t.name for t in used], out.name, scratch, size))

    def constant(self, name, ctype, values):
        lines, line = [], ""
        for value in values:
            word = f"{value}, "
            if len(line) + len(word) > 110:
                lines.append(line.rstrip())
                line = ""
            line += word
        lines.append(line.rstrip(", "))
        self.constants.append(f"static const {ctype} {name}[{len(values)}] = {{\n  " + "\n  ".join(lines) + "};\n")
        return name

    def bias(self, tensor, name):
        return self.constant(name, "int32_t", tensor.values) if tensor is not None and tensor.values else "NULL"

    def window(self, ins, out, padding, strides, dilations, kernel):
        """Strides, the padding before the first row and column, and dilations, in C."""
        pads = []
        for axis in (1, 2):
            span = (kernel[axis - 1] - 1) * dilations[axis - 1] + 1
            size, outs = ins.dims()[axis], out.dims()[axis]
            pads.append(max((outs - 1) * strides[axis - 1] + span - size, 0) // 2 if padding == 0 else 0)
        self.pads = pads
        return ", ".join(f".{name} = {{.w = {w}, .h = {h}}}"
                         for name, (h, w) in (("stride", strides), ("padding", pads), ("dilation", dilations)))

    def quantization(self, ins, weights, out, n):
        scales = weights.scales if len(weights.scales) > 1 else weights.scales * out.dims()[3]
        pairs = [fixed_point(float(ins.scales[0]) * s / out.scales[0]) for s in scales]
        # CMSIS-NN's struct has pointers to variables, which its functions only read.
        multiplier = self.constant(f"m{n}", "int32_t", [m for m, _ in pairs])
        shift = self.constant(f"s{n}", "int32_t", [s for _, s in pairs])
        return f"&(cmsis_nn_per_channel_quant_params){{(int32_t*){multiplier}, (int32_t*){shift}}}"

    def filter(self, kind, x, weights, bias, out, options, low_high, more=""):
        """Arguments of a convolution: its parameters, scales, and shapes and data in CMSIS-NN's order."""
        n, (low, high) = len(self.steps), low_high
        params = (f"&({kind}){{.input_offset = {-x.zero}, .output_offset = {out.zero}, {more}{options}, "
                  f".activation = {{{low}, {high}}}}}")
        shapes = [c_dims(*t.dims()) for t in (x, weights, out)]
        biases = c_dims(1, 1, 1, weights.dims()[3] if more else weights.dims()[0])
        arguments = ["&c", params, self.quantization(x, weights, out, n), shapes[0], x.name, shapes[1],
                     self.constant(f"w{n}", "int8_t", weights.values), biases, self.bias(bias, f"b{n}"), shapes[2],
                     out.name]
        return arguments, [params, *shapes]

    def conv(self, options, ins, out, _):
        x, weights, bias = (ins + [None])[:3]
        _, height, width, depth = weights.dims()
        strides = options.number(2, "i"), options.number(1, "i")
        dilations = options.number(5, "i", 1), options.number(4, "i", 1)
        window = self.window(x, out, options.number(0), strides, dilations, (height, width))
        arguments, sized = self.filter("cmsis_nn_conv_params", x, weights, bias, out, window,
                                       activation(options.number(3), out))
        columns = -(-height * width * depth // 4) * 4
        scratch = 0 if (height, width, *self.pads, *dilations) == (1, 1, 0, 0, 1, 1) else 4 * columns
        return (c_call("arm_convolve_wrapper_s8", *arguments), scratch,
                c_call("arm_convolve_wrapper_s8_get_buffer_size", *sized))

    def depthwise(self, options, ins, out, _):
        x, weights, bias = (ins + [None])[:3]
        _, height, width, _ = weights.dims()
        strides = options.number(2, "i"), options.number(1, "i")
        dilations = options.number(6, "i", 1), options.number(5, "i", 1)
        window = self.window(x, out, options.number(0), strides, dilations, (height, width))
        arguments, sized = self.filter("cmsis_nn_dw_conv_params", x, weights, bias, out, window,
                                       activation(options.number(4), out), f".ch_mult = {options.number(3, 'i', 1)}, ")
        small = (height, width) == (3, 3) and max(self.pads) <= 1
        return (c_call("arm_depthwise_conv_wrapper_s8", *arguments), 0 if small else 2 * x.dims()[3] * height * width,
                c_call("arm_depthwise_conv_wrapper_s8_get_buffer_size", *sized))

    def dense(self, options, ins, out, _):
        x, weights, bias = (ins + [None])[:3]
        if len(weights.scales) != 1:
            raise ValueError(f"layer {len(self.steps)}: FullyConnected with a scale for each channel is not supported")
        n, (count, depth) = len(self.steps), weights.shape
        product = float32(x.scales[0] * weights.scales[0])  # TensorFlow Lite multiplies float32
        multiplier, shift = fixed_point(product / out.scales[0])
        low, high = activation(options.number(0) if options else 0, out)
        params = (f"&(cmsis_nn_fc_params){{.input_offset = {-x.zero}, .filter_offset = {-weights.zero}, "
                  f".output_offset = {out.zero}, .activation = {{{low}, {high}}}}}")
        batches, shape = x.count // depth, c_dims(depth, 1, 1, count)
        call = c_call("arm_fully_connected_s8", "&c", params,
                      f"&(cmsis_nn_per_tensor_quant_params){{{multiplier}, {shift}}}", c_dims(batches, 1, 1, depth),
                      x.name, shape, self.constant(f"w{n}", "int8_t", weights.values), c_dims(1, 1, 1, count),
                      self.bias(bias, f"b{n}"), c_dims(batches, 1, 1, count), out.name)
        return call, 0, c_call("arm_fully_connected_s8_get_buffer_size", shape)

    def pool(self, options, ins, out, code):
        x = ins[0]
        kernel = options.number(4, "i"), options.number(3, "i")
        strides = options.number(2, "i"), options.number(1, "i")
        self.window(x, out, options.number(0), strides, (1, 1), kernel)
        low, high = activation(options.number(5), out)
        params = (f"&(cmsis_nn_pool_params){{.stride = {{.w = {strides[1]}, .h = {strides[0]}}}, "
                  f".padding = {{.w = {self.pads[1]}, .h = {self.pads[0]}}}, .activation = {{{low}, {high}}}}}")
        call = c_call("arm_avgpool_s8" if code == 1 else "arm_max_pool_s8", "&c", params, c_dims(*x.dims()), x.name,
                      c_dims(1, *kernel, 1), c_dims(*out.dims()), out.name)
        if code != 1:
            return call, 0, None
        return call, 4 * x.dims()[3], c_call("arm_avgpool_s8_get_buffer_size", out.dims()[2], x.dims()[3])

    def sum(self, options, ins, out, _):
        left, right = ins
        if left.values or right.values or left.shape != right.shape:
            raise ValueError(f"layer {len(self.steps)}: Add of a constant, or of two shapes, is not supported")
        twice = 2.0 * max(left.scales[0], right.scales[0])
        terms = []
        for x in (left, right):
            multiplier, shift = fixed_point(x.scales[0] / twice)
            terms.append(f"{-x.zero}, {multiplier}, {shift}")
        multiplier, shift = fixed_point(twice / ((1 << 20) * out.scales[0]))
        low, high = activation(options.number(0) if options else 0, out)
        call = c_call("arm_elementwise_add_s8", left.name, right.name, *terms, 20, out.name, out.zero, multiplier,
                      shift, low, high, out.count)
        return call, 0, None

    def softmax(self, options, ins, out, _):
        x = ins[0]
        if (out.scales[0], out.zero) != (1 / 256, -128):
            raise ValueError(f"layer {len(self.steps)}: Softmax with an output other than 1/256 from -128")
        beta = options.number(0, "f")
        multiplier, shift = fixed_point(min(beta * x.scales[0] * (1 << 26), (1 << 31) - 1))
        least = -(31 * (1 << 26) // (1 << shift))
        row = x.shape[-1]
        return f"arm_softmax_s8({x.name}, {x.count // row}, {row}, {multiplier}, {shift}, {least}, {out.name})", 0, None

    def reshape(self, _, ins, out, __):
        self.same[out.name] = ins[0].name
        return None, 0, None

    def plan(self):
        """Offsets of the tensors between layers and of the layers' buffers, the largest first; and their sum."""
        sizes = {t.name: -(-t.count * t.bytes // ALIGN) * ALIGN for t in self.tensors}
        outside = {self.tensors[i].name for i in self.inputs + self.outputs}
        spans = {}
        for i, (call, ins, out, scratch, _) in enumerate(self.steps):
            if call is None:
                continue
            for name in [*ins, out]:
                name = self.origin(name)
                if name not in outside:
                    spans[name] = (spans.get(name, (i, i))[0], i, sizes[name])
            if scratch:
                spans[f"scratch{i}"] = (i, i, scratch)
        placed, total = {}, 0
        for name, (first, last, size) in sorted(spans.items(), key=lambda s: (-s[1][2], s[0])):
            others = sorted((placed[o], placed[o] + spans[o][2]) for o in placed
                            if spans[o][0] <= last and first <= spans[o][1])
            at = 0
            for begin, end in others:
                if begin - at >= size:
                    break
                at = max(at, end)
            placed[name], total = at, max(total, at + size)
        return placed, total

    def origin(self, name):
        while name in self.same:
            name = self.same[name]
        return name

    def ends(self):
        """Inputs and outputs: the parameter, its type, and the tensor."""
        for kind, indices in (("input", self.inputs), ("output", self.outputs)):
            for n, index in enumerate(indices):
                name = kind if len(indices) == 1 else f"{kind}{n}"
                yield kind, name, "const int8_t*" if kind == "input" else "int8_t*", self.tensors[index]

    def prototype(self, name):
        parameters = [f"{ctype} {parameter}" for _, parameter, ctype, _ in self.ends()]
        return f"int {name}_run({', '.join(parameters + ['int8_t* arena'] * (self.total > 0))})"

    def source(self, name, file):
        lines = [f"// Generated by tflite_to_c.py from {file}.", "#include <stddef.h>", "#include <arm_nnfunctions.h>",
                 f'#include "{name}.h"', "", *self.constants, self.prototype(name) + " {"]
        lines += [f"  {ctype} const {tensor.name} = {parameter};" for _, parameter, ctype, tensor in self.ends()]
        for tensor, at in sorted(self.placed.items(), key=lambda p: p[1]):
            if tensor.startswith("t"):
                lines.append(f"  int8_t* const {tensor} = arena + {at};")
        for i, step in enumerate(self.steps):
            lines += self.step(i, *step)
        return "\n".join([*lines, "  return 0;", "}", ""])

    def step(self, i, call, _, out, scratch, size):
        if call is None:
            const = "const " * (self.origin(out) in {t.name for kind, _, _, t in self.ends() if kind == "input"})
            return [f"  {const}int8_t* const {out} = {self.same[out]};"]
        call = call.replace(", &(", ",\n        &(")
        if call.startswith("arm_softmax"):
            return [f"  {call};"]
        lines = ["  {"]
        if "&c," in call:
            buffer = f"arena + {self.placed[f'scratch{i}']}" if scratch else "NULL"
            lines.append(f"    const cmsis_nn_context c = {{{buffer}, {scratch}}};")
        test = f"{call} != ARM_CMSIS_NN_SUCCESS"
        if size:
            size = size.replace(", &(", ",\n        &(")
            test = f"{size} > {scratch} ||\n        {test}"
        return [*lines, f"    if ({test}) {{", "      return -1;", "    }", "  }"]

    def description(self, name, licence):
        arguments = [{kind: parameter, "dtype": "int8", "shape": t.shape, "scale": t.scales[0], "zero_point": t.zero}
                     for kind, parameter, _, t in self.ends()]
        if self.total:
            arguments.append({"arena": "arena", "bytes": self.total, "align": ALIGN})
        fields = {"name": name, "sources": [name + ".c"], "headers": [name + ".h"], "function": name + "_run",
                  "arguments": arguments, "returns": {"status": 0}, "generator": "tflite_to_c.py", "license": licence}
        return {k: v for k, v in fields.items() if v}


def main(path, folder, licence=""):
    name = path.stem.lower().replace("-", "_")
    network = Network(path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / (name + ".c")).write_text(network.source(name, path.name))
    (folder / (name + ".h")).write_text(f"#include <stdint.h>\n{network.prototype(name)};\n")
    (folder / (name + ".json")).write_text(json.dumps(network.description(name, licence), indent=2) + "\n")


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
    except (ValueError, OSError, struct.error, IndexError) as e:
        sys.exit(f"tflite_to_c.py: {sys.argv[1]}: {e}")
