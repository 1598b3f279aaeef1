#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# shows: LOOP_SET_FD and LOOP_CONFIGURE take and refuse what the in-tree driver
#   does.
# machines: lts-side-by-side stable-drop-in
# built-in: no
import os
import socket

from differential import as_nobody, run, scenario
from loopctl import (
    LO_FLAGS_AUTOCLEAR,
    LO_FLAGS_PARTSCAN,
    LO_FLAGS_READ_ONLY,
    LOOP_CLR_FD,
    LOOP_CONFIGURE,
    LOOP_SET_FD,
    Config,
    ioctl,
)

SIZE = 1 << 20


@scenario()
def files(d):
    """descriptors of everything that is not a readable and writable file"""
    image = d.image()
    fifo = d.work / "fifo"
    os.mkfifo(fifo)
    d.stack.callback(fifo.unlink)
    gone = d.image()
    gone_fd = d.open(gone)
    gone.unlink()
    link = d.work / "link"
    link.symlink_to(image)
    d.stack.callback(link.unlink)
    r, w = os.pipe()
    sock = socket.socket(socket.AF_UNIX)
    memfd = os.memfd_create("memory")
    os.ftruncate(memfd, SIZE)
    fds = {
        "-1": -1,
        "9999": 9999,
        "2^31": 1 << 31,
        "directory": d.open(d.work, os.O_RDONLY),
        "/dev/null": d.open("/dev/null"),
        "/dev/zero": d.open("/dev/zero"),
        "/dev/full": d.open("/dev/full"),
        "control node": d.open(f"/dev/{d.prefix}-control"),
        "pipe, read": r,
        "pipe, write": w,
        "fifo": d.open(fifo),
        "socket": sock.fileno(),
        "eventfd": os.eventfd(0),
        "O_PATH": d.open(image, os.O_PATH),
        "proc": d.open("/proc/1/mounts", os.O_RDONLY),
        "sysfs": d.open("/sys/kernel/uevent_seqnum", os.O_RDONLY),
        "read only": d.open(image, os.O_RDONLY),
        "write only": d.open(image, os.O_WRONLY),
        "append": d.open(image, os.O_RDWR | os.O_APPEND),
        "O_SYNC": d.open(image, os.O_RDWR | os.O_SYNC),
        "deleted": gone_fd,
        "through a link": d.open(link),
        "memfd": memfd,
        "empty": d.open(d.image(0)),
    }
    d.stack.callback(sock.close)
    for fd in (r, w, memfd, fds["eventfd"]):
        d.stack.callback(os.close, fd)
    device = d.device()
    for label, fd in fds.items():
        for how, attach in (
            ("set_fd", device.set_fd),
            ("configure", device.configure),
        ):
            d.call(f"{label}: {how}", attach, fd)
            d.status(f"{label}: {how}", device)
            d.see(f"{label}: {how}: ro", d.attr(device, "ro"))
            d.see_attrs(f"{label}: {how}", device, "loop/backing_file")
            # The size of these says nothing about what can be read.
            if label not in ("proc", "sysfs"):
                d.see(f"{label}: {how}: reads", os.pread(device.fd, 15, 512))
            d.detached(device)


@scenario()
def read_only(d):
    """read-only by flag, by the file and by the device's own open"""
    image = d.image()
    for label, file_mode, device_mode, flags in (
        ("all rw", os.O_RDWR, os.O_RDWR, 0),
        ("flag", os.O_RDWR, os.O_RDWR, LO_FLAGS_READ_ONLY),
        ("file", os.O_RDONLY, os.O_RDWR, 0),
        ("device", os.O_RDWR, os.O_RDONLY, 0),
        ("all ro", os.O_RDONLY, os.O_RDONLY, LO_FLAGS_READ_ONLY),
        ("write-only file", os.O_WRONLY, os.O_RDWR, 0),
        ("write-only device", os.O_RDWR, os.O_WRONLY, 0),
    ):
        device = d.device(device_mode)
        d.call(label, device.configure, d.open(image, file_mode), flags=flags)
        d.status(label, device)
        d.see_attrs(label, device, "ro", "queue/write_cache")
        d.call(f"{label}: write", os.pwrite, device.fd, b"x" * 512, 0)
        d.call(f"{label}: fsync", os.fsync, device.fd)
        writer = d.call(f"{label}: open for writing", d.reopen, device)
        if writer:
            d.call(
                f"{label}: write by another",
                os.pwrite,
                writer.fd,
                b"x" * 512,
                0,
            )
            d.call(f"{label}: fsync by another", os.fsync, writer.fd)


