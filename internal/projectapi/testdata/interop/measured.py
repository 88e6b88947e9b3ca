"""Runs a command, waits for all processes that it started, and prints their time: measured.py COMMAND…

Keepers of emulated boards outlive the command, by a minute or more: they are not waited for, and their time is not
counted.
"""

import ctypes
import os
import pathlib
import resource
import sys
import time

SET_CHILD_SUBREAPER = 36  # of Linux's prctl: orphans become children of this process


def only_keepers():
    """Reports whether all children are keepers of emulated boards."""
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    try:
        return all(os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "boardsmith-keeper" for pid in children)
    except FileNotFoundError:  # one has ended
        return False


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1)
    start = time.monotonic()
    command = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
    pid = status = None
    while pid != command:
        pid, status = os.wait()
    ended = time.monotonic()
    while not only_keepers():  # a process may become a keeper, without an end that one could wait for
        if os.waitpid(-1, os.WNOHANG)[0] == 0:
            time.sleep(0.01)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"measured {ended - start:.1f} {used.ru_utime + used.ru_stime:.1f}", flush=True)
    sys.exit(status != 0)
