# Tunes the operators of the example, and those of a network, on a board, and runs each candidate again. Arguments:
# FOLDER_OF_THE_EXAMPLE TRACKER KEY TARGET TRIALS TOLERANCE: the second time of the best one may differ by this factor.
import faulthandler
import json
import sys
import tempfile
import time

faulthandler.dump_traceback_later(900, exit=True)

import numpy as np
import tvm
from tvm import relax, rpc, te
from tvm.s_tir import meta_schedule as ms
from tvm.script import ir as I, relax as R

folder, tracker, key, target, trials, tolerance = sys.argv[1:]
sys.path.insert(0, folder)
import tune as example

host, port = tracker.split(":")
target, trials, tolerance = tvm.target.Target(json.loads(target)), int(trials), float(tolerance)


def check(database, tensors, reference):
    """Runs all candidates, and compares their outputs with NumPy's and the time of the best with that of its record."""
    records = database.get_all_tuning_records()
    assert len(records) == trials, f"{len(records)} records"
    times = []
    for record in records:
        measured = float(record.run_secs[0])
        assert measured < 1, record.run_secs
        schedule = tvm.s_tir.Schedule(record.workload.mod)
        record.trace.apply_to_schedule(schedule, remove_postproc=False)
        remote = rpc.connect_tracker(host, int(port)).request(key)
        times.append((measured, example.run(schedule.mod, target, tensors, reference, remote)))
        del remote  # frees the board for the next request
    (measured, again) = min(times)
    assert measured / tolerance < again < measured * tolerance, times
    return measured


def options():
    return example.options(target, trials, (host, int(port)), key)


def network():
    """The network with its operators fused."""
    fuse = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(),
            relax.transform.FuseTIR()]
    return tvm.transform.Sequential(fuse)(Network)


@I.ir_module
class Network:
    """A dense layer and a ReLU."""

    @R.function
    def main(x: R.Tensor((32, 32), "float32"), w: R.Tensor((32, 32), "float32")) -> R.Tensor((32, 32), "float32"):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.nn.relu(y)
            R.output(z)
        return z


if __name__ == "__main__":
    for name, (tensors, reference) in example.OPERATORS.items():
        begun = time.time()
        with tempfile.TemporaryDirectory() as work:
            database = ms.tune_tir(te.create_prim_func(tensors), target, work, trials, **options())
        took = time.time() - begun
        best = check(database, tensors, reference)
        print(f"{name}: {trials} candidates in {took:.0f} s, best {best * 1e6:.1f} us")
    with tempfile.TemporaryDirectory() as work:
        database = ms.relax_integration.tune_relax(
            network(), {}, target, work, trials, **options())
    x, w = example.A, example.B
    print("network:", check(database, [x, w, x], lambda a, b: np.maximum(a @ b, 0)))
