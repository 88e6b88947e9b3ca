"""One use of a template folder by TVM's own Python: interop.py USE TEMPLATE BOARD [OPTIONS], OPTIONS in JSON.

BOARD "" leaves the option out, as for TVM's template for this computer. A failure is an exception.
"""

import json
import logging
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import tvm
import tvm.micro
import tvm.relay
from tvm import autotvm, te
from tvm.contrib import utils
from tvm.micro.project import GeneratedProject, TemplateProject
from tvm.relay.backend import Executor, Runtime

RUNTIME = Runtime("crt", {"system-lib": True})
TARGET = tvm.target.target.micro("host")  # C without instructions of one core
CONFIG = {"tir.disable_vectorize": True}


class Case:
    """A template folder, a board, and a folder for projects."""

    def __init__(self, template, board, options):
        self.template = template
        self.board = board
        self.options = dict(options, board=board) if board else options
        self.dir = utils.tempdir()

    def generate(self, module, **more):
        return tvm.micro.generate_project(
            self.template, module, self.dir / "project", {**self.options, **more}
        )

    def session(self, module, **more):
        project = self.generate(module, **more)
        project.build()
        project.flash()
        return tvm.micro.Session(project.transport())


def operator(length=2, stride=1):
    """An operator c[i] = a[i * stride] + b[0]."""
    a = te.placeholder((length,), dtype="int8")
    b = te.placeholder((1,), dtype="int8")
    c = te.compute(a.shape, lambda i: a[i * stride] + b[0], name="c")
    with tvm.transform.PassContext(opt_level=3, config=CONFIG):
        return tvm.build(
            te.create_schedule(c.op), [a, b, c], tvm.target.Target(TARGET, TARGET), runtime=RUNTIME, name="add"
        )


def call(session):
    a, b, c = (
        tvm.nd.array(np.array(x, dtype="int8"), device=session.device) for x in ([2, 3], [4], [0, 0])
    )
    session.get_system_lib().get_function("add")(a, b, c)
    assert list(c.numpy()) == [6, 7], c.numpy()
    return a, b, c


def network(executor, config=None, maxima=0):
    """c + (a + b), c constant; maxima with a change nothing."""
    more = "".join(f"%{i + 1} = maximum(%{i}, %a);\n" for i in range(maxima))
    source = f"""
      #[version = "0.0.5"]
      def @main(%a : Tensor[(1, 2), uint8], %b : Tensor[(1, 2), uint8], %c : Tensor[(1, 2), uint8]) {{
          %0 = %a + %b;
          {more}
          %{maxima} + %c
      }}"""
    with tvm.transform.PassContext(opt_level=3, config=dict(CONFIG, **(config or {}))):
        return tvm.relay.build(
            tvm.relay.fromtext(source), target=TARGET, runtime=RUNTIME, executor=executor,
            params={"c": np.array([[8, 9]], dtype="uint8")},
        )


A, B, SUM = (np.array([x], dtype="uint8") for x in ([2, 3], [4, 7], [14, 19]))


def session(case):
    """Generates, builds, flashes and opens by the classes of tvm.micro; calls an operator; finds no other."""
    with case.session(operator()) as s:
        call(s)
        try:
            s.get_system_lib().get_function("no_such_operator")
            raise RuntimeError("an operator that the firmware lacks was found")
        except AttributeError:
            pass


def archive(case):
    """generate_project_from_mlf; the project is opened again and used by another object; a build over a build."""
    path, folder = str(case.dir / "model.tar"), str(case.dir / "project")
    tvm.micro.export_model_library_format(operator(), path)
    template = TemplateProject.from_directory(case.template)
    template.generate_project_from_mlf(path, folder, case.options)
    for build in range(2 if case.board else 1):  # TVM's template for this computer fails at the second build
        project = GeneratedProject.from_directory(folder, case.options)
        project.build()
        project.flash()
        with tvm.micro.Session(project.transport()) as s:
            call(s)


def time_evaluator(case):
    length = 4096  # takes more than TVM's timer can resolve
    with case.session(operator(length)) as s:
        args = [tvm.nd.empty((n,), "int8", s.device) for n in (length, 1, length)]
        timed = s.get_system_lib().time_evaluator("add", s.device, number=20, repeat=3, min_repeat_ms=10)
        result = timed(*args)
        assert len(result.results) == 3 and result.mean > 0, result


FAR = 0x70000000  # beyond the memory of every emulated board, below 2^31


def reset(case):
    """What restarts the firmware ends the session: on this computer a function, on a board a read of no memory."""
    on_board = case.board not in ("", "host")
    with case.session(operator(stride=FAR if on_board else 1)) as s:
        try:
            if on_board:
                call(s)
            else:
                s._rpc.get_function("tvm.testing.reset_server")()
            raise RuntimeError("a reset did not end the session")
        except tvm.micro.SessionTerminatedError:
            pass


