# Uses a simulated board as TVM's users do, with any TVM from 0.9 on. Arguments: HOST PORT [TRACKER_PORT KEY].
import faulthandler
import gc
import sys
import time

import numpy as np

import tvm
from tvm import rpc

faulthandler.dump_traceback_later(40, exit=True)

host, port = sys.argv[1], int(sys.argv[2])
tracker = None
if len(sys.argv) > 3:
    tracker, key = rpc.connect_tracker(host, int(sys.argv[3])), sys.argv[4]


def connect(**options):
    if tracker:
        return tracker.request(key, **options)
    return rpc.connect(host, port, **options)


def array(data, device):
    if hasattr(tvm, "nd"):
        return tvm.nd.array(data, device)
    return tvm.runtime.tensor(data, device=device)


def raises(text, call, *args):
    try:
        call(*args)
    except Exception as error:
        assert text in str(error), f"{text!r} is not in {error!r}"
        return type(error).__name__
    raise AssertionError(f"no error {text!r}")


remote = connect()
echo = remote.get_function("echo")
for value in (0, 1, -1, 2**62, -(2**63), True, False, 0.5, -1e300, "", "x", "seven77", "eight888", "ä" * 500, None):
    got = echo(value)
    assert got == value or (value is None and got is None), (value, got)
for value in (b"", b"x", bytes(range(256)) * 4):
    got = echo(bytearray(value))
    assert bytes(got) == value, (value, got)

device = remote.cpu(0)
assert device.exist
for dtype in ("int8", "uint8", "int32", "float16", "float32", "int64", "float64"):
    data = np.arange(6).reshape(2, 3).astype(dtype)
    tensor = array(data, device)
    np.testing.assert_array_equal(tensor.numpy(), data)
big = np.random.default_rng(1).integers(-128, 128, 20 << 20 >> 4).astype("int8")
np.testing.assert_array_equal(array(big, device).numpy(), big)
other = array(np.zeros(6, "float32"), device)
array(np.arange(6, dtype="float32"), device).copyto(other)
np.testing.assert_array_equal(other.numpy(), np.arange(6, dtype="float32"))
remote.get_function("tvm.contrib.random.random_fill_for_measure")(other)
np.testing.assert_array_equal(other.numpy().view("uint8"), np.arange(1, 25, dtype="uint8"))

assert raises("Assert fail: x.shape[0] == 3", remote.get_function("fail")) == "RPCError"
raises("no.such.function", remote.get_function, "no.such.function")

remote.upload(bytearray(b"bad"), "bad.tar")
raises("lib0.c: no such operator", remote.load_module, "bad.tar")
remote.upload(bytearray(b"good"), "good.tar")
assert bytes(remote.download("good.tar")) == b"good"
module = remote.load_module("good.tar")
evaluator = module.time_evaluator("main", device, number=3, repeat=4)
assert list(evaluator(other).results) == [1e-6, 2e-6, 3e-6, 4e-6], evaluator(other).results
again = module.time_evaluator("main", device, number=1, repeat=1)
assert list(again().results) == [1e-6] and len(evaluator(other).results) == 4
raises("Assert fail", module["fail"])
module["main"](other)
for path in ("good.tar", "good.tar.so", "", "/no/such"):
    remote.remove(path)
raises("good.tar", remote.load_module, "good.tar")
remote.system_lib()["main"]()
del tensor, other, evaluator, again, module, echo, remote, device
gc.collect()

if not tracker:
    remote = connect(session_timeout=1)
    echo = remote.get_function("echo")
    time.sleep(1.5)
    assert raises("session has expired", echo, 1) == "RPCSessionTimeoutError"
    raises("cannot find server", lambda: rpc.connect(host, port, key="other"))
print("all right")
