# SPDX-License-Identifier: GPL-2.0-only
"""What it costs to write where nothing was written: instructions until it is on
the disk, over RAM disks.
"""

import os
import shutil
import sqlite3
import time
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from . import cost, fio
from .places import (
    MIB,
    make_fs,
    make_linear,
    make_sparse,
    mounted,
    over_a_hole,
    ram_disks,
    sectors_of,
    write_all,
)
from .section import Measure, Section, Table
from .shell import run, settle

SIZE = 64 * MIB
QUICK_SIZE = 16 * MIB
# By cell: fio's pattern, its size, and how often each block is written.
FILLED = {
    "in sequence, 4k": ("write", 4096, 1),
    "in sequence, 128k": ("write", 128 << 10, 1),
    "at random, once": ("randwrite", 4096, 1),
    "at random, twice": ("randwrite", 4096, 2),
    "at random, four times": ("randwrite", 4096, 4),
}
FS_SIZE = 320 * MIB
FILES, COMMITS = 300, 200
TREE = "/tmp/tree"  # in memory
UPPER = "/mnt/upper"
PER_BLOCK = {"instructions": Measure("instructions per 4 KiB", "less")}
IN_ALL = {"instructions": Measure("million instructions", "less")}
BYTES = {"bytes": Measure("bytes to the disk per byte of data", "less", 2)}


def until_synced(path):
    """Instructions until what was written is on the disk, all of it."""
    begun = time.monotonic_ns()
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    os.close(fd)
    os.sync()
    return time.monotonic_ns() - begun


def fill(path, size, cell):
    pattern, block, times = FILLED[cell]
    job, _ = fio.fio(
        path,
        ioengine="io_uring",
        direct=1,
        rw=pattern,
        bs=block,
        iodepth=1,
        size=size,
        loops=times,
        randrepeat=0,
        randseed=1,
    )
    took = job["write"]["runtime"] * 1_000_000 + until_synced(path)
    return {"instructions": took / (size * times / 4096)}


@contextmanager
def counted(*disks):
    """The disks with a device on each that counts; a RAM disk doesn't."""
    names = [f"counted{number}" for number in range(len(disks))]
    for name, disk in zip(names, disks, strict=True):
        make_linear(name, disk, 0, sectors_of(disk))
    settle()
    try:
        yield [f"/dev/mapper/{name}" for name in names]
    finally:
        settle()
        for name in names:
            run("dmsetup", "remove", "--retry", name)


def bytes_written(*disks):
    numbers = (os.stat(disk).st_rdev for disk in disks)
    stats = (
        Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
        for number in numbers
    )
    return 512 * sum(int(stat.read_text().split()[6]) for stat in stats)


def count_bytes(bench, number, size, disk, spare):
    """What reaches the disks, the file system's own writes included."""
    with (
        counted(disk, spare) as disks,
        mounted(disks[0], "/mnt/lower") as folder,
    ):
        for peer in bench.taking_part():
            with bench.trying(peer):
                for cell, (_, _, times) in FILLED.items():
                    image = f"{folder}/image"
                    with over_a_hole(peer, image, size, disks[1]) as path:
                        os.sync()
                        before = bytes_written(*disks)
                        fill(path, size, cell)
                        reached = bytes_written(*disks) - before
                    values = {"bytes": reached / (size * times)}
                    bench.result("bytes", cell, peer, number, values)


def make_tree():
    """Files of all sizes up to 256 KiB, most of them small."""
    folder = Path(TREE)
    shutil.rmtree(folder, ignore_errors=True)
    for number in range(FILES):
        below = folder / str(number % 20)
        below.mkdir(parents=True, exist_ok=True)
        size = 1 << (8 + number * 7 % 11)
        (below / str(number)).write_bytes(os.urandom(size))


def copy_tree(path, kind):
    begun = time.monotonic_ns()
    make_fs(kind, path)
    with mounted(path, UPPER):
        shutil.copytree(TREE, f"{UPPER}/tree")
    spent = time.monotonic_ns() - begun
    return {"instructions": (spent + until_synced(path)) / 1e6}


def commit(path, kind):
    make_fs(kind, path)
    with mounted(path, UPPER):
        begun = time.monotonic_ns()
        with closing(sqlite3.connect(f"{UPPER}/new.db")) as db:
            db.execute("pragma synchronous=full")
            db.execute("create table t (id integer primary key, data blob)")
            for _ in range(COMMITS):
                db.execute("insert into t (data) values (randomblob(400))")
                db.commit()
        spent = time.monotonic_ns() - begun
    return {"instructions": (spent + until_synced(path)) / 1e6}


WORK = {"mkfs and a tree of files": copy_tree, "SQLite's commits": commit}


def measure_on(bench, kind):
    size = QUICK_SIZE if bench.quick else SIZE
    disk, spare = ram_disks(2, 1024 * MIB)
    write_all(spare, FS_SIZE)
    make_fs(kind, disk)
    make_tree()
    with mounted(disk, "/mnt/lower") as folder:
        image = f"{folder}/image"
        # What runs for the first time is translated by the emulator, and read
        # from the guest's disk.
        for _ in range(2):
            make_sparse(image, MIB)
            fill(image, MIB, "in sequence, 4k")
            copy_tree(spare, kind)
            commit(spare, kind)
        cells = [
            ("filled", cell, size, partial(fill, size=size, cell=cell))
            for cell in FILLED
        ] + [
            ("work", cell, FS_SIZE, partial(work, kind=kind))
            for cell, work in WORK.items()
        ]
        for number in range(bench.rounds):
            for peer in bench.taking_part():
                with bench.trying(peer):
                    for table, cell, length, work in cells:
                        if table == "work" and peer.name == "file":
                            continue
                        with over_a_hole(peer, image, length, spare) as path:
                            os.sync()
                            values = work(path)
                        bench.result(table, cell, peer, number, values)
    for number in range(bench.rounds):
        count_bytes(bench, number, size, disk, spare)


def section(name, kind):
    return Section(
        name=name,
        title=f"Cost: writing to holes, the image on {kind}",
        text=(
            "The machine of the cost sections: instructions, not time. The"
            " image is one hole when it is attached. *Filled*: fio (io_uring,"
            f" direct, a depth of 1) writes {SIZE // MIB} MiB of it, in"
            " sequence or in random order, once or several times over; the"
            " device's fsync and a sync of everything are included. *Written to"
            " the disk*: the same once more, counted by a dm-linear device on"
            " each disk. *Work*: a"
            f" file system of {FS_SIZE // MIB} MiB, {kind} too, is made on the"
            f" device and {FILES} files are copied into it, most of them"
            f" small; and {COMMITS} commits to a new SQLite database"
            " there. *The disk itself*, dm-linear and dm-thin have no image:"
            " they show what the file system below costs. dm-thin zeroes a new"
            " block (of 64 KiB or 1 MiB), unless a write covers it."
        ),
        emulation=cost.COUNTED,
        tables={
            "filled": Table("Filled", list(FILLED), PER_BLOCK),
            "bytes": Table("Written to the disk", list(FILLED), BYTES),
            "work": Table("Work", list(WORK), IN_ALL),
        },
        measure=partial(measure_on, kind=kind),
        icount=True,
        memory="5G",
    )


SECTIONS = section("holes", "xfs"), section("holes-ext4", "ext4")
