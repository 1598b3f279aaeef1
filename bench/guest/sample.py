# SPDX-License-Identifier: GPL-2.0-only
"""Where the instructions of a cell of the table go. Runs inside the test
machine: profile.sh.

A sampling profiler on the kernel's own clock event (perf_event_open,
cpu-clock), with no need for perf. Under --icount the clock counts instructions.
A sample comes from a timer interrupt: what runs with interrupts off is charged
to the function that turns them on again, as a rule one of the
_raw_spin_unlock_irq kind. A sample costs some 15,000 instructions itself, which
no sample sees; so the shares are true and the totals are not, and the shares
are scaled to what a run without the profiler took.
"""

import argparse
import bisect
import collections
import contextlib
import ctypes
import fcntl
import mmap
import os
import struct
import subprocess
import sys

from . import cost, fio, peers
from .places import MIB, make_fs, mounted, ram_disks, write_all
from .shell import run, stop_udev

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
PERF_TYPE_SOFTWARE = 1
PERF_COUNT_SW_CPU_CLOCK = 0
PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_CALLCHAIN = 1 << 0, 1 << 1, 1 << 5
PERF_RECORD_LOST, PERF_RECORD_SAMPLE = 2, 9
PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE = 0x2400, 0x2401
# From here on, marks in a call chain and no addresses
PERF_CONTEXT_MAX = (1 << 64) - 4095
KERNEL = 1 << 63
SPARSE = "sparse"  # writes to an image that is half written
CLONE = "clone"  # reads of an image whose clone is kept, on xfs
# perf_event_attr: type, size, config, sample_period, sample_type, read_format,
# flags, the rest 0
ATTR = struct.Struct("=IIQQQQQ88x")
DISABLED = 1
HEAD_AT = 1024  # of data_head in perf_event_mmap_page
# More than one, for what fio does repeats so exactly that a single period may
# follow its beat.
PERIODS = [41_011, 44_501, 48_017, 53_003, 57_527, 63_029]
DATA_PAGES = 1 << 13


class Symbols:
    """Names for the kernel's addresses."""

    def __init__(self):
        with open("/proc/kallsyms") as file:
            lines = (line.split() for line in file)
            table = sorted(
                (int(line[0], 16), line[2])
                for line in lines
                if line[1] in "tTwW"
            )
        self.starts = [start for start, _ in table]
        self.names = [name for _, name in table]

    def name(self, address):
        index = bisect.bisect_right(self.starts, address) - 1
        return self.names[index] if index >= 0 else hex(address)


class Sampler:
    """Samples CPU 0 inside a `with`; after it, samples() are there."""

    def __init__(self, period):
        limits = {
            "perf_event_max_sample_rate": 100_000,
            "perf_cpu_time_max_percent": 0,
        }
        for name, value in limits.items():
            with (
                contextlib.suppress(OSError),
                open(f"/proc/sys/kernel/{name}", "w") as file,
            ):
                file.write(str(value))
        kind = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN
        config = (
            PERF_TYPE_SOFTWARE,
            ATTR.size,
            PERF_COUNT_SW_CPU_CLOCK,
            period,
            kind,
            0,
            DISABLED,
        )
        libc = ctypes.CDLL(None, use_errno=True)
        number = PERF_EVENT_OPEN[os.uname().machine]
        self.fd = libc.syscall(number, ATTR.pack(*config), -1, 0, -1, 0)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "perf_event_open")
        self.ring = mmap.mmap(self.fd, mmap.PAGESIZE * (1 + DATA_PAGES))

    def __enter__(self):
        fcntl.ioctl(self.fd, PERF_EVENT_IOC_ENABLE, 0)
        return self

    def __exit__(self, *_):
        fcntl.ioctl(self.fd, PERF_EVENT_IOC_DISABLE, 0)

    def close(self):
        self.ring.close()
        os.close(self.fd)

    def samples(self):
        """(process, thread, call chain from the inside out) of every sample."""
        (head,) = struct.unpack_from("=Q", self.ring, HEAD_AT)
        data = self.ring[mmap.PAGESIZE :]
        at = 0
        while at < head:
            kind, _, size = struct.unpack_from("=IHH", data, at)
            if kind == PERF_RECORD_LOST:
                raise RuntimeError("more samples than there is room for")
            if kind == PERF_RECORD_SAMPLE:
                _, process, thread, depth = struct.unpack_from(
                    "=QIIQ", data, at + 8
                )
                chain = struct.unpack_from(f"={depth}Q", data, at + 32)
                yield (
                    process,
                    thread,
                    [a for a in chain if a < PERF_CONTEXT_MAX],
                )
            at += size


def thread_name(thread):
    try:
        with open(f"/proc/{thread}/comm") as file:
            name = file.read().strip()
    except FileNotFoundError:
        return "fio"
    for kind in ("kworker", "ksoftirqd"):
        if name.startswith(kind):
            return kind
    return name


