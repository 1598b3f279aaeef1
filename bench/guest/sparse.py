# SPDX-License-Identifier: GPL-2.0-only
"""Images that have holes, and clones: the file system has to find a place for
every write.
"""

import os

from .places import (
    MIB,
    make_fs,
    make_sparse,
    mounted,
    nvme_parts,
    over_a_hole,
    write_all,
)
from .section import EACH_WAY, Section, Table
from .shell import run
from .throughput import ENGINES, FILE_SIZE, IMAGE_SIZE, NO_PLACE, timed

SPARSE, CLONE = "sparse image, sparse file", "reflinked clone, written file"


def both_engines(bench, number, cell, peer, make_file, device):
    """Each on a file system of its own, for the first leaves no hole to the
    second.
    """
    for engine in ENGINES:
        make_fs("xfs", device)
        with mounted(device, "/mnt/upper") as folder:
            make_file(f"{folder}/file", FILE_SIZE)
            values, _ = timed(bench, f"{folder}/file", engine)
            bench.result(engine, cell, peer, number, values)


def on_sparse(bench, number, folder, peer, spare):
    image = f"{folder}/sparse"
    with (
        bench.trying(peer),
        over_a_hole(peer, image, IMAGE_SIZE, spare) as device,
    ):
        both_engines(bench, number, SPARSE, peer, make_sparse, device)


def on_clone(bench, number, folder, peer):
    clone = f"{folder}/clone"
    if not peer.has_image:
        return
    run("cp", "--reflink=always", f"{folder}/image", clone)
    with (
        bench.trying(peer),
        peer.attached(clone, None, can_be_ready=False) as device,
    ):
        both_engines(bench, number, CLONE, peer, write_all, device)
    os.unlink(clone)


def measure_all(bench):
    lower, spare = nvme_parts(1400 * MIB, IMAGE_SIZE)
    for number in range(bench.rounds):
        make_fs("xfs", lower)
        with mounted(lower, "/mnt/lower") as folder:
            for peer in bench.taking_part():
                on_sparse(bench, number, folder, peer, spare)
            # Not before: whoever comes first would have a host that still
            # writes it.
            write_all(f"{folder}/image", IMAGE_SIZE)
            for peer in bench.taking_part():
                on_clone(bench, number, folder, peer)


SECTION = Section(
    name="sparse",
    title="Sparse images and reflinked clones",
    text=(
        "xfs/X/xfs on the NVMe disk, with the jobs of the 2025 table (4 KiB,"
        " `rw=rw`, 12 jobs, direct I/O, 2 s). *Sparse*: the image is one hole"
        " when it is attached and the file on X another. *Reflinked clone*:"
        " the image is a clone of a written one, so the first write of each"
        " block allocates; the file on X is written. Each on a file system"
        " made for it."
    ),
    emulation="As for throughput: read the ratios.",
    tables={
        engine: Table(
            f"rw=rw, 4 KiB, 12 jobs, {engine}", [SPARSE, CLONE], EACH_WAY
        )
        for engine in ENGINES
    },
    measure=measure_all,
    absent=NO_PLACE,
    memory="2G",
    disk="2G",
)
