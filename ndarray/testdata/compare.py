#!/usr/bin/env python3
"""compare.py GOT.npz WANT.npz: exits with 0 if both files hold the same arrays, read with the standard library alone."""

import ast
import struct
import sys
import zipfile


def arrays(path):
    """Returns {name: (type, shape, fortran order, bytes)} of an .npz file (NumPy's NEP 1)."""
    found = {}
    with zipfile.ZipFile(path) as z:
        for name in z.namelist():
            data = z.read(name)
            if data[:6] != b"\x93NUMPY":
                sys.exit(f"{path}: {name} is not an .npy file")
            size, start = (struct.unpack_from("<H", data, 8)[0], 10) if data[6] == 1 else (struct.unpack_from("<I", data, 8)[0], 12)
            head = ast.literal_eval(data[start : start + size].decode())
            found[name] = (head["descr"], head["shape"], head["fortran_order"], data[start + size :])
    return found


got, want = arrays(sys.argv[1]), arrays(sys.argv[2])
for name in sorted(got.keys() | want.keys()):
    if got.get(name) != want.get(name):
        sys.exit(f"{name} differs: {got.get(name, ())[:3]}, want {want.get(name, ())[:3]}")
