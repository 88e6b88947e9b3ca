"""python -m boardsmith model.onnx kws.tar"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import ExportError, Report, export, plan


def from_onnx(path: Path, archive: Path, name: str | None = None) -> Report:
    """Exports an ONNX file. Tensors keep their names; a result that is an input has another one."""
    import onnx
    from tvm.relax.frontend.onnx import from_onnx as read

    model = _readable(path, "ONNX file", lambda: onnx.load(path))
    weights = {i.name for i in model.graph.initializer}
    inputs = [i.name for i in model.graph.input if i.name not in weights]
    outputs = [o.name + "_output" if o.name in inputs else o.name for o in model.graph.output]
    module = _readable(path, "network that TVM reads", lambda: read(model))
    for output, kind in zip(model.graph.output, plan.fields(plan.type_of(module["main"].body.body))):
        declared, got = output.type.tensor_type.elem_type, str(getattr(kind, "dtype", ""))
        want = str(onnx.helper.tensor_dtype_to_np_dtype(declared)) if declared else got
        if got and got != want:
            raise ExportError(f"{path}: TVM computes output {output.name} as {got}, not {want}: "
                              "put a Cast before it")  # fmt: skip
    return export(module, archive, name=name, input_names=inputs, output_names=outputs)


def from_torch(path: Path, archive: Path, name: str | None = None) -> Report:
    """Exports a file that torch.export.save has written. Inputs keep their names."""
    import torch
    from tvm.relax.frontend.torch import from_exported_program as read

    if not path.exists():  # PyTorch's error names no file
        raise FileNotFoundError(f"no such file: {path}")
    program = _readable(path, "file of torch.export.save", lambda: torch.export.load(path))
    signature = program.run_decompositions({}).graph_signature  # before that, it lists no changes
    if kept := [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]:
        raise ExportError(f"the network changes {', '.join(kept)}, which no archive keeps between runs: "
                          "call eval() before torch.export, or make it an input and an output")  # fmt: skip
    return export(_readable(path, "network that TVM reads", lambda: read(program)), archive, name=name)


def _readable(path: Path, what: str, read: Callable[[], Any]) -> Any:
    """Returns what read does. A frontend raises errors of many classes for a file that it cannot read."""
    try:
        return read()
    except (OSError, ImportError):
        raise
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ExportError(f"{path} is no {what}: {reason}") from error


def main() -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m boardsmith", description=__doc__)
    parser.add_argument("model", type=Path, help="an ONNX file, or a file of torch.export.save, which ends in .pt2")
    parser.add_argument("archive", type=Path, help="the archive to write, such as kws.tar")
    parser.add_argument("--name", help="the model's name in C; default: that of the archive")
    arguments = parser.parse_args()
    read = from_torch if arguments.model.suffix == ".pt2" else from_onnx
    try:
        report = read(arguments.model, arguments.archive, arguments.name)
    except (ExportError, OSError, ImportError) as error:
        print(f"boardsmith: error: {error}", file=sys.stderr)
        return 1
    print(f"{report.path}: {report.operators} operators, {report.constants} bytes of constants, "
          f"{report.workspace} bytes of workspace")  # fmt: skip
    if report.floats:
        print(f"quantized, and computed in float32: {', '.join(report.floats)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
