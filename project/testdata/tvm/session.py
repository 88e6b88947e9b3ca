"""Uses every part of a tvm.micro.Session: session.py OPERATOR, whose operator adds two int8 tensors of shape (1, 64)."""

import sys

import numpy as np
import tvm
import tvm.micro

from pipes import PipeTransport

LONGEST = 65536

# Bytes: every size about which a reply is as long as TVM's own buffer (2048), some around the firmware's 4096.
SIZES = [1, 2, 63, 1024, *range(2005, 2040), 2048, 4060, 4085, 4096, 20000, LONGEST]


def tensors_come_back(session, sizes):
    """Each byte sent to the device comes back unchanged; the bytes that frames escape are among them."""
    rng = np.random.default_rng(1)
    for size in sizes:
        sent = rng.integers(0, 256, size, dtype="uint8")
        sent[rng.integers(0, size, size // 8)] = 0xFF
        remote = tvm.nd.array(sent, device=session.device)
        np.testing.assert_array_equal(remote.numpy(), sent, err_msg=f"{size} bytes")
        again = sent[::-1].copy()
        remote.copyfrom(again)
        np.testing.assert_array_equal(remote.numpy(), again, err_msg=f"{size} bytes, written again")


def operands(session):
    a = np.arange(64, dtype="int8").reshape(1, 64)
    b = (3 * a).astype("int8")
    return a + b, [tvm.nd.array(x, device=session.device) for x in (a, b, np.zeros_like(a))]


def functions_run(session, operator):
    want, args = operands(session)
    function = session.get_system_lib().get_function(operator)
    for _ in range(3):
        function(*args)
        np.testing.assert_array_equal(args[2].numpy(), want)
        args[2].copyfrom(np.zeros_like(want))


def unknown_function_is_an_error(session):
    try:
        session.get_system_lib().get_function("no_such_operator")
    except AttributeError:
        return
    raise AssertionError("a function that the firmware lacks was found")


def times_are_measured(session, operator):
    want, args = operands(session)
    lib = session.get_system_lib()
    timed = lib.time_evaluator(operator, session.device, number=5, repeat=7)(*args)
    np.testing.assert_array_equal(args[2].numpy(), want)
    assert len(timed.results) == 7 and all(0 < s < 1 for s in timed.results), timed.results


def main(operator):
    with tvm.micro.Session(PipeTransport()) as session:
        tensors_come_back(session, SIZES)
        functions_run(session, operator)
        unknown_function_is_an_error(session)
        times_are_measured(session, operator)
        tensors_come_back(session, [LONGEST])  # still, after all of these


if __name__ == "__main__":
    main(*sys.argv[1:])
