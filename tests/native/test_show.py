# SPDX-License-Identifier: GPL-2.0-only
"""floop list, floop status and --help: what they say, to people and as JSON."""

import os
import re
import subprocess

import pytest
from native import (
    FLOOP,
    NOT_FOUND,
    UNSUITABLE,
    USAGE,
    Floop,
    only_sysfs_of,
    private,
    run,
)

SUMMARY = [
    "device",
    "driver",
    "driver_version",
    "backing_file",
    "deleted",
    "size",
    "offset",
    "size_limit",
    "sector_size",
    "read_only",
    "autoclear",
    "partscan",
    "direct",
    "mapped",
    "mapped_bytes",
]


def row_of(listing, device):
    lines = listing.splitlines()
    return next(line for line in lines if line.split()[0] == device)


def free_device():
    """One that nothing is attached to, as far as can be seen."""
    for name in sorted(os.listdir("/sys/block")):
        if re.fullmatch(r"loop\d+", name) and not os.path.exists(
            f"/sys/block/{name}/loop"
        ):
            return f"/dev/{name}"
    raise AssertionError("every loop device of this machine is taken")


def test_list_is_a_table(floop, image):
    """list has a line for each device under a header, the image's name last."""
    path = image(1 << 20, "a name.img")
    device = floop.attach(
        "--read-only", "--offset", "4096", "--size-limit", "8192", path
    )
    listing = floop("list")
    header = listing.splitlines()[0].split()
    assert " ".join(header) == (
        "NAME SIZE OFFSET LIMIT SECTOR RO AUTOCLEAR PARTSCAN DIRECT MAPPED "
        "DRIVER BACK-FILE"
    )
    row = row_of(listing, device)
    assert row.split()[:5] == [device, "8192", "4096", "8192", "512"]
    assert row.split()[5:8] == ["yes", "no", "no"]
    assert row.endswith(f" {path}")


def test_list_as_json(floop, image):
    """list --json is an object with a list of devices; numbers are numbers."""
    device = floop.attach("--offset", "4096", image())
    listing = floop.json("list")
    assert list(listing) == ["devices"]
    found = next(d for d in listing["devices"] if d["device"] == device)
    assert list(found) == SUMMARY
    assert found["offset"] == 4096 and found["size"] == (1 << 20) - 4096
    assert found["driver"] in ("loop", "floop-drop-in")


def test_list_is_in_order_of_the_numbers(floop, image):
    """loop10 comes after loop9."""
    for n in range(12):
        floop("attach", image(name=str(n)))
    names = [
        d["device"]
        for d in floop.json("list")["devices"]
        if "/loop" in d["device"]
    ]
    assert names == sorted(
        names, key=lambda name: int(name.removeprefix("/dev/loop"))
    )


def test_list_of_nothing(floop):
    """With nothing attached list prints nothing; list --json, an empty list."""
    nothing = private(only_sysfs_of([]))
    assert run(*nothing, FLOOP, "list").stdout == ""
    assert (
        run(*nothing, FLOOP, "list", "--json").stdout
        == '{\n  "devices": []\n}\n'
    )


def test_list_and_status_need_no_privilege(floop, image):
    """Everyone may look: list and status work without any privilege."""
    device = floop.attach(image())
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    assert device in run(*nobody, FLOOP, "list").stdout
    assert "sector size:    512" in run(*nobody, FLOOP, "status", device).stdout


def test_status_for_people(floop, image):
    """status says all there is to say, a fact a line."""
    path = image(1 << 20)
    device = floop.attach("--offset", "4096", path)
    lines = floop("status", device).splitlines()
    facts = dict(
        re.fullmatch(r"([^:]+): +(.*)", line).groups() for line in lines
    )
    assert facts["device"] == device
    assert facts["driver"].startswith(
        ("loop (in-tree)", "floop (drop-in for loop)")
    )
    assert facts["image"] == str(path)
    assert facts["size"] == "1044480 (1020 KiB)"
    assert facts["offset"] == "4096 (4 KiB)"
    assert facts["size limit"] == "none"
    assert facts["sector size"] == "512"
    assert (
        facts["read-only"],
        facts["autoclear"],
        facts["partition scan"],
    ) == ("no", "no", "no")
    assert "direct I/O" in facts
    # Nobody uses it, though udev may be looking at it just now.
    assert "mounted" not in facts.get("used", "")


def test_status_by_short_name(floop, image):
    """loop0 is short for /dev/loop0."""
    device = floop.attach(image())
    assert floop.status(device.removeprefix("/dev/"))["device"] == device


def test_status_through_a_link(floop, image, folder):
    """A symbolic link to the device is as good as the device."""
    device = floop.attach(image())
    (folder / "link").symlink_to(device)
    assert floop.status(folder / "link")["device"] == device


