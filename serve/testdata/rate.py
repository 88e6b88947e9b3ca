# Measures different candidates with MetaSchedule's runner on each of several boards of a tracker, in turns. Prints
# candidates a minute of each. Arguments: TRACKER CANDIDATES, then KEY TARGET of each board.
import faulthandler
import json
import os
import sys
import tempfile
import time

faulthandler.dump_traceback_later(600, exit=True)

import tvm
from tvm import te, topi
from tvm.s_tir import meta_schedule as ms
from tvm.support.tar import tar


def runner(host, port, key):
    """A runner whose worker has started."""
    return ms.runner.RPCRunner(ms.runner.RPCConfig(host, port, key, session_timeout_sec=120),
                               ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0), max_workers=1)


def measure(runner, paths):
    """Returns the seconds of some candidates, one after the other."""
    shape = ms.arg_info.TensorInfo("float32", (32, 32))
    begun = time.time()
    for future in runner.run([ms.runner.RunnerInput(path, "cpu", [shape] * 3) for path in paths]):
        result = future.result()
        assert result.error_msg is None, result.error_msg
    return time.time() - begun


def build(folder, target, count):
    """Returns modules of which each has another content."""
    a, b = te.placeholder((32, 32)), te.placeholder((32, 32))
    paths = []
    for n in range(count):
        paths.append(f"{folder}/{n}/tvm_tmp_mod.tar")
        function = te.create_prim_func([a, b, topi.matmul(a, b) * (n + 1.0)])
        os.makedirs(os.path.dirname(paths[-1]))
        tvm.compile(function, tvm.target.Target(json.loads(target))).export_library(paths[-1], fcompile=tar)
    return paths


if __name__ == "__main__":
    tracker, candidates, boards = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    host, port = tracker.split(":")
    keys = boards[::2]
    with tempfile.TemporaryDirectory() as folder:
        paths = {key: build(f"{folder}/{key}", target, candidates + 2) for key, target in zip(keys, boards[1::2])}
        runners = {key: runner(host, int(port), key) for key in keys}
        times = dict.fromkeys(keys, 0)
        for key, r in runners.items():
            measure(r, paths[key][:2])  # the worker starts
        batch = 10
        for begin in range(2, candidates + 2, batch):
            for key, r in runners.items():
                times[key] += measure(r, paths[key][begin:begin + batch])
    for key in keys:
        print(f"{key}: {60 * candidates / times[key]:.0f} candidates a minute")
