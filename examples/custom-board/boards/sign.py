# SPDX-License-Identifier: 0BSD
"""Writes an image with MCUboot's header and the SHA-256 of it, as imgtool does without a key.

    sign.py --header-size BYTES IN OUT

IN is the image as raw bytes. It begins with BYTES zeros, which the header replaces.
"""

import argparse
import hashlib
import struct

HEADER_MAGIC, LIST_MAGIC, SHA256 = 0x96F3B83D, 0x6907, 0x10  # MCUboot's design.md

parser = argparse.ArgumentParser()
parser.add_argument("--header-size", type=int, required=True)
parser.add_argument("image")
parser.add_argument("out")
args = parser.parse_args()

with open(args.image, "rb") as f:
    image = bytearray(f.read())
if any(image[: args.header_size]):
    raise SystemExit(f"{args.image} does not begin with {args.header_size} zeros")
payload = len(image) - args.header_size
version = (1, 0, 0, 0)
header = struct.pack("<IIHHIIBBHII", HEADER_MAGIC, 0, args.header_size, 0, payload, 0, *version, 0)
image[: len(header)] = header
digest = hashlib.sha256(image).digest()
entry = struct.pack("<HH", SHA256, len(digest)) + digest
with open(args.out, "wb") as f:
    f.write(image + struct.pack("<HH", LIST_MAGIC, 4 + len(entry)) + entry)
