# SPDX-License-Identifier: GPL-2.0-only
"""floop list, floop status and --help: what they say, to people and as JSON."""

import json
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
    output_is_lost,
    private,
    run,
    wait_until,
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
    "maj_min",
    "back_ino",
    "back_maj_min",
    "ref",
]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


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
    assert row.split()[:5] == [device, "8K", "4K", "8K", "512"]
    exact = row_of(floop("list", "--bytes"), device)
    assert exact.split()[:5] == [device, "8192", "4096", "8192", "512"]
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


def test_list_that_cannot_be_written(floop, image):
    """list fails if its output is lost, as a table and as JSON."""
    floop.attach(image())
    for options in [], ["--json"]:
        output_is_lost("list", *options)


def test_list_of_an_image(floop, image, folder):
    """list FILE shows the devices of that image, under whatever name.

    A device stands for itself. Others are not listed.
    """
    path, other = image(name="a"), image(name="b")
    first, second = floop.attach(path), floop.attach("--read-only", path)
    third = floop.attach(other)
    (folder / "link").symlink_to(path)

    def names(*targets):
        listing = floop("list", "--no-headings", "--columns", "NAME", *targets)
        return sorted(listing.split())

    both = sorted([first, second])
    assert names(path) == names(folder / "link") == both
    assert names(third) == [third]
    assert names(path, first, other) == sorted([first, second, third])
    listed = floop.json("list", other)["devices"]
    assert [d["device"] for d in listed] == [third]


def test_list_of_an_image_that_is_not_attached(floop, image):
    """It says which one isn't, and lists the others all the same."""
    path, other = image(name="a"), image(name="b")
    device = floop.attach(path)
    result = run(FLOOP, "list", other, path, check=False)
    assert result.returncode == NOT_FOUND
    assert f"floop: {other}: is not attached to any device" in result.stderr
    assert row_of(result.stdout, device)
    assert "/nowhere: no such device or image" in floop.refused(
        NOT_FOUND, "list", "/nowhere"
    )


def test_list_by_columns(floop, image):
    """--columns chooses, in this order; losetup's names are known, too."""
    path = image(1 << 20)
    device = floop.attach("--read-only", path)
    listing = floop("list", "-O", "RO,maj:min,SIZELIMIT,BACK-INO,NAME", device)
    stat = os.stat(path)
    number = os.stat(device).st_rdev
    assert [line.split() for line in listing.splitlines()] == [
        ["RO", "MAJ:MIN", "LIMIT", "BACK-INO", "NAME"],
        [
            "yes",
            f"{os.major(number)}:{os.minor(number)}",
            "0",
            str(stat.st_ino),
            device,
        ],
    ]
    host = f"{os.major(stat.st_dev)}:{os.minor(stat.st_dev)}"
    columns = "BACK-MAJ:MIN,REF"
    words = floop("list", "-n", "--columns", columns, device).split()
    assert words == [host, str(path)[:63]]
    found = floop.json("list", device)["devices"][0]
    assert found["maj_min"] == f"{os.major(number)}:{os.minor(number)}"
    assert (found["back_ino"], found["back_maj_min"]) == (stat.st_ino, host)
    assert found["ref"] == str(path)[:63]


def test_list_without_privilege_has_dashes(floop, image):
    """What takes an open device is a dash, or null, to those who may not."""
    device = floop.attach(image())
    columns = "NAME,BACK-INO,BACK-MAJ:MIN,REF,MAJ:MIN"
    listing = run(*NOBODY, FLOOP, "list", "-O", columns).stdout
    assert row_of(listing, device).split()[1:4] == ["-", "-", "-"]
    devices = json.loads(run(*NOBODY, FLOOP, "list", "--json").stdout)
    found = next(d for d in devices["devices"] if d["device"] == device)
    assert found["back_ino"] is found["back_maj_min"] is found["ref"] is None
    assert found["maj_min"] is not None


def test_list_for_scripts(floop, image):
    """--raw has a word for each column, whatever is in a name."""
    path = image(1 << 20, "a b\\c.img")
    device = floop.attach(path)
    line = floop("list", "--raw", "-n", "-O", "NAME,BACK-FILE,SIZE", device)
    escaped = str(path).replace("\\", "\\x5c").replace(" ", "\\x20")
    assert line == f"{device} {escaped} 1M\n"


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
    assert device in run(*NOBODY, FLOOP, "list").stdout
    text = run(*NOBODY, FLOOP, "status", device).stdout
    assert "sector size:    512" in text
    assert re.search(r"^not seen: +the open files of \d+ process", text, re.M)
    assert "not seen:" not in floop("status", device)
    # What only the open device tells.
    assert "\nnumber: " in text
    assert "\ninode: " not in text and "\nloop ref: " not in text


def test_status_for_people(floop, image):
    """status says all there is to say, a fact a line."""
    path = image(1 << 20)
    device = floop.attach("--offset", "4096", path)
    lines = floop("status", device).splitlines()
    facts = dict(
        re.fullmatch(r"([^:]+): +(.*)", line).groups() for line in lines
    )
    assert facts["device"] == device
    stat, number = os.stat(path), os.stat(device).st_rdev
    host = f"{os.major(stat.st_dev)}:{os.minor(stat.st_dev)}"
    assert facts["number"] == f"{os.major(number)}:{os.minor(number)}"
    assert facts["inode"] == f"{stat.st_ino} on {host}"
    assert facts["loop ref"] == str(path)[:63]
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
    assert f"\nused:           mounted on {mount}\n" in text
    assert re.search(
        rf"^used: +open in .*\(process {os.getpid()}[,)]", text, re.M
    )
    run("umount", mount)


