# Uses a board of a tracker as scripts of TVM 0.14 do, by its compiler and one of its tuners. Each candidate's output is
# compared with NumPy's, and the time of the best one with that of another measurement.
# Arguments: USE TRACKER KEY TARGET TRIALS.
import faulthandler
import json
import sys
import tempfile

faulthandler.dump_traceback_later(280, exit=True)

import numpy as np
import tvm
import tvm.micro
from tvm import autotvm, meta_schedule as ms, rpc, te
from tvm.relay.backend import Runtime

LENGTH = 16
OPTIONS = {"tir.disable_vectorize": True}  # for archives: their C has no vectors


def tensors():
    a, b = (te.placeholder((LENGTH, LENGTH), name=name) for name in "ab")
    k = te.reduce_axis((0, LENGTH), name="k")
    return [a, b, te.compute((LENGTH, LENGTH), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")]


@autotvm.template("matmul")
def matmul():
    a, b, c = tensors()
    s = te.create_schedule(c.op)
    config, (y, x), (k,) = autotvm.get_config(), s[c].op.axis, s[c].op.reduce_axis
    config.define_split("y", y, num_outputs=2)
    config.define_split("x", x, num_outputs=2)
    outer_y, inner_y = config["y"].apply(s, c, y)
    outer_x, inner_x = config["x"].apply(s, c, x)
    s[c].reorder(outer_y, outer_x, k, inner_y, inner_x)
    return s, [a, b, c]


class Board:
    """A board of a tracker, and the target that it is tuned for."""

    def __init__(self, tracker, key, target, trials):
        host, port = tracker.split(":")
        self.host, self.port, self.key = host, int(port), key
        self.target, self.trials = tvm.target.Target(json.loads(target)), int(trials)

    def run(self, *built):
        """Builds an operator as a tuner's builder does, compares its output with NumPy's, and returns its seconds."""
        with tempfile.TemporaryDirectory() as folder:
            tvm.build(*built, target=self.target).export_library(f"{folder}/module.tar")
            remote = rpc.connect_tracker(self.host, self.port).request(self.key, session_timeout=60)
            remote.upload(f"{folder}/module.tar")
        loaded, device = remote.load_module("module.tar"), remote.cpu(0)
        random = np.random.default_rng(1)
        arrays = [random.standard_normal((LENGTH, LENGTH)).astype("float32") for _ in range(3)]
        arguments = [tvm.nd.array(a, device) for a in arrays]
        loaded(*arguments)
        np.testing.assert_allclose(arguments[2].numpy(), arrays[0] @ arrays[1], rtol=1e-4, atol=1e-4)
        return loaded.time_evaluator(loaded.entry_name, device, number=1)(*arguments).mean

    def check(self, times):
        """Compares the best time with that of another measurement. times: pairs of both."""
        assert len(times) == self.trials, times
        measured, again = min(times)
        assert measured / 1.1 < again < measured * 1.1, times
        print(f"{len(times)} candidates, best {1e6 * measured:.1f} us")

    def autotvm(self, builder, loader=None):
        task = autotvm.task.create("matmul", args=(), target=self.target)
        runner = autotvm.RPCRunner(self.key, self.host, self.port, number=1, repeat=1, timeout=60, n_parallel=1,
                                   module_loader=loader)
        with tempfile.NamedTemporaryFile(suffix=".log") as log:
            autotvm.tuner.RandomTuner(task).tune(
                n_trial=self.trials, measure_option=autotvm.measure_option(builder=builder, runner=runner),
                callbacks=[autotvm.callback.log_to_file(log.name)])
            records = list(autotvm.record.load_from_file(log.name))
        times = []
        for made, result in records:
            assert result.error_no == 0, result
            with self.target:
                schedule, arguments = task.instantiate(made.config)
            times.append((float(np.mean(result.costs)), self.run(schedule, arguments)))
        self.check(times)


def connect(board):
    """An operator without a tuner."""
    a, b, c = tensors()
    print(board.run(te.create_schedule(c.op), [a, b, c]))


def upload(board):
    """AutoTVM, which uploads modules."""
    board.autotvm(autotvm.LocalBuilder(timeout=120, n_parallel=1))


def loader(board):
    """AutoTVM, whose sessions begin with an archive."""
    builder = autotvm.LocalBuilder(
        timeout=120, n_parallel=1, build_kwargs={"build_option": OPTIONS}, do_fork=True,
        build_func=tvm.micro.autotvm_build_func, runtime=Runtime("crt", {"system-lib": True}))
    board.autotvm(builder, tvm.micro.AutoTvmModuleLoader("/no/template", {}))


def metaschedule(board):
    function = te.create_prim_func(tensors())
    runner = ms.runner.RPCRunner(
        ms.runner.RPCConfig(board.host, board.port, board.key, session_timeout_sec=60),
        ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0), max_workers=1)
    with tempfile.TemporaryDirectory() as folder:
        database = ms.tune_tir(
            function, board.target, folder, board.trials, num_trials_per_iter=board.trials, runner=runner,
            builder=ms.builder.LocalBuilder(max_workers=1, timeout_sec=120), strategy="replay-trace",
            cost_model="none")
        times = []
        for record in database.get_all_tuning_records():
            schedule = tvm.tir.Schedule(record.workload.mod)
            record.trace.apply_to_schedule(schedule, remove_postproc=False)
            times.append((float(record.run_secs[0]), board.run(schedule.mod)))
    board.check(times)


if __name__ == "__main__":
    {use.__name__: use for use in (connect, upload, loader, metaschedule)}[sys.argv[1]](Board(*sys.argv[2:]))
