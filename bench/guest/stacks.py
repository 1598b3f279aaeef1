# SPDX-License-Identifier: GPL-2.0-only
"""xfs-X-ext4-X-btrfs-X-xfs: an image on a file system in an image, and once
more.
"""

from . import peers
from .places import (
    MIB,
    levels,
    make_fs,
    make_levels,
    mounted,
    nvme_parts,
    write_all,
)
from .section import EACH_WAY, Section, Table
from .throughput import ENGINES, FILE_SIZE, NO_PLACE, timed

KINDS = [
    "ext4",
    "btrfs",
]  # in the first image and in the second; in the last, xfs
# btrfs keeps what was overwritten until all of an extent has been: it needs
# room for that.
SIZES = [1100 * MIB, 900 * MIB, 320 * MIB]
CELL = "xfs-X-ext4-X-btrfs-X-xfs"


def on_top(bench, number, peer, device):
    make_fs("xfs", device)
    with mounted(device, "/mnt/top") as folder:
        write_all(f"{folder}/file", FILE_SIZE)
        for engine in ENGINES:
            values, _ = timed(bench, f"{folder}/file", engine)
            bench.result(engine, CELL, peer, number, values)


def measure_all(bench):
    lower, spare = nvme_parts(1500 * MIB, SIZES[-1])
    make_fs("xfs", lower)
    maker = peers.NAMED["loop-direct"]
    with mounted(lower, "/mnt/lower") as folder:
        make_levels(maker, folder, KINDS, SIZES)
        for number in range(bench.rounds):
            for peer in bench.taking_part():
                with bench.trying(peer):
                    if peer.has_image:
                        with levels(peer, folder, len(SIZES)) as device:
                            on_top(bench, number, peer, device)
                    else:
                        with peer.attached(None, spare) as device:
                            on_top(bench, number, peer, device)


SECTION = Section(
    name="stacks",
    title="Stacks of images",
    text=(
        f"{CELL} on the NVMe disk, the images fully written, each level by the"
        " same peer, and the jobs of the 2025 table on a written file on the"
        " top. btrfs is as it is made (copy on write, checksums): nobody can"
        " map through it, and floop takes the file path there, mapped above"
        " and below. *The disk itself* is an xfs on the disk with no stack at"
        " all."
    ),
    emulation="As for throughput: read the ratios.",
    tables={
        engine: Table(f"rw=rw, 4 KiB, 12 jobs, {engine}", [CELL], EACH_WAY)
        for engine in ENGINES
    },
    measure=measure_all,
    absent=NO_PLACE,
    memory="3G",
    disk="2G",
)
