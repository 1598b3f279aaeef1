# SPDX-License-Identifier: GPL-2.0-only
"""What an I/O costs the CPU: instructions, context switches, over RAM disks."""

import os
import time
from contextlib import contextmanager
from functools import partial

from . import fio
from .places import (
    MIB,
    forget_pages,
    make_fs,
    mounted,
    over_a_hole,
    ram_disks,
    write_all,
    write_pieces,
)
from .section import INSTRUCTIONS, Measure, Section, Table
from .shell import run

IMAGE_SIZE = 64 * MIB
SPARSE_SIZE = 32 * MIB
SMALL = [
    (pattern, depth)
    for pattern in ("randread", "randwrite")
    for depth in (1, 32)
]
LARGE = [("read", 1), ("write", 1)]
PAGES_SIZE = 24 * MIB
PER_PAGE = {"instructions": Measure("instructions per page of 4 KiB", "less")}


def cell(pattern, depth):
    return (
        f"{pattern} qd{depth}"
        if pattern.startswith("rand")
        else f"{pattern} 128k"
    )


SMALL_CELLS = [cell(*small) for small in SMALL]


def options(pattern, depth):
    size = "4k" if pattern.startswith("rand") else "128k"
    return {"rw": pattern, "bs": size, "iodepth": depth, "size": IMAGE_SIZE}


def ios(bench, peer, pattern):
    """fio's clock has milliseconds, a million instructions: so many that one is
    about 1 %.
    """
    if not pattern.startswith("rand"):
        return IMAGE_SIZE // (128 << 10)
    if bench.quick:
        return 2_000
    return 8_000 if peer.light else 3_000


def forget_image(peer, path, image):
    """Out of the page cache with it; which opens it, and what is mapped has to
    be mapped again.
    """
    if peer.has_image:
        forget_pages(image)
        peer.wait_until_ready(path, image)


