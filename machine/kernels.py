# SPDX-License-Identifier: GPL-2.0-only
"""The kernels that the machine can boot."""

import dataclasses
from pathlib import Path

from .host import BUILD, ROOT, script

NAMES = ("lts", "stable", "rt", "i386", "built-in", "race", "coverage")


@dataclasses.dataclass
class Kernel:
    image: Path
    release: str
    modules: Path | None = None  # None: in the guest root
    drivers_built_in: bool = False


def in_folder(folder, image, modules, **options):
    """A kernel in a folder of build/, where a script has put it."""
    release = (folder / "release").read_text().strip()
    image = folder / image.format(release=release)
    return Kernel(image, release, folder / modules / release, **options)


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
    return Kernel(ROOT / "boot" / f"vmlinuz-{release}", release)
