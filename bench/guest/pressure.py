# SPDX-License-Identifier: GPL-2.0-only
"""Under memory pressure: a file system on X is filled with more than fits into
memory.
"""

import multiprocessing
import os
import time
from contextlib import contextmanager

from .places import MIB, forget_all, make_fs, mounted, nvme_parts, write_all
from .section import Measure, Section, Table
from .shell import Failed

MEMORY = 512
IMAGE_SIZE = 1024 * MIB
FILE_SIZE = 64 * MIB
FILES, QUICK_FILES = 12, 8
PAUSE = 0.05  # of the neighbour, between its writes


def watch(path, pipe):
    """Write and fsync 4 KiB again and again until told to end, and tell the
    longest.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    longest = 0.0
    pipe.send("ready")
    while not pipe.poll(PAUSE):
        started = time.monotonic()
        os.pwrite(fd, bytes(4096), 0)
        os.fsync(fd)
        longest = max(longest, time.monotonic() - started)
    pipe.send(longest)


@contextmanager
def neighbour(path):
    """A process that writes there; gives a function that ends it and answers
    its longest stall.
    """
    # Forked: no program has to be read from a disk that is under load.
    context = multiprocessing.get_context("fork")
    ours, its = context.Pipe()
    process = context.Process(target=watch, args=(path, its))
    process.start()
    its.close()

    def end():
        ours.send("end")
        return ours.recv()

    try:
        ours.recv()
        yield end
    except EOFError:
        raise Failed(f"the process that writes {path} has ended") from None
    finally:
        process.terminate()
        process.join()


def fill(folder, count):
    """Write files, and fsync them all: seconds to the end, and of the longest
    write().
    """
    data = os.urandom(MIB)
    longest = 0.0
    started = time.monotonic()
    files = [
        os.open(f"{folder}/{n}", os.O_WRONLY | os.O_CREAT) for n in range(count)
    ]
    try:
        for fd in files:
            for _ in range(FILE_SIZE // MIB):
                before = time.monotonic()
                if os.write(fd, data) != MIB:
                    raise Failed(f"{folder} took less than was written to it")
                longest = max(longest, time.monotonic() - before)
        for fd in files:
            os.fsync(fd)
    finally:
        for fd in files:
            os.close(fd)
    return time.monotonic() - started, longest


def values(device, lower, count):
    """What it takes on a new file system on a device."""
    make_fs("ext4", device)
    with (
        mounted(device, "/mnt/upper") as upper,
        neighbour(f"{lower}/neighbour") as end,
    ):
        seconds, longest = fill(upper, count)
        return {
            "seconds": seconds,
            "MiB/s": count * FILE_SIZE / MIB / seconds,
            "write": 1000 * longest,
            "neighbour": 1000 * end(),
        }


def measure_all(bench):
    count = QUICK_FILES if bench.quick else FILES
    lower, spare = nvme_parts(IMAGE_SIZE + 200 * MIB, IMAGE_SIZE)
    make_fs("xfs", lower)
    write_all(spare, IMAGE_SIZE)
    with mounted(lower, "/mnt/lower") as folder:
        image = f"{folder}/image"
        write_all(image, IMAGE_SIZE)
        # An emulator translates code when it first runs: that isn't the first
        # peer's time.
        values(spare, folder, count)
        for number in range(bench.rounds):
            for peer in bench.taking_part():
                forget_all()
                with bench.trying(peer), peer.attached(image, spare) as device:
                    bench.result(
                        "fill",
                        CELL,
                        peer,
                        number,
                        values(device, folder, count),
                    )


CELL = "ext4 on X"
SECTION = Section(
    name="pressure",
    title="Under memory pressure",
    text=(
        f"A machine with {MEMORY} MiB of memory. {FILES} files of"
        f" {FILE_SIZE // MIB} MiB (QUICK=1: {QUICK_FILES}) are written to an"
        " ext4 on X, one after the other, by plain write() of 1 MiB, and then"
        f" each is fsynced. The image, fully written, {IMAGE_SIZE // MIB} MiB,"
        " is on an xfs on an emulated NVMe disk; ext4 is made afresh each"
        " time, and all caches are dropped. `seconds` and `MiB/s` are to the"
        " end of the last fsync; `write` is the longest that one write() took."
        " *Neighbour*: at the same time another process writes and fsyncs 4"
        f" KiB every {PAUSE * 1000:.0f} ms, to a file beside the image on that"
        " xfs (*the disk itself* and dm-linear have it beside them, on the"
        " same disk); the longest that a write and its fsync took."
    ),
    emulation=(
        "All of it: two virtual CPUs are emulated in software, and the disk is"
        " a file in memory. The longest stall is one event of a run, and what"
        " else the host did is in it: read its order of magnitude, over"
        " several rounds. What doesn't depend on it: a driver that needs"
        " memory to write memory out comes to no end here either."
    ),
    tables={
        "fill": Table(
            "Filled with more than fits into memory",
            [CELL],
            {
                "seconds": Measure("s", "less", 1),
                "MiB/s": Measure("MiB/s", "more"),
                "write": Measure("ms, the longest", "less"),
                "neighbour": Measure("ms, the longest", "less"),
            },
        )
    },
    measure=measure_all,
    absent={"file": ""},
    memory=f"{MEMORY}M",
    disk="3G",
)
