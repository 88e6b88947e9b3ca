"""Tests of the exporter that need no board. Others are TestRelax of package validate."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import itertools
import json
import math
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
import unittest.mock
from pathlib import Path

import boardsmith.__main__
import boardsmith.frontends
import boardsmith.kernels
import networks
import numpy as np
import tvm
from tvm import relax, s_tir, te, tirx
from tvm.relax.frontend.onnx import from_onnx
from tvm.s_tir import meta_schedule


def function(shape=(2, 4), build=None, dtype="float32"):
    """Returns a module whose main applies build to a tensor."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype) if hasattr(relax, "TensorType") else None)
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(build(x) if build else relax.op.nn.relu(x))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    return bb.get()


def det():
    """Returns a network with an operator that TVM's frontend does not read."""
    n = networks.Network("det", x=(2, 2))
    n.add("Det", "x", to="y")
    return n.model("y")


def add_record(database):
    """Adds a schedule of one of the two operators of networks.dense."""
    target = tvm.target.Target("c")
    tasks = meta_schedule.relax_integration.extract_tasks(boardsmith.lower(from_onnx(networks.dense())), target)
    assert len(tasks) == 2
    workload = tasks[0].dispatched[0]
    sch = s_tir.Schedule(workload)
    sch.unroll(sch.get_loops(sch.get_sblock("matmul"))[-1])
    database.commit_tuning_record(meta_schedule.database.TuningRecord(
        sch.trace, database.commit_workload(workload), [1.0], target,
        meta_schedule.arg_info.ArgInfo.from_prim_func(workload["main"])))


