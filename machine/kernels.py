# SPDX-License-Identifier: GPL-2.0-only
"""The kernels that the machine can boot."""

import dataclasses
import os
import struct
import subprocess
from pathlib import Path

from .host import BUILD, ROOT, script

NAMES = ("lts", "stable", "rt", "i386", "built-in", "race", "coverage")


@dataclasses.dataclass
class Kernel:
    image: Path
    release: str
    modules: Path | None = None  # None: in the guest root
    drivers_built_in: bool = False
    unpacked: Path | None = None  # None: the kernel unpacks itself


def in_folder(folder, image, modules, **options):
    """A kernel in a folder of build/, where a script has put it."""
    release = (folder / "release").read_text().strip()
    image = folder / image.format(release=release)
    return Kernel(image, release, folder / modules / release, **options)


def unpacked(image, release):
    """The kernel itself, which QEMU starts where it is told to (CONFIG_PVH).

    An emulated CPU takes 2.5 s to unpack it.
    """
    kernel = BUILD / f"vmlinux-{release}"
    # The image's time is its package's, and may be of before this file's.
    time = image.stat().st_mtime_ns
    if not kernel.exists() or kernel.stat().st_mtime_ns != time:
        packed = image.read_bytes()
        # Documentation/arch/x86/boot.rst: setup_sects, payload_offset and
        # payload_length. The size, unpacked, comes last.
        begin = (packed[0x1F1] + 1) * 512
        offset, length = struct.unpack_from("<II", packed, 0x248)
        begin += offset
        made = kernel.with_name(f"{kernel.name}.{os.getpid()}")
        with made.open("wb") as out:
            subprocess.run(
                ["zstd", "-dcq"],
                input=packed[begin : begin + length - 4],
                stdout=out,
                check=True,
            )
        os.utime(made, ns=(time, time))
        made.rename(kernel)
    return kernel


def find(name, debug=False):
    """The kernel of that name; fetched or built first if it isn't there."""
    if debug or name in ("race", "coverage"):
        script("debug-kernel.sh", name)
        return in_folder(
            BUILD / "debug-kernel" / name,
            "bzImage",
            "modules/lib/modules",
            drivers_built_in=True,
        )
    if name == "rt":
        script("rt-kernel.sh")
        return in_folder(BUILD / "rt", "boot/vmlinuz-{release}", "lib/modules")
    if name in ("i386", "built-in"):
        if name == "i386":
            script("i386-root.sh")
        script("small-kernel.sh", name)
        return in_folder(
            BUILD / name,
            "bzImage",
            "modules/lib/modules",
            drivers_built_in=True,
        )
    release = (ROOT / "floop" / name).read_text().split()[0]
    image = ROOT / "boot" / f"vmlinuz-{release}"
    return Kernel(image, release, unpacked=unpacked(image, release))
