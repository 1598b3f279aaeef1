#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# shows: Openers, the release of a device, cycles, sysfs and uevents are as with
#   the in-tree driver.
# machines: lts-side-by-side stable-drop-in
# built-in: no
import os
import pathlib
import subprocess

from differential import run, scenario
from loopctl import (
    LO_FLAGS_AUTOCLEAR,
    LO_FLAGS_PARTSCAN,
    LO_FLAGS_READ_ONLY,
    Info64,
    ioctl,
)

SIZE = 1 << 20


def gone(device):
    return not os.path.exists(f"/sys/block/{device.name}/loop")


@scenario()
def several_openers(d):
    """LOOP_CLR_FD while others have the device open: the last close detaches"""
    device = d.bound()
    second = d.reopen(device)
    d.call("clear", device.clr_fd)
    d.status("cleared, two openers", second)
    d.see("gone with two", gone(device))
    d.call("write", os.pwrite, second.fd, b"x" * 512, 0)
    d.call("fsync", os.fsync, second.fd)
    third = d.call("a third may open", d.reopen, device)
    d.call("clear again", second.clr_fd)
    d.call("configure", second.configure, d.open(d.image()))
    device.close()
    second.close()
    d.see("gone with one", gone(device))
    third.close()
    d.see("gone with none", gone(device))
    with open(device.image, "rb") as f:
        d.see("what was written", f.read(4))
    again = d.reopen(device)
    d.status("empty", again)
    d.call("used again", again.configure, d.open(d.image()))
    d.status("used again", again)


@scenario()
def run_down(d):
    """LOOP_CLR_FD by the only opener: nobody else opens it before it closes"""
    device = d.bound()
    d.call("clear", device.clr_fd)
    d.call("another may open", d.reopen, device)
    device.close()
    d.see("gone", gone(device))
    again = d.reopen(device)
    d.status("empty", again)


@scenario("late-io")
def dirty_when_cleared(d):
    """dirty pages at LOOP_CLR_FD"""
    for label, clear in (("LOOP_CLR_FD", True), ("autoclear", False)):
        device = d.bound(flags=0 if clear else LO_FLAGS_AUTOCLEAR)
        os.pwrite(device.fd, b"last".ljust(4096), 0)
        if clear:
            d.call(label, device.clr_fd)
        device.close()
        with open(device.image, "rb") as f:
            d.see(f"{label}: what was written last", f.read(4))


@scenario()
def autoclear(d):
    """autoclear: set, cleared, and what it does when the last opener goes"""
    for label, at_once, then in (
        ("never", 0, None),
        ("at once", LO_FLAGS_AUTOCLEAR, None),
        ("later", 0, LO_FLAGS_AUTOCLEAR),
        ("taken back", LO_FLAGS_AUTOCLEAR, 0),
    ):
        device = d.bound(flags=at_once)
        if then is not None:
            device.set_status64(Info64(lo_flags=then))
        d.status(label, device)
        with d.reopen(device, os.O_RDONLY) as second:
            device.close()
            d.see(f"{label}: gone with one left", gone(device))
            d.status(f"{label}: one left", second)
        d.see(f"{label}: gone with none left", gone(device))
        d.see(f"{label}: size", d.attr(device, "size"))


