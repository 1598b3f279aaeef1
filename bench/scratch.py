# SPDX-License-Identifier: GPL-2.0-only
"""The scratch disk of a run on a real machine: refused if it holds anything."""

import json
import os
import stat
import subprocess

MIB = 1 << 20
ENDS = 4 * MIB  # what has to be zero at either end, and is again after the run
LEAST = 2 << 30


def output(*command):
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout


def refusal(disk):
    """Why this can't be the scratch disk; nothing if it can."""
    if not os.path.exists(disk):
        return "there is no such disk"
    if not stat.S_ISBLK(os.stat(disk).st_mode):
        return "not a block device"
    (found,) = json.loads(
        output("lsblk", "-Jbpo", "NAME,TYPE,SIZE,RO,MOUNTPOINTS", disk)
    )["blockdevices"]
    if found["type"] not in ("disk", "loop"):
        return f"a {found['type']}, not a whole disk"
    if children := found.get("children"):
        return f"in use: {', '.join(child['name'] for child in children)}"
    if any(found["mountpoints"]):
        return f"mounted on {', '.join(filter(None, found['mountpoints']))}"
    if found["ro"]:
        return "read-only"
    if found["size"] < LEAST:
        has = found["size"] >> 20
        return f"too small: {has} MiB, and {LEAST >> 20} are needed"
    if signatures := json.loads(output("wipefs", "-J", "-n", disk) or "{}").get(
        "signatures"
    ):
        return f"it holds {', '.join(each['type'] for each in signatures)}"
    return in_use_or_written(disk, found["size"])


def in_use_or_written(disk, size):
    try:
        fd = os.open(disk, os.O_RDWR | os.O_EXCL)
    except OSError as error:
        return f"can't be had exclusively: {error.strerror}"
    try:
        for offset in (0, size - ENDS):
            if any(os.pread(fd, ENDS, offset)):
                return (
                    "there is data on it"
                    " (its first and last 4 MiB aren't all zero)"
                )
    finally:
        os.close(fd)
    return ""


def wipe(disk):
    """As it was: no partition table, and zeroes at both ends."""
    with open(disk, "r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        for offset in (0, size - ENDS):
            os.pwrite(file.fileno(), bytes(ENDS), offset)
        os.fsync(file.fileno())
    subprocess.run(
        ["blockdev", "--rereadpt", disk], check=False, stderr=subprocess.DEVNULL
    )
