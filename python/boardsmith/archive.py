"""The archive: C, header and metadata in Model Library Format 7, with the C interface."""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .check import Verdict
from .errors import ExportError
from .plan import DTYPES, Plan, Tensor, Value, c_name

VERSION = "0.1.0"

POOL = "global_workspace_0_var"  # the parameter for the pool

INCLUDES = """\
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "tvm/runtime/c_runtime_api.h"
"""

KEYWORDS = set("""auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool
true false asm typeof""".split())  # fmt: skip

# Macros of compilers, and of the headers that an archive's C includes.
MACRO = re.compile(r"unix|linux|i386|NULL|NAN|INFINITY|EOF|errno|math_errhandling|HUGE_VAL[FL]?"
                   r"|(FLT|DBL|LDBL|FP|M|TVM|DLPACK)_\w+|U?INT(PTR|MAX|_?(LEAST|FAST)?\d+)_(MAX|MIN|C)"
                   r"|(SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC)_(MAX|MIN)")  # fmt: skip


@dataclass(frozen=True)
class Report:
    """What an archive needs. All sizes are bytes."""

    path: Path
    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    workspace: int  # the pool of tensors between operators and of operators' temporaries
    peak: int  # the largest sum of what one operator needs of it: a lower bound of workspace
    constants: int
    operators: int
    floats: tuple[str, ...]  # operators that read quantized tensors and compute in float32
    verdict: Verdict  # whether the C computes what the network does


def _literal(x: np.generic) -> str:
    """Returns an element as C, exactly."""
    suffix = {"float32": "f", "int64": "LL", "uint64": "ULL", "uint32": "u"}.get(str(x.dtype), "")
    if np.issubdtype(x.dtype, np.floating):
        return f"{float(x).hex()}{suffix}" if np.isfinite(x) else "NAN" if np.isnan(x) else f"{x}INITY".upper()
    return f"{x}{suffix}" if int(x) != np.iinfo(np.int64).min else "INT64_MIN"


def _constant(index: int, array: np.ndarray) -> str:
    elements = [_literal(x) for x in array.astype("uint8" if array.dtype == bool else array.dtype).ravel()]
    lines = ",\n  ".join(", ".join(elements[i:i + 16]) for i in range(0, len(elements), 16))
    kind = DTYPES[str(array.dtype)][0]
    return ('__attribute__((section(".rodata.tvm"), aligned(16)))\n'
            f"static const {kind} constant_{index}[{array.size}] = {{\n  {lines}\n}};\n")  # fmt: skip


class Source:
    """Generates the C of a plan for a model's name."""

    def __init__(self, name: str, plan: Plan) -> None:
        self.name, self.plan = name, plan

    def header(self) -> str:
        """Returns the interface header (mlf.md §5)."""
        m, plan = self.name, self.plan
        lines = [f"#ifndef TVMGEN_{m.upper()}_H_", f"#define TVMGEN_{m.upper()}_H_", "#include <stdint.h>",
                 "#ifdef __cplusplus", 'extern "C" {', "#endif"]  # fmt: skip
        for t in plan.inputs + plan.outputs:
            lines.append(f"#define TVMGEN_{m.upper()}_{c_name(t.name).upper()}_SIZE {t.size}")
        for group, tensors in (("inputs", plan.inputs), ("outputs", plan.outputs)):
            lines += [f"struct tvmgen_{m}_{group} {{", *(f"  void* {c_name(t.name)};" for t in tensors), "};"]
        lines += [
            "// Runs the network once. Returns 0, or -1 if an operator fails. Not reentrant.",
            f"int32_t tvmgen_{m}_run(struct tvmgen_{m}_inputs* inputs, struct tvmgen_{m}_outputs* outputs);",
            f"#define TVMGEN_{m.upper()}_WORKSPACE_SIZE {plan.pool}",
            "#ifdef __cplusplus", "}", "#endif", f"#endif  // TVMGEN_{m.upper()}_H_", ""]  # fmt: skip
        return "\n".join(lines)

    def entry(self) -> str:
        """Returns the pool, and the function of the header, which passes it to main. Firmware of boardsmith that
        plans memory itself has its own pool in place of this file."""
        m, plan = self.name, self.plan
        parts = [INCLUDES, f"#include <tvmgen_{m}.h>\n\n", self._signature() + ";\n"]
        if plan.pool:
            parts.append('__attribute__((section(".bss.noinit.tvm"), aligned(16)))\n'
                         f"static uint8_t global_workspace[{plan.pool}];\n")  # fmt: skip
        arguments = [f"inputs->{c_name(t.name)}" for t in plan.inputs]
        arguments += [f"outputs->{c_name(t.name)}" for t in plan.outputs]
        arguments += ["global_workspace"] if plan.pool else []
        unused = "" if plan.inputs else "  (void)inputs;\n"
        parts.append(f"int32_t tvmgen_{m}_run(struct tvmgen_{m}_inputs* inputs, "
                     f"struct tvmgen_{m}_outputs* outputs) {{\n{unused}"
                     f"  return tvmgen_{m}___tvm_main__({', '.join(arguments)});\n}}\n")  # fmt: skip
        return "".join(parts)

    def operators(self, source: str) -> str:
        """Returns C of the operators, constants, and the function that calls the operators in order."""
        plan = self.plan
        parts = [INCLUDES, source, "\n"]
        parts += [_constant(i, a) for i, a in enumerate(plan.constants)]
        parts.append(self._signature() + " {\n")
        for step in plan.steps:
            arguments = ", ".join(self._address(v) for v in step.arguments)
            parts.append(f"  if (tvmgen_{self.name}_{step.kernel}({arguments}) != 0) {{\n    return -1;\n  }}\n")
        for i, (result, tensor) in enumerate(zip(plan.results, plan.outputs)):
            if result.space != "buffer" or plan.buffers[result.index].output != i:
                parts.append(f"  (void)memcpy(output{i}_var, {self._address(result)}, {tensor.size});\n")
        return "".join(parts) + "  return 0;\n}\n"

    def _signature(self) -> str:
        """Returns the head of the function that calls the operators, as TVM writes it (crt_abi.md §10)."""
        parameters = [f"void* input{i}_var" for i in range(len(self.plan.inputs))]
        parameters += [f"void* output{i}_var" for i in range(len(self.plan.outputs))]
        parameters += [f"uint8_t* {POOL}"] if self.plan.pool else []
        return f"TVM_DLL int32_t tvmgen_{self.name}___tvm_main__({', '.join(parameters)})"

    def _address(self, value: Value) -> str:
        if value.space != "buffer":
            return f"input{value.index}_var" if value.space == "input" else f"(void*)constant_{value.index}"
        buffer = self.plan.buffers[value.index]
        return f"(void*)({POOL} + {buffer.offset})" if buffer.output is None else f"output{buffer.output}_var"


