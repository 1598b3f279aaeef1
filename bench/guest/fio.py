# SPDX-License-Identifier: GPL-2.0-only
"""fio, and what a run of it took."""

import json
import statistics

from .shell import Failed, run

MIB = 1 << 20
starting_switches = None


def switches():
    """Context switches of the whole machine since it started."""
    with open("/proc/stat") as stat:
        return next(
            int(line.split()[1]) for line in stat if line.startswith("ctxt ")
        )


def command(path, **options):
    """The command line; an underscore in an option's name stands as it is in
    fio's.
    """
    words = [f"--{name}={value}" for name, value in options.items()]
    return [
        "fio",
        "--name=bench",
        f"--filename={path}",
        "--output-format=json",
        *words,
    ]


def fio(path, **options):
    """One run: fio's only job (or all of them as one), and the machine's
    context switches.
    """
    before = switches()
    output = run(*command(path, group_reporting=1, **options))
    took = switches() - before
    (job,) = json.loads(output[output.index("{") :])["jobs"]
    if job["error"]:
        raise Failed(f"fio on {path}: error {job['error']}")
    return job, took


def find_base(path):
    """What starting and ending fio takes, in context switches: the median of
    five.
    """
    global starting_switches
    tiny = {
        "rw": "read",
        "bs": "4k",
        "size": "4k",
        "ioengine": "io_uring",
        "direct": 1,
    }
    starting_switches = statistics.median(
        fio(path, **tiny)[1] for _ in range(5)
    )


def cost(path, ios, **options):
    """Instructions and context switches per I/O, with --icount: the clock is a
    count of those.
    """
    job, took = fio(
        path, ioengine="io_uring", direct=1, number_ios=ios, **options
    )
    side = job["read" if "read" in options["rw"] else "write"]
    if side["total_ios"] != ios:
        raise Failed(f"fio did {side['total_ios']} of {ios} I/Os on {path}")
    return {
        "instructions": side["runtime"] * 1e6 / ios,
        "switches": max(0, took - starting_switches) / ios,
    }


def each_way(path, **options):
    """MiB/s read and written."""
    job, _ = fio(path, **options)
    return {
        f"{way} MiB/s": job[way]["bw_bytes"] / MIB for way in ("read", "write")
    }, job


def percentiles(side):
    """Of the completion's time, in µs, for a side (read or write) of a job."""
    found = side["clat_ns"]
    names = {"50.000000": "p50", "99.000000": "p99", "99.900000": "p99.9"}
    return {
        name: found["percentile"][key] / 1000 for key, name in names.items()
    }
