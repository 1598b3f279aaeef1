# SPDX-License-Identifier: GPL-2.0-only
"""The machine's empty disks, which are files of the host."""

import os
import re
import shutil
import tempfile
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
SHARED_PREFIX = "floop-vm-"


def memory_bytes(text):
    factor = 1 << 30 if text.endswith("G") else 1 << 20
    return int(text.rstrip("MG")) * factor


def available_memory(folder):
    """The bytes that files in a tmpfs can take; 0 if it isn't mounted."""
    if not os.path.ismount(folder) or not os.access(folder, os.W_OK):
        return 0
    with open("/proc/meminfo") as file:
        (kib,) = re.findall(r"^MemAvailable:\s*(\d+) kB$", file.read(), re.M)
    stat = os.statvfs(folder)
    return min(stat.f_bavail * stat.f_frsize, int(kib) << 10)


def remove_orphans():
    """Remove the disks of killed machines from shared memory."""
    for old in SHARED_MEMORY.glob(f"{SHARED_PREFIX}*"):
        owner = old.name.removeprefix(SHARED_PREFIX).split("-")[0]
        if not Path(f"/proc/{owner}").exists():
            shutil.rmtree(old, ignore_errors=True)


def disk_folder(disks, memory, otherwise):
    """The folder for the disks: in memory if they and the guest fit there.

    A discard writes the file's dirty pages back first. On a busy host's disk
    that has taken longer than the 30 seconds that the NVMe driver waits.
    """
    remove_orphans()
    size = sum(size for _, size in disks) + memory_bytes(memory)
    if size > available_memory(SHARED_MEMORY):
        return otherwise
    prefix = f"{SHARED_PREFIX}{os.getpid()}-"
    return Path(tempfile.mkdtemp(prefix=prefix, dir=SHARED_MEMORY))


def make_disks(disks, folder):
    """Make the disks in a folder; returns QEMU's arguments for them."""
    qemu = []
    for i, (kind, size) in enumerate(disks):
        path = folder / f"disk{i}"
        with path.open("wb") as file:
            file.truncate(size)
        spec = f"if=none,id=disk{i},file={path},format=raw"
        driver = "nvme" if kind == "nvme" else "virtio-blk-pci"
        qemu += ["-drive", f"{spec},cache=unsafe,discard=unmap"]
        qemu += ["-device", f"{driver},drive=disk{i},serial=floop{i}"]
    return qemu
