# SPDX-License-Identifier: GPL-2.0-only
"""aio.py DEVICE BYTE N: N writes of 4 KiB next to each other, in one
submission, every second one with RWF_DSYNC.

To write(): a direct write to a block device that is submitted like that is
durable by FUA alone. After others the kernel sends a flush.
"""

import ctypes
import mmap
import os
import sys

BLOCK = 4096
IO_SETUP, IO_GETEVENTS, IO_SUBMIT = {
    "x86_64": (206, 208, 209),
    "i686": (245, 247, 248),
}[os.uname().machine]
IOCB_CMD_PWRITE = 1


class Iocb(ctypes.Structure):
    """struct iocb: include/uapi/linux/aio_abi.h"""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_int32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("fd", ctypes.c_uint32),
        ("buf", ctypes.c_uint64),
        ("nbytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("resfd", ctypes.c_uint32),
    ]


class Event(ctypes.Structure):
    """struct io_event"""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("obj", ctypes.c_uint64),
        ("res", ctypes.c_int64),
        ("res2", ctypes.c_int64),
    ]


libc = ctypes.CDLL(None, use_errno=True)


def call(*args: object) -> int:
    """Make a system call."""
    result = libc.syscall(*args)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {args[0]}")
    return result


def write(fd: int, buf: mmap.mmap, at: int, flags: list[int]) -> None:
    """Write a block for each of the flags (RWF_*), next to each other."""
    count = len(flags)
    context = ctypes.c_ulong()
    call(IO_SETUP, count, ctypes.byref(context))
    address = ctypes.addressof(ctypes.c_char.from_buffer(buf))
    blocks = (Iocb * count)(
        *(
            Iocb(
                rw_flags=each,
                opcode=IOCB_CMD_PWRITE,
                fd=fd,
                buf=address,
                nbytes=BLOCK,
                offset=at + number * BLOCK,
            )
            for number, each in enumerate(flags)
        )
    )
    pointers = (ctypes.c_void_p * count)(
        *(ctypes.addressof(block) for block in blocks)
    )
    if call(IO_SUBMIT, context, ctypes.c_long(count), pointers) != count:
        raise OSError("not all writes were submitted")
    events = (Event * count)()
    number = ctypes.c_long(count)
    if call(IO_GETEVENTS, context, number, number, events, None) != count:
        raise OSError("not all writes ended")
    for event in events:
        if event.res != BLOCK:
            raise OSError(f"a write ended with {event.res}")


def main() -> None:
    """Write."""
    device, byte, count = sys.argv[1:]
    buf = mmap.mmap(-1, BLOCK)
    buf.write(byte[:1].encode() * BLOCK)
    fd = os.open(device, os.O_RDWR | os.O_DIRECT)
    write(fd, buf, 0, [n % 2 * os.RWF_DSYNC for n in range(int(count))])


if __name__ == "__main__":
    main()