def through_pages(path, way):
    """Instructions a page to write or read through the page cache of the device
    itself, by dd.
    """
    device = (
        [f"if={path}"]
        if way == "read"
        else [f"of={path}", "conv=fsync,notrunc"]
    )
    other = "of=/dev/null" if way == "read" else "if=/dev/zero"
    begun = time.monotonic_ns()
    run(
        "dd",
        "bs=1M",
        f"count={PAGES_SIZE // MIB}",
        "status=none",
        other,
        *device,
    )
    return {
        "instructions": (time.monotonic_ns() - begun) / (PAGES_SIZE // 4096)
    }


def written(bench, number, folder, spare):
    """Every block of the image is allocated and written."""
    image = f"{folder}/image"
    for peer in bench.taking_part():
        with bench.trying(peer), peer.attached(image, spare) as path:
            for pattern, depth in SMALL + LARGE:
                forget_image(peer, path, image)
                values = fio.cost(
                    path, ios(bench, peer, pattern), **options(pattern, depth)
                )
                bench.result(
                    "written", cell(pattern, depth), peer, number, values
                )
            for way in ("write", "read"):
                forget_pages(path)
                forget_image(peer, path, image)
                bench.result(
                    "pages", way, peer, number, through_pages(path, way)
                )


def in_pieces(bench, number, folder, spare):
    """Every other block is written, an extent each, and only those are read and
    written.
    """
    image = f"{folder}/pieces"
    for peer in bench.taking_part():
        with bench.trying(peer), peer.attached(image, spare) as path:
            for pattern, depth in SMALL:
                forget_image(peer, path, image)
                every_other = {**options(pattern, depth), "blockalign": 8192}
                values = fio.cost(
                    path, ios(bench, peer, pattern), **every_other
                )
                bench.result(
                    "pieces", cell(pattern, depth), peer, number, values
                )


@contextmanager
def half_written(peer, image):
    """The peer's device over an image that is sparse, and of which half is
    written, in no order.
    """
    with over_a_hole(peer, image, SPARSE_SIZE) as path:
        half = {
            **sparse_options("randwrite", 32),
            "randseed": 1,
            "norandommap": 0,
        }
        fio.fio(
            path,
            ioengine="io_uring",
            direct=1,
            number_ios=SPARSE_SIZE // 8192,
            **half,
        )
        os.sync()
        peer.wait_until_ready(path, image)
        yield path


def sparse_options(pattern, depth, seed=2):
    """Any block: fio, otherwise, writes none twice."""
    return {
        **options(pattern, depth),
        "size": SPARSE_SIZE,
        "norandommap": 1,
        "randseed": seed,
    }


def sparse(bench, number, folder):
    """Half of the blocks are written, and then any."""
    image = f"{folder}/sparse"
    for peer in bench.taking_part():
        if not peer.has_image:
            continue
        with bench.trying(peer), half_written(peer, image) as path:
            for seed, (pattern, depth) in enumerate(SMALL, start=2):
                count = 500 if bench.quick else 1_000
                before = os.stat(image).st_blocks
                forget_image(peer, path, image)
                values = fio.cost(
                    path, count, **sparse_options(pattern, depth, seed)
                )
                if pattern == "randwrite":
                    allocated = (
                        (os.stat(image).st_blocks - before) * 512 // 4096
                    )
                    values["into holes"] = 100 * allocated / count
                bench.result("half", cell(pattern, depth), peer, number, values)


def measure_on(bench, kind):
    disk, spare = ram_disks(2, 2048 * MIB)
    write_all(spare, IMAGE_SIZE)
    make_fs(kind, disk)
    with mounted(disk, "/mnt/lower") as folder:
        write_all(f"{folder}/image", IMAGE_SIZE)
        write_pieces(f"{folder}/pieces", IMAGE_SIZE)
        fio.find_base(f"{folder}/image")
        for number in range(bench.rounds):
            # What the file system has put off until later is nobody's cost.
            os.sync()
            time.sleep(3)
            written(bench, number, folder, spare)
            in_pieces(bench, number, folder, spare)
            sparse(bench, number, folder)


COUNTED = (
    "None depends on how fast the machine is, and they come back within 3 %."
    " An instruction is not a nanosecond: cache misses, atomic operations and"
    " real context switches cost more than their instructions, and a wake-up"
    " on another CPU is something that one CPU can't show. A disk that takes"
    " its time hides some of the cost at a depth of 1."
)


def section(name, kind):
    written_cells = [cell(*each) for each in SMALL + LARGE]
    holes = {"into holes": Measure("% of the I/Os", None)}
    return Section(
        name=name,
        title=f"Cost: instructions per I/O, the image on {kind}",
        text=(
            "One virtual CPU, emulated, whose clock advances one nanosecond an"
            " instruction (QEMU's `-icount shift=0,sleep=off`). The disks are"
            f" RAM disks (brd), one an {kind}, one the spare that *the disk"
            " itself* and dm-linear are on; they answer at once, so nothing"
            " waits for anything but the CPU, and fio's runtime is the number"
            " of instructions, its own included. fio: io_uring, direct I/O on"
            " the device, 64 MiB (half written: 32), 4 KiB at random"
            " (randread, randwrite) at a depth of 1 and 32, or 128 KiB in"
            " sequence at a depth of 1. Before each run the image is taken out"
            " of the page cache. Context switches are those of the whole"
            " machine, less what starting and ending fio takes. *Half of the"
            " image written*: half of the blocks are written at random, then"
            " reads and writes go anywhere; the part that went into holes is"
            " given. *Through the device's page cache*: `dd bs=1M` of"
            f" {PAGES_SIZE // MIB} MiB, with an fsync if it writes, dd's own"
            " instructions included. *An image of many extents*: every other"
            " block of it is written, and I/O goes to those only."
        ),
        emulation=COUNTED,
        tables={
            "written": Table(
                "Per I/O, the image written", written_cells, INSTRUCTIONS
            ),
            "pages": Table(
                "Through the device's page cache", ["write", "read"], PER_PAGE
            ),
            "pieces": Table(
                f"Per I/O, an image of {IMAGE_SIZE // 8192:,} extents",
                SMALL_CELLS,
                INSTRUCTIONS,
            ),
            "half": Table(
                "Per I/O, half of the image written",
                SMALL_CELLS,
                INSTRUCTIONS | holes,
            ),
        },
        measure=partial(measure_on, kind=kind),
        icount=True,
        memory="5G",
    )


SECTIONS = section("cost", "xfs"), section("cost-ext4", "ext4")
