#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# shows: The control node answers every ioctl and every mistake as the in-tree
#   driver's does.
# machines: lts-side-by-side stable-drop-in
# built-in: no
import os
import select
import stat

from differential import as_nobody, ioctl32, run, scenario
from loopctl import (
    LOOP_CONFIGURE,
    LOOP_CTL_ADD,
    LOOP_CTL_GET_FREE,
    LOOP_CTL_REMOVE,
    LOOP_GET_STATUS64,
    LOOP_SET_FD,
    ioctl,
    wait_for_node,
)


def control(d, flags=os.O_RDWR):
    return d.open(f"/dev/{d.prefix}-control", flags)


def exists(d, n):
    return os.path.exists(f"/sys/block/{d.prefix}{n}")


@scenario()
def add(d):
    """LOOP_CTL_ADD of new, existing, free and impossible numbers"""
    c = control(d)
    n = d.number()
    d.see("a number of one's own", ioctl(c, LOOP_CTL_ADD, n) - n)
    d.see("its device", exists(d, n))
    wait_for_node(f"/dev/{d.prefix}{n}")
    d.call("the same again", ioctl, c, LOOP_CTL_ADD, n)
    for label, arg in (
        ("-1", -1),
        ("-5", -5),
        ("2^31", 1 << 31),
        ("2^63", 1 << 63),
    ):
        got = d.call(f"any: {label}", ioctl, c, LOOP_CTL_ADD, arg)
        d.see(f"any: {label}: number", got)
    m = d.number()
    d.see(
        "2^32 more is the same number",
        ioctl(c, LOOP_CTL_ADD, (1 << 32) + m) - m,
    )
    for label, arg in (("2^20", 1 << 20), ("2^31-1", (1 << 31) - 1)):
        d.call(f"beyond the minors: {label}", ioctl, c, LOOP_CTL_ADD, arg)
        d.see(f"beyond the minors: {label}: device", exists(d, arg))
    last = (1 << 20) - 1
    d.call("the last minor", ioctl, c, LOOP_CTL_ADD, last)
    d.see("the last minor: device", exists(d, last))


@scenario()
def remove(d):
    """LOOP_CTL_REMOVE of absent, open, bound and free devices"""
    c = control(d)
    for label, n in (
        ("absent", 3000),
        ("-1", -1),
        ("2^31", 1 << 31),
        ("2^20", 1 << 20),
    ):
        d.call(label, ioctl, c, LOOP_CTL_REMOVE, n)
    device = d.device()
    n = int(device.name[len(d.prefix) :])
    d.call("open", ioctl, c, LOOP_CTL_REMOVE, n)
    d.see("open: still there", exists(d, n))
    device.configure(d.open(d.image()))
    d.call("bound and open", ioctl, c, LOOP_CTL_REMOVE, n)
    device.close()
    d.call("bound", ioctl, c, LOOP_CTL_REMOVE, n)
    with d.reopen(device) as again:
        again.clr_fd()
    d.call("free, 2^32 more", ioctl, c, LOOP_CTL_REMOVE, (1 << 32) + n)
    d.see("free: gone", not exists(d, n))
    d.call("gone", ioctl, c, LOOP_CTL_REMOVE, n)
    d.call("its number is free again", ioctl, c, LOOP_CTL_ADD, n)
    d.call("and can be removed", ioctl, c, LOOP_CTL_REMOVE, n)


@scenario()
def get_free(d):
    """LOOP_CTL_GET_FREE: the lowest unbound one, open or not, else a new one"""
    c = control(d)
    lowest = ioctl(c, LOOP_CTL_GET_FREE)
    d.see("the lowest", lowest)
    d.see(
        "the same again, whatever the argument", ioctl(c, LOOP_CTL_GET_FREE, 77)
    )
    first = d.reopen(wait_for_node(f"/dev/{d.prefix}{lowest}"))
    d.see("open does not count", ioctl(c, LOOP_CTL_GET_FREE))
    bound = []
    for _ in range(20):
        n = ioctl(c, LOOP_CTL_GET_FREE)
        new = not (bound or n == lowest) or n not in range(8)
        device = d.reopen(wait_for_node(f"/dev/{d.prefix}{n}"))
        device.configure(d.open(d.image()))
        bound.append(n)
        if new:
            break
    d.see("one after the other", bound)
    first.clr_fd()
    d.see("being cleared is not free", ioctl(c, LOOP_CTL_GET_FREE) != lowest)
    for n in bound:
        d.stack.callback(
            lambda n=n: d.reopen(f"/dev/{d.prefix}{n}", os.O_RDONLY).clr_fd()
        )
    first.close()


@scenario()
def other_calls(d):
    """calls that the control node doesn't serve"""
    c = control(d)
    for label, request in (
        ("LOOP_SET_FD", LOOP_SET_FD),
        ("LOOP_GET_STATUS64", LOOP_GET_STATUS64),
        ("LOOP_CONFIGURE", LOOP_CONFIGURE),
        ("0x4C83", 0x4C83),
        ("0", 0),
        ("TCGETS", 0x5401),
        ("0xFFFFFFFF", 0xFFFFFFFF),
    ):
        d.call(label, ioctl, c, request, 0)
        d.call(f"{label}, 32 bit", ioctl32, c, request, 0)
    d.call("read", os.read, c, 1)
    d.call("write", os.write, c, b"x")
    d.call("lseek", os.lseek, c, 0, os.SEEK_SET)
    d.call("mmap", __import__("mmap").mmap, c, 4096)
    poll = select.poll()
    poll.register(c)
    d.see("poll", poll.poll(0)[0][1])
    d.see("it is a character device", stat.S_ISCHR(os.fstat(c).st_mode))
    d.see("major", os.major(os.fstat(c).st_rdev))
    for label, flags in (
        ("read only", os.O_RDONLY),
        ("write only", os.O_WRONLY),
    ):
        fd = control(d, flags)
        n = d.number()
        d.call(f"{label}: add", ioctl, fd, LOOP_CTL_ADD, n)
        d.call(f"{label}: remove", ioctl, fd, LOOP_CTL_REMOVE, n)
        d.call(f"{label}: get free", ioctl, fd, LOOP_CTL_GET_FREE)
    fd = control(d, os.O_PATH)
    d.call("O_PATH", ioctl, fd, LOOP_CTL_GET_FREE)


@scenario()
def without_privileges(d):
    """any process that has the node open may use it"""
    c = control(d)
    n = d.number()
    d.see("open", as_nobody(os.open, f"/dev/{d.prefix}-control", os.O_RDONLY))
    d.see("add", as_nobody(ioctl, c, LOOP_CTL_ADD, n))
    d.see("remove", as_nobody(ioctl, c, LOOP_CTL_REMOVE, n))
    d.see("get free", as_nobody(ioctl, c, LOOP_CTL_GET_FREE))


@scenario()
def from_32_bit(d):
    """the same from a 32-bit program"""
    c = control(d)
    n = d.number()
    d.see("add", ioctl32(c, LOOP_CTL_ADD, n) - n)
    d.call("add again", ioctl32, c, LOOP_CTL_ADD, n)
    d.call("remove", ioctl32, c, LOOP_CTL_REMOVE, n)
    d.call("remove again", ioctl32, c, LOOP_CTL_REMOVE, n)
    d.call("get free", ioctl32, c, LOOP_CTL_GET_FREE)
    # A 32-bit -1 arrives as 2^32-1, and becomes an int again.
    d.see("add -1", ioctl32(c, LOOP_CTL_ADD, -1))


run()
