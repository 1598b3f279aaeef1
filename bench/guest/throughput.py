# SPDX-License-Identifier: GPL-2.0-only
"""How much goes through: the published tables of 2025 and 2015, on an emulated
NVMe disk.
"""

import os
import re

from .fio import each_way, fio, percentiles
from .places import MIB, forget_all, make_fs, mounted, nvme_parts, write_all
from .section import EACH_WAY, LATENCY, Measure, Section, Table
from .shell import run

IMAGE_SIZE = 320 * MIB
FILE_SIZE = 96 * MIB
KINDS = ("ext4", "xfs")
# The file, 12 jobs that share it, each from a place of its own on.
JOBS_2025 = {
    "rw": "rw",
    "bs": "4k",
    "numjobs": 12,
    "direct": 1,
    "size": FILE_SIZE // 12 // MIB * MIB,
    "offset_increment": FILE_SIZE // 12 // MIB * MIB,
    "time_based": 1,
    "thread": 1,
    "ramp_time": 1,  # until all of the jobs run
}
ENGINES = {
    "psync": {"ioengine": "psync"},
    "libaio": {"ioengine": "libaio", "iodepth": 16},
}
JOBS_2015 = {"bs": "4k", "numjobs": 4, "ioengine": "psync", "direct": 0}
PATTERNS_2015 = ("randread", "read", "randwrite", "write")
PUBLISHED_MIB, SCALE = 1500, 125


# In the sections on devices
NO_PLACE = {
    "file": "",
    "floop-buffered": "measured in the cost section only: direct I/O is what"
    " floop has by default",
}


def timed(bench, path, engine):
    seconds = 1 if bench.quick else 2
    return each_way(path, runtime=seconds, **JOBS_2025, **ENGINES[engine])


def table_2025(bench, number, path, cell, peer):
    """Both engines on a device or a file."""
    for engine in ENGINES:
        values, job = timed(bench, path, engine)
        bench.result(
            engine, cell, peer, number, {**values, **percentiles(job["read"])}
        )


def meminfo():
    with open("/proc/meminfo") as file:
        return {
            key: int(kib) / 1024
            for key, kib in re.findall(r"^(\w+):\s+(\d+)", file.read(), re.M)
        }


def cached_pages(image):
    """How many pages of a file the page cache holds."""
    return int(run("fincore", "-nro", "PAGES", image).strip() or 0)


def table_2015(bench, number, folder, peer, image):
    """Through the page cache of the file system on X: what is cached below it
    is waste.
    """
    size = PUBLISHED_MIB * MIB // SCALE
    for pattern in PATTERNS_2015:
        forget_all()
        before = meminfo()
        job, switches = fio(
            f"{folder}/file",
            rw=pattern,
            size=size,
            fsync_on_close=1,
            **JOBS_2015,
        )
        after = meminfo()
        side = job["read" if "read" in pattern else "write"]
        values = {
            "IOPS": side["iops"],
            "switches": switches / side["total_ios"],
            "Buffers": after["Buffers"] - before["Buffers"],
            "Cached": after["Cached"] - before["Cached"],
        }
        if peer.has_image:
            values["image cached"] = cached_pages(image)
        bench.result("2015", pattern, peer, number, values)


def measure_all(bench):
    lower, spare = nvme_parts(1024 * MIB, IMAGE_SIZE)
    for number in range(bench.rounds):
        for kind in KINDS:
            make_fs(kind, lower)
            with mounted(lower, "/mnt/lower") as folder:
                write_all(f"{folder}/image", IMAGE_SIZE)
                for peer in bench.taking_part():
                    with (
                        bench.trying(peer),
                        peer.attached(f"{folder}/image", spare) as device,
                    ):
                        on_device(bench, number, kind, peer, device)
                        on_file_system(
                            bench, number, kind, peer, device, f"{folder}/image"
                        )


def on_device(bench, number, kind, peer, device):
    if kind == "xfs":
        table_2025(bench, number, device, "xfs/X", peer)


def on_file_system(bench, number, kind, peer, device, image):
    make_fs(kind, device)
    with mounted(device, "/mnt/upper") as folder:
        write_all(f"{folder}/file", FILE_SIZE)
        table_2025(bench, number, f"{folder}/file", f"{kind}/X/{kind}", peer)
        if kind == "ext4":
            table_2015(bench, number, folder, peer, image)
    os.sync()


CELLS_2025 = ["xfs/X", *(f"{kind}/X/{kind}" for kind in KINDS)]
SECTION = Section(
    name="throughput",
    title="Throughput: the published workloads",
    text=(
        "An emulated NVMe disk, in two parts: a file system with a fully"
        f" written image of {IMAGE_SIZE // MIB} MiB, and as much for *the disk"
        " itself* and dm-linear. *2025*: fio, 4 KiB, `rw=rw` (half reads, half"
        " writes), 12 jobs, direct I/O, 2 s after 1; psync, and libaio at a"
        " depth of 16; on the device (xfs/X), and on a fully written file of"
        f" {FILE_SIZE // MIB} MiB on the file system on X (ext4/X/ext4,"
        " xfs/X/xfs), each job in a twelfth of its own. For *the disk itself*,"
        " X is the disk's part, and there is no file system below. Percentiles"
        " are of the reads' completion. *2015*: 4 jobs, psync through the page"
        f" cache of an ext4 on X, image on ext4, {PUBLISHED_MIB // SCALE} MiB"
        f" in place of {PUBLISHED_MIB} (scaled down {SCALE} times), all caches"
        " dropped before; `Buffers` and `Cached` are what the run added to"
        " /proc/meminfo, *image cached* how many pages of the image the page"
        " cache holds after it."
    ),
    emulation=(
        "All of it: two virtual CPUs are emulated in software, and the disk is"
        " a file in memory that QEMU reads in a thread of its own. CPU time"
        " weighs more than on a real machine, a disk's time less. Read the"
        " ratios, not the figures; and those only beyond least..most."
    ),
    tables={
        "psync": Table(
            "2025: rw=rw, 4 KiB, 12 jobs, psync", CELLS_2025, EACH_WAY | LATENCY
        ),
        "libaio": Table(
            "2025: the same, libaio, depth 16", CELLS_2025, EACH_WAY | LATENCY
        ),
        "2015": Table(
            "2015: 4 KiB, 4 jobs, psync, ext4/X/ext4, through the page cache",
            list(PATTERNS_2015),
            {
                "IOPS": Measure("I/Os per second", "more"),
                "switches": Measure("context switches per I/O", "less", 2),
                "Buffers": Measure("MiB added", None, 1),
                "Cached": Measure("MiB added", None, 1),
                "image cached": Measure("pages", None),
            },
        ),
    },
    measure=measure_all,
    absent=NO_PLACE,
    memory="2G",
    disk="2G",
)
