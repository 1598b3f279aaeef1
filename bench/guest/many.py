# SPDX-License-Identifier: GPL-2.0-only
"""Attaching and detaching: how fast, what a device takes of the memory, and
mount -o loop.
"""

import fcntl
import glob
import os
import re
import statistics
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from . import peers
from .places import (
    MIB,
    forget_all,
    make_fs,
    mounted,
    nvme_parts,
    unmount,
    write_all,
)
from .section import Measure, Section, Table
from .shell import Failed, run, write

LOOP_CTL_REMOVE = 0x4C81  # include/uapi/linux/loop.h
SMALL, LARGE = 128 << 10, 64 * MIB  # an image of many; one with a file system
MANY, MOST = 100, 1000
SERVED = (
    "ublk",
    "nbd",
)  # by a program for each device, which takes long to start
FEW = 16
SAME_MEMORY = (
    "floop-file",
    "loop-buffered",
)  # as floop-mapped less the map, as loop-direct
DAEMONS = ("rublk", "qemu-nbd")
PLACE = "/mnt/upper"


def timed(action, *arguments):
    """What it answers, and how long it took in ms."""
    started = time.monotonic()
    answer = action(*arguments)
    return answer, 1000 * (time.monotonic() - started)


def medians(seconds, most, once):
    """Do it so many times or for so long: the medians of the times that it
    gives.
    """
    end, found = time.monotonic() + seconds, []
    while len(found) < most and (not found or time.monotonic() < end):
        found.append(once())
    return [statistics.median(times) for times in zip(*found, strict=True)]


def rate(bench, number, peer, image, spare):
    def once():
        device, attach = timed(peer.attach, image, spare)
        return attach, timed(peer.detach, device)[1]

    attach, detach = medians(1 if bench.quick else 2, 50, once)
    values = {
        "attach": attach,
        "detach": detach,
        "cycles": 1000 / (attach + detach),
    }
    bench.result("rate", "one device", peer, number, values)


def memory():
    """In KiB: what isn't free, that of the kernel of which it says where, what
    the daemons have.
    """
    forget_all()
    time.sleep(1)  # for what is freed after a grace period
    # Room that earlier devices have left in slabs would be taken by new ones,
    # unseen.
    for cache in os.scandir("/sys/kernel/slab"):
        if not cache.is_symlink():  # another name of one
            write(f"{cache.path}/shrink", 1)
    with open("/proc/meminfo") as file:
        kib = {
            key: int(value)
            for key, value in re.findall(r"^(\w+):\s+(\d+)", file.read(), re.M)
        }
    # The kernel's stacks are a part of VmallocUsed.
    kernel = kib["Slab"] + kib["Percpu"] + kib["VmallocUsed"]
    return -kib["MemFree"], kernel, sum(map(pss, glob.glob("/proc/[0-9]*")))


