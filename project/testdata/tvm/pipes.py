"""Joins TVM's tvm.micro.Session to a device whose bytes are on this program's standard input and output."""

import os
import select
import sys
import time

from tvm.micro.transport import IoTimeoutError, Transport, TransportClosedError, TransportTimeouts


class PipeTransport(Transport):
    """What the device sends comes on standard input; what TVM sends goes to standard output.

    Whatever else prints, prints to standard error from now on. One object carries one session.
    """

    def __init__(self):
        sys.stdout.flush()
        self.source = os.dup(0)
        self.sink = os.dup(1)
        os.dup2(2, 1)

    def timeouts(self):
        return TransportTimeouts(
            session_start_retry_timeout_sec=2.0,
            session_start_timeout_sec=30.0,
            session_established_timeout_sec=60.0,
        )

    def open(self):
        pass

    def close(self):
        os.close(self.source)
        os.close(self.sink)
        self.source = self.sink = None

    def read(self, n, timeout_sec):
        """Waits for all n bytes, as TVM asks of a transport, and returns what has come when the time is over."""
        if self.source is None:
            raise TransportClosedError()
        end = None if timeout_sec is None else time.monotonic() + timeout_sec
        data = b""
        while len(data) < n:
            wait = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self.source], [], [], wait)[0]:
                break
            part = os.read(self.source, n - len(data))
            if not part:
                raise TransportClosedError()
            data += part
        if not data:
            raise IoTimeoutError()
        return data

    def write(self, data, timeout_sec):
        """Writes all of data. The reader at the other end always reads on, so that no deadline is needed."""
        if self.sink is None:
            raise TransportClosedError()
        while data:
            data = data[os.write(self.sink, data):]
