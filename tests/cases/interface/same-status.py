#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# shows: Status, capacity, direct I/O, block size and CHANGE_FD are as with the
#   in-tree driver.
# machines: lts-side-by-side stable-drop-in
# built-in: no
import os

from differential import all_as_nobody, every_ioctl, flag_names, run, scenario
from loopctl import (
    LO_FLAGS_AUTOCLEAR,
    LO_FLAGS_DIRECT_IO,
    LO_FLAGS_PARTSCAN,
    LO_FLAGS_READ_ONLY,
    Info,
    Info64,
    ioctl,
)

SIZE = 1 << 20
LIMITS = (
    "logical_block_size",
    "physical_block_size",
    "minimum_io_size",
    "discard_granularity",
)
BLOCK_SIZES = (
    0,
    1,
    256,
    511,
    512,
    513,
    1000,
    1024,
    2048,
    3000,
    4095,
    4096,
    8192,
    16384,
)
BLOCK_SIZES += (65536, 131072, 1 << 31)
ALL = every_ioctl(Info)


def see_limits(d, label, device):
    d.see_attrs(label, device, *(f"queue/{name}" for name in LIMITS))


@scenario()
def unbound(d):
    """every ioctl on a device without a file"""
    device = d.device()
    for label, request, arg in ALL:
        d.call(label, device.ioctl, request, arg)
    d.call("LOOP_CHANGE_FD, a file", device.change_fd, d.open(d.image()))
    d.call("LOOP_CHANGE_FD, null", device.change_fd, d.open("/dev/null"))
    d.see("size", device.size())
    d.see("read", os.pread(device.fd, 512, 0))
    d.call("write", os.pwrite, device.fd, bytes(512), 0)
    d.call("fsync", os.fsync, device.fd)
    d.see("loop/", os.path.exists(f"/sys/block/{device.name}/loop"))
    see_limits(d, "limits", device)


@scenario()
def bound(d):
    """every ioctl on an attached device"""
    device = d.bound()
    for label, request, arg in ALL[1:]:
        d.call(label, device.ioctl, request, arg)
        d.status(label, device)


@scenario("late-io")
def cleared(d):
    """every ioctl after LOOP_CLR_FD, while the device is still open"""
    device = d.bound()
    device.clr_fd()
    for label, request, arg in ALL:
        d.call(label, device.ioctl, request, arg)
    d.call("configure", device.configure, d.open(d.image()))
    d.call("change_fd", device.change_fd, d.open(d.image()))
    d.call("open", d.reopen, device)
    d.call("read", os.pread, device.fd, 512, 0)
    d.see("size", device.size())
    d.see_attrs("cleared", device, "loop/backing_file", "loop/autoclear")


@scenario()
def without_privileges(d):
    """what an unprivileged process may do with a device that it has open"""
    for mode in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY):
        where = {os.O_RDWR: "rw", os.O_RDONLY: "ro", os.O_WRONLY: "wo"}[mode]
        device = d.bound(open_flags=os.O_RDWR)
        opened = d.reopen(device, mode)
        image = d.open(device.image)
        calls = [
            (label, ioctl, opened.fd, request, arg)
            for label, request, arg in ALL[1:]
        ]
        calls += [
            ("change_fd", opened.change_fd, image),
            ("clr_fd", opened.clr_fd),
        ]
        results = all_as_nobody([call[1:] for call in calls])
        for call, result in zip(calls, results, strict=True):
            d.see(f"{where}: {call[0]}", result)


@scenario()
def status64_flags(d):
    """every flag, and some that are none, set and cleared through
    LOOP_SET_STATUS64
    """
    for before in (
        0,
        LO_FLAGS_AUTOCLEAR,
        LO_FLAGS_PARTSCAN,
        LO_FLAGS_READ_ONLY,
    ):
        device = d.bound(flags=before)
        for bit in (0, 1, 2, 3, 4, 5, 15, 31, 32):
            value = 0 if bit == 32 else 1 << bit
            info = device.get_status64()
            info.lo_flags = value
            label = f"{flag_names(before)}, set {flag_names(value)}"
            d.call(label, device.set_status64, info)
            d.see(f"{label}: flags", flag_names(device.get_status64().lo_flags))
        d.see_attrs(
            flag_names(before), device, "loop/autoclear", "loop/partscan", "ro"
        )