def runs_graph(graph, factory):
    graph.set_input(**factory.get_params())
    graph.run(a=A, b=B)
    assert (graph.get_output(0).numpy() == SUM).all(), graph.get_output(0)


def host_graph_executor(case):
    factory = network(Executor("graph"))
    with case.session(factory) as s:
        lib = s.get_system_lib()
        runs_graph(tvm.micro.create_local_graph_executor(factory.get_graph_json(), lib, s.device), factory)


def runs_device_graph(case, factory):
    more = {"graph_executor": "device"} if case.board else {}
    with case.session(factory, **more) as s:
        lib = s.get_system_lib()
        runs_graph(tvm.contrib.graph_executor.create(factory.get_graph_json(), lib, s.device), factory)


def device_graph_executor(case):
    runs_device_graph(case, network(Executor("graph")))


def device_graph_long(case):
    """A graph, which is one message, of more than the 2,048 bytes that firmware of TVM's template takes."""
    factory = network(Executor("graph"), {"relay.FuseOps.max_depth": 1}, maxima=20)
    assert len(factory.get_graph_json()) > 4096
    runs_device_graph(case, factory)


def runs_aot(case, config):
    with case.session(network(Executor("aot"), config)) as s:
        aot = tvm.micro.create_local_aot_executor(s)
        assert aot.get_num_inputs() == 2 and aot.get_num_outputs() == 1
        assert aot.get_input_info() == ({"a": (1, 2), "b": (1, 2)}, {"a": "uint8", "b": "uint8"})
        aot.get_input("a").copyfrom(A)
        aot.get_input("b").copyfrom(B)
        for _ in range(2):
            aot.run()
            assert (aot.get_output(0).numpy() == SUM).all(), aot.get_output(0)


def aot_executor(case):
    runs_aot(case, {})


def usmp_constant_pool(case):
    runs_aot(case, {"tir.usmp.enable": True})


LONGEST = 65536


def holds(session, size):
    """Reports whether the arena has a block of size bytes. An array of TVM's is freed with its last reference."""
    try:
        return tvm.nd.empty((size,), "uint8", session.device) is not None
    except tvm.TVMError:
        return False


