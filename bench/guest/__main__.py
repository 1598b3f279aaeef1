# SPDX-License-Identifier: GPL-2.0-only
"""Measure one section. Started in the test machine by bench/run.py: python3 -m
guest SECTION ...
"""

import argparse
import os
import platform
import shutil
import sys
from pathlib import Path

from . import SECTIONS, peers, places
from .run import Run
from .shell import Failed, run, stop_udev

VERSIONS = {
    "fio": ["fio", "--version"],
    "rublk": ["rublk", "--version"],
    "qemu-nbd": ["qemu-nbd", "--version"],
    "dmsetup": ["dmsetup", "--version"],
    "mkfs.xfs": ["mkfs.xfs", "-V"],
    "psql": ["psql", "--version"],
}


def versions():
    found = {}
    for name, command in VERSIONS.items():
        if shutil.which(command[0]):
            found[name] = run(*command).strip().splitlines()[0]
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("section", choices=SECTIONS)
    p.add_argument("--rounds", type=int, required=True)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--peers", default="", help="names with commas between; all")
    p.add_argument("--disk", help="another disk than the test machine's")
    args = p.parse_args()
    places.disk = args.disk or places.disk
    section = SECTIONS[args.section]
    if not args.disk:
        stop_udev()
        os.chmod(
            "/dev/null", 0o666
        )  # there it isn't, and PostgreSQL asks for it
    peers.load_drivers()
    names = [name for name in args.peers.split(",") if name]
    bench = Run(section, args.rounds, args.quick, names)
    bench.tell(
        machine={
            "kernel": platform.release(),
            "versions": versions(),
            "floop": Path("/sys/module/floop").exists(),
        },
        taking_part=[peer.name for peer in bench.taking_part()],
    )
    try:
        section.measure(bench)
    except Failed as error:
        sys.exit(f"bench: {section.name}: {error}")


if __name__ == "__main__":
    main()
