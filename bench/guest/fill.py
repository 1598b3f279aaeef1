# SPDX-License-Identifier: GPL-2.0-only
"""How soon a device is as fast as it gets: until all of its image is in the
map.
"""

import os
import time
from functools import partial

from . import peers, places
from .places import MIB, forget_all, make_fs, mounted, write_pieces
from .section import Measure, Section, Table
from .shell import Failed, run

SIZE, QUICK_SIZE = 10240 * MIB, 1024 * MIB
EXTENTS, QUICK_EXTENTS = 500_000, 20_000
LONGEST = 900
WHOLE, PIECES = "written from end to end", "every other block written"
SCATTERED = "the other blocks written later"


def whole(bench, image):
    """As it is after a copy, in few extents; how many bytes."""
    size = QUICK_SIZE if bench.quick else SIZE
    run(
        "dd",
        "if=/dev/zero",
        f"of={image}",
        "bs=1M",
        f"count={size // MIB}",
        "oflag=direct",
    )
    return size


def pieces(bench, image, holes):
    """The worst that a file of blocks of 4 KiB can be, with holes between them
    or without; how many bytes are not holes.
    """
    count = QUICK_EXTENTS if bench.quick else EXTENTS
    write_pieces(image, count * (8192 if holes else 4096), whole=not holes)
    return count * 4096


IMAGES = {
    WHOLE: whole,
    PIECES: partial(pieces, holes=True),
    SCATTERED: partial(pieces, holes=False),
}


def once(peer, image, size):
    """Attach it: what it took until all that is written was mapped."""
    forget_all()
    started = time.monotonic()
    device = peer.attach(image, None)
    try:
        while (mapped := peers.stat(device)["mapped_bytes"]) < size:
            if time.monotonic() - started > LONGEST:
                raise Failed(
                    f"{mapped} of {size} bytes mapped after {LONGEST} s"
                )
            time.sleep(0.01)
        seconds = time.monotonic() - started
        found = peers.stat(device)
    finally:
        peer.detach(device)
    return {
        "seconds": seconds,
        "extents": found["mapped_extents"],
        "KiB": found["mapped_memory"] / 1024,
    }


def measure_all(bench):
    for kind in ("ext4", "xfs"):
        for cell, make in IMAGES.items():
            make_fs(kind, places.disk)
            with mounted(places.disk, "/mnt/lower") as folder:
                size = make(bench, f"{folder}/image")
                os.sync()
                for number in range(bench.rounds):
                    for peer in bench.taking_part():
                        with bench.trying(peer):
                            values = once(peer, f"{folder}/image", size)
                            bench.result(
                                "fill", f"{kind}, {cell}", peer, number, values
                            )


SECTION = Section(
    name="fill",
    title="Until all of an image is mapped",
    text=(
        "From the attach to a full map, the caches dropped before: an image of"
        f" {SIZE // MIB // 1024} GiB, written from end to end, and one of"
        f" {EXTENTS:,} extents of 4 KiB, with holes between them and without."
        " Until then I/O where the map has not come to yet goes through the"
        " file system, and has it look there first."
    ),
    emulation="Mostly the CPU's time, so ten times and more what a real machine"
    " takes.",
    tables={
        "fill": Table(
            "Attached and settled",
            [f"{kind}, {cell}" for kind in ("ext4", "xfs") for cell in IMAGES],
            {
                "seconds": Measure("s", "less", 1),
                "extents": Measure("extents in the map", None),
                "KiB": Measure("KiB of map", "less"),
            },
        )
    },
    measure=measure_all,
    absent={
        peer.name: ""
        for peer in peers.ALL
        if not getattr(peer, "mapped", False)
    },
    memory="2G",
    disk="12G",
)