class Export(unittest.TestCase):
    """Archives, and what is refused."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "net.tar"

    def members(self):
        """Returns the archive's members."""
        with tarfile.open(self.path) as tar:
            return {m.name: tar.extractfile(m).read().decode() for m in tar.getmembers()}

    def refused(self, module, *words, **options):
        """Checks that the error has these words, and that nothing was written."""
        with self.assertRaises(boardsmith.ExportError) as caught:
            boardsmith.export(module, self.path, **options)
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertEqual(list(Path(self.folder.name).iterdir()), [])

    def test_conditions_on_what_a_loop_writes(self):
        """A condition on memory stays in its loop, which may change it."""
        memory, i = tirx.decl_buffer((1,), "int32"), tirx.Var("i", "int32")
        load = tirx.BufferLoad(memory, [0])
        step = tirx.IfThenElse(load < 3, tirx.BufferStore(memory, load + 1, [0]), None)
        loop = boardsmith.kernels._hoist(tirx.For(i, 0, 10, tirx.ForKind.SERIAL, step))
        self.assertIsInstance(loop, tirx.For)
        self.assertIsInstance(loop.body, tirx.IfThenElse)

    def test_sums_that_depend(self):
        """Rounds are one for sums that read what they alone change, over a loop of fixed length."""
        memory, data = tirx.decl_buffer((2,)), tirx.decl_buffer((8,))
        i, n = tirx.Var("i", "int32"), tirx.Var("n", "int32")
        first, second, x = (tirx.BufferLoad(*at) for at in ((memory, [0]), (memory, [1]), (data, [i])))
        for length, value, merged in ((8, second + x, True), (8, second + first, False), (n, second + x, False)):
            steps = tirx.SeqStmt([tirx.BufferStore(memory, first + x, [0]), tirx.BufferStore(memory, value, [1])])
            loop = boardsmith.kernels._hoist(tirx.For(i, 0, length, tirx.ForKind.SERIAL, steps))
            self.assertEqual(str(loop.extent) != str(length), merged)

    def test_deep(self):
        """A chain of more operators than Python has calls, behind an integer."""
        n = networks.Network("deep", x=(1, 4))
        scale, zero = n.constant(np.float32(0.02)), n.constant(np.uint8(120))
        h = n.add("DequantizeLinear", n.add("QuantizeLinear", "x", scale, zero), scale, zero)
        for i in range(1200):
            h = n.add(("Sin", "Cos")[i % 2], h)
        boardsmith.export(from_onnx(n.model(h)), self.path)

    def test_views(self):
        """A view of a part of a tensor is refused: it would be the whole."""
        shape, part = relax.ShapeExpr([2]), tirx.IntImm("int64", 16)
        self.refused(function((8,), lambda x: relax.op.memory.view(x, shape, "float32", part)), "memory.view")

    def test_same_bytes(self):
        """Two exports of one network are equal, and leave no other file."""
        archives = []
        for _ in range(2):
            boardsmith.export(from_onnx(networks.residual()), self.path)
            archives.append(self.path.read_bytes())
        self.assertEqual(archives[0], archives[1])
        self.assertEqual([p.name for p in Path(self.folder.name).iterdir()], ["net.tar"])

    def test_pool(self):
        """No network's pool is much larger than what its largest step needs."""
        for name, network in networks.NETWORKS.items():
            report = boardsmith.export(from_onnx(network()), self.path)
            self.assertLessEqual(report.workspace, 1.1 * report.peak, name)

    def test_inlined(self):
        """Padding and element-wise steps need no memory of their own: the pool holds the tensor between both."""
        report = boardsmith.export(from_onnx(networks.conv()), self.path)
        self.assertEqual(report.operators, 2)
        self.assertEqual(report.workspace, 6 * 5 * 8 * 4)

    def test_pad(self):
        """Zeros around an image are the convolution's padding; other values, and zeros between images, stay."""
        for around, value, operators in (((0, 0, 1, 2, 0, 0, 3, 0), 0, 1), ((0, 0, 1, 1, 0, 0, 1, 1), 2, 2),
                                         ((0, 1, 0, 0, 0, 0, 0, 0), 0, 2), ((0, 0, 1, 0, 0, 0, -1, 0), 0, 2)):
            n = networks.Network("pad", x=(1, 2, 6, 5))
            h = n.add("Pad", "x", n.constant(np.array(around, np.int64)), n.constant(np.float32(value)))
            w = n.weight(4, 2 + around[1], 3, 3)
            model = n.model(n.add("Conv", h, w, kernel_shape=[3, 3], pads=[1, 0, 0, 1], strides=[1, 2]))
            report = boardsmith.frontends.export_onnx(model, self.path)
            self.assertTrue(report.verdict.verified or min(around) < 0, report.verdict)  # which the evaluator lacks
            self.assertEqual(report.operators, operators, around)

    def test_side_by_side(self):
        """Results that have operands or padding in common are summed side by side, as many as divide their number."""
        for channels, filters, group, sums in ((8, 8, 1, 4), (3, 6, 1, 3), (4, 10, 1, 2), (4, 7, 1, 1), (6, 6, 6, 3)):
            n = networks.Network("sums", x=(1, channels, 5, 5))
            boardsmith.frontends.export_onnx(n.model(n.conv("x", channels, filters, group=group)), self.path)
            source = self.members()["./codegen/host/src/net_lib1.c"]
            self.assertIn(f"_ptr[{sums}];", source, (channels, filters, group))

    def test_rounds(self):
        """A sum over several elements is one expression: TVM would read its old value for each of two."""
        n = networks.Network("rounds", x=(1, 3, 8, 6))
        h = n.add("MaxPool", "x", kernel_shape=[2, 3], strides=[2, 3])
        report = boardsmith.frontends.export_onnx(n.model(n.add("ReduceSum", h, n.constant(np.array([2])))), self.path)
        self.assertTrue(report.verdict.verified, report.verdict)

    def test_names(self):
        """Tensors keep their names and order, and have shapes in the metadata."""
        n = networks.Network("names", **{"b": (2, 3), "a": (2, 3)})
        n.add("Sub", "b", "a", to="7")
        model = n.model("7")
        boardsmith.export(from_onnx(model), self.path, input_names=["b", "workspace"], output_names=["7"])
        header = self.members()["./codegen/host/include/tvmgen_net.h"]
        macros = re.findall(r"#define (\w+)", header)
        self.assertEqual(len(macros), len(set(macros)), header)
        boardsmith.export(from_onnx(model), self.path, input_names=["b", "a"], output_names=["7"])
        members = self.members()
        main = json.loads(members["./metadata.json"])["modules"]["net"]["memory"]["functions"]["main"][0]
        self.assertEqual(main["outputs"], {"tensor_7": {"dtype": "float32", "shape": [2, 3], "size": 24}})
        header = members["./codegen/host/include/tvmgen_net.h"]
        self.assertLess(header.index("void* b;"), header.index("void* a;"))
        boardsmith.export(from_onnx(model), self.path, input_names=["unix", "INT8.MAX"], output_names=["asm"])
        header = self.members()["./codegen/host/include/tvmgen_net.h"]
        self.assertEqual(re.findall(r"void\* (\w+);", header), ["tensor_unix", "tensor_INT8_MAX", "tensor_asm"])

    def test_result_is_input(self):
        """A result of ONNX that is an input is copied, and has a name of its own."""
        n = networks.Network("pass", **{"/ü.1": (2, 3)})
        n.add("MatMul", "/ü.1", n.weight(3, 3), to="/m/y")
        model = n.model("/m/y")
        model.graph.output.append(model.graph.input[0])
        networks.onnx.save(model, self.path.with_suffix(".onnx"))
        report = boardsmith.frontends.from_onnx(self.path.with_suffix(".onnx"), self.path)
        self.assertEqual([t.name for t in report.outputs], ["tensor_/m/y", "tensor_/ü.1_output"])
        self.assertIn("void* tensor_____1;", self.members()["./codegen/host/include/tvmgen_net.h"])
        source = self.members()["./codegen/host/src/net_lib1.c"]
        self.assertIn("memcpy(output1_var, input0_var, 24)", source)
        self.assertTrue(all(re.fullmatch(r"[\w*, ]*", p) for p in re.findall(r"TVM_DLL \w+ \w+\((.*)\) {", source)))

    def test_params(self):
        """Parameters become constants. A value that is of none, or of another type or shape, is refused."""
        bb = relax.BlockBuilder()
        x, w = (relax.Var(n, relax.TensorType((2, 2), "float32")) for n in "xw")
        with bb.function("main", [x, w]):
            bb.emit_func_output(bb.emit(relax.op.add(x, w)))
        eye = np.eye(2, dtype="float32")
        for params, fault in [
            ({"w": eye, "v": eye}, "params: main has no parameter v; it has x, w"),
            ({"w": eye[:1]}, "params: w is float32 (1, 2), not float32 (2, 2)"),
            ({"w": np.eye(2)}, "params: w is float64 (2, 2), not float32 (2, 2)"),
            ({"w": eye.astype(">f4").byteswap()}, "params: w is >f4 (2, 2), not float32 (2, 2)"),
            ({"w": None}, "params: w is object (), not float32 (2, 2)"),
            ([eye], "params has no names: it maps each parameter's name to its value"),
            ({"main": [eye, eye, eye]}, "params: 3 values for 2 parameters of main"),
        ]:
            with self.assertRaises(boardsmith.ExportError) as raised:
                boardsmith.export(bb.get(), self.path, params=params)
            self.assertEqual(str(raised.exception), fault)
        for params in ({"w": eye}, {"main": [eye]}, {"w": tvm.runtime.tensor(eye)}, {"w": eye.T}):
            report = boardsmith.export(bb.get(), self.path, params=params)
            self.assertEqual([t.name for t in report.inputs], ["x"])
            self.assertEqual(report.constants, 16)

    def test_plain_c(self):
        """The C calls nothing of TVM, and keeps constants in flash."""
        boardsmith.export(from_onnx(networks.pooling()), self.path)
        source = self.members()["./codegen/host/src/net_lib1.c"]
        for word in ("TVMBackend", "tvm_ffi", "DLTensor"):
            self.assertNotIn(word, source)
        self.assertIn("static const float constant_0[", source)

    def test_integers(self):
        """A quantized network has int8 weights, and only softmax computes in floating point."""
        report = boardsmith.export(from_onnx(networks.int8_convolutional()), self.path)
        self.assertRegex(str(report.floats), r"^\('nn.softmax \(\w+\)',\)$")
        source = self.members()["./codegen/host/src/net_lib1.c"]
        self.assertEqual(re.findall(r"static const (?:float|int64_t) \w+\[(\d+)", source), [])
        pattern = r"TVM_DLL int32_t tvmgen_net_((?:conv|dense|mean|max)\w*\([^)]*\) {.*?^})"
        for body in re.findall(pattern, source, re.M | re.S):
            self.assertNotIn("float", body)
        weights = 8 * 2 * 9 + 8 * 9 + 12 * 8 + 6 * 12
        self.assertLess(report.constants, weights + (8 + 8 + 12 + 6) * 8 + 16)

    def test_real_bias(self):
        """A convolution with a bias that is not quantized computes with integers."""
        n = networks.Network("bias", x=(1, 3, 4, 4))
        model = networks.Quantizer(n.model(n.add("LeakyRelu", n.conv("x", 3, 4), alpha=0.25))).run()
        model.graph.initializer.append(networks.numpy_helper.from_array(np.ones(4, np.float32), "real"))
        next(node for node in model.graph.node if node.op_type == "Conv").input[2] = "real"
        boardsmith.export(from_onnx(model), self.path)
        self.assertIn("conv_int8", self.members()["./codegen/host/src/net_lib1.c"])

    def test_between_integers(self):
        """A long chain before a quantized operator, a mean of all elements, and a limit of another form."""
        def quantized(n, value, zero=100):
            scale, zeros = n.constant(np.float32(0.02)), n.constant(np.asarray(zero, np.uint8))
            return n.add("DequantizeLinear", n.add("QuantizeLinear", value, scale, zeros), scale, zeros)

        n = networks.Network("between", x=(1, 2, 3, 4))
        h = quantized(n, "x")
        for i in range(700):
            h = n.add(("Sin", "Cos")[i % 2], h)
        h = quantized(n, h)
        h = quantized(n, n.add("Add", h, h))
        report = boardsmith.export(from_onnx(n.model(quantized(n, n.add("ReduceMean", h)))), self.path)
        self.assertRegex(str(report.floats), r"^\('sin \(\w+\)', 'mean \(\w+\)'\)$")

        for factor, count in ((tirx.const(1, "float32"), 0), (tirx.const(-3, "float32"), 1)):
            bb = relax.BlockBuilder()
            x = relax.Var("x", relax.TensorType((2, 4), "float32"))
            with bb.function("main", [x]):
                with bb.dataflow():
                    scale, zero = relax.const(np.float32(0.02)), relax.const(np.int8(0))
                    y = bb.emit(relax.op.quantize(x, scale, zero, out_dtype="int8"))
                    y = bb.emit(relax.op.dequantize(y, scale, zero))
                    y = bb.emit(relax.op.add(y, y))
                    bound = relax.const(np.float32(-1))
                    y = bb.emit_te(lambda x, y, factor=factor: te.compute(
                        x.shape, lambda *i: te.max(x[i] * factor, y[()])), y, bound, primfunc_name_hint="limit")
                    out = bb.emit_output(bb.emit(relax.op.quantize(y, scale, zero, out_dtype="int8")))
                bb.emit_func_output(out)
            self.assertEqual(len(boardsmith.export(bb.get(), self.path).floats), count)

    def test_average_pool(self):
        """Pooling with padding computes with integers, and rounds exact halves to even."""
        boardsmith.export(from_onnx(networks.int8_pooling()), self.path)
        source = self.members()["./codegen/host/src/net_lib1.c"]
        bodies = re.findall(r"TVM_DLL int32_t tvmgen_net_mean\w*\([^)]*\) {.*?^}", source, re.M | re.S)
        self.assertEqual(len(bodies), 3)
        for body in bodies:
            self.assertNotIn("float", body)
        if not tvm.runtime.enabled("llvm"):
            self.skipTest("this TVM has no LLVM")
        n = networks.Network("halves", x=(1, 1, 20, 30))
        pool = n.add("AveragePool", "x", kernel_shape=[2, 3], strides=[2, 3])
        quantizer = networks.Quantizer(n.model(n.add("LeakyRelu", pool, alpha=0.25)))
        quantizer.values[pool] = quantizer.values["x"]  # equal scales
        model = quantizer.run()
        del model.graph.node[4:]  # what follows the quantized pool
        model.graph.output[0].name = model.graph.node[-1].output[0]
        scale, zero = (float(x) for x in quantizer.scales["x"])
        q = np.random.default_rng(3).integers(-128, 128, size=(1, 1, 20, 30))
        module = boardsmith.quantized.rewrite(from_onnx(model))[0]
        machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
        got = machine["main"](tvm.runtime.tensor(((q - zero) * scale).astype(np.float32))).numpy()
        sums = (q - int(zero)).reshape(10, 2, 10, 3).sum(axis=(1, 3))
        self.assertGreater(np.sum(sums % 6 == 3), 5)
        np.testing.assert_array_equal(got[0, 0], np.rint(sums / 6) + int(zero))

    def test_sums(self):
        """Channels of any scales and biases are at most one unit off, or are not computed with integers."""
        random, computed = np.random.default_rng(5), 0
        for size, zero in itertools.product((1, 9, 700), (0, -128, 77, 255)):
            for spread in (0, 3, 6, 9, 15):
                q = random.integers(-127, 128, size=(8, size))
                steps = 10.0 ** (random.uniform(-spread, spread, size=8) - 3)
                bias = random.normal(size=8, scale=10.0 ** random.uniform(-3, 5))
                if (sums := boardsmith.quantized._sums(q, steps, bias, zero)) is None:
                    self.assertGreater(spread, 0)
                    continue
                computed += 1
                low, high = (0, 255) if zero > 127 else (-128, 127)
                x = random.integers(low, high + 1, size=(50, size))
                x[:2] = [[low], [high]]
                total = x @ sums.weights.astype(np.int64).T + sums.offsets
                self.assertLess(np.abs(total).max(), 2**31)
                got = (total * sums.factors.astype(np.int64) + (1 << (sums.shift - 1))) >> sums.shift
                self.assertLess(np.abs(got).max(), 2**31 - 255)
                want = np.rint(((x - zero) @ q.T) * steps + bias)
                off = np.abs(got.clip(-300, 300) - want.clip(-300, 300))
                self.assertLessEqual(off.max(), 1, (size, zero, spread))
        self.assertGreater(computed, 25)

    def test_odd_scales(self):
        """A channel without influence stays among the integers. Scales that no factor fits, do not."""
        scale = np.array([1e-2, 1e-12, 0])
        for steps, bias in ((scale, [1, 1, 1]), (scale, [0, 1e6, -1e6]), (scale * 1e-9, [0, 0, 0])):
            self.assertIsNotNone(boardsmith.quantized._sums(np.full((3, 2, 1), 99), steps, np.array(bias, float), 7))
        for steps, bias in (([1, 1e9], [0, 0]), ([1, -1], [0, 0]), ([1, math.nan], [0, 0]), ([1, 1], [0, math.nan])):
            self.assertIsNone(boardsmith.quantized._sums(np.full((2, 2), 99), np.array(steps), np.array(bias), 7))
        for scale in (1e9, 1):
            n = networks.Network("odd", x=(1, 4))
            quantizer = networks.Quantizer(n.model(n.add("Add", "x", "x")))
            model = quantizer.run()
            for w in model.graph.initializer:
                if w.name == "x_0":
                    w.CopyFrom(networks.numpy_helper.from_array(np.float32(scale), "x_0"))
            boardsmith.export(from_onnx(model), self.path)
            self.assertEqual("add_int8" in self.members()["./codegen/host/src/net_lib1.c"], scale == 1)

    def test_object(self):
        """With target llvm, operators are an object for another architecture, and two exports are equal."""
        target = {"kind": "llvm", "mtriple": "thumbv7em-none-eabi", "mcpu": "cortex-m4", "mfloat-abi": "soft"}
        if not tvm.runtime.enabled("llvm"):
            self.skipTest("this TVM has no LLVM")
        archives = []
        for _ in range(2):
            boardsmith.export(from_onnx(networks.conv()), self.path, target=target)
            archives.append(self.path.read_bytes())
        self.assertEqual(archives[0], archives[1])
        with tarfile.open(self.path) as tar:
            elf = tar.extractfile("./codegen/host/lib/net_lib0.o").read()
        self.assertEqual(elf[:4] + elf[18:20], b"\x7fELF\x28\0")  # EM_ARM
        self.assertIn(b"tvmgen_net_fused_conv2d", elf)
        boardsmith.export(from_onnx(networks.scatter()), self.path, target=target)
        with tarfile.open(self.path) as tar:
            self.assertNotIn(b"TVMBackend", tar.extractfile("./codegen/host/lib/net_lib0.o").read())

    def test_database(self):
        """An operator that a database has a schedule for gets it; others keep the default one."""
        database = meta_schedule.database.MemoryDatabase()
        add_record(database)
        module = from_onnx(networks.dense())
        sources = []
        for options in ({}, {"database": database}):
            boardsmith.export(module, self.path, **options)
            sources.append(self.members()["./codegen/host/src/net_lib1.c"].split("TVM_DLL"))
        plain, tuned = sources
        self.assertEqual(sum(x != y for x, y in zip(plain, tuned)), 1)
        self.assertGreater(len("".join(tuned)), len("".join(plain)))

    def test_intrinsics(self):
        """Functions of C for which TVM has no name are called, or refused by the operator's name."""
        boardsmith.export(function(build=relax.op.abs), self.path)
        self.assertIn("fabsf(", self.members()["./codegen/host/src/net_lib1.c"])
        self.path.unlink()
        for step in ("_build", "_passes"):
            with unittest.mock.patch.object(boardsmith.kernels, step, side_effect=tvm.error.InternalError("no name")):
                self.refused(function(), "relu", "no name")

    def test_no_numbers(self):
        """Infinity and what is no number have C, whatever has their names in TVM's."""
        for dtype, name in (("float32", "__builtin_inff()"), ("float64", "__builtin_inf()")):
            infinity, none = (tirx.FloatImm(dtype, v) for v in (math.inf, math.nan))
            boardsmith.export(function(dtype=dtype, build=lambda x: relax.BlockBuilder.current().emit_te(
                lambda x: te.compute(
                    x.shape, lambda nan, inf: x[nan, inf] + tirx.Select(x[nan, inf] < -infinity, infinity, none)),
                x, primfunc_name_hint="select")), self.path)  # fmt: skip
            source = self.members()["./codegen/host/src/net_lib1.c"]
            self.assertRegex(source, r"for \(int32_t inf = 0; inf < 4; \+\+inf\)")
            self.assertEqual(set(re.findall(r"\w*(?:inf|nan)f?\(\)?", source)), {name}, source)

    def test_no_code(self):
        """The operator for which TVM has no code is named, with the cause, whichever step of TVM fails."""
        op = relax.op
        for dtype, build, *words in (
            ("int64", lambda x: op.power(x, x), "relax.power of int64 (", "only applies to float", "convert"),
            ("uint8", op.negative, "relax.negative of uint8 (", "negative value"),
            ("int32", lambda x: op.negative(op.atan2(x, x)), "atan2", "calls tirx.atan2"),
            ("int8", lambda x: op.astype(op.logical_not(op.abs(x)), "int8"), "relax.logical_not of int8 ("),
            ("float32", lambda x: op.median(x, 0), "median", "calls tvm.contrib.sort.argsort, a function of TVM's"),
        ):
            self.refused(function(build=build, dtype=dtype), *words)
        self.refused(function(build=lambda x: op.quantize(x, relax.const(0.0), relax.const(0, "int8"), 0)),
                     "relax.quantize of float32, int8", "zero")  # fmt: skip
        boardsmith.export(function(build=lambda x: op.maximum(x, x), dtype="bool"), self.path)

    def test_temporaries(self):
        """Memory that TVM's C has no place for is in the pool, however small. Offsets of arguments are 0."""
        bounds = relax.const(np.array([1, 2, 3], np.float32))
        report = boardsmith.export(function(build=lambda x: relax.op.bucketize(x, bounds)), self.path)
        self.assertEqual(report.workspace, 16)
        source = self.members()["./codegen/host/src/net_lib1.c"]
        self.assertIn("int64_t* temporary1, int64_t* temporary2) {", source)
        self.assertNotIn("elem_offset", source)

    def test_command(self):
        """The command keeps ONNX's names, and reports what it cannot read."""
        model = Path(self.folder.name) / "n.onnx"
        once = networks.Network("once", x=(2, 3))
        once.add("OneHot", once.cast("x", networks.TensorProto.INT64), once.constant(np.array(3, np.int64)),
                 once.constant(np.float32([0, 1])), to="y")
        for network, names, code in ((networks.conv(), "image-in", 0), (det(), "Det", 1),
                                     (once.model("y"), "output y is float64 as TVM computes it, not float32", 1)):
            networks.onnx.save(network, model)
            run = subprocess.run([sys.executable, "-m", "boardsmith", model, self.path], capture_output=True, text=True)
            self.assertEqual(run.returncode, code, run.stderr)
            self.assertIn(names, self.members()["./metadata.json"] if code == 0 else run.stderr)
            self.assertNotIn("Traceback", run.stderr)

    def command(self, *arguments):
        """Runs the command in this process, and returns its exit code and what it printed."""
        printed = io.StringIO()
        with unittest.mock.patch("sys.argv", ["boardsmith", *map(str, arguments)]), \
                contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):  # fmt: skip
            return boardsmith.__main__.main(), printed.getvalue()

    def test_params_option(self):
        """Values of a file become constants of the network."""
        model, values = (Path(self.folder.name) / name for name in ("n.onnx", "values.npz"))
        networks.onnx.save(networks.two_inputs(), model)
        np.savez(values, b=np.ones((1, 6), np.float32))
        code, printed = self.command(model, self.path, "--params", values)
        self.assertEqual(code, 0, printed)
        self.assertIn("verified: ", printed)
        header = self.members()["./codegen/host/include/tvmgen_net.h"]
        self.assertEqual(re.findall(r"void\* (\w+);", header), ["a", "y"])
        np.savez(values, c=np.ones((1, 6), np.float32))
        code, printed = self.command(model, self.path, "--params", values)
        self.assertEqual((code, printed.count("\n")), (1, 1), printed)
        self.assertIn("the network has no input c; it has b, a", printed)

    def test_target_option(self):
        """The target is JSON or a name. One that TVM does not know is one line of error."""
        model = Path(self.folder.name) / "n.onnx"
        networks.onnx.save(networks.dense(), model)
        target = {"kind": "llvm", "mtriple": "thumbv7em-none-eabi", "mcpu": "cortex-m4", "mfloat-abi": "soft"}
        if tvm.runtime.enabled("llvm"):
            code, printed = self.command(model, self.path, "--target", json.dumps(target))
            self.assertEqual(code, 0, printed)
            with tarfile.open(self.path) as tar:
                self.assertIn("./codegen/host/lib/net_lib0.o", tar.getnames())
        for text, words in (("{", "double quotes"), ("cuda", "target cuda is not supported"), ("none", "target none")):
            code, printed = self.command(model, self.path, "--target", text)
            self.assertEqual((code, printed.count("\n")), (1, 1), printed)
            self.assertIn(words, printed)

    def test_database_option(self):
        """An operator gets the schedule that a folder of records has for it."""
        model, folder = Path(self.folder.name) / "n.onnx", Path(self.folder.name) / "records"
        networks.onnx.save(networks.dense(), model)
        folder.mkdir()
        add_record(meta_schedule.database.JSONDatabase(work_dir=str(folder)))
        sources = []
        for more in ((), ("--database", folder)):
            code, printed = self.command(model, self.path, *more)
            self.assertEqual(code, 0, printed)
            sources.append(self.members()["./codegen/host/src/net_lib1.c"].split("TVM_DLL"))
        self.assertEqual(sum(x != y for x, y in zip(*sources)), 1)

    def test_package(self):
        """The package's command is that of the module; the extra for TVM has versions that work together."""
        root = Path(boardsmith.__file__).parents[1]
        project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
        self.assertEqual(list(project["scripts"]), ["boardsmith-export"])
        entry = importlib.metadata.EntryPoint("", project["scripts"]["boardsmith-export"], "console_scripts")
        self.assertIs(entry.load(), boardsmith.__main__.main)
        page = (root.parent / "docs" / "tvm.md").read_text()
        self.assertIn("pip install " + " ".join(project["optional-dependencies"]["tvm"][:2]), page)

    def test_unreadable(self):
        """A file that is no network is one line of error that names it."""
        for name, text in (("text.onnx", b"text"), ("empty.onnx", b""), ("text.pt2", b"text"), ("none.onnx", None),
                           ("none.pt2", None)):  # fmt: skip
            model = Path(self.folder.name) / name
            if text is not None:
                model.write_bytes(text)
            run = subprocess.run([sys.executable, "-m", "boardsmith", model, self.path], capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (1, "", 1), run.stderr)
            if "No module named 'torch'" not in run.stderr:
                self.assertIn(name, run.stderr)

    def test_dynamic(self):
        """A symbolic dimension is named."""
        n = tvm.tirx.Var("batch", "int64")
        self.refused(function((n, 4)), "x", "batch", "dynamic shape")

    def test_empty(self):
        """A tensor without elements is named."""
        self.refused(function((0, 4)), "x", "without elements")

    def test_data_type(self):
        """A data type without C is named."""
        self.refused(function(dtype="float16"), "float16", "x")

    def test_packed(self):
        """A call of a packed function is named with the function."""
        def build(x):
            return relax.op.call_dps_packed("my.function", [x], relax.TensorType((2, 4), "float32"))
        self.refused(function(build=build), "call_dps_packed", "my.function")

    def test_mean_of_scattered(self):
        """A reduction that TVM computes otherwise than ONNX and PyTorch is named."""
        at = relax.const(np.zeros((2, 4), np.int64))
        self.refused(function(build=lambda x: relax.op.scatter_elements(x, at, x, 0, "mean")), "mean")

    def test_control_flow(self):
        """An if is named."""
        bb = relax.BlockBuilder()
        c, x = relax.Var("c", relax.TensorType((), "bool")), relax.Var("x", relax.TensorType((2,), "float32"))
        branch = relax.If(c, relax.op.nn.relu(x), relax.op.negative(x))
        with bb.function("main", [c, x]):
            bb.emit_func_output(bb.emit(branch, "chosen"))
        self.refused(bb.get(), "chosen", "control flow")

    def test_other_faults(self):
        """Wrong arguments are refused."""
        self.refused(tvm.IRModule({}), "main")
        self.refused(function(), "cuda", target="cuda")
        self.refused(function(), "Net", name="Net")
        self.refused(function(), "2 names", input_names=["a", "b"])
        self.refused(function(), "same name", input_names=["y-1"], output_names=["y_1"])
        self.refused(function(), "same name", input_names=["y"], output_names=["y"])
        self.refused(function(build=lambda x: relax.Tuple([])), "no tensor")
        for hint in ("run", None):
            self.refused(function(build=lambda x: relax.BlockBuilder.current().emit_te(
                lambda x: te.compute(x.shape, lambda *i: x[i] + 1), x, primfunc_name_hint=hint)), hint or "<lambda>",
                "name in C")  # fmt: skip

    def test_old_tvm(self):
        """A TVM that is too old is refused by its version."""
        with unittest.mock.patch.object(boardsmith.lowering, "tirx", object()):
            self.refused(function(), tvm.__version__, "0.26")

    def test_failed_write(self):
        """A missing folder is named. One that cannot be written is an error of the system, and keeps an archive."""
        with self.assertRaisesRegex(OSError, "net.tar: .*missing is not a folder$"):
            boardsmith.export(function(), Path(self.folder.name) / "missing" / "net.tar")
        self.path.write_bytes(b"old")
        with unittest.mock.patch("os.fsync", side_effect=OSError("full")), self.assertRaises(OSError):
            boardsmith.export(function(), self.path)
        self.assertEqual(self.path.read_bytes(), b"old")
        self.assertEqual([p.name for p in Path(self.folder.name).iterdir()], ["net.tar"])


if __name__ == "__main__":
    unittest.main()
