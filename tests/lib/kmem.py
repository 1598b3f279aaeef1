#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""kmem.py ADDRESS LENGTH: that much of the kernel's memory, to standard output,
by /proc/kcore.
"""

import struct
import sys

# Of an ELF64 file: where the program headers are, and how many; of one of
# those: type, flags, offset, two addresses, two sizes, alignment.
HEADER_END = struct.Struct("=32xQ16xH6x")
SEGMENT = struct.Struct("=IIQQQQQQ")
PT_LOAD = 1


def read(address, length):
    with open("/proc/kcore", "rb") as kcore:
        start, count = HEADER_END.unpack(kcore.read(HEADER_END.size))
        kcore.seek(start)
        segments = [
            SEGMENT.unpack(kcore.read(SEGMENT.size)) for _ in range(count)
        ]
        for kind, _, offset, first, _, size, _, _ in segments:
            if (
                kind == PT_LOAD
                and first <= address
                and address + length <= first + size
            ):
                kcore.seek(offset + address - first)
                return kcore.read(length)
    sys.exit(f"kmem.py: {address:#x} is not in /proc/kcore")


if __name__ == "__main__":
    sys.stdout.buffer.write(read(int(sys.argv[1], 0), int(sys.argv[2])))
