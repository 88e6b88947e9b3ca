# Tunes a matrix multiplication with MetaSchedule of TVM 0.26 or later. Arguments: TRACKER_HOST TRACKER_PORT KEY TARGET
# TRIALS. Prints candidates a minute from the first upload on.
import faulthandler
import json
import logging
import os
import sys
import tempfile
import time

faulthandler.dump_traceback_later(400, exit=True)

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def matmul(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    A = T.match_buffer(a, (32, 32))
    B = T.match_buffer(b, (32, 32))
    C = T.match_buffer(c, (32, 32))
    for i, j, k in T.grid(32, 32, 32):
        with T.sblock("matmul"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


if __name__ == "__main__":
    host, port, key, target, trials = sys.argv[1:]
    target = tvm.target.Target(json.loads(target))
    runner = ms.runner.RPCRunner(
        rpc_config=ms.runner.RPCConfig(tracker_host=host, tracker_port=int(port), tracker_key=key, session_timeout_sec=60),
        evaluator_config=ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0),
    )
    with tempfile.TemporaryDirectory() as folder:
        begun = time.time()
        database = ms.tune_tir(
            matmul, target, folder, max_trials_global=int(trials), num_trials_per_iter=int(trials),
            builder=ms.builder.LocalBuilder(max_workers=1, timeout_sec=120), runner=runner,
            cost_model="random",
        )
        records = database.get_all_tuning_records()
        times = [float(t) for r in records for t in r.run_secs]
        assert len(times) >= int(trials) // 2 and all(t < 1 for t in times), times
        print(f"{len(times)} candidates in {time.time() - begun:.0f} s, best {min(times) * 1e6:.1f} us")
