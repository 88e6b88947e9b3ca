"""Runs an archive's C on this computer, beside an evaluator of the network that it was made of.

A frontend or a pass that computes something else than the network's file says is found here, before the archive is
written. What cannot be compared is reported as not verified, with the reason.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ExportError
from .plan import Plan, Tensor, c_name

# An evaluator returns the outputs of a network for its inputs, both in the order of the network.
Evaluator = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]

# Integer inputs may be indices, for which an evaluator fails, or counts from the end, where C would read other memory.
SPANS, INDEX_SPANS = (100, 2, 1), (2, 1)

COMPILE_SECONDS, RUN_SECONDS = 600, 120

# Differences up to these shares of an output's largest magnitude are rounding: of float32 sums in another order, of
# quantized operators, which may differ by one unit each. An evaluator may have a share of its own.
FLOAT_SHARE, QUANTIZED_SHARE = 1e-4, 0.06

# Special inputs: zeros, extremes and infinities, then also what is no number.
EXTREMES = (np.inf, -np.inf, 0.0, -0.0, 1e-38, 1e30, -1e30, 1.0, -1.0)
DRAWS = {"random inputs": (), "infinities, zeros and extremes": EXTREMES,
         "inputs that are no numbers": (*EXTREMES, np.nan)}  # fmt: skip


class NotChecked(Exception):
    """No comparison was possible: the text is the reason."""


class Difference(ExportError):
    """The archive's C computes something else than the network."""


@dataclass(frozen=True)
class Verdict:
    """What was compared. largest is the largest difference relative to an output's largest magnitude."""

    verified: bool
    largest: float = 0.0
    reason: str = ""  # why nothing was compared, or for which inputs values may differ

    def __str__(self) -> str:
        if not self.verified:
            return f"not verified: {self.reason}"
        text = f"verified: largest difference {self.largest:.0e} of an output's range"
        return f"{text}; {self.reason}" if self.reason else text


