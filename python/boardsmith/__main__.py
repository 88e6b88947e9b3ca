"""python -m boardsmith model.onnx kws.tar"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import ExportError, Report, export


def from_onnx(path: Path, archive: Path, name: str | None = None) -> Report:
    """Exports an ONNX file. Tensors keep their names."""
    import onnx
    import tvm
    from tvm.relax.frontend.onnx import from_onnx as read

    model = onnx.load(path)
    weights = {i.name for i in model.graph.initializer}
    inputs = [i.name for i in model.graph.input if i.name not in weights]
    outputs = [o.name for o in model.graph.output]
    try:
        module = read(model)
    except (tvm.error.OpNotImplemented, tvm.error.OpAttributeUnImplemented) as error:
        raise ExportError(str(error).strip()) from error
    return export(module, archive, name=name, input_names=inputs, output_names=outputs)


def main() -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m boardsmith", description=__doc__)
    parser.add_argument("model", type=Path, help="an ONNX file")
    parser.add_argument("archive", type=Path, help="the archive to write, such as kws.tar")
    parser.add_argument("--name", help="the model's name in C; default: that of the archive")
    arguments = parser.parse_args()
    try:
        report = from_onnx(arguments.model, arguments.archive, arguments.name)
    except (ExportError, OSError, ImportError) as error:
        print(f"boardsmith: error: {error}", file=sys.stderr)
        return 1
    print(f"{report.path}: {report.operators} operators, {report.constants} bytes of constants, "
          f"{report.workspace} bytes of workspace")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