def metadata(name: str, plan: Plan, kernels: list[str], target: str, exporter: str, checked: str) -> str:
    """Returns metadata.json. Beside TVM's fields, tensors have a shape, and the model an exporter and a verdict."""

    def tensors(group: list[Tensor]) -> dict[str, object]:
        return {t.name: {"dtype": t.dtype, "size": t.size, "shape": list(t.shape)} for t in group}

    main = {
        "device": 1, "workspace_size_bytes": plan.pool, "constants_size_bytes": plan.constant_bytes,
        "io_size_bytes": sum(t.size for t in plan.inputs + plan.outputs),
        "inputs": tensors(plan.inputs), "outputs": tensors(plan.outputs),
    }  # fmt: skip
    none = [{"device": 1, "workspace_size_bytes": 0}]
    functions = [{"function_name": f"tvmgen_{name}_{k}", "workspace": none} for k in kernels]
    model = {
        "model_name": name, "style": "full-model", "executors": ["aot"], "target": [target], "exporter": exporter,
        "checked": checked,
        "memory": {"functions": {"main": [main], "operator_functions": functions}},
    }  # fmt: skip
    return json.dumps({"version": 7, "modules": {name: model}}, indent=2, sort_keys=True) + "\n"


def sources(name: str, plan: Plan, code: str) -> dict[str, bytes]:
    """Returns the members with C of a plan, whose operators are in code."""
    source = Source(name, plan)
    return {
        f"codegen/host/include/tvmgen_{name}.h": source.header().encode(),
        f"codegen/host/src/{name}_lib0.c": source.entry().encode(),
        f"codegen/host/src/{name}_lib1.c": source.operators(code).encode(),
    }


def export(
    path: Path, name: str, plan: Plan, code: str, *, target: str, exporter: str, compare: Callable[..., Verdict],
    floats: tuple[str, ...] = (), binary: bytes | None = None, compared: str | None = None,
) -> Report:  # fmt: skip
    """Writes the archive of a plan, once its C was compared with the network: code has the operators, or declares
    those of an object, in place of which compared has them in C."""
    members = sources(name, plan, code)
    verdict = compare(name, sources(name, plan, compared or code), plan)

    if binary is not None:
        members[f"codegen/host/lib/{name}_lib0.o"] = binary
    used = sorted({s.kernel for s in plan.steps})
    members["metadata.json"] = metadata(name, plan, used, target, exporter, str(verdict)).encode()
    write(path, members)
    return Report(path, name, tuple(plan.inputs), tuple(plan.outputs), plan.pool, plan.peak, plan.constant_bytes,
                  len(plan.steps), floats, verdict)  # fmt: skip


def write(path: Path, members: dict[str, bytes]) -> None:
    """Writes a tar whose bytes depend on the members only. The file appears as a whole, or not at all."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for member, data in sorted(members.items()):
            info = tarfile.TarInfo("./" + member)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(packed.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def model_name(name: str | None, path: Path) -> str:
    name = re.sub(r"[^a-z0-9]", "_", path.name.split(".")[0].lower()) if name is None else name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ExportError(f"model name {name!r}: use lower-case letters, digits and underscores")
    if name.startswith("boardsmith_"):
        raise ExportError(f"model name {name!r}: names that begin with boardsmith_ are those of generated files")
    return name


def named(names: Sequence[str] | None, default: list[str], kind: str) -> list[str]:
    if names is not None and len(names) != len(default):
        raise ExportError(f"{len(names)} names for {len(default)} {kind}")
    return [_c_compatible(n) for n in (default if names is None else names)]


def _c_compatible(name: str) -> str:
    # TVMGEN_<model>_WORKSPACE_SIZE is a macro of the header.
    usable = re.match(r"[A-Za-z]", name) and name not in KEYWORDS and not MACRO.fullmatch(c_name(name))
    usable = usable and name.lower() != "workspace"
    return name if usable else "tensor_" + name


def check_names(tensors: list[Tensor]) -> None:
    seen: dict[str, str] = {}
    for t in tensors:
        key = c_name(t.name).upper()
        if key in seen:
            raise ExportError(f"tensors {seen[key]!r} and {t.name!r} have the same name in C: rename one")
        seen[key] = t.name
