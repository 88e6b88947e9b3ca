"""Runs a command, waits for all processes that it started, and prints their time: measured.py COMMAND…"""

import ctypes
import os
import resource
import sys
import time

SET_CHILD_SUBREAPER = 36  # of Linux's prctl: orphans become children of this process

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1)
    start = time.monotonic()
    command = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
    status = None
    ended = None
    while True:
        try:
            pid, code = os.wait()
        except ChildProcessError:
            break
        if pid == command:
            status, ended = os.waitstatus_to_exitcode(code), time.monotonic()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"measured {ended - start:.1f} {used.ru_utime + used.ru_stime:.1f}", flush=True)
    sys.exit(status != 0)
