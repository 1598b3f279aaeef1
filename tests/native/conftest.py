# SPDX-License-Identifier: GPL-2.0-only
"""The command on this machine's own loop driver, without any test machine.

Nothing here touches a device that it did not attach: others may use loop
devices of this machine meanwhile. What a test attaches has its image in a
folder of its own, and is detached by that folder's name when the test is over.
"""

import os
import pathlib
import shutil
import subprocess

import pytest
from native import (
    FLOOP,
    Floop,
    detach_below,
    is_attached_below,
    run,
    wait_until,
)


@pytest.fixture(scope="session", autouse=True)
def prepared():
    """What these tests need here; without it they fail, and say why."""
    if not FLOOP.exists():
        pytest.fail(
            f"{FLOOP} is not there: build it first (make cli)", pytrace=False
        )
    if os.geteuid() != 0:
        pytest.fail(
            "these tests attach devices and mount them: run them as root",
            pytrace=False,
        )
    if not os.path.exists("/dev/loop-control"):
        subprocess.run(["modprobe", "-q", "loop"], check=False)
    if not os.path.exists("/dev/loop-control"):
        pytest.fail(
            "this machine has no loop driver: /dev/loop-control is missing",
            pytrace=False,
        )
    if not os.path.exists("/sys/module/loop"):
        pytest.fail(
            "floop is this machine's loop driver: these need the in-tree one",
            pytrace=False,
        )


@pytest.fixture(scope="session")
def top(tmp_path_factory):
    """A folder that all is in, so that what is left attached is known."""
    return tmp_path_factory.mktemp("floop")


@pytest.fixture
def folder(top, request):
    """A test's own folder.

    At its end nothing in it is attached or mounted any more.
    """
    path = top / request.node.name.translate(str.maketrans("[]/", "---"))[:60]
    path.mkdir()
    yield path
    # First the devices, while the kernel knows their images by these names.
    devices = detach_below(path)
    for mount in reversed(mounts_below(path)):
        run("umount", mount)
    wait_until(
        lambda: not any(is_attached_below(device, path) for device in devices)
    )
    shutil.rmtree(path, ignore_errors=True)


def mounts_below(path):
    with open("/proc/self/mountinfo") as f:
        points = [line.split()[4] for line in f]
    return [point for point in points if point.startswith(f"{path}/")]


@pytest.fixture
def floop():
    return Floop()


@pytest.fixture
def image(folder):
    """image(SIZE, NAME, at={OFFSET: BYTES}) makes a sparse file.

    What is attached to one outside of the test's folder (where=) is detached
    at the end: the next test makes the same file.
    """
    elsewhere = []

    def make(size=1 << 20, name="disk.img", where=None, at=None):
        path = pathlib.Path(where or folder) / name
        if where:
            elsewhere.append(path)
        with open(path, "wb") as f:
            f.truncate(size)
            for offset, content in (at or {}).items():
                f.seek(offset)
                f.write(content)
        return path

    yield make
    for path in elsewhere:
        run(FLOOP, "detach", path, check=False)


@pytest.fixture
def partition(folder):
    """partition(DEVICE, NUMBER, START, SIZE) adds one, in sectors.

    It does so whatever tables the kernel can read.
    """
    added = []

    def add(device, number, start, size):
        # Some kernels leave such partitions on a device that is detached.
        run("delpart", device, number, check=False)
        run("addpart", device, number, start, size)
        added.append((device, number))

    yield add
    for device, number in added:
        run("delpart", device, number, check=False)


def small_file_system(top, sector_size, *options):
    """A folder on a file system of its own.

    It is on a disk with sectors of that size.
    """
    disk = top / f"disk-{sector_size}{'-'.join(options)}.img"
    with open(disk, "wb") as f:
        f.truncate(64 << 20)
    device = run(
        "losetup", "-f", "--show", "-b", str(sector_size), disk
    ).stdout.strip()
    mount = top / f"on-{disk.stem}"
    mount.mkdir()
    run("mkfs.ext4", "-q", "-F", "-b", "4096", device)
    run("mount", *options, device, mount)
    yield mount
    devices = detach_below(mount)
    wait_until(
        lambda: not any(is_attached_below(below, mount) for below in devices)
    )
    run("umount", mount)
    # Whoever copied this machine's mounts meanwhile (unshare) still has it; it
    # goes with that.
    run("losetup", "-d", device)
    disk.unlink()


@pytest.fixture(scope="session")
def fine(top):
    """A folder where direct I/O wants multiples of 512 bytes.

    Most disks are so.
    """
    yield from small_file_system(top, 512)


@pytest.fixture(scope="session")
def coarse(top):
    """A folder where direct I/O wants multiples of 4096 bytes.

    Disks with such sectors are so.
    """
    yield from small_file_system(top, 4096)


@pytest.fixture(scope="session")
def no_direct(top):
    """A folder without direct I/O: ext4 that journals data."""
    yield from small_file_system(top, 512, "-odata=journal")
