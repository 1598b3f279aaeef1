#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# shows: I/O, discards, partitions by hand and the 32-bit ioctls behave as with
#   the in-tree driver.
# machines: lts-side-by-side stable-drop-in
# built-in: no
import ctypes
import fcntl
import os
import pathlib
import struct

from differential import (
    all_as_nobody,
    as_nobody,
    every_ioctl,
    flag_names,
    ioctl32,
    run,
    scenario,
)
from loopctl import (
    BLKDISCARD,
    BLKFLSBUF,
    BLKPG,
    BLKROGET,
    BLKROSET,
    BLKRRPART,
    BLKSECDISCARD,
    BLKZEROOUT,
    LO_FLAGS_PARTSCAN,
    LO_FLAGS_READ_ONLY,
    LOOP_CHANGE_FD,
    LOOP_CLR_FD,
    LOOP_CONFIGURE,
    LOOP_GET_STATUS,
    LOOP_GET_STATUS64,
    LOOP_SET_BLOCK_SIZE,
    LOOP_SET_FD,
    LOOP_SET_STATUS,
    Config,
    Info32,
    Info64,
    ioctl,
)

SIZE = 1 << 20


def text_range(fd, request, start, length):
    return fcntl.ioctl(fd, request, struct.pack("QQ", start, length))


def discards(d, label, fd):
    for name, request in (
        ("BLKDISCARD", BLKDISCARD),
        ("BLKZEROOUT", BLKZEROOUT),
        ("BLKSECDISCARD", BLKSECDISCARD),
    ):
        for start, length in (
            (0, 4096),
            (8192, 512),
            (12288, 0),
            (100, 512),
            (512, 100),
            (SIZE - 4096, 4096),
            (SIZE - 4096, 8192),
            (SIZE, 512),
            (0, SIZE),
        ):
            what = f"{label}: {name} {start} {length}"
            os.pwrite(fd, b"data".ljust(4096, b"."), 0)
            d.call(what, text_range, fd, request, start, length)
            d.see(f"{what}: then", os.pread(fd, 4, 0))


@scenario()
def discard(d):
    """discard and write-zeroes on a file, a disk, a device; read-only and
    unbound
    """
    device = d.bound()
    d.see_attrs(
        "file",
        device,
        "queue/discard_max_bytes",
        "queue/write_zeroes_max_bytes",
    )
    discards(d, "file", device.fd)
    for size in (4096,):
        device = d.bound(block_size=size)
        discards(d, f"blocks of {size}", device.fd)
    disk = d.device()
    disk.configure(d.open(os.environ["DISKS"].split()[0]), sizelimit=SIZE)
    discards(d, "disk", disk.fd)
    upper = d.device()
    upper.configure(d.open(device.path), block_size=512)
    discards(d, "device", upper.fd)
    ro = d.bound(flags=LO_FLAGS_READ_ONLY)
    d.call("read-only", text_range, ro.fd, BLKDISCARD, 0, 4096)
    d.call("read-only, zeroes", text_range, ro.fd, BLKZEROOUT, 0, 4096)
    opened = d.reopen(device, os.O_RDONLY)
    d.call("opened read-only", text_range, opened.fd, BLKDISCARD, 0, 4096)
    d.call("unbound", text_range, d.device().fd, BLKDISCARD, 0, 4096)
    d.call("unbound, zeroes", text_range, d.device().fd, BLKZEROOUT, 0, 4096)