@scenario()
def mounted(d):
    """a mounted device stays until it is unmounted"""
    image = d.image(8 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    device = d.bound(image=image)
    point = d.work / "point"
    point.mkdir(exist_ok=True)
    subprocess.run(["mount", device.path, point], check=True)
    try:
        d.call("clear", device.clr_fd)
        d.call("block size", device.set_block_size, 4096)
        device.close()
        d.see("gone while mounted", gone(device))
        (point / "file").write_text("text")
    finally:
        subprocess.run(["umount", point], check=True)
    d.see("gone after", gone(device))


@scenario()
def cycles(d):
    """a device that would be its own image, at any distance"""
    a, b, c = d.bound(), d.device(), d.device()
    d.call("itself, bound", a.configure, d.open(a.path))
    d.call("b on a", b.configure, d.open(a.path))
    d.call("c on b", c.configure, d.open(b.path))
    e = d.device()
    d.call("itself, unbound", e.configure, d.open(e.path))
    d.call("an unbound one", e.configure, d.open(d.device().path))
    ro = d.bound(open_flags=os.O_RDONLY)
    on_ro = d.device(os.O_RDONLY)
    on_ro.configure(d.open(ro.path, os.O_RDONLY))
    further = d.device(os.O_RDONLY)
    further.configure(d.open(on_ro.path, os.O_RDONLY))
    d.call("change to itself", ro.change_fd, d.open(ro.path, os.O_RDONLY))
    d.call(
        "change to who is on it", ro.change_fd, d.open(on_ro.path, os.O_RDONLY)
    )
    d.call("and two steps off", ro.change_fd, d.open(further.path, os.O_RDONLY))
    d.call(
        "change to an unbound one", ro.change_fd, d.open(e.path, os.O_RDONLY)
    )
    other = d.bound(open_flags=os.O_RDONLY)
    d.call(
        "change to another device",
        further.change_fd,
        d.open(other.path, os.O_RDONLY),
    )
    d.see_attrs("another", further, "loop/backing_file")
    # x is being cleared with y on it: y can't be an image any more.
    x, y = d.device(), d.device()
    x.configure(d.open(d.image()))
    y_fd = d.open(x.path)
    y.configure(y_fd)
    d.call("x cleared with y on it", x.clr_fd)
    d.call("another device on y", d.device().configure, d.open(y.path))


@scenario()
def stacked(d):
    """eight levels, data through all of them"""
    devices = [d.bound()]
    for _ in range(7):
        device = d.device()
        d.call("one more", device.configure, d.open(devices[-1].path))
        d.status(f"level {len(devices)}", device)
        devices.append(device)
    os.pwrite(devices[-1].fd, b"through".ljust(512), 4096)
    os.fsync(devices[-1].fd)
    with open(devices[0].image, "rb") as f:
        f.seek(4096)
        d.see("in the file", f.read(7))
    d.call("clear the lowest", devices[0].clr_fd)
    d.see("gone", gone(devices[0]))


QUEUE = (
    "add_random",
    "atomic_write_max_bytes",
    "chunk_sectors",
    "dax",
    "discard_granularity",
    "discard_max_bytes",
    "discard_max_hw_bytes",
    "discard_zeroes_data",
    "dma_alignment",
    "fua",
    "hw_sector_size",
    "io_poll",
    "io_poll_delay",
    "io_timeout",
    "iostats",
    "iostats_passthrough",
    "logical_block_size",
    "max_active_zones",
    "max_discard_segments",
    "max_integrity_segments",
    "max_open_zones",
    "minimum_io_size",
    "nomerges",
    "nr_requests",
    "nr_zones",
    "optimal_io_size",
    "physical_block_size",
    "rotational",
    "rq_affinity",
    "scheduler",
    "stable_writes",
    "virt_boundary_mask",
    "wbt_lat_usec",
    "write_cache",
    "write_zeroes_max_bytes",
    "write_zeroes_unmap_max_bytes",
    "write_zeroes_unmap_max_hw_bytes",
    "zone_append_max_bytes",
    "zone_write_granularity",
    "zoned",
)
DISK = (
    "size",
    "ro",
    "removable",
    "hidden",
    "range",
    "ext_range",
    "alignment_offset",
    "discard_alignment",
    "capability",
    "events",
    "events_async",
    "events_poll_msecs",
)


@scenario("sysfs-files", "bio-based")
def sysfs(d):
    """the loop/ folder, queue/ and the disk's own files"""
    for label, kwargs in (
        ("plain", {}),
        ("offset", {"offset": 4096, "sizelimit": 65536, "block_size": 1024}),
        (
            "flags",
            {
                "flags": LO_FLAGS_AUTOCLEAR
                | LO_FLAGS_PARTSCAN
                | LO_FLAGS_READ_ONLY
            },
        ),
    ):
        device = d.bound(**kwargs)
        folder = pathlib.Path(f"/sys/block/{device.name}")
        d.see(f"{label}: loop/", " ".join(sorted(os.listdir(folder / "loop"))))
        for name in (
            "backing_file",
            "offset",
            "sizelimit",
            "autoclear",
            "partscan",
            "dio",
        ):
            d.see_attrs(label, device, f"loop/{name}")
            d.see(
                f"{label}: mode of {name}",
                oct((folder / "loop" / name).stat().st_mode),
            )
        d.see_attrs(label, device, *(f"queue/{name}" for name in QUEUE))
        d.see(f"{label}: has mq/", (folder / "mq").exists())
        d.see_attrs(label, device, *DISK)
        d.detached(device)
        d.see(f"{label}: loop/ afterwards", (folder / "loop").exists())
        d.see_attrs(f"{label}: afterwards", device, "size", "ro", "capability")
        d.see_attrs(
            f"{label}: afterwards", device, *(f"queue/{name}" for name in QUEUE)
        )


@scenario("bio-based")
def limits_on_a_disk(d):
    """the queue's limits with a disk or another device as the image"""
    disk = os.environ["DISKS"].split()[0]
    device = d.device()
    device.configure(d.open(disk))
    d.see_attrs("disk", device, *(f"queue/{name}" for name in QUEUE))
    lower = d.bound()
    upper = d.device()
    upper.configure(d.open(lower.path))
    d.see_attrs("device", upper, *(f"queue/{name}" for name in QUEUE))


@scenario()
def uevents(d):
    """uevents, and the disk's sequence number"""
    events = d.uevents()
    device = d.device()
    d.see_uevents("add", events)
    image = d.image()
    other = d.image()
    fd = d.open(image)
    d.call("bad fd", device.configure, 9999)
    d.call("bad flags", device.configure, fd, flags=2)
    d.see_uevents("refused", events)
    d.call("configure", device.configure, fd)
    d.see_uevents("configure", events)
    d.call("again", device.configure, fd)
    d.see_uevents("again", events)
    d.call("status, nothing new", device.set_status64, Info64())
    d.see_uevents("status, nothing new", events)
    d.call("status, offset", device.set_status64, Info64(lo_offset=4096))
    d.see_uevents("status, offset", events)
    d.call(
        "status, limit to the same size",
        device.set_status64,
        Info64(4096, lo_sizelimit=SIZE),
    )
    d.see_uevents("status, limit", events)
    d.call("capacity, nothing new", device.set_capacity)
    d.see_uevents("capacity, nothing new", events)
    os.truncate(image, 2 * SIZE)
    device.set_status64(Info64())
    events.read()
    os.truncate(image, 3 * SIZE)
    d.call("capacity", device.set_capacity)
    d.see_uevents("capacity", events)
    d.call("block size", device.set_block_size, 4096)
    d.call("direct I/O", device.set_direct_io, 0)
    d.see_uevents("block size and direct I/O", events)
    d.call("change_fd, refused", device.change_fd, d.open(other, os.O_RDONLY))
    d.see_uevents("change_fd, refused", events)
    d.call("clear", device.clr_fd)
    d.see_uevents("clear, still open", events)
    device.close()
    d.see_uevents("clear", events)
    ro = d.reopen(device, os.O_RDONLY)
    d.call("read-only", ro.configure, d.open(other, os.O_RDONLY))
    d.see_uevents("read-only", events)
    d.call("change_fd", ro.change_fd, d.open(d.image(), os.O_RDONLY))
    d.see_uevents("change_fd", events)
    d.detached(ro).close()
    d.see_uevents("clear again", events)
    d.take_away(int(device.name[len(d.prefix) :]))
    d.see_uevents("remove", events)


def partitioned(d):
    image = d.image(8 << 20)
    table = "label: dos\n2048,2048\n4096,2048\n"
    subprocess.run(["sfdisk", "-q", image], input=table, text=True, check=True)
    return image


def partitions(device):
    return sorted(
        p.parent.name
        for p in pathlib.Path(f"/sys/block/{device.name}").glob("*/partition")
    )


@scenario()
def partition_uevents(d):
    """partition scans: at once, later, and at the detach"""
    events = d.uevents()
    image = partitioned(d)
    device = d.bound(image=image, flags=LO_FLAGS_PARTSCAN)
    d.see_uevents("at once", events)
    d.see("at once: partitions", partitions(device))
    device = d.detached(device)
    d.see_uevents("cleared", events)
    d.see("cleared: partitions", partitions(device))
    device.configure(d.open(image))
    d.see("without: partitions", partitions(device))
    events.read()
    d.call("later", device.set_status64, Info64(lo_flags=LO_FLAGS_PARTSCAN))
    d.see_uevents("later", events)
    d.see("later: partitions", partitions(device))
    device.close()
    device = d.reopen(device)
    part = d.open(f"{device.path}p1")
    d.call("clear with a partition open", device.clr_fd)
    device.close()
    d.see("a partition open: gone", gone(device))
    os.close(part)
    d.see("closed: gone", gone(device))
    d.see("closed: partitions", partitions(device))
    d.see_uevents("cleared again", events)
    ro = d.reopen(device, os.O_RDONLY)
    ro.configure(d.open(image, os.O_RDONLY), flags=LO_FLAGS_PARTSCAN)
    d.see("read-only: partitions", partitions(ro))
    events.read()
    d.call("change_fd", ro.change_fd, d.open(d.image(8 << 20), os.O_RDONLY))
    d.see_uevents("change_fd to one without partitions", events)
    d.see("change_fd: partitions", partitions(ro))


@scenario()
def ioctls_on_a_partition(d):
    """the loop ioctls through a partition's node"""
    device = d.bound(image=partitioned(d), flags=LO_FLAGS_PARTSCAN)
    part = d.open(f"{device.path}p1")
    other = d.open(d.image())
    for label, request, arg in (
        ("LOOP_GET_STATUS64", 0x4C05, Info64()),
        ("LOOP_SET_STATUS64", 0x4C04, Info64()),
        ("LOOP_SET_CAPACITY", 0x4C07, 0),
        ("LOOP_SET_DIRECT_IO", 0x4C08, 0),
        ("LOOP_SET_BLOCK_SIZE", 0x4C09, 512),
        ("LOOP_CHANGE_FD", 0x4C06, other),
        ("LOOP_SET_FD", 0x4C00, other),
    ):
        d.call(label, ioctl, part, request, arg)
    second = d.device()
    d.call("a partition as an image", second.configure, part)
    d.status("a partition as an image", second)
    d.detached(second)
    d.call("LOOP_CLR_FD", ioctl, part, 0x4C01, 0)
    d.status("cleared through a partition", device)


run()
