# SPDX-License-Identifier: GPL-2.0-only
"""durably.py DEVICE DM-NAME OFFSET fua|flush MARK

Writes 4 KiB twice, 16 KiB apart. The second write is durable when it returns,
by FUA and nothing else, or by an fsync. At once, marks the log of the
dm-log-writes device: what was not durable then may be a moment later.
"""

import fcntl
import mmap
import os
import struct
import sys
import time
from pathlib import Path

import aio

# include/uapi/linux/dm-ioctl.h
DM_TARGET_MSG = 0xC138FD0E
DM_IOCTL = "3I2IIiIII Q128s129s7x"
BLOCK = 4096


def mark(control: int, name: str, text: str) -> None:
    """Write a mark to the log of a dm-log-writes device."""
    message = struct.pack("Q", 0) + f"mark {text}".encode() + b"\0"
    head = struct.calcsize(DM_IOCTL)
    data = struct.pack(
        DM_IOCTL,
        *(4, 0, 0),
        1024,
        head,
        *(0, 0, 0, 0, 0, 0),
        name.encode(),
        b"",
    )
    fcntl.ioctl(control, DM_TARGET_MSG, bytearray((data + message).ljust(1024)))


def mapped(device: str) -> int:
    """Bytes of the image that are mapped."""
    stat = Path(f"/sys/block/{Path(device).name}/loop/stat")
    return int(stat.read_text(errors="replace").split()[1])


def main() -> None:
    """Write, and mark."""
    device, name, offset, how, text = sys.argv[1:]
    at = int(offset)
    buf = mmap.mmap(-1, BLOCK)
    buf.write(text[:1].encode() * BLOCK)
    control = os.open("/dev/mapper/control", os.O_RDWR)
    fd = os.open(device, os.O_RDWR | os.O_DIRECT)
    before = mapped(device)
    os.pwritev(fd, [buf], at)
    # The chunk is mapped at once, and durable a moment later.
    end = time.monotonic() + 30
    while mapped(device) < before + 16 * BLOCK and time.monotonic() < end:
        pass
    if how == "fua":
        aio.write(fd, buf, at + 4 * BLOCK, [os.RWF_DSYNC])
    else:
        os.pwritev(fd, [buf], at + 4 * BLOCK)
        os.fsync(fd)
    mark(control, name, text)


main()