@scenario()
def twice(d):
    """a device that is bound already, and an image that is in use already"""
    device = d.bound()
    other = d.image()
    d.call("another file", device.configure, d.open(other))
    d.call("another file, set_fd", device.set_fd, d.open(other))
    d.call("the same file", device.configure, d.open(device.image))
    d.see_attrs("still", device, "loop/backing_file")
    second = d.device()
    d.call(
        "the same file on a second device",
        second.configure,
        d.open(device.image),
    )
    d.status("second", second)


@scenario()
def which_mistake_first(d):
    """several mistakes at once: the same one is reported"""
    free, bound = d.device(), d.bound()
    image = d.open(d.image())
    null = d.open("/dev/null")
    folder = d.open(d.work, os.O_RDONLY)
    for where, device in (("free", free), ("bound", bound)):
        for what, fd in (
            ("good", image),
            ("bad fd", 9999),
            ("null", null),
            ("folder", folder),
        ):
            for label, kwargs in (
                ("bad flags", {"flags": 2}),
                ("key size", {"lo_encrypt_key_size": 33}),
                ("crypt type", {"lo_encrypt_type": 1}),
                ("offset", {"offset": 1 << 63}),
                (
                    "offset and key size",
                    {"offset": 1 << 63, "lo_encrypt_key_size": 33},
                ),
                ("flags and offset", {"flags": 32, "offset": 1 << 63}),
            ):
                d.call(
                    f"{where}, {what}, {label}", device.configure, fd, **kwargs
                )
    d.call("null pointer", ioctl, free.fd, LOOP_CONFIGURE, None)
    d.call("bad pointer", ioctl, free.fd, LOOP_CONFIGURE, 8)
    d.call("null pointer, bound", ioctl, bound.fd, LOOP_CONFIGURE, None)
    d.call("the free one still works", free.configure, image)


@scenario()
def flags(d):
    """every flag of LOOP_CONFIGURE, alone and together"""
    image = d.open(d.image())
    device = d.device()
    for bit in range(5, 32):
        d.call(f"bit {bit}", device.configure, image, flags=1 << bit)
    for value in range(32):
        label = f"flags {value}"
        d.call(label, device.configure, image, flags=value)
        d.status(label, device)
        d.see_attrs(label, device, "loop/autoclear", "loop/partscan", "ro")
        d.detached(device)


@scenario()
def crypt(d):
    """encryption is refused; what else is in the structure is ignored"""
    image = d.open(d.image())
    device = d.device()
    for value in range(22):
        d.call(f"type {value}", device.configure, image, lo_encrypt_type=value)
        d.detached(device)
    for value in (1, 31, 32, 33, 1 << 31, (1 << 32) - 1):
        d.call(
            f"key size {value}",
            device.configure,
            image,
            lo_encrypt_key_size=value,
        )
        d.status(f"key size {value}", device)
        d.detached(device)
    config = Config(fd=image)
    config.info.lo_number = 99
    config.info.lo_device = config.info.lo_inode = config.info.lo_rdevice = 99
    config.info.lo_crypt_name = b"name"
    config.info.lo_init[0] = 99
    config.reserved[3] = 99
    d.call("unused fields", device.ioctl, LOOP_CONFIGURE, config)
    info = device.get_status64()
    d.see("number", info.lo_number - int(device.name[len(d.prefix) :]))
    st = os.fstat(image)
    d.see("inode", info.lo_inode == st.st_ino)
    d.see("device", info.lo_device == st.st_dev)
    d.see("rdevice", info.lo_rdevice)
    d.see(
        "unused",
        (info.lo_crypt_name, info.lo_init[0], bytes(info.lo_encrypt_key)),
    )


