"""Models in plain C by generators from PyPI: generators.py FOLDER MODEL...

Writes a folder for each model (forest, network, convolution, dense), with model.json and its C, and samples.npz:
inputs and the outputs that the package's own reference computes, one sample after another. Needs emlearn,
scikit-learn, emx-onnx-cgen, onnx and bakenn.
"""

import json
import os
import shutil
import subprocess
import sys

import numpy as np

SAMPLES = 100


def describe(folder, name, **fields):
    fields.update(name=name)
    with open(os.path.join(folder, "model.json"), "w") as f:
        json.dump(fields, f, indent=2)


def samples(folder, **arrays):
    np.savez(os.path.join(folder, "samples.npz"), **arrays)


def tensor(kind, name, dtype, shape, **more):
    return {kind: name, "dtype": dtype, "shape": list(shape), **more}


def classes(kind):
    from sklearn.datasets import make_classification

    x, y = make_classification(n_samples=300, n_features=8, n_informative=6, n_classes=3, random_state=1)
    return (x * 100).astype(np.int16) if kind == "forest" else x.astype(np.float32), y


def emlearn_model(folder, kind, element, model, **convert):
    import emlearn

    x, y = classes(kind)
    model.fit(x, y)
    converted = emlearn.convert(model, method="inline", **convert)
    converted.save(file=os.path.join(folder, kind + ".h"), name=kind)
    include = os.path.join(folder, "emlearn")
    os.makedirs(include)
    for name in os.listdir(emlearn.includedir):
        if name.endswith(".h"):
            shutil.copy(os.path.join(emlearn.includedir, name), include)
    describe(folder, "emlearn_" + kind, headers=[kind + ".h", "emlearn"], include=[kind + ".h"],
             function=kind + "_predict", generator="emlearn " + emlearn.__version__,
             arguments=[tensor("input", "features", element, [8]), {"value": "8"}],
             returns={"output": "class", "dtype": "int32"})
    samples(folder, features=x[:SAMPLES], **{"class": np.asarray(converted.predict(x[:SAMPLES]), np.int32)})


def forest(folder):
    from sklearn.ensemble import RandomForestClassifier

    emlearn_model(folder, "forest", "int16", RandomForestClassifier(n_estimators=5, max_depth=4, random_state=1),
                  dtype="int16_t")


def network(folder):
    from sklearn.neural_network import MLPClassifier

    emlearn_model(folder, "network", "float32", MLPClassifier(hidden_layer_sizes=(8,), max_iter=50, random_state=1),
                  return_type="classifier")


def convolution(folder):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(1)

    def weight(name, *shape):
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) * 0.3, name)

    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
         helper.make_node("Relu", ["c"], ["r"]),
         helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
         helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("MatMul", ["f", "d"], ["y"])],
        "cnn", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [weight("w", 4, 1, 3, 3), weight("b", 4), weight("d", 64, 10)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    file = os.path.join(folder, "cnn.onnx")
    onnx.save(model, file)
    subprocess.run([os.path.join(os.path.dirname(sys.executable), "emx-onnx-cgen"), "compile", "--model-name", "cnn",
                    "--large-temp-threshold", "0", "--large-weight-threshold", "0", file, os.path.join(folder, "cnn.c")],
                   check=True, stdout=subprocess.DEVNULL)
    describe(folder, "cnn", headers=["cnn.c"], include=["cnn.c"], function="cnn", generator="emx-onnx-cgen",
             arguments=[tensor("input", "x", "float32", [1, 1, 8, 8], **{"pass": "array"}),
                        tensor("output", "y", "float32", [1, 10], **{"pass": "array"})])
    x = rng.standard_normal((SAMPLES, 1, 1, 8, 8)).astype(np.float32)
    reference = ReferenceEvaluator(model)
    samples(folder, x=x, y=np.stack([reference.run(None, {"x": sample})[0] for sample in x]))


def dense(folder):
    import bakenn

    rng = np.random.default_rng(2)

    def layer(outputs, inputs, relu):
        weight = rng.standard_normal((outputs, inputs)).astype(np.float32) * 0.4
        return bakenn.FloatLinear(weight, rng.standard_normal(outputs).astype(np.float32) * 0.1, relu, f"l{outputs}")

    model = bakenn.FloatMLP((layer(8, 6, True), layer(3, 8, False)), "mlp8")
    graph = bakenn.quantize_ptq(model, rng.standard_normal((64, 6)).astype(np.float32))
    compiled = bakenn.compile(graph, folder, model_name="mlp8")
    with open(os.path.join(folder, "bknn_mlp8_manifest.json")) as f:
        manifest = json.load(f)
    parts = ["", "_kernels", "_weights"]
    describe(folder, "mlp8", sources=[f"bknn_mlp8{part}.c" for part in parts],
             headers=[f"bknn_mlp8{part}.h" for part in parts], include=["bknn_mlp8.h"], function="bknn_mlp8_infer",
             generator="bakenn " + bakenn.__version__,
             arguments=[{"arena": "arena", "bytes": manifest["arena_bytes"], "align": manifest["arena_alignment"]},
                        tensor("input", "x", "int8", [1, 6]), tensor("output", "y", "int8", [1, 3])])
    x = rng.integers(-128, 128, (SAMPLES, 1, 6)).astype(np.int8)
    samples(folder, x=x, y=np.stack([bakenn.run_reference(compiled.plan, sample) for sample in x]))


for name in sys.argv[2:]:
    to = os.path.join(sys.argv[1], name)
    os.makedirs(to)
    globals()[name](to)