def tensors(case):
    """Tensors of 1 byte to 64 KiB or what the arena holds, both ways; one byte more is an exception."""
    with case.session(operator()) as s:
        low, high = 1, 1 << 31
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if holds(s, middle) else (low, middle)
        try:
            tvm.nd.empty((low + 1,), "uint8", s.device)
            raise RuntimeError(f"{low + 1} bytes were found where {low} was the most")
        except tvm.TVMError:
            pass
        longest = min(low, LONGEST)
        sizes = [1, 2, 63, 1024, *range(2030, 2036), 2048, 4085, 4096, 20000]
        rng = np.random.default_rng(1)
        for size in sorted({n for n in sizes if n < longest} | {longest - 1, longest}):
            sent = rng.integers(0, 256, size, dtype="uint8")
            sent[rng.integers(0, size, size // 8)] = 0xFF  # which frames escape
            remote = tvm.nd.array(sent, device=s.device)
            np.testing.assert_array_equal(remote.numpy(), sent, err_msg=f"{size} bytes")
            remote.copyfrom(sent[::-1].copy())
            np.testing.assert_array_equal(remote.numpy(), sent[::-1], err_msg=f"{size} bytes, written again")
            del remote
        call(s)
        print(f"note: largest tensor: {low} bytes")


def convolution(size):
    data = tvm.relay.var("data", tvm.relay.TensorType((1, 3, size, size), "float32"))
    weight = tvm.relay.var("weight", tvm.relay.TensorType((8, 3, 5, 5), "float32"))
    y = tvm.relay.nn.conv2d(
        data, weight, padding=(2, 2), kernel_size=(5, 5), kernel_layout="OIHW", out_dtype="float32"
    )
    module = tvm.IRModule.from_expr(tvm.relay.Function([data, weight], y))
    return tvm.relay.transform.InferType()(module)


def measured(case, module, inputs, params):
    """The network's output on the device, with the schedules that are in force."""
    with tvm.transform.PassContext(opt_level=3, config=CONFIG):
        factory = tvm.relay.build(module, target=TARGET, runtime=RUNTIME, params=params)
    own = Case(case.template, "", case.options)  # lives as long as its session: its folder ends with it
    with own.session(factory) as s:
        graph = tvm.micro.create_local_graph_executor(
            factory.get_graph_json(), s.get_system_lib(), s.device
        )
        graph.set_input(**factory.get_params())
        graph.run(**inputs)
        return graph.get_output(0).numpy()


def in_requests():
    """The seconds for which TVM has waited for the template so far, by method (timed/sitecustomize.py)."""
    took = {}
    for line in open(os.environ["INTEROP_TIMES"], encoding="ascii"):
        method, seconds = line.split()
        took[method] = took.get(method, 0) + float(seconds)
    parts = ", ".join(f"{method} {seconds:.1f} s" for method, seconds in sorted(took.items()))
    return f"{sum(took.values()):.1f} s in the template ({parts})"


def autotvm_conv2d(case, trials=16):
    """Trials of one convolution by AutoTVM; the log's best schedule computes the same."""
    size = 16
    if case.board == "microbit":
        size = 6
        case.options["arena_kib"] = 10  # the network needs more than the board's 8
    module = convolution(size)
    rng = np.random.default_rng(1)
    params = {"weight": rng.random((8, 3, 5, 5), dtype="float32")}
    inputs = {"data": rng.random((1, 3, size, size), dtype="float32")}
    with tvm.transform.PassContext(opt_level=3, config=CONFIG):
        task, = autotvm.task.extract_from_program(module["main"], {}, TARGET)
    builder = autotvm.LocalBuilder(
        n_parallel=1, build_kwargs={"build_option": CONFIG}, do_fork=True,
        build_func=tvm.micro.autotvm_build_func, runtime=RUNTIME,
    )
    loader = tvm.micro.AutoTvmModuleLoader(
        template_project_dir=pathlib.Path(case.template), project_options=case.options
    )
    runner = autotvm.LocalRunner(number=1, repeat=1, timeout=60, module_loader=loader)
    log = str(case.dir / "autotvm.log")
    start = time.monotonic()
    autotvm.tuner.RandomTuner(task).tune(
        n_trial=trials, measure_option=autotvm.measure_option(builder=builder, runner=runner),
        callbacks=[autotvm.callback.log_to_file(log)],
    )
    records = [json.loads(line) for line in open(log)]
    failed = [r["result"] for r in records if r["result"][1] != 0]
    minutes = (time.monotonic() - start) / 60
    print(f"note: {len(records)} trials, {len(failed)} failed, {len(records) / minutes:.1f} a minute")
    print("note: of this, " + in_requests())
    assert len(records) == min(trials, len(task.config_space)) and not failed, failed[:1]
    want = measured(case, module, inputs, params)
    with autotvm.apply_history_best(log) as best:
        assert best.best_by_model or best.best_by_targetkey
        got = measured(case, module, inputs, params)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-4)


def autotvm_conv2d_64(case):
    autotvm_conv2d(case, 64)


def tvmc(case):
    """The command line: compile, micro create, build, flash, run --device micro."""
    at = pathlib.Path(case.dir.temp_dir)
    (at / "add.relay").write_text(
        """#[version = "0.0.5"]
def @main(%a : Tensor[(1, 64), int8], %b : Tensor[(1, 64), int8]) {
    %a + %b
}
"""
    )
    a = np.arange(64, dtype="int8").reshape(1, 64)
    np.savez(at / "in.npz", a=a, b=a)

    def run(*words):
        subprocess.run([sys.executable, "-m", "tvm.driver.tvmc", *map(str, words)], check=True, cwd=at)

    template = ["template", "--template-dir", case.template]
    options = [f"{name}={value}" for name, value in case.options.items()]
    given = ["--project-option", *options] if options else []
    for executor in "aot", "graph":
        project = at / executor
        run("compile", "add.relay", f"--target={TARGET}", "--runtime=crt", "--runtime-crt-system-lib", 1,
            f"--executor={executor}", "--output", f"{executor}.tar", "--output-format", "mlf",
            "--input-shapes", "a:[1,64] b:[1,64]",
            "--pass-config", "tir.disable_vectorize=1")
        run("micro", "create", project, f"{executor}.tar", *template, *given)
        run("micro", "build", project, *template)
        run("micro", "flash", project, *template)
        run("run", "--device", "micro", project, "--inputs", "in.npz", "--outputs", f"{executor}.npz")
        out, = np.load(at / f"{executor}.npz").values()
        np.testing.assert_array_equal(out, 2 * a)


USES = [
    session, archive, tensors, time_evaluator, reset, host_graph_executor, device_graph_executor,
    device_graph_long, aot_executor, usmp_constant_pool, tvmc, autotvm_conv2d,
    autotvm_conv2d_64,
]

if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    use, template, board, *options = sys.argv[1:]
    {f.__name__: f for f in USES}[use](Case(template, board, json.loads(options[0]) if options else {}))