@scenario()
def names(d):
    """lo_file_name, and backing_file"""
    for label, name in (
        ("none", ""),
        ("short", "x"),
        ("63", "y" * 63),
        ("64", "z" * 64),
    ):
        device = d.device()
        d.call(label, device.configure, d.open(d.image()), name=name)
        info = device.get_status64()
        d.see(f"{label}: name", info.lo_file_name)
        d.see_attrs(label, device, "loop/backing_file")
    path = d.work / "a name\twith \\ and\nmore"
    device = d.bound(image=d.image(path=path))
    d.see_attrs("odd characters", device, "loop/backing_file")
    path.unlink()
    d.see_attrs("deleted", device, "loop/backing_file")


@scenario()
def offsets(d):
    """offset and size limit: overflow, beyond the end, odd ones; what is then
    read
    """
    values = (0, 1, 511, 512, 513, 4096, SIZE - 512, SIZE - 1, SIZE, SIZE + 512)
    values += (1 << 31, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
    image = d.open(d.image(SIZE))
    device = d.device()
    cases = [(offset, 0) for offset in values] + [
        (0, limit) for limit in values
    ]
    cases += [
        (4096, 4096),
        (4096, SIZE),
        (4096, 1000),
        (SIZE - 1024, 2048),
        (1000, 2000),
    ]
    cases += [((1 << 63) - 1, (1 << 63) - 1), (512, 1 << 63)]
    for offset, limit in cases:
        label = f"offset {offset}, limit {limit}"
        d.call(label, device.configure, image, offset=offset, sizelimit=limit)
        d.status(label, device)
        d.see_attrs(label, device, "loop/offset", "loop/sizelimit", "size")
        d.see(f"{label}: reads", os.pread(device.fd, 15, 0))
        d.detached(device)


@scenario("any-size")
def sizes(d):
    """files whose size is not a number of sectors"""
    for size in (
        0,
        1,
        511,
        512,
        1023,
        1024,
        SIZE + 1,
        SIZE + 511,
        4096 + 512,
        1 << 40,
    ):
        device = d.bound(size)
        d.status(f"{size} bytes", device)
    device = d.bound(4096 + 512, block_size=4096)
    d.status("4608 bytes in blocks of 4096", device)
    d.call("the sector that is not a block", os.pread, device.fd, 15, 4096)


@scenario()
def without_privileges(d):
    """an opener of the device may attach; a read-only one, read-only"""
    image = d.open(d.image())
    for label, mode in (("rw", os.O_RDWR), ("ro", os.O_RDONLY)):
        device = d.device(mode)
        d.see(f"{label}: open", as_nobody(os.open, device.path, mode))
        d.see(
            f"{label}: set_fd", as_nobody(ioctl, device.fd, LOOP_SET_FD, image)
        )
        d.status(label, device)
        d.see(f"{label}: clr_fd", as_nobody(ioctl, device.fd, LOOP_CLR_FD))
        device.close()
        device = d.device(mode)
        d.see(f"{label}: configure", as_nobody(device.configure, image))
        d.status(label, device)


@scenario()
def held_by_others(d):
    """exclusive openers keep others from attaching"""
    device = d.device()
    image = d.open(d.image())
    with d.reopen(device, os.O_RDWR | os.O_EXCL) as holder:
        d.call("configure", device.configure, image)
        d.call("set_fd", device.set_fd, image)
        d.call("configure, bad fd", device.configure, 9999)
        d.call("configure, null", device.configure, d.open("/dev/null"))
        d.call(
            "configure, folder", device.configure, d.open(d.work, os.O_RDONLY)
        )
        d.call("configure, bad flags", device.configure, image, flags=2)
        d.call(
            "a second exclusive open", d.reopen, device, os.O_RDWR | os.O_EXCL
        )
        d.call("configure by the holder", holder.configure, image)
        d.call("again by another", device.configure, image)
        d.call("again by the holder", holder.configure, image)
    d.call("afterwards", device.configure, image)


@scenario()
def autoclear_and_partscan(d):
    """attached in one step with autoclear: gone when the last opener is"""
    device = d.bound(flags=LO_FLAGS_AUTOCLEAR | LO_FLAGS_PARTSCAN)
    with d.reopen(device, os.O_RDONLY) as second:
        device.close()
        d.status("one opener left", second)
    d.see("none left", os.path.exists(f"/sys/block/{device.name}/loop"))
    d.see("size", d.attr(device, "size"))


run()
