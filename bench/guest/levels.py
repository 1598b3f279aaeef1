# SPDX-License-Identifier: GPL-2.0-only
"""What an I/O costs the CPU on an image in an image: instructions and context
switches.
"""

import os

from . import fio, peers
from .cost import COUNTED, IMAGE_SIZE, SMALL, SMALL_CELLS, cell, ios, options
from .places import MIB, levels, make_fs, make_levels, mounted, ram_disks
from .section import INSTRUCTIONS, Section, Table

SIZES = [
    IMAGE_SIZE,
    96 * MIB,
    144 * MIB,
]  # by how many images are around: the innermost first
KINDS = ["ext4", "ext4"]  # in the image around, and in the one around that
NAMES = {1: "1 level", 2: "2 levels", 3: "3 levels"}


def one_peer(bench, number, peer, folder):
    for depth, name in NAMES.items():
        with levels(peer, f"{folder}/{depth}", depth) as path:
            for pattern, queue in SMALL:
                count = ios(bench, peer, pattern) // 2
                values = fio.cost(path, count, **options(pattern, queue))
                bench.result(cell(pattern, queue), name, peer, number, values)


def measure_all(bench):
    (disk,) = ram_disks(1, 2048 * MIB)
    make_fs("xfs", disk)
    maker = peers.NAMED["loop-direct"]
    with mounted(disk, "/mnt/lower") as folder:
        for depth in NAMES:
            os.mkdir(f"{folder}/{depth}")
            make_levels(
                maker,
                f"{folder}/{depth}",
                KINDS[: depth - 1],
                SIZES[depth - 1 :: -1],
            )
        fio.find_base(f"{folder}/1/image")
        for number in range(bench.rounds):
            for peer in bench.taking_part():
                with bench.trying(peer):
                    one_peer(bench, number, peer, folder)


SECTION = Section(
    name="levels",
    title="Cost: images in images",
    text=(
        "As above, on xfs, with one, two and three levels of images, fully"
        " written, each level a device of the same peer, and ext4 in the"
        " images around. Every image is taken out of the page cache before it"
        " is attached; what is buffered comes back into it in the course of"
        " the cells, from left to right."
    ),
    emulation=COUNTED,
    tables={
        name: Table(f"Per I/O, {name}", list(NAMES.values()), INSTRUCTIONS)
        for name in SMALL_CELLS
    },
    measure=measure_all,
    absent={"file": "", "raw": "", "dm-linear": ""},
    icount=True,
    memory="4G",
)
