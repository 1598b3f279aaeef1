# SPDX-License-Identifier: GPL-2.0-only
"""Where images lie: disks, file systems and files on them."""

import os
import time
from contextlib import ExitStack, contextmanager

from .shell import Failed, run, settle

MIB = 1 << 20
disk = "/dev/nvme0n1"  # what may be written to; another one on a real machine
NOW = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
MKFS = {
    # Blocks of 4 KiB: a small file system would get 1 KiB.
    "ext4": ["mkfs.ext4", "-q", "-F", "-b", "4096", "-E", NOW],
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
    "btrfs": ["mkfs.btrfs", "-q", "-f", "-K"],
}


def make_fs(kind, device):
    run(*MKFS[kind], device)


def unmount(folder):
    """Who closes a file in there last, udev or a peer's server, may take a
    moment.
    """
    for tries_left in reversed(range(50)):
        settle()
        try:
            run("umount", folder)
        except Failed:
            if not tries_left:
                raise
            time.sleep(0.2)
        else:
            return


@contextmanager
def mounted(device, folder):
    os.makedirs(folder, exist_ok=True)
    run("mount", device, folder)
    try:
        yield folder
    finally:
        unmount(folder)


def write_all(path, size):
    """A file of that size with no holes, and nothing in it that isn't on the
    disk.
    """
    data = os.urandom(MIB) * 8
    written = 0
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT), "wb", buffering=0
    ) as file:
        while written < size:
            written += file.write(data[: size - written])
        os.fsync(file.fileno())


def write_pieces(path, size, whole=False):
    """A file with every other block written, so that each is an extent, and if
    it is to be whole the others after them.
    """
    block = os.urandom(4096)
    with open(path, "wb") as file:
        # No room behind what is written: the file system would have it in
        # between.
        file.truncate(size)
        for first in (0, 4096) if whole else (0,):
            for at in range(first, size, 8192):
                os.pwrite(file.fileno(), block, at)
            os.fsync(file.fileno())


def make_sparse(path, size):
    with open(path, "w") as file:
        file.truncate(size)


@contextmanager
def over_a_hole(peer, image, size, spare=None):
    """The peer's device over an image that is one hole."""
    make_sparse(image, size)
    try:
        with peer.attached(image, spare) as path:
            yield path
    finally:
        os.unlink(image)
        freed(os.path.dirname(image))


def freed(folder):
    """Wait until what was removed there is free: xfs does that in the
    background, and the next peer would pay for it. A freeze waits for it.
    """
    run("fsfreeze", "--freeze", folder)
    run("fsfreeze", "--unfreeze", folder)


def forget_pages(*paths):
    """Take these out of the page cache, and nothing else: fio stays there."""
    os.sync()
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def forget_all():
    """Empty the page cache, and the caches of names and inodes."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")


def ram_disks(count, size):
    run("modprobe", "brd", f"rd_nr={count}", f"rd_size={size // 1024}")
    settle()
    return [f"/dev/ram{number}" for number in range(count)]


def sectors_of(disk):
    return int(run("blockdev", "--getsz", disk))


def make_linear(name, disk, start, sectors):
    """A device-mapper device over a part of the disk, in sectors."""
    table = f"0 {sectors} linear {disk} {start}"
    run("dmsetup", "create", name, "--table", table)


def nvme_parts(*sizes):
    """The disk in as many parts."""
    lines = "".join(f"size={size // MIB}M\n" for size in sizes)
    run("sfdisk", "-q", disk, text=f"label: gpt\n{lines}")
    settle()
    between = "p" if disk[-1].isdigit() else ""
    return [f"{disk}{between}{number + 1}" for number in range(len(sizes))]


def make_levels(peer, folder, kinds, sizes):
    """Images in one another below a folder: the first there, with a file system
    for the next.
    """
    with ExitStack() as open_levels:
        image = f"{folder}/image"
        write_all(image, sizes[0])
        for level, (kind, size) in enumerate(
            zip(kinds, sizes[1:], strict=True)
        ):
            device = open_levels.enter_context(peer.attached(image, None))
            make_fs(kind, device)
            place = open_levels.enter_context(
                mounted(device, f"{folder}.{level}")
            )
            image = f"{place}/image"
            write_all(image, size)


@contextmanager
def levels(peer, folder, depth):
    """The device of the innermost of so many images, attached by the peer."""
    with ExitStack() as open_levels:
        image = f"{folder}/image"
        for level in range(depth):
            forget_pages(image)
            device = open_levels.enter_context(peer.attached(image, None))
            if level < depth - 1:
                place = open_levels.enter_context(
                    mounted(device, f"{folder}.{level}")
                )
                image = f"{place}/image"
        yield device
