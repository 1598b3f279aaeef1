# SPDX-License-Identifier: GPL-2.0-only
"""The loop ioctls, for tests. In shell: tests/programs/loopdev.c."""

import ctypes
import errno
import fcntl
import os
import pathlib
import stat
import struct
import time

# <linux/loop.h>
LOOP_SET_FD = 0x4C00
LOOP_CLR_FD = 0x4C01
LOOP_SET_STATUS = 0x4C02
LOOP_GET_STATUS = 0x4C03
LOOP_SET_STATUS64 = 0x4C04
LOOP_GET_STATUS64 = 0x4C05
LOOP_CHANGE_FD = 0x4C06
LOOP_SET_CAPACITY = 0x4C07
LOOP_SET_DIRECT_IO = 0x4C08
LOOP_SET_BLOCK_SIZE = 0x4C09
LOOP_CONFIGURE = 0x4C0A
LOOP_CTL_ADD = 0x4C80
LOOP_CTL_REMOVE = 0x4C81
LOOP_CTL_GET_FREE = 0x4C82

LO_FLAGS_READ_ONLY = 1
LO_FLAGS_AUTOCLEAR = 4
LO_FLAGS_PARTSCAN = 8
LO_FLAGS_DIRECT_IO = 16

FLAG_NAMES = {1: "read-only", 4: "autoclear", 8: "partscan", 16: "direct-io"}

# <linux/fs.h>
BLKROSET = 0x125D
BLKROGET = 0x125E
BLKRRPART = 0x125F
BLKFLSBUF = 0x1261
BLKSSZGET = 0x1268
BLKPG = 0x1269
BLKDISCARD = 0x1277
BLKSECDISCARD = 0x127D
BLKZEROOUT = 0x127F
BLKPBSZGET = 0x127B
BLKGETSIZE64 = 0x80001272 | ctypes.sizeof(ctypes.c_size_t) << 16
BLKGETDISKSEQ = 0x80081280

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ioctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)


class Info(ctypes.Structure):
    """struct loop_info, as on x86-64: __kernel_old_dev_t is a long there"""

    _fields_ = [
        ("lo_number", ctypes.c_int),
        ("lo_device", ctypes.c_ulong),
        ("lo_inode", ctypes.c_ulong),
        ("lo_rdevice", ctypes.c_ulong),
        ("lo_offset", ctypes.c_int),
        ("lo_encrypt_type", ctypes.c_int),
        ("lo_encrypt_key_size", ctypes.c_int),
        ("lo_flags", ctypes.c_int),
        ("lo_name", ctypes.c_char * 64),
        ("lo_encrypt_key", ctypes.c_ubyte * 32),
        ("lo_init", ctypes.c_ulong * 2),
        ("reserved", ctypes.c_char * 4),
    ]


class Info32(ctypes.Structure):
    """struct loop_info as a 32-bit program sees it"""

    _fields_ = [
        ("lo_number", ctypes.c_int32),
        ("lo_device", ctypes.c_uint16),
        ("lo_inode", ctypes.c_uint32),
        ("lo_rdevice", ctypes.c_uint16),
        ("lo_offset", ctypes.c_int32),
        ("lo_encrypt_type", ctypes.c_int32),
        ("lo_encrypt_key_size", ctypes.c_int32),
        ("lo_flags", ctypes.c_int32),
        ("lo_name", ctypes.c_char * 64),
        ("lo_encrypt_key", ctypes.c_ubyte * 32),
        ("lo_init", ctypes.c_uint32 * 2),
        ("reserved", ctypes.c_char * 4),
    ]


if ctypes.sizeof(ctypes.c_void_p) == 4:
    Info = Info32


class Info64(ctypes.Structure):
    """struct loop_info64, the same for 32-bit programs"""

    _fields_ = [
        ("lo_device", ctypes.c_uint64),
        ("lo_inode", ctypes.c_uint64),
        ("lo_rdevice", ctypes.c_uint64),
        ("lo_offset", ctypes.c_uint64),
        ("lo_sizelimit", ctypes.c_uint64),
        ("lo_number", ctypes.c_uint32),
        ("lo_encrypt_type", ctypes.c_uint32),
        ("lo_encrypt_key_size", ctypes.c_uint32),
        ("lo_flags", ctypes.c_uint32),
        ("lo_file_name", ctypes.c_char * 64),
        ("lo_crypt_name", ctypes.c_char * 64),
        ("lo_encrypt_key", ctypes.c_ubyte * 32),
        ("lo_init", ctypes.c_uint64 * 2),
    ]


class Config(ctypes.Structure):
    """struct loop_config"""

    _fields_ = [
        ("fd", ctypes.c_uint32),
        ("block_size", ctypes.c_uint32),
        ("info", Info64),
        ("reserved", ctypes.c_uint64 * 8),
    ]


def errno_name(e):
    """ENXIO for an OSError or a number; ENOTTY and so on"""
    n = e.errno if isinstance(e, OSError) else e
    # Not in Python's table: the kernel lets some of its own out.
    return errno.errorcode.get(n, {515: "ENOIOCTLCMD"}.get(n, f"errno {n}"))


def ioctl(fd, request, arg=0):
    """ioctl(2) as it is: arg an integer, a ctypes object, or None for a null
    pointer.
    """
    if arg is None:
        arg = 0
    if not isinstance(arg, int):
        arg = ctypes.addressof(arg)
    r = _libc.ioctl(fd, request, ctypes.c_void_p(arg & 0xFFFFFFFFFFFFFFFF))
    if r < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
    return r


