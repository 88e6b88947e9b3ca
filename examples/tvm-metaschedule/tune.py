"""Tunes operators on a board of `mage serve`: tune.py TRACKER KEY TARGET TRIALS [OPERATOR...]."""

import json
import sys
import tempfile

import numpy as np
import tvm
from tvm import rpc, te, topi
from tvm.s_tir import meta_schedule as ms
from tvm.support.tar import tar

A, B = te.placeholder((32, 32)), te.placeholder((32, 32))
X, W = te.placeholder((1, 8, 10, 10)), te.placeholder((8, 8, 3, 3))
OPERATORS = {  # tensors, and the same on NumPy
    "matmul": ([A, B, topi.matmul(A, B)], np.matmul),
    "conv2d": ([X, W, topi.nn.conv2d(X, W, 1, 0, 1)], lambda x, w: np.einsum(
        "nihwyx,oiyx->nohw", np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3)), w)),
}


def space(target):
    """The schedules to search. Those of target c have no vectors, which C has not, and TVM has no default for it."""
    if target.kind.name != "c":
        return "post-order-apply"
    return ms.space_generator.PostOrderApply(
        sch_rules=[ms.schedule_rule.MultiLevelTiling("SSRSRS"),
                   ms.schedule_rule.ParallelizeVectorizeUnroll(-1, -1, [0, 16, 64], True)],
        postprocs=[ms.postproc.DisallowDynamicLoop(), ms.postproc.RewriteParallelVectorizeUnroll(),
                   ms.postproc.RewriteReductionBlock()],
        mutator_probs={ms.mutator.MutateTileSize(): 0.9, ms.mutator.MutateUnroll(): 0.1})


def options(target, trials, tracker, key):
    """What MetaSchedule searches, and the board where it measures."""
    return dict(
        num_trials_per_iter=trials, space=space(target),
        strategy="replay-trace", cost_model="none",  # a random search; the default needs pip install xgboost
        builder=ms.builder.LocalBuilder(max_workers=1, timeout_sec=120),  # it may take a minute to start
        runner=ms.runner.RPCRunner(ms.runner.RPCConfig(*tracker, key, session_timeout_sec=60),
                                   ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0)))


def run(module, target, tensors, reference, remote):
    """Runs a module on the board, compares its output with NumPy's, and returns its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        tvm.compile(module, target=target).export_library(f"{folder}/module.tar", fcompile=tar)
        remote.upload(f"{folder}/module.tar")
    loaded, board = remote.load_module("module.tar"), remote.cpu(0)
    random = np.random.default_rng(1)
    arrays = [random.standard_normal([int(n) for n in t.shape]).astype("float32") for t in tensors]
    arguments = [tvm.runtime.tensor(a, board) for a in arrays]
    loaded["main"](*arguments)
    np.testing.assert_allclose(arguments[-1].numpy(), reference(*arrays[:-1]), rtol=1e-4, atol=1e-4)
    return loaded.time_evaluator("main", board, number=1)(*arguments).mean


def main(tracker, key, target, trials, *names):
    host, port = tracker.split(":")
    target = tvm.target.Target(json.loads(target))
    for name in names or OPERATORS:
        tensors, reference = OPERATORS[name]
        function = te.create_prim_func(tensors)
        with tempfile.TemporaryDirectory() as folder:
            database = ms.tune_tir(function, target, folder, int(trials),
                                   **options(target, int(trials), (host, int(port)), key))
        best = ms.tir_integration.compile_tir(database, function, target)
        if best is None:
            sys.exit(f"{name}: no schedule was built and measured; TVM's log above has the numbers of errors")
        remote = rpc.connect_tracker(host, int(port)).request(key)
        seconds = run(best.mod, target, tensors, reference, remote)
        del remote  # ends its session: the board is free for the next operator
        print(f"{name}: {1e6 * seconds:.1f} us, the best of {len(database)} schedules; its output is NumPy's")


if __name__ == "__main__":
    main(*sys.argv[1:])