def test_deleted_image(floop, image):
    """That the image was deleted is said.

    Its name is given without the kernel's remark.
    """
    path = image()
    device = floop.attach(path)
    path.unlink()
    status = floop.status(device)
    assert (status["deleted"], status["backing_file"]) == (True, str(path))
    assert f"image:          {path} (deleted)\n" in floop("status", device)
    assert row_of(floop("list"), device).endswith(f" {path} (deleted)")


def test_image_whose_name_says_deleted(floop, image):
    """An image that is only called "x (deleted)" is not deleted."""
    path = image(name="x (deleted)")
    status = floop.status(floop.attach(path))
    assert (status["deleted"], status["backing_file"]) == (False, str(path))


def test_partitions(floop, image, partition):
    """Partitions are listed with their place on the device.

    So is where they are mounted.
    """
    device = floop.attach(image(32 << 20))
    partition(device, 1, 2048, 16384)
    partition(device, 2, 18432, 2048)
    status = floop.status(device)
    assert status["partitions"] == [
        {
            "device": f"{device}p1",
            "number": 1,
            "start": 1 << 20,
            "size": 8 << 20,
        },
        {
            "device": f"{device}p2",
            "number": 2,
            "start": 9 << 20,
            "size": 1 << 20,
        },
    ]
    text = floop("status", device)
    assert (
        f"partition:      {device}p1, 8388608 (8 MiB) at 1048576 (1 MiB)\n"
        in text
    )


def test_partition_is_not_the_device(floop, image, partition):
    """Asked about a partition, status names the device that it is part of."""
    device = floop.attach(image(32 << 20))
    partition(device, 1, 2048, 16384)
    complaint = floop.refused(UNSUITABLE, "status", f"{device}p1")
    assert (
        f"{device}p1: is a partition of {device}; give {device} itself"
        in complaint
    )


def test_users(floop, image, folder):
    """status says where the device is mounted and who has it open."""
    device = floop.attach(image(8 << 20))
    run("mkfs.ext4", "-q", "-F", device)
    mount = folder / "a mount"
    mount.mkdir()
    run("mount", device, mount)
    with open(device, "rb"):
        users = floop.status(device)["users"]
        assert users["mounts"] == [str(mount)]
        assert os.getpid() in [p["pid"] for p in users["processes"]]
        text = floop("status", device)
    assert f"used:           mounted on {mount}, open in " in text
    assert f"(process {os.getpid()})" in text
    run("umount", mount)


def test_users_of_a_partition(floop, image, partition):
    """Who has a partition open uses the device."""
    device = floop.attach(image(32 << 20))
    partition(device, 1, 2048, 16384)
    with open(f"{device}p1", "rb"):
        users = floop.status(device)["users"]
    assert os.getpid() in [p["pid"] for p in users["processes"]]


def test_nothing_attached(floop):
    """A device that nothing is attached to has no status."""
    device = free_device()
    complaint = floop.refused(NOT_FOUND, "status", device)
    assert (
        f"{device}: nothing is attached to it; "
        "floop list shows what is attached"
    ) in complaint


def test_no_such_device(floop):
    """Nor has a device that there is not."""
    assert "/dev/loop999999: no such device" in floop.refused(
        NOT_FOUND, "status", "/dev/loop999999"
    )


def test_image_in_place_of_its_device(floop, image):
    """Asked about an image, status names the device it is attached to."""
    path = image()
    device = floop.attach(path)
    complaint = floop.refused(UNSUITABLE, "status", path)
    assert (
        f"{path}: is not a floop or loop device; it is attached to {device}"
        in complaint
    )


@pytest.mark.parametrize(
    "command", [[], ["attach"], ["detach"], ["list"], ["status"], ["set"]]
)
def test_help(command):
    """--help has examples and the exit codes.

    So it is for the command and each of its subcommands.
    """
    text = Floop()(*command, "--help")
    assert "Examples:\n  " in text
    for code in range(8):
        assert re.search(rf"^  {code}  [a-z]", text, re.MULTILINE)


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["frobnicate"],
        ["attach"],
        ["attach", "--offset", "many", "x"],
        ["attach", "--offset", "1.5G", "x"],
        ["attach", "--offset", "9E", "x"],
        ["attach", "--sector-size", "1000", "x"],
        ["attach", "--direct", "maybe", "x"],
        ["attach", "--driver", "zloop", "x"],
        ["attach", "--mapping", "maybe", "x"],
        ["detach"],
        ["detach", "--all", "x"],
        ["detach", "--driver", "loop", "x"],
        ["status"],
        ["set"],
        ["set", "x"],
        ["set", "--mapping", "auto", "x"],
        ["list", "x"],
        ["hold"],
    ],
    ids=" ".join,
)
def test_wrong_usage(line):
    """What is wrong on the command line is exit code 2."""
    assert (
        run(FLOOP, *line, check=False, stdin=subprocess.DEVNULL).returncode
        == USAGE
    )
