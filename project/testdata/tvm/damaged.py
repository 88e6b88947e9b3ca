"""Calls an operator and copies tensors while requests are damaged on their way: each then raises and changes nothing."""

import gc
import sys

import numpy as np
import tvm
import tvm.micro

from pipes import PipeTransport
from session import operands

ROUNDS = 40


def again(action):
    """Repeats an action until it is not refused, and returns its result and how many times it was."""
    for refused in range(5):
        try:
            return action(), refused
        except tvm.error.TVMError as error:
            assert "boardsmith: damaged" in str(error), error
    raise AssertionError("refused five times")


def main(operator):
    # TVM frees a remote tensor in __del__, by a request. Python may collect others while that request is sent, and their
    # requests would wait for the first one for ever.
    gc.disable()
    with tvm.micro.Session(PipeTransport()) as session:
        (want, args), refused = again(lambda: operands(session))
        function, more = again(lambda: session.get_system_lib().get_function(operator))
        refused += more
        for turn in range(ROUNDS):
            refused += again(lambda: function(*args))[1]
            got, more = again(args[2].numpy)
            np.testing.assert_array_equal(got, want, err_msg=f"round {turn}")
            other = np.full_like(want, turn)
            refused += again(lambda: args[2].copyfrom(other))[1]
            got, most = again(args[2].numpy)
            np.testing.assert_array_equal(got, other, err_msg=f"round {turn}")
            refused += more + most
    assert refused >= ROUNDS // 8, f"only {refused} requests were damaged"


if __name__ == "__main__":
    main(*sys.argv[1:])