def blkrrpart(fd):
    return ioctl(fd, BLKRRPART)


class Node:
    """An open device node."""

    def __init__(self, path, flags):
        self.path = path
        self.fd = os.open(path, flags | os.O_CLOEXEC)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def fileno(self):
        return self.fd

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def ioctl(self, request, arg=0):
        return ioctl(self.fd, request, arg)


class Control(Node):
    """/dev/loop-control or /dev/floop-control"""

    def __init__(self, prefix=None):
        prefix = prefix or default_prefix()
        super().__init__(f"/dev/{prefix}-control", os.O_RDWR)

    def add(self, n=-1):
        return self.ioctl(LOOP_CTL_ADD, n)

    def remove(self, n):
        return self.ioctl(LOOP_CTL_REMOVE, n)

    def get_free(self):
        return self.ioctl(LOOP_CTL_GET_FREE)


class Device(Node):
    """A loop device, of either driver"""

    def __init__(self, path, flags=os.O_RDWR):
        super().__init__(path, flags)

    @property
    def name(self):
        return os.path.basename(self.path)

    def configure(
        self, fd, flags=0, offset=0, sizelimit=0, block_size=0, name="", **info
    ):
        config = Config(fd=fd & 0xFFFFFFFF, block_size=block_size)
        config.info.lo_flags = flags
        config.info.lo_offset = offset
        config.info.lo_sizelimit = sizelimit
        config.info.lo_file_name = name.encode()
        for key, value in info.items():
            setattr(config.info, key, value)
        return self.ioctl(LOOP_CONFIGURE, config)

    def set_fd(self, fd):
        return self.ioctl(LOOP_SET_FD, fd)

    def clr_fd(self):
        return self.ioctl(LOOP_CLR_FD)

    def change_fd(self, fd):
        return self.ioctl(LOOP_CHANGE_FD, fd)

    def get_status64(self):
        info = Info64()
        self.ioctl(LOOP_GET_STATUS64, info)
        return info

    def set_status64(self, info):
        return self.ioctl(LOOP_SET_STATUS64, info)

    def get_status(self):
        info = Info()
        self.ioctl(LOOP_GET_STATUS, info)
        return info

    def set_status(self, info):
        return self.ioctl(LOOP_SET_STATUS, info)

    def set_capacity(self):
        return self.ioctl(LOOP_SET_CAPACITY)

    def set_direct_io(self, on):
        return self.ioctl(LOOP_SET_DIRECT_IO, on)

    def set_block_size(self, size):
        return self.ioctl(LOOP_SET_BLOCK_SIZE, size)

    def size(self):
        return struct.unpack("Q", fcntl.ioctl(self.fd, BLKGETSIZE64, bytes(8)))[
            0
        ]

    def sector_size(self):
        return struct.unpack("i", fcntl.ioctl(self.fd, BLKSSZGET, bytes(4)))[0]

    def diskseq(self):
        return struct.unpack(
            "Q", fcntl.ioctl(self.fd, BLKGETDISKSEQ, bytes(8))
        )[0]


def default_prefix():
    return os.environ.get("PREFIX", "floop")


def numbers(prefix):
    """Of the devices that there are"""
    names = (p.name for p in pathlib.Path("/sys/block").glob(f"{prefix}[0-9]*"))
    return {int(n[len(prefix) :]) for n in names}


def wait_for_node(path, seconds=30):
    """devtmpfs makes the node; wait for it to be there and a block device."""
    end = time.monotonic() + seconds
    while True:
        try:
            if stat.S_ISBLK(os.stat(path).st_mode):
                return path
        except FileNotFoundError:
            pass
        if time.monotonic() > end:
            raise TimeoutError(f"{path} did not appear in {seconds} s")
        time.sleep(0.02)


def attach(
    path,
    prefix=None,
    device=None,
    read_only=False,
    flags=0,
    offset=0,
    sizelimit=0,
    block_size=0,
    open_flags=0,
):
    """Attach the file to a free device (or the one named); returns its path."""
    prefix = prefix or default_prefix()
    fd = os.open(
        path,
        (os.O_RDONLY if read_only else os.O_RDWR) | open_flags | os.O_CLOEXEC,
    )
    try:
        for _ in range(100):
            if device:
                node = device
            else:
                with Control(prefix) as c:
                    node = f"/dev/{prefix}{c.get_free()}"
            wait_for_node(node)
            try:
                with Device(node, os.O_RDONLY if read_only else os.O_RDWR) as d:
                    d.configure(
                        fd,
                        flags=flags | (LO_FLAGS_READ_ONLY if read_only else 0),
                        offset=offset,
                        sizelimit=sizelimit,
                        block_size=block_size,
                        name=os.path.abspath(path)[:63],
                    )
                return node
            except OSError as e:
                # Somebody else took it between GET_FREE and here.
                if (
                    e.errno not in (errno.EBUSY, errno.ENXIO, errno.ENODEV)
                    or device
                ):
                    raise
                time.sleep(0.01)
        raise OSError(errno.EBUSY, "no device stays free")
    finally:
        os.close(fd)


def bound(device):
    return os.path.exists(
        f"/sys/block/{os.path.basename(device)}/loop/backing_file"
    )


def detach(device, seconds=60):
    """Detach, and wait until it is (udev may have it open for a moment)."""
    with Device(device, os.O_RDONLY) as d:
        d.clr_fd()
    end = time.monotonic() + seconds
    while bound(device):
        if time.monotonic() > end:
            raise TimeoutError(
                f"{device} is still attached {seconds} s after LOOP_CLR_FD"
            )
        time.sleep(0.02)
