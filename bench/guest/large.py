# SPDX-License-Identifier: GPL-2.0-only
"""How long a file system on a sparse image takes to be filled: one large file,
as a program writes it.
"""

import os
import time

from . import peers
from .places import (
    MIB,
    make_fs,
    mounted,
    nvme_parts,
    over_a_hole,
    write_all,
)
from .section import Measure, Section, Table
from .shell import run

SIZE, QUICK_SIZE = 8192 * MIB, 1024 * MIB
ROOM = 512 * MIB  # for what the file systems need themselves
KINDS = ("ext4", "xfs")
UPPER = "/mnt/upper"
PEERS = (
    "raw",
    "floop-mapped",
    "floop-file",
    "loop-direct",
    "loop-buffered",
    "dm-thin-64k",
    "dm-thin-1m",
)


def once(device, size):
    """Seconds until a new file of that size is on the disk."""
    make_fs("xfs", device)
    with mounted(device, UPPER):
        started = time.monotonic()
        write_all(f"{UPPER}/file", size)
        return time.monotonic() - started


def measure_all(bench):
    size = QUICK_SIZE if bench.quick else SIZE
    image = size + ROOM
    lower, spare = nvme_parts(image + ROOM, image)
    # The host allocates what is written first.
    for disk, of in ((lower, image + ROOM), (spare, image)):
        run("dd", "if=/dev/zero", f"of={disk}", "bs=1M", f"count={of // MIB}")
    os.sync()
    for kind in KINDS:
        for number in range(bench.rounds):
            make_fs(kind, lower)
            with mounted(lower, "/mnt/lower") as folder:
                for peer in bench.taking_part():
                    with (
                        bench.trying(peer),
                        over_a_hole(
                            peer, f"{folder}/image", image, spare
                        ) as device,
                    ):
                        seconds = once(device, size)
                        bench.result(
                            "large",
                            f"xfs/X/{kind}",
                            peer,
                            number,
                            {"seconds": seconds},
                        )


SECTION = Section(
    name="large",
    title="A file system filled on a sparse image",
    text=(
        f"A file of {SIZE // MIB // 1024} GiB is written to a new xfs on X,"
        " 8 MiB at a time through the page cache, and fsynced. The image is one"
        " hole before. *The disk itself* and dm-thin have no image."
    ),
    emulation="As for throughput: read the ratios.",
    tables={
        "large": Table(
            "Written and fsynced",
            [f"xfs/X/{kind}" for kind in KINDS],
            {"seconds": Measure("s", "less", 1)},
        )
    },
    measure=measure_all,
    absent={peer.name: "" for peer in peers.ALL if peer.name not in PEERS},
    memory="2G",
    disk="20G",
)