@scenario()
def space(d):
    """a range that is zeroed keeps its space in the image, one that is
    discarded doesn't
    """
    device = d.bound()
    os.pwrite(device.fd, b"data" * (SIZE // 4), 0)
    os.fsync(device.fd)
    d.see("written", os.stat(device.image).st_blocks)
    d.call("zeroed", text_range, device.fd, BLKZEROOUT, 0, SIZE // 2)
    os.fsync(device.fd)
    d.see("zeroed: blocks", os.stat(device.image).st_blocks)
    d.see("zeroed: reads", os.pread(device.fd, 4, 0))
    d.call("discarded", text_range, device.fd, BLKDISCARD, 0, SIZE // 2)
    d.see("discarded: blocks", os.stat(device.image).st_blocks)


@scenario()
def no_fallocate(d):
    """discard where the file can't do it: sealed memory files"""
    memfd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    d.stack.callback(os.close, memfd)
    os.ftruncate(memfd, SIZE)
    os.pwrite(memfd, b"data", 0)
    f_add_seals, seal_shrink, seal_write = 1033, 2, 8
    fcntl.fcntl(memfd, f_add_seals, seal_shrink)
    device = d.device()
    d.call("sealed against shrinking", device.configure, memfd)
    d.call("discard", text_range, device.fd, BLKDISCARD, 0, 4096)
    d.see("reads", os.pread(device.fd, 4, 0))
    d.detached(device)
    memfd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    d.stack.callback(os.close, memfd)
    os.ftruncate(memfd, SIZE)
    fcntl.fcntl(memfd, f_add_seals, seal_write)
    d.call("sealed against writing", device.configure, memfd)
    d.see_attrs("sealed against writing", device, "ro")
    os.pwrite(device.fd, b"x" * 512, 0)
    d.call("write", os.fsync, device.fd)
    d.call("discard", text_range, device.fd, BLKDISCARD, 0, 4096)
    d.call("zeroes", text_range, device.fd, BLKZEROOUT, 0, 4096)


@scenario()
def reads_and_writes(d):
    """buffered and direct I/O at and beyond the end"""
    for size in (512, 4096):
        device = d.bound(SIZE, block_size=size)
        direct = d.reopen(device, os.O_RDWR | os.O_DIRECT)
        memory = __import__("mmap").mmap(-1, 8192)
        for at, length in (
            (0, 4096),
            (0, 512),
            (512, 512),
            (100, 512),
            (0, 100),
            (SIZE - 512, 512),
            (SIZE - 4096, 8192),
            (SIZE, 4096),
            (SIZE + 4096, 4096),
        ):
            what = f"blocks of {size}: {length} at {at}"
            view = memoryview(memory)[:length]
            d.see(f"{what}: read", len(os.pread(device.fd, length, at)))
            d.call(f"{what}: write", os.pwrite, device.fd, bytes(length), at)
            d.call(f"{what}: direct read", os.preadv, direct.fd, [view], at)
            d.call(f"{what}: direct write", os.pwritev, direct.fd, [view], at)
            view.release()
        d.call("fsync", os.fsync, device.fd)
        d.call("fdatasync", os.fdatasync, device.fd)
        d.call("BLKFLSBUF", ioctl, device.fd, BLKFLSBUF, 0)


@scenario("cut-image")
def cut_image(d):
    """an image that was cut short under the device"""
    device = d.bound(SIZE)
    os.truncate(device.image, 4096)
    direct = d.reopen(device, os.O_RDWR | os.O_DIRECT)
    memory = __import__("mmap").mmap(-1, 4096)
    d.call("read before the cut", os.preadv, direct.fd, [memory], 0)
    d.call("read after the cut", os.preadv, direct.fd, [memory], 65536)
    d.call("buffered read after the cut", os.pread, device.fd, 512, 131072)
    d.call("write before the cut", os.pwritev, direct.fd, [memory], 0)
    d.call("write beyond the cut", os.pwritev, direct.fd, [memory], 65536)
    d.see("size", device.size())


@scenario()
def read_only_setting(d):
    """BLKROSET, and writing then"""
    device = d.bound()
    for value in (1, 0, 5, 0):
        d.call(
            f"set {value}",
            fcntl.ioctl,
            device.fd,
            BLKROSET,
            struct.pack("i", value),
        )
        got = struct.unpack("i", fcntl.ioctl(device.fd, BLKROGET, bytes(4)))[0]
        d.see(f"set {value}: get", got)
        d.see_attrs(f"set {value}", device, "ro")
        d.call(f"set {value}: write", os.pwrite, device.fd, bytes(512), 0)
        d.call(f"set {value}: open for writing", d.reopen, device)
        d.see(f"set {value}: flags", flag_names(device.get_status64().lo_flags))
    d.call("set 1", fcntl.ioctl, device.fd, BLKROSET, struct.pack("i", 1))
    device.close()
    device = d.reopen(device, os.O_RDONLY)
    d.detached_from = device.clr_fd()
    device.close()
    d.see_attrs("after letting go", device, "ro")
    again = d.reopen(device, os.O_RDONLY)
    d.call("attached again", again.configure, d.open(device_image := d.image()))
    d.see("attached again: image", device_image.exists())
    d.see_attrs("attached again", again, "ro")
    ro = d.bound(flags=LO_FLAGS_READ_ONLY)
    d.call(
        "writable against the image",
        fcntl.ioctl,
        ro.fd,
        BLKROSET,
        struct.pack("i", 0),
    )
    d.see_attrs("writable against the image", ro, "ro")
    d.call("and a write", os.pwrite, ro.fd, bytes(512), 0)
    d.call("and its sync", os.fsync, ro.fd)
    d.call("and a discard", text_range, ro.fd, BLKDISCARD, 0, 4096)
    d.call("and zeroes", text_range, ro.fd, BLKZEROOUT, 4096, 4096)
    d.see(
        "what the image has",
        [ro.image.read_bytes()[at : at + 15] for at in (0, 4096)],
    )
    value = ctypes.c_int(1)
    d.see("without privileges", as_nobody(ioctl, ro.fd, BLKROSET, value))


class Partition(ctypes.Structure):
    _fields_ = [
        ("start", ctypes.c_longlong),
        ("length", ctypes.c_longlong),
        ("pno", ctypes.c_int),
        ("devname", ctypes.c_char * 64),
        ("volname", ctypes.c_char * 64),
    ]


class PartitionArg(ctypes.Structure):
    _fields_ = [
        ("op", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("datalen", ctypes.c_int),
        ("data", ctypes.c_void_p),
    ]


def blkpg(fd, op, pno, start=0, length=0):
    part = Partition(start=start, length=length, pno=pno)
    arg = PartitionArg(op, 0, ctypes.sizeof(part), ctypes.addressof(part))
    return ioctl(fd, BLKPG, arg)


def partitions(device):
    folder = pathlib.Path(f"/sys/block/{device.name}")
    return sorted(p.parent.name for p in folder.glob("*/partition"))


@scenario("partitions-go")
def partitions_by_hand(d):
    """BLKPG and BLKRRPART, with and without partition scan"""
    add, delete, resize = 1, 2, 3
    for label, flags in (("without scan", 0), ("with scan", LO_FLAGS_PARTSCAN)):
        device = d.bound(flags=flags)
        d.see_attrs(label, device, "capability", "ext_range")
        d.call(f"{label}: add 1", blkpg, device.fd, add, 1, 65536, 65536)
        d.call(f"{label}: add 1 again", blkpg, device.fd, add, 1, 65536, 65536)
        d.call(
            f"{label}: add 2, overlapping",
            blkpg,
            device.fd,
            add,
            2,
            65536,
            65536,
        )
        d.call(f"{label}: add 2, beyond", blkpg, device.fd, add, 2, SIZE, 65536)
        d.call(f"{label}: add 2", blkpg, device.fd, add, 2, 131072, 65536)
        d.call(
            f"{label}: resize 2", blkpg, device.fd, resize, 2, 131072, 131072
        )
        d.call(f"{label}: delete 3", blkpg, device.fd, delete, 3)
        d.see(f"{label}: there are", partitions(device))
        part = d.open(f"{device.path}p1")
        os.pwrite(part, b"partition".ljust(512), 0)
        os.fsync(part)
        d.see(f"{label}: through the disk", os.pread(device.fd, 9, 65536))
        d.call(f"{label}: delete 1, open", blkpg, device.fd, delete, 1)
        d.call(f"{label}: reread, open", ioctl, device.fd, BLKRRPART, 0)
        os.close(part)
        d.call(f"{label}: delete 1", blkpg, device.fd, delete, 1)
        d.call(f"{label}: reread", ioctl, device.fd, BLKRRPART, 0)
        d.see(f"{label}: after reread", partitions(device))
        d.call(f"{label}: add 3", blkpg, device.fd, add, 3, 65536, 65536)
        d.see(
            f"{label}: unprivileged", as_nobody(ioctl, device.fd, BLKRRPART, 0)
        )
        d.detached(device)
        d.see(f"{label}: after letting go", partitions(device))
        d.call(f"{label}: reread, unbound", ioctl, device.fd, BLKRRPART, 0)
        d.see(f"{label}: after reread, unbound", partitions(device))


@scenario()
def from_32_bit(d):
    """every ioctl as 32-bit programs call it"""
    device = d.device()
    image = d.open(d.image())
    requests = (
        *every_ioctl(Info32),
        ("LOOP_CHANGE_FD", LOOP_CHANGE_FD, image),
        ("LOOP_SET_BLOCK_SIZE 1024", LOOP_SET_BLOCK_SIZE, 1024),
        ("LOOP_CONFIGURE, bad fd", LOOP_CONFIGURE, Config(fd=9999)),
        ("BLKRRPART", BLKRRPART, 0),
    )
    for label, request, arg in requests:
        d.call(f"unbound: {label}", ioctl32, device.fd, request, arg)
    d.call("LOOP_SET_FD", ioctl32, device.fd, LOOP_SET_FD, image)
    d.status("LOOP_SET_FD", device)
    for label, request, arg in requests[1:]:
        d.call(f"bound: {label}", ioctl32, device.fd, request, arg)
    d.see_attrs("bound", device, "queue/logical_block_size", "loop/dio")
    d.call("LOOP_CLR_FD", ioctl32, device.fd, LOOP_CLR_FD, 0)
    device.close()
    device = d.reopen(device)
    config = Config(fd=image, block_size=2048)
    config.info.lo_offset = 4096
    config.info.lo_flags = LO_FLAGS_PARTSCAN
    d.call("LOOP_CONFIGURE", ioctl32, device.fd, LOOP_CONFIGURE, config)
    d.status("LOOP_CONFIGURE", device)
    d.see_attrs("LOOP_CONFIGURE", device, "queue/logical_block_size")


@scenario()
def status_from_32_bit(d):
    """the 32-bit struct loop_info: what fits and what does not"""
    device = d.bound()
    for offset in (0, 4096, (1 << 31) - 1, -1):
        info = Info32(
            lo_offset=offset, lo_name=b"thirty-two", lo_flags=4, lo_number=99
        )
        info.lo_encrypt_type = 1
        info.lo_encrypt_key_size = 99
        d.call(f"set {offset}", ioctl32, device.fd, LOOP_SET_STATUS, info)
        d.status(f"set {offset}", device)
        got = Info32()
        if (
            d.call(f"get {offset}", ioctl32, device.fd, LOOP_GET_STATUS, got)
            is not None
        ):
            d.see(f"get {offset}: offset", got.lo_offset)
            d.see(f"get {offset}: name", got.lo_name)
            d.see(f"get {offset}: flags", flag_names(got.lo_flags))
            d.see(
                f"get {offset}: inode",
                got.lo_inode == os.stat(device.image).st_ino,
            )
            d.see(
                f"get {offset}: number",
                got.lo_number - device.get_status64().lo_number,
            )
            d.see(
                f"get {offset}: crypt",
                (got.lo_encrypt_type, got.lo_encrypt_key_size),
            )
    for offset in (1 << 31, 1 << 32, (1 << 32) + 512):
        device.set_status64(Info64(lo_offset=offset))
        d.call(f"get {offset}", ioctl32, device.fd, LOOP_GET_STATUS, Info32())
    got = Info64()
    device.set_status64(Info64(lo_offset=8192, lo_sizelimit=4096))
    d.call("LOOP_GET_STATUS64", ioctl32, device.fd, LOOP_GET_STATUS64, got)
    d.see("LOOP_GET_STATUS64: values", (got.lo_offset, got.lo_sizelimit))
    disk = d.device()
    disk.configure(d.open(os.environ["DISKS"].split()[0]))
    d.call("a disk's numbers", ioctl32, disk.fd, LOOP_GET_STATUS, Info32())
    ro = d.reopen(device, os.O_RDONLY)
    requests = every_ioctl(Info32)[1:]
    results = all_as_nobody(
        [(ioctl32, ro.fd, request, arg) for _, request, arg in requests]
    )
    for (label, _, _), result in zip(requests, results, strict=True):
        d.see(f"unprivileged, read-only: {label}", result)


run()
