# SPDX-License-Identifier: GPL-2.0-only
"""What a clone (cp --reflink) of the image costs the device, on xfs:
instructions per I/O, over RAM disks.
"""

import os
import time
from contextlib import contextmanager

from . import cost, fio
from .places import MIB, make_fs, mounted, ram_disks, write_all
from .section import INSTRUCTIONS, Section, Table
from .shell import run

SIZE = 32 * MIB
# Of its 8,192 blocks. fio's clock counts milliseconds: to 125 instructions.
COUNT = 8_000
NEVER, REMOVED, KEPT = "never cloned", "clone removed", "clone kept"
WAYS = "randread", "randwrite"
ALL_WAYS = {
    f"{way}, {state}": (way, state)
    for way in WAYS
    for state in (NEVER, REMOVED, KEPT)
}


@contextmanager
def image_in(folder, state):
    """A new image, written from end to end: its clone is there, or gone."""
    image, twin = f"{folder}/image", f"{folder}/twin"
    write_all(image, SIZE)
    if state != NEVER:
        run("cp", "--reflink=always", image, twin)
    if state == REMOVED:
        os.unlink(twin)
    os.sync()
    # xfs removes a file's blocks later.
    time.sleep(2)
    try:
        yield image
    finally:
        os.unlink(image)
        if state == KEPT:
            os.unlink(twin)


def measure(bench):
    disk, spare = ram_disks(2, 512 * MIB)
    write_all(spare, SIZE)
    make_fs("xfs", disk)
    with mounted(disk, "/mnt/lower") as folder:
        with image_in(folder, NEVER) as image:
            fio.find_base(image)
        for number in range(bench.rounds):
            for peer in bench.taking_part():
                for name, (way, state) in ALL_WAYS.items():
                    if state != NEVER and not peer.has_image:
                        continue
                    with (
                        bench.trying(peer),
                        image_in(folder, state) as image,
                        peer.attached(image, spare) as path,
                    ):
                        cost.forget_image(peer, path, image)
                        values = fio.cost(
                            path, COUNT, rw=way, bs="4k", iodepth=1, size=SIZE
                        )
                        bench.result("clones", name, peer, number, values)


SECTION = Section(
    name="clones",
    title="Cost: an image with a clone, on xfs",
    text=(
        "The machine of the cost sections: instructions, not time. fio"
        " (io_uring, direct, a depth of 1) reads or writes 4 KiB at random in"
        f" an image of {SIZE // MIB} MiB: one that was never cloned; one whose"
        " clone (`cp --reflink`) was removed before the attach; and one whose"
        " clone is kept, so that the first write to each block is a copy."
    ),
    emulation=cost.COUNTED,
    tables={"clones": Table("Per I/O", list(ALL_WAYS), INSTRUCTIONS)},
    measure=measure,
    icount=True,
    memory="3G",
)