@scenario()
def status_flags(d):
    """the same through LOOP_SET_STATUS"""
    for before in (0, LO_FLAGS_AUTOCLEAR | LO_FLAGS_PARTSCAN):
        device = d.bound(flags=before)
        for value in (0, 1, 2, 4, 8, 16, 4 | 8, 32, -1):
            info = device.get_status()
            info.lo_flags = value
            label = f"{flag_names(before)}, set {value}"
            d.call(label, device.set_status, info)
            d.see(f"{label}: flags", flag_names(device.get_status().lo_flags))


@scenario()
def status64_values(d):
    """offset, size limit, name and crypt fields through LOOP_SET_STATUS64"""
    device = d.bound()
    values = (0, 1, 511, 512, 513, 4096, SIZE - 512, SIZE, SIZE + 512)
    values += (1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
    tries = [(offset, 0) for offset in values] + [
        (0, limit) for limit in values
    ]
    tries += [(4096, 4096), (4096, 1000), (1 << 63, 512), (0, 0)]
    for offset, limit in tries:
        label = f"offset {offset}, limit {limit}"
        info = Info64(
            lo_offset=offset, lo_sizelimit=limit, lo_file_name=b"name"
        )
        d.call(label, device.set_status64, info)
        d.status(label, device)
        d.see_attrs(label, device, "loop/offset", "loop/sizelimit")
        d.see(f"{label}: reads", os.pread(device.fd, 15, 0))
    for field, value in (
        ("lo_encrypt_type", 1),
        ("lo_encrypt_type", 2),
        ("lo_encrypt_type", 18),
        ("lo_encrypt_type", 99),
        ("lo_encrypt_key_size", 32),
        ("lo_encrypt_key_size", 33),
        ("lo_encrypt_key_size", (1 << 32) - 1),
    ):
        info = Info64(
            lo_offset=1024, lo_flags=LO_FLAGS_AUTOCLEAR, **{field: value}
        )
        d.call(f"{field} {value}", device.set_status64, info)
        d.status(f"{field} {value}", device)
    info = Info64(
        lo_file_name=b"x" * 64,
        lo_crypt_name=b"crypt",
        lo_number=99,
        lo_inode=99,
    )
    d.call("names", device.set_status64, info)
    info = device.get_status64()
    d.see("name", info.lo_file_name)
    d.see("crypt name", info.lo_crypt_name)
    d.see("inode", info.lo_inode == os.stat(device.image).st_ino)
    d.see("number", info.lo_number - int(device.name[len(d.prefix) :]))


@scenario()
def status_values(d):
    """the old LOOP_SET_STATUS and LOOP_GET_STATUS, and what does not fit into
    them
    """
    device = d.bound()
    for offset in (0, 512, 1000, SIZE, (1 << 31) - 1, -1, -(1 << 31)):
        d.call(
            f"offset {offset}",
            device.set_status,
            Info(lo_offset=offset, lo_name=b"old"),
        )
        d.status(f"offset {offset}", device)
        d.call(f"offset {offset}: read back", device.get_status)
    d.call(
        "crypt",
        device.set_status,
        Info(lo_encrypt_type=1, lo_encrypt_key_size=99),
    )
    d.status("crypt", device)
    for offset in (1 << 31, (1 << 32) - 512, 1 << 32, (1 << 32) + 512):
        device.set_status64(Info64(lo_offset=offset))
        d.call(f"offset {offset} in LOOP_GET_STATUS", device.get_status)
    device.set_status64(Info64(lo_sizelimit=4096))
    d.call("a limit and LOOP_GET_STATUS", device.get_status)
    d.call("a limit and LOOP_SET_STATUS", device.set_status, Info())
    d.status("limit", device)


@scenario()
def device_numbers(d):
    """lo_device and lo_rdevice; LOOP_GET_STATUS with numbers that need more
    than 16 bits
    """
    disk = os.environ["DISKS"].split()[0]
    device = d.device()
    device.configure(d.open(disk))
    info = device.get_status64()
    d.see("rdevice", info.lo_rdevice == os.stat(disk).st_rdev)
    d.see("device", info.lo_device == os.stat(disk).st_dev)
    d.see("inode", info.lo_inode == os.stat(disk).st_ino)
    d.call("LOOP_GET_STATUS", device.get_status)
    d.see("size", device.size())
    d.see_attrs("disk", device, "loop/backing_file")


@scenario()
def capacity(d):
    """the image grows, shrinks and vanishes under LOOP_SET_CAPACITY"""
    device = d.bound()
    for size in (2 * SIZE, SIZE + 511, 512, 0, SIZE, SIZE):
        os.truncate(device.image, size)
        d.see(f"{size}: before", device.size())
        d.call(f"{size}", device.set_capacity)
        d.see(f"{size}: after", device.size())
        d.status(f"{size}", device)
    device.set_status64(Info64(lo_offset=4096, lo_sizelimit=8192))
    for size in (SIZE, 8192, 4096, 2048, SIZE):
        os.truncate(device.image, size)
        d.call(f"offset and limit, {size}", device.set_capacity)
        d.see(f"offset and limit, {size}: size", device.size())


@scenario()
def configure_block_size(d):
    """block sizes through LOOP_CONFIGURE"""
    image = d.open(d.image(SIZE))
    for size in BLOCK_SIZES:
        device = d.device()
        d.call(f"{size}", device.configure, image, block_size=size)
        d.status(f"{size}", device)
        see_limits(d, f"{size}", device)
        if d.attr(device, "loop/dio") == "ENOENT":
            d.call(f"{size}: then 512", device.configure, image, block_size=512)
            see_limits(d, f"{size}: then 512", device)


@scenario("any-size")
def set_block_size(d):
    """block sizes through LOOP_SET_BLOCK_SIZE"""
    device = d.bound()
    for size in (*BLOCK_SIZES, 512, 1 << 32, (1 << 32) + 512, -512, 4096, 4096):
        d.call(f"{size}", device.set_block_size, size)
        see_limits(d, f"{size}", device)
        d.status(f"{size}", device)
        d.call(f"{size}: write", os.pwrite, device.fd, bytes(512), 512)
    device = d.bound(block_size=4096)
    d.call("0 on 4096", device.set_block_size, 0)
    see_limits(d, "0 on 4096", device)
    with d.reopen(device, os.O_RDWR | os.O_EXCL) as holder:
        d.call("held by another", device.set_block_size, 1024)
        d.call("held by another, no change", device.set_block_size, 512)
        d.call("held by oneself", holder.set_block_size, 1024)
        d.call("capacity, held", device.set_capacity)
        d.call("status, held", device.set_status64, Info64())
        d.call("direct I/O, held", device.set_direct_io, 0)
    d.call("read-only open", d.reopen(device, os.O_RDONLY).set_block_size, 2048)
    see_limits(d, "in the end", device)
    d.detached(device)
    see_limits(d, "unbound", device)


@scenario()
def moved_while_dirty(d):
    """dirty pages of the device go to the place that they were written to,
    not where another offset puts it, and aren't read there
    """
    read = []
    # A page that somebody has a reference to, if only right after its
    # write-back, stays: rare, and never each time.
    for _ in range(5):
        device = d.bound()
        os.pwrite(device.fd, b"dirty".ljust(4096, b"."), 0)
        d.call("offset", device.set_status64, Info64(lo_offset=65536))
        read.append(os.pread(device.fd, 15, 0))
        os.fsync(device.fd)
        with open(device.image, "rb") as f:
            for at in (0, 65536):
                f.seek(at)
                d.see(f"the image at {at}", f.read(15))
    d.see("reads the new place", bytes(15) in read)


@scenario("offset-checked", strict=True)
def direct_io(d):
    """LO_FLAGS_DIRECT_IO, O_DIRECT and LOOP_SET_DIRECT_IO, asked for
    explicitly
    """
    image = d.image()
    for label, flags, open_flags in (
        ("flag", LO_FLAGS_DIRECT_IO, 0),
        ("O_DIRECT", 0, os.O_DIRECT),
        ("both", LO_FLAGS_DIRECT_IO, os.O_DIRECT),
    ):
        device = d.device()
        d.call(
            label,
            device.configure,
            d.open(image, os.O_RDWR | open_flags),
            flags=flags,
        )
        d.status(label, device)
        d.see_attrs(label, device, "loop/dio", "queue/logical_block_size")
        for value in (0, 1, 1, 2, 0, 0, -1, 1 << 32):
            d.call(f"{label}: set {value}", device.set_direct_io, value)
            d.status(f"{label}: set {value}", device)
            d.see_attrs(f"{label}: set {value}", device, "loop/dio")
        device.set_direct_io(1)
        d.call(
            f"{label}: offset 512", device.set_status64, Info64(lo_offset=512)
        )
        d.status(f"{label}: offset 512", device)
        d.call(
            f"{label}: offset 1000", device.set_status64, Info64(lo_offset=1000)
        )
        d.status(f"{label}: offset 1000", device)
        d.call(f"{label}: on at 1000", device.set_direct_io, 1)
        d.call(f"{label}: off at 1000", device.set_direct_io, 0)
        d.call(f"{label}: offset 0", device.set_status64, Info64())
        d.status(f"{label}: offset 0", device)


@scenario(strict=True)
def no_direct_io(d):
    """a file whose file system has no direct I/O"""
    device = d.device()
    proc = d.open("/sys/kernel/uevent_seqnum", os.O_RDONLY)
    d.call("configure", device.configure, proc, flags=LO_FLAGS_DIRECT_IO)
    d.status("configure", device)
    d.see_attrs("configure", device, "loop/dio")
    d.call("set 0", device.set_direct_io, 0)
    d.call("set 1", device.set_direct_io, 1)
    d.status("set 1", device)


@scenario()
def change_fd(d):
    """LOOP_CHANGE_FD: read-only devices only, same size only"""
    device = d.bound()
    other = d.image()
    d.call("writable device", device.change_fd, d.open(other, os.O_RDONLY))
    device = d.bound(open_flags=os.O_RDONLY)
    for label, fd in (
        ("-1", -1),
        ("9999", 9999),
        ("/dev/null", d.open("/dev/null")),
        ("directory", d.open(d.work, os.O_RDONLY)),
        ("larger", d.open(d.image(2 * SIZE), os.O_RDONLY)),
        ("smaller", d.open(d.image(SIZE - 512), os.O_RDONLY)),
        ("a byte more", d.open(d.image(SIZE + 1), os.O_RDONLY)),
        ("itself", d.open(device.image, os.O_RDONLY)),
        ("writable file", d.open(other)),
        ("write-only file", d.open(other, os.O_WRONLY)),
        ("O_PATH", d.open(other, os.O_PATH)),
    ):
        d.call(label, device.change_fd, fd)
        d.see_attrs(label, device, "loop/backing_file", "ro")
        d.status(label, device)
    for path in (other, device.image):
        with open(path, "r+b") as f:
            f.write(path.name.encode())
            os.fsync(f.fileno())
    for path in (other, device.image, other):
        device.change_fd(d.open(path, os.O_RDONLY))
        d.see(f"reads {path.name}", os.pread(device.fd, 7, 0))
    info = device.get_status64()
    d.see("inode", info.lo_inode == os.stat(other).st_ino)
    device.set_status64(Info64(lo_offset=4096, lo_sizelimit=8192))
    d.call(
        "larger, same limit",
        device.change_fd,
        d.open(d.image(2 * SIZE), os.O_RDONLY),
    )
    d.call(
        "too small for the limit",
        device.change_fd,
        d.open(d.image(8192), os.O_RDONLY),
    )
    d.status("limit", device)
    d.see("offset counts", os.pread(device.fd, 15, 0))
    held = d.reopen(device, os.O_RDONLY | os.O_EXCL)
    d.call(
        "held by another",
        device.change_fd,
        d.open(d.image(2 * SIZE), os.O_RDONLY),
    )
    held.close()


run()