class Program:
    """The C of an archive as a program of this computer, in a folder."""

    def __init__(
        self, root: Path, name: str, members: Mapping[str, bytes], network: Plan, library: Path | None = None
    ) -> None:
        self.root, self.inputs, self.outputs = root, network.inputs, network.outputs
        linked = [] if library is None else _library(library)
        files = {Path(member).name: data for member, data in members.items() if member.endswith((".c", ".h"))}
        files |= {"tvm/runtime/c_runtime_api.h": b"#define TVM_DLL\n", "main.c": self._main(name).encode()}
        for file, data in files.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_bytes(data)

        sources = sorted(file for file in files if file.endswith(".c"))
        _compile(root, "the archive's C", "-fwrapv", "-I.", *sources, *linked, "-lm", "-o", "network")

    def _main(self, name: str) -> str:
        """Returns a program that reads the inputs, runs the network once, and writes the outputs."""
        tensors = [("in", i, t) for i, t in enumerate(self.inputs)]
        tensors += [("out", i, t) for i, t in enumerate(self.outputs)]
        lines = ["#include <stdint.h>", "#include <stdio.h>", "#include <stdlib.h>", f'#include "tvmgen_{name}.h"']
        lines += [f"static _Alignas(16) uint8_t {kind}{i}[{t.size}];" for kind, i, t in tensors]
        lines += ["int main(int argc, char** argv) {", f"  struct tvmgen_{name}_inputs in;",
                  f"  struct tvmgen_{name}_outputs out;"]  # fmt: skip
        lines += [f"  {kind}.{c_name(t.name)} = {kind}{i};" for kind, i, t in tensors]
        steps = [f"fread(in{i}, {t.size}, 1, stdin) == 1" for i, t in enumerate(self.inputs)]
        steps += [f"tvmgen_{name}_run(&in, &out) == 0"]
        steps += [f"fwrite(out{i}, {t.size}, 1, stdout) == 1" for i, t in enumerate(self.outputs)]
        done = " &&\n         ".join(steps)
        lines += ["  for (int i = 0, runs = atoi(argv[argc - 1]); i < runs; i++) {", f"    if (!({done})) {{",
                  "      return 1;", "    }", "  }", "  return 0;", "}", ""]  # fmt: skip
        return "\n".join(lines)

    def run(self, samples: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """Returns the outputs for each of several inputs, one after the other: states of the network are kept."""
        data = b"".join(np.ascontiguousarray(x).tobytes() for inputs in samples for x in inputs)
        done = _within(RUN_SECONDS, [self.root / "network", str(len(samples))], input=data)
        if done.returncode or len(done.stdout) != len(samples) * sum(t.size for t in self.outputs):
            raise Difference(f"the archive's C ends with status {done.returncode} on this computer")

        results, start = [], 0
        for _ in samples:
            results.append([])
            for t in self.outputs:
                part = done.stdout[start : start + t.size]
                results[-1].append(np.frombuffer(part, t.dtype).reshape(t.shape))
                start += t.size
        return results


def _compile(folder: Path, what: str, *arguments: object) -> None:
    """Runs the C compiler of this computer in a folder."""
    words = shlex.split(os.environ.get("CC") or "cc")  # CC may be "ccache gcc"
    if not words or shutil.which(words[0]) is None:
        raise NotChecked("there is no C compiler cc, and CC names none")
    done = _within(COMPILE_SECONDS, [*words, "-std=c11", "-O1", "-w", *arguments], cwd=folder)
    if done.returncode:
        printed = done.stderr.decode(errors="replace")
        error = next((x for x in printed.splitlines() if "error" in x), printed.strip())
        raise ExportError(f"{what} does not compile on this computer: {error}")


@functools.cache
def _library(folder: Path) -> list[str]:
    """Compiles a library that a library.json describes, once for all exports of this process. Returns what the
    compiler needs to use it."""
    try:
        described = json.loads((folder / "library.json").read_text())
    except (OSError, ValueError) as error:
        raise ExportError(f"library {folder}: {error}") from error
    sources: list[Path] = []
    for pattern in described.get("sources", ()):
        found = sorted(folder.glob(pattern.removeprefix("!")))
        sources = [s for s in sources if s not in found] + ([] if pattern.startswith("!") else found)
    if not sources:
        raise ExportError(f"library {folder}: the folder has none of the sources that library.json names")

    headers = [f"-I{(folder / name).resolve()}" for name in described.get("headers", ())]
    flags = [*headers, *described.get("flags", ())]
    objects = Path(tempfile.mkdtemp(prefix="boardsmith-library-"))
    atexit.register(shutil.rmtree, objects, ignore_errors=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda part: _compile(objects, f"library {folder}", *flags, "-ffunction-sections", "-c", *part),
                      [[s.resolve() for s in sources[i::16]] for i in range(min(16, len(sources)))]))  # fmt: skip
    return [*headers, "-Wl,--gc-sections", *map(str, sorted(objects.glob("*.o")))]