@pytest.fixture
def elsewhere(folder):
    """elsewhere(SCRIPT) runs it in mounts of its own; then a process stays.

    Returns its process ID.
    """
    running = []

    def start(script):
        ready = folder / f"ready{len(running)}"
        running.append(
            subprocess.Popen(
                ["unshare", "--mount", "sh", "-ec"]
                + [f"{script}\n: >{ready}\nexec sleep 600"]
            )
        )
        wait_until(ready.exists)
        return running[-1].pid

    yield start
    for process in running:
        process.kill()
        process.wait()


def test_mounted_elsewhere(floop, image, folder, elsewhere):
    """A mount that only another mount namespace has is found.

    The process that sees it is named.
    """
    device = floop.attach(image(8 << 20))
    run("mkfs.ext4", "-q", "-F", device)
    mount = folder / "mnt"
    mount.mkdir()
    pid = elsewhere(f"mount {device} {mount}")
    users = floop.status(device)["users"]
    assert users["mounts"] == []
    found = users["mounts_elsewhere"]
    assert [m["mount_point"] for m in found] == [str(mount)]
    assert (found[0]["pid"], found[0]["command"]) == (pid, "sleep")
    link = os.readlink(f"/proc/{pid}/ns/mnt")
    assert link == f"mnt:[{found[0]['namespace']}]"
    assert {"unit", "container", "pod"} <= set(found[0])
    text = floop("status", device)
    says = f"used:           mounted on {mount} in the mount namespace of sleep"
    assert f"{says} (process {pid}" in text
    # It counts as a user that stays.
    assert "mount namespace of sleep" in run(FLOOP, "detach", device).stderr


def test_mounts_are_told_once(floop, image, folder, elsewhere):
    """Mounts that a namespace has of this one are the same mounts.

    Those are copies, with IDs of their own; processes of one namespace, or of
    one chroot, share them.
    """
    device = floop.attach(image(8 << 20))
    run("mkfs.ext4", "-q", "-F", device)
    mount = folder / "mnt"
    mount.mkdir()
    pid = elsewhere(f"mount {device} {mount}\n(exec sleep 600) &")
    found = floop.status(device)["users"]["mounts_elsewhere"]
    assert len(found) == 1
    nobodys = run(*NOBODY, FLOOP, "status", device, "--json").stdout
    found = json.loads(nobodys)["users"]["mounts_elsewhere"]
    assert [m["mount_point"] for m in found] == [str(mount)]
    assert found[0]["namespace"] is None
    run("pkill", "-P", str(pid), check=False)


def test_unmounted_lazily(floop, image, folder):
    """A file system without a mount that is in use all the same is found."""
    device = floop.attach(image(8 << 20))
    run("mkfs.ext4", "-q", "-F", device)
    mount = folder / "mnt"
    mount.mkdir()
    run("mount", device, mount)
    assert floop.status(device)["users"]["file_systems"] == []
    with open(mount / "file", "w"):
        run("umount", "--lazy", mount)
        users = floop.status(device)["users"]
        text = floop("status", device)
    assert users["mounts"] == users["mounts_elsewhere"] == []
    assert users["file_systems"] == [{"device": device, "kind": "ext4"}]
    says = f"in use by ext4 on {device}, which is mounted nowhere that can be"
    assert says in text


def test_device_on_top(floop, image):
    """A loop device on a device is named, with what it is."""
    below = floop.attach(image())
    above = floop.attach("--driver", "loop", below)
    try:
        users = floop.status(below)["users"]
        name = os.path.basename(above)
        assert users["holders"] == [name]
        assert users["stacked"] == [
            {"device": name, "kind": "loop", "name": None}
        ]
        assert f"\nused:           held by {name}\n" in floop("status", below)
    finally:
        floop("detach", above)


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
    "command",
    [
        [],
        ["attach"],
        ["create"],
        ["resize"],
        ["detach"],
        ["list"],
        ["status"],
        ["doctor"],
        ["top"],
        ["watch"],
        ["set"],
    ],
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
        ["create"],
        ["create", "x"],
        ["create", "x", "many"],
        ["resize"],
        ["resize", "x"],
        ["resize", "x", "-1M"],
        ["detach"],
        ["detach", "--all", "x"],
        ["detach", "--driver", "loop", "x"],
        ["status"],
        ["set"],
        ["set", "x"],
        ["set", "--mapping", "auto", "x"],
        ["list", "--columns", "COLOUR"],
        ["list", "--json", "--raw"],
        ["doctor", "--quiet"],
        ["watch", "loop0"],
        ["watch", "--interval", "0"],
        ["hold"],
    ],
    ids=" ".join,
)
def test_wrong_usage(line, folder):
    """What is wrong on the command line is exit code 2, and does nothing."""
    line = [FLOOP, *line]
    none = subprocess.DEVNULL
    result = run(*line, check=False, stdin=none, cwd=folder)
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert os.listdir(folder) == []