def functions(chain, symbols):
    names = [symbols.name(address) for address in chain if address >= KERNEL]
    return names if chain and chain[0] >= KERNEL else ["(user space)"]


class Bench:
    """What a cell is measured with: a peer, and where the image and the spare
    disk are.
    """

    def __init__(self, folder, spare, pattern, depth):
        self.image, self.sparse_image = f"{folder}/image", f"{folder}/sparse"
        self.spare = spare
        self.pattern, self.depth = pattern, depth

    def place(self, peer):
        if self.pattern == SPARSE:
            return cost.half_written(peer, self.sparse_image)
        return peer.attached(self.image, self.spare)

    def forget(self, peer, path):
        cost.forget_image(
            peer,
            path,
            self.sparse_image if self.pattern == SPARSE else self.image,
        )

    def options(self):
        if self.pattern == SPARSE:
            return cost.sparse_options("randwrite", self.depth)
        pattern = "randread" if self.pattern == CLONE else self.pattern
        return cost.options(pattern, self.depth)


def profile(bench, peer, ios):
    """Samples of fio's I/O: by thread, by function, and by function with what
    it calls.
    """
    threads, alone, within = (
        collections.Counter(),
        collections.Counter(),
        collections.Counter(),
    )
    symbols = Symbols()
    for period in PERIODS:
        with bench.place(peer) as path:
            bench.forget(peer, path)
            words = {
                "ioengine": "io_uring",
                "direct": 1,
                "number_ios": ios,
                **bench.options(),
            }
            with Sampler(period) as sampler:
                process = subprocess.Popen(
                    fio.command(path, **words), stdout=subprocess.DEVNULL
                )
                if process.wait():
                    sys.exit("sample.py: fio failed")
        # The idle loop, we, and the process that starts fio's job, are there to
        # set up.
        setting_up = {0, os.getpid(), process.pid}
        for owner, thread, chain in sampler.samples():
            if owner in setting_up:
                continue
            names = functions(chain, symbols)
            threads[thread_name(thread)] += 1
            alone[names[0]] += 1
            within.update(set(names))
        sampler.close()
    return threads, alone, within


def show(title, columns, least):
    """One line a name, one column a target; the dearest first."""
    print(f"\n{title}:")
    for name in sorted(
        set().union(*columns), key=lambda name: -max(c[name] for c in columns)
    ):
        if max(column[name] for column in columns) < least:
            break
        print(
            "".join(f"{column[name]:15,.0f}" for column in columns),
            name,
            sep="  ",
        )


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument(
        "pattern",
        choices=["randread", "randwrite", "read", "write", SPARSE, CLONE],
    )
    p.add_argument("depth", type=int)
    p.add_argument("peers", nargs="+", choices=peers.NAMED, metavar="peer")
    p.add_argument("--fs", choices=["xfs", "ext4"], default="xfs")
    p.add_argument("--ios", type=int, default=5_000)
    p.add_argument(
        "--least",
        type=int,
        default=60,
        help="leave out what takes fewer; default 60",
    )
    args = p.parse_args()
    stop_udev()
    peers.load_drivers()
    disk, spare = ram_disks(2, 2048 * MIB)
    make_fs(args.fs, disk)
    write_all(spare, cost.IMAGE_SIZE)
    with mounted(disk, "/mnt/bench") as folder:
        bench = Bench(folder, spare, args.pattern, args.depth)
        write_all(bench.image, cost.IMAGE_SIZE)
        if args.pattern == CLONE:
            run("cp", "--reflink=always", bench.image, f"{folder}/twin")
            os.sync()
        fio.find_base(bench.image)
        plain, results = [], []
        for name in args.peers:
            with bench.place(peers.NAMED[name]) as path:
                bench.forget(peers.NAMED[name], path)
                plain.append(fio.cost(path, args.ios, **bench.options()))
            counters = profile(bench, peers.NAMED[name], args.ios)
            scale = plain[-1]["instructions"] / counters[0].total()
            scaled = [
                {name: count * scale for name, count in c.items()}
                for c in counters
            ]
            results.append([collections.Counter(counts) for counts in scaled])
    print(f"{args.pattern} qd{args.depth} on {args.fs}, instructions per I/O")
    print("".join(f"{name:>15}" for name in args.peers))
    print(
        "".join(f"{run['instructions']:15,.0f}" for run in plain),
        "  in all",
        sep="",
    )
    print(
        "".join(f"{run['switches']:15.2f}" for run in plain),
        "  context switches",
        sep="",
    )
    titles = (
        "by thread",
        "in a function itself",
        "in a function and what it calls",
    )
    for title, columns in zip(titles, zip(*results, strict=True), strict=True):
        show(title, columns, args.least)


if __name__ == "__main__":
    main()