def _within(seconds: int, command: Sequence[Any], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs a command, for a while at most."""
    try:
        return subprocess.run(command, capture_output=True, timeout=seconds, **options)
    except subprocess.TimeoutExpired as error:
        raise NotChecked(f"{Path(command[0]).name} took longer than {seconds} seconds") from error


def draw(inputs: Sequence[Tensor], special: Sequence[float], span: int, run: int = 0) -> list[np.ndarray]:
    """Returns inputs that depend on their types and the run only: floating-point numbers from a normal distribution or,
    if there are any, of the special ones. Integers of more than 8 bits, which may be indices, are below span; a span of
    0 is the whole range of each type."""
    random = np.random.default_rng(len(inputs) + run)
    arrays = []
    for t in inputs:
        kind, count = np.dtype(t.dtype), int(np.prod(t.shape))
        if kind.kind == "f":
            values = random.permutation(np.resize(special, count)) if special else random.normal(size=count)
        elif kind.kind == "b":
            values = random.integers(0, 2, count)
        elif not span or kind.itemsize == 1 and span > 1:
            values = random.integers(np.iinfo(kind).min, np.iinfo(kind).max, count, kind, endpoint=True)
        else:
            values = random.integers(0, span, count)
        arrays.append(values.astype(kind).reshape(t.shape))
    return arrays


def compare(got: np.ndarray, want: np.ndarray, share: float) -> float:
    """Returns the largest difference relative to want's largest magnitude: infinity where one is no finite number and
    the other is another, or where integers differ that are not quantized."""
    if got.dtype.kind != "f" and share <= FLOAT_SHARE:
        return 0.0 if np.array_equal(got, want) else np.inf

    got, want = got.astype("float64"), want.astype("float64")
    finite = np.isfinite(want) & np.isfinite(got)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return np.inf
    if not finite.any():
        return 0.0
    got, want = got[finite], want[finite]
    return float(np.abs(got - want).max()) / max(float(np.abs(want).max()), 1e-6)


def verdict(
    name: str, members: Mapping[str, bytes], network: Plan, evaluator: Evaluator | None, share: float,
    spans: Sequence[int], runs: int = 1, library: Path | None = None,
) -> Verdict:  # fmt: skip
    """Returns what verify knows of the C of an archive, or why it knows nothing. library is a folder with a
    library.json, whose functions the C calls."""
    try:
        if evaluator is None:
            raise NotChecked("there was no evaluator of the network")
        with tempfile.TemporaryDirectory(prefix="boardsmith-check-") as folder:
            return verify(Program(Path(folder), name, members, network, library), evaluator, share, spans, runs)
    except NotChecked as reason:
        return Verdict(False, reason=str(reason))


def not_verified(reason: str, *_: object) -> Verdict:
    """Returns that nothing was compared."""
    return Verdict(False, reason=reason)


def verify(program: Program, evaluator: Evaluator, share: float, spans: Sequence[int], runs: int = 1) -> Verdict:
    """Compares what a program computes with an evaluator, for random inputs in several runs and for special inputs.
    Integers of more than 8 bits are below the first of the spans for which the evaluator computes something.

    Raises Difference, or NotChecked if the evaluator computes nothing for random inputs.
    """
    largest, loose = 0.0, []
    for title, special in DRAWS.items():
        if special and not any(np.dtype(t.dtype).kind == "f" for t in program.inputs):
            continue
        drawn = [_evaluated(program, evaluator, special, spans, i) for i in range(1 if special else runs)]
        samples, wanted = zip(*drawn)
        if wanted[0] is None:
            continue

        pairs = zip(itertools.chain(*program.run(samples)), itertools.chain(*wanted), strict=True)
        for t, (got, want) in zip(program.outputs * len(samples), pairs, strict=True):
            want = np.asarray(want)
            if (str(want.dtype), want.shape) != (t.dtype, t.shape):
                raise Difference(f"output {t.name} is {t.dtype} {t.shape}, not {want.dtype} {want.shape}")
            difference = compare(got, want, share)
            if difference <= share:
                largest = max(largest, difference)
                continue

            # C leaves the order of what is no number, and the integer of an infinity, to the processor. The sum of
            # infinities and extremes depends on its order. ONNX's evaluator cuts some infinities to the largest number.
            undefined = got.dtype.kind not in "fb"
            undefined = undefined or got.dtype.kind == "f" and not (abs(want) < np.finfo(want.dtype).max).all()
            if not (np.isnan(special).any() or special and undefined):
                raise Difference(f"output {t.name} has other values than the network for {title}")
            loose.append(t.name)
    special = ", ".join(dict.fromkeys(loose))
    return Verdict(True, largest, special and f"other values where infinities or no numbers go in: {special}")


def _evaluated(
    program: Program, evaluator: Evaluator, special: Sequence[float], spans: Sequence[int], run: int
) -> tuple[list[np.ndarray], Sequence[np.ndarray] | None]:
    """Returns inputs and the evaluator's outputs, None for special inputs that it fails for."""
    reason = ""
    for span in spans:
        inputs = draw(program.inputs, special, span, run)
        try:
            return inputs, evaluator(inputs)
        except ExportError:
            raise
        except Exception as error:  # evaluators raise errors of many classes
            reason = reason or f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    if not special:
        raise NotChecked(f"the evaluator computes no outputs: {reason}")
    return inputs, None