def pss(process):
    """What a daemon's process has for itself and its part of what it shares, in
    KiB.
    """
    try:
        name = Path(process, "comm").read_text().strip()
        if name not in DAEMONS:
            return 0
        found = re.search(
            r"^Pss:\s+(\d+)", Path(process, "smaps_rollup").read_text(), re.M
        )
        return int(found[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has just ended


def remove_devices(driver):
    """Those that aren't attached: what a new one takes is to be seen."""
    with open(f"/dev/{driver}-control") as control:
        for folder in glob.glob(f"/sys/block/{driver}[0-9]*"):
            fcntl.ioctl(
                control, LOOP_CTL_REMOVE, int(re.search(r"\d+$", folder)[0])
            )


@contextmanager
def attached_all(peer, images, spare):
    """All of these at once, each on an image of its own."""
    if peer.name == "dm-linear":
        # One program for all: peers.Linear is one device.
        names = [f"many{number}" for number in range(len(images))]
        tables = [
            f"{name},,,rw,0 {SMALL // 512} linear {spare} 0" for name in names
        ]
        run("dmsetup", "create", "--concise", ";".join(tables))
        try:
            yield
        finally:
            run("dmsetup", "remove", "--retry", *names)
        return
    with ExitStack() as attached:
        if isinstance(peer, peers.Loop):
            attached.callback(remove_devices, peer.driver)
        for image in images:
            attached.callback(peer.detach, peer.attach(image, spare))
        yield


def counts(bench, number, peer):
    if peer.name in SERVED:
        return [FEW]
    return [MANY] if number or bench.quick else [MANY, MOST]


def memory_of(bench, number, peer, images, spare):
    if isinstance(peer, peers.Loop):
        remove_devices(peer.driver)
    for count in counts(bench, number, peer):
        before = memory()
        with attached_all(peer, images[:count], spare):
            taken = [
                (b - a) / count for a, b in zip(before, memory(), strict=True)
            ]
        values = dict(zip(("memory", "kernel", "daemons"), taken, strict=True))
        bench.result("memory", cell(count), peer, number, values)


def cell(count):
    return f"{count:,} devices"


def mount(bench, number, peer, image, spare):
    """Attach and mount by the peer's own way, and back."""

    def once():
        started = time.monotonic()
        with peer.attached(image, spare) as device, mounted(device, PLACE):
            there = time.monotonic()
        return 1000 * (there - started), 1000 * (time.monotonic() - there)

    told(bench, number, peer, once)


def mount_loop(bench, number, peer, image):
    """With whichever loop driver is loaded."""

    def once():
        mounting = timed(run, "mount", "-o", "loop", image, PLACE)[1]
        return mounting, timed(unmount, PLACE)[1]

    told(bench, number, peer, once)


def told(bench, number, peer, once):
    mounting, unmounting = medians(1 if bench.quick else 3, 10, once)
    values = {"mount": mounting, "umount": unmounting}
    bench.result("mount", "ext4, 64 MiB", peer, number, values)


def unload(module):
    """What a device was is freed a little after it."""
    for tries_left in reversed(range(20)):
        try:
            run("rmmod", module)
            return
        except Failed:
            if not tries_left:
                raise
            time.sleep(0.1)


@contextmanager
def drop_in():
    """Our module in place of the kernel's, instead of beside it."""
    module = f"build/modules/{os.uname().release}/floop.ko"
    unload("floop")
    unload("loop")
    try:
        run("insmod", module, "names=loop")
        try:
            yield
        finally:
            try:
                unload("floop")
            except Failed as error:
                # Or what follows would be measured with it.
                sys.exit(
                    "bench: many: floop can't be taken out of the loop"
                    f" driver's place again: {error}"
                )
    finally:
        run("modprobe", "loop")
        run("insmod", module)


def one_peer(bench, number, peer, folder, images, spare):
    image = f"{folder}/image"
    if peer.name != "raw":
        rate(bench, number, peer, images[0], spare)
    if peer.name not in ("raw", *SAME_MEMORY):
        memory_of(bench, number, peer, images, spare)
    if peer.name == "floop-mapped":
        with drop_in():
            mount_loop(bench, number, peer, image)
    elif peer.name == "loop-buffered":
        mount_loop(bench, number, peer, image)
    elif not isinstance(peer, peers.Loop):
        mount(bench, number, peer, image, spare)


def measure_all(bench):
    if not os.path.isdir("/run/virtme"):
        raise Failed(
            "it takes the loop driver away, and does so only in the test"
            " machine"
        )
    lower, spare = nvme_parts(600 * MIB, LARGE)
    make_fs("xfs", lower)
    make_fs("ext4", spare)
    os.makedirs(PLACE, exist_ok=True)
    # The CPUs' own lists of free pages, which MemFree doesn't count, may else
    # be tens of MiB.
    write("/proc/sys/vm/percpu_pagelist_high_fraction", 1000)
    with mounted(lower, "/mnt/lower") as folder:
        write_all(f"{folder}/image", LARGE)
        make_fs("ext4", f"{folder}/image")
        images = [Path(folder, str(number)) for number in range(MOST)]
        content = os.urandom(SMALL)
        for image in images:
            image.write_bytes(content)
        for number in range(bench.rounds):
            for peer in bench.taking_part():
                with bench.trying(peer):
                    one_peer(bench, number, peer, folder, images, spare)


KIB = Measure("KiB per device", "less")
MS = Measure("ms", "less", 1)
SECTION = Section(
    name="many",
    title="Attach, detach, and many devices",
    text=(
        "The images are on an xfs on an emulated NVMe disk; udev is not"
        " running.\n\n*Attach and detach*: one image of 128 KiB (dm-linear:"
        " the disk's part), again and again for 2 s, at most 50 times;"
        " medians. The loop drivers are counted by what a program calls:"
        " LOOP_CTL_GET_FREE, LOOP_CONFIGURE, a look at `loop/dio`, for floop a"
        " write to `loop/mapping`; then LOOP_CLR_FD and the last close. The"
        " device that was made for the first stays and is used again. floop"
        " doesn't wait for its map here. The others are counted with the"
        " programs that they need: dm-linear with `blockdev` and `dmsetup`,"
        " ublk with `rublk`, nbd with `qemu-nbd`, whose progress is looked at"
        " every 100 ms.\n\n*Memory*: what a device adds, so many attached,"
        " each to an image of its own; caches are dropped before each look."
        " `memory`: by how much MemFree is less, all in all; `kernel`: by how"
        " much Slab, Percpu and VmallocUsed are more (not in there: pages such"
        " as those of blk-mq's requests); `daemons`: the PSS of the programs"
        " that serve the devices, a part of which `kernel` may count as well."
        " The machine itself takes and gives back a megabyte in between, so"
        " one device alone would say nothing, and 100 are good to 10 KiB each."
        " ublk and nbd, with a program for each device, have 16, good to 60"
        " KiB each; nbd's own devices are there before and don't count. 1,000"
        " are counted in the first round, not with QUICK=1. Not shown: floop"
        " with mapping off, as mapped but for its map, and loop, buffered, as"
        " direct.\n\n*Mount*: an ext4 of 64 MiB, medians of 10, or as many as"
        " 3 s allow. *loop, buffered* is `mount -o loop` and `umount` with the"
        " kernel's own loop driver, *floop, mapped* the same two commands with"
        " floop in its place. *The disk itself* is a mount"
        " with nothing to attach; the others attach and mount, and unmount and"
        " detach."
    ),
    emulation=(
        "Memory doesn't depend on it, but on how many CPUs there are: here 2."
        " The times do: starting a program takes 10 ms and more, many times"
        " what it should, so who needs one looks worse than on a real machine."
    ),
    tables={
        "rate": Table(
            "Attach and detach",
            ["one device"],
            {
                "attach": MS,
                "detach": MS,
                "cycles": Measure("cycles per second", "more", 1),
            },
        ),
        "memory": Table(
            "Memory of a device",
            [cell(count) for count in (FEW, MANY, MOST)],
            {"memory": KIB, "kernel": KIB, "daemons": KIB},
        ),
        "mount": Table(
            "Mount an image, and back",
            ["ext4, 64 MiB"],
            {"mount": MS, "umount": MS},
        ),
    },
    measure=measure_all,
    absent={"file": "", "floop-buffered": "as with mapping off"},
    memory="2G",
    disk="1G",
)
