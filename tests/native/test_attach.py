# SPDX-License-Identifier: GPL-2.0-only
"""floop attach: what it makes of an image, and what it prints."""

import concurrent.futures
import fcntl
import json
import os
import re
import shutil
import socket
import subprocess

import pytest
from native import (
    BUSY,
    FLOOP,
    GPT_512,
    NOT_FOUND,
    PERMISSION,
    UNSUITABLE,
    USAGE,
    attached_below,
    attribute,
    is_attached,
    output_is_lost,
    run,
    words,
)

LOOP_GET_STATUS64 = 0x4C05
LOOP_CTL_REMOVE = 0x4C81


def test_prints_the_device_and_nothing_else(floop, image):
    """attach prints the device, in one line, and is silent otherwise."""
    out = floop.quiet("attach", image())
    assert re.fullmatch(r"/dev/loop\d+\n", out)
    assert is_attached(out.strip())


def test_device_is_the_image(floop, image):
    """What is in the image is on the device.

    What is written to the device is in the image.
    """
    path = image(4 << 20, at={0: b"first", (4 << 20) - 4: b"last"})
    device = floop.attach(path)
    with open(device, "r+b") as f:
        assert f.read(5) == b"first"
        assert f.seek(0, os.SEEK_END) == 4 << 20
        f.seek(-4, os.SEEK_END)
        assert f.read() == b"last"
        f.seek(1 << 20)
        f.write(b"in the middle")
        f.flush()
        os.fsync(f.fileno())
    floop("detach", device)
    with open(path, "rb") as f:
        f.seek(1 << 20)
        assert f.read(13) == b"in the middle"


def test_json_has_the_documented_fields(floop, image):
    """attach --json prints one object.

    Its fields and their types are those of docs/command.md.
    """
    path = image()
    out = json.loads(floop.quiet("attach", "--json", path))
    types = {
        "device": str,
        "driver": str,
        "driver_version": (str, type(None)),
        "backing_file": str,
        "deleted": bool,
        "size": int,
        "offset": int,
        "size_limit": int,
        "sector_size": int,
        "read_only": bool,
        "autoclear": bool,
        "partscan": bool,
        "direct": bool,
        "mapped": (bool, type(None)),
        "mapped_bytes": (int, type(None)),
        "maj_min": str,
        "back_ino": int,
        "back_maj_min": str,
        "ref": str,
        "direct_reason": (str, type(None)),
        "discard": str,
        "allocate": str,
        "zeroed": (int, type(None)),
        "spare": (int, type(None)),
        "allocated": (int, type(None)),
        "shared": (int, type(None)),
        "mapping": (bool, type(None)),
        "mapped_reason": (str, type(None)),
        "mapped_shared_bytes": (int, type(None)),
        "mapped_extents": (int, type(None)),
        "mapped_memory": (int, type(None)),
        "epochs_begun": (int, type(None)),
        "epochs_broken": (int, type(None)),
        "readers": (int, type(None)),
        "ios_mapped": (int, type(None)),
        "ios_holes": (int, type(None)),
        "ios_file": (int, type(None)),
        "ios_file_causes": (dict, type(None)),
        "ios_failed": (int, type(None)),
        "last_break": (dict, type(None)),
        "partitions": list,
        "users": dict,
    }
    assert list(out) == list(types)
    for name, kind in types.items():
        assert isinstance(out[name], kind), name
    assert out["backing_file"] == str(path)
    assert out["size"] == 1 << 20
    assert list(out["users"]) == [
        "mounts",
        "mounts_elsewhere",
        "file_systems",
        "holders",
        "stacked",
        "swaps",
        "processes",
        "processes_not_seen",
    ]


def test_offset_and_size_limit_are_a_window(floop, image):
    """--offset and --size-limit choose the part that the device shows."""
    path = image(1 << 20, at={65536: b"begin", 65536 + 8192 - 3: b"end"})
    device = floop.attach("--offset", "64K", "--size-limit", "8192", path)
    with open(device, "rb") as f:
        data = f.read()
    assert len(data) == 8192
    assert data.startswith(b"begin") and data.endswith(b"end")
    status = floop.status(device)
    assert (status["offset"], status["size_limit"], status["size"]) == (
        65536,
        8192,
        8192,
    )


@pytest.mark.parametrize(
    "text, size",
    [
        ("4096", 4096),
        ("0x1000", 4096),
        ("4K", 4096),
        ("4k", 4096),
        ("4KiB", 4096),
        ("512KB", 512000),
        ("1M", 1 << 20),
        ("1MiB", 1 << 20),
    ],
)
def test_sizes_have_the_suffixes_of_losetup(floop, image, text, size):
    """K, KiB and so on are powers of 1024, KB and so on of 1000.

    Hexadecimal works too.
    """
    device = floop.attach("--offset", text, image(4 << 20))
    assert attribute(device, "loop/offset") == str(size)


def test_size_limit_has_the_name_that_losetup_gives_it(floop, image):
    """--sizelimit works as well."""
    device = floop.attach("--sizelimit", "4K", image())
    assert attribute(device, "loop/sizelimit") == "4096"


def test_short_options_are_those_of_losetup(floop, image):
    """-r, -P, -o and -b mean what they mean to losetup."""
    device = floop.attach("-r", "-P", "-o", "8K", "-b", "4K", image())
    status = floop.status(device)
    assert (status["read_only"], status["partscan"]) == (True, True)
    assert (status["offset"], status["sector_size"]) == (8192, 4096)


def test_size_limit_beyond_the_end(floop, image):
    """A size limit larger than the image is no error: the image may grow."""
    device = floop.attach("--size-limit", "1G", image(1 << 20))
    assert attribute(device, "size") == str((1 << 20) // 512)
    assert attribute(device, "loop/sizelimit") == str(1 << 30)


def test_read_only(floop, image):
    """--read-only makes a device that can't be written."""
    device = floop.attach("--read-only", image())
    assert floop.status(device)["read_only"] is True
    with pytest.raises(PermissionError), open(device, "r+b", buffering=0) as f:
        f.write(bytes(512))


def test_read_only_file_system(floop, image, folder):
    """An image that can't be opened for writing is attached read-only.

    A warning says so.
    """
    path = image()
    mount = folder / "mount"
    mount.mkdir()
    run("mount", "--bind", folder, mount)
    run("mount", "-o", "remount,bind,ro", mount)
    device, warning = floop.warning("attach", mount / path.name)
    assert "attached read-only: read-only file" in warning
    assert floop.status(device)["read_only"] is True


def test_sector_size(floop, image):
    """--sector-size sets the logical block size."""
    device = floop.attach("--sector-size", "4K", image())
    assert attribute(device, "queue/logical_block_size") == "4096"
    assert floop.status(device)["sector_size"] == 4096


def test_partscan_and_its_absence(floop, image):
    """--partscan asks the kernel for partitions; else it does not look."""
    assert (
        floop.status(floop.attach("--partscan", image(name="a")))["partscan"]
        is True
    )
    assert floop.status(floop.attach(image(name="b")))["partscan"] is False


def test_partscan_with_the_wrong_sector_size_says_so(floop, image):
    """A GPT for 512-byte sectors can't be found through 4096-byte ones.

    A warning explains it.
    """
    path = image(at=GPT_512)
    device, warning = floop.warning(
        "attach", "--partscan", "--sector-size", "4096", path
    )
    assert (
        "holds a GPT made for 512-byte sectors, "
        "but the device has sectors of 4096"
    ) in warning
    assert is_attached(device)


def test_the_tail_that_fills_no_sector(floop, image):
    """A size that is no multiple of the sector size.

    A warning says how much can't be seen.
    """
    device, warning = floop.warning("attach", image(4096 + 17))
    assert "the last 17 bytes can't be seen" in warning
    assert floop.status(device)["size"] == 4096
    device, warning = floop.warning(
        "attach", "--sector-size", "4096", image(8192 + 512, "b")
    )
    assert "the last 512 bytes can't be seen" in warning
    assert "not a multiple of the sector size, 4096" in warning


def test_attached_twice_for_writing(floop, image, folder):
    """A second device that would write to the image is refused.

    So it is under any name, also when the image has been renamed. The message
    names the first one, and says what helps.
    """
    path = image()
    (folder / "another-name").hardlink_to(path)
    first = floop.attach(path)
    says = floop.refused(BUSY, "attach", folder / "another-name")
    assert f"another-name: is attached to {first} for writing already" in says
    assert "--read-only" in says and "--if-attached reuse" in says
    path.unlink()
    floop.refused(BUSY, "attach", folder / "another-name")
    assert attached_below(folder) == [first]


def test_attached_twice_at_once(floop, image, folder):
    """Of eight that attach an image at once one succeeds."""
    path = image()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        codes = [
            result.returncode
            for result in pool.map(
                lambda _: run(*words(["attach", path]), check=False), range(8)
            )
        ]
    assert sorted(codes) == [0] + [BUSY] * 7
    assert len(attached_below(folder)) == 1


def test_attached_twice_all_the_same(floop, image):
    """--if-attached allow attaches it, as losetup does, with a warning."""
    path = image()
    first = floop.attach(path)
    second, warning = floop.warning("attach", "--if-attached", "allow", path)
    assert f"is attached to {first} for writing already" in warning
    assert is_attached(second) and second != first


def test_attached_twice_without_harm(floop, image):
    """It is no harm read-only, or if the devices show different parts."""
    path = image()
    floop("attach", "--size-limit", "512K", path)
    floop.quiet("attach", "--read-only", path)
    floop.quiet("attach", "--offset", "512K", path)


def test_reuse(floop, image, folder):
    """--if-attached reuse prints the device that the image has.

    It attaches an image that has none.
    """
    path = image()
    reuse = ["attach", "--if-attached", "reuse"]
    first = floop.quiet(*reuse, path).strip()
    assert floop.quiet(*reuse, path).strip() == first
    assert floop.json(*reuse, path)["device"] == first
    part = [*reuse, "--offset", "64K", "--size-limit", "64K", "--read-only"]
    second = floop.quiet(*part, path).strip()
    assert second != first
    assert floop.quiet(*part, path).strip() == second
    assert set(attached_below(folder)) == {first, second}


@pytest.mark.parametrize(
    "made, wanted, difference",
    [
        (["--offset", "4K"], [], "its offset is 4096"),
        ([], ["--offset", "4K"], "its offset is 0"),
        (["--size-limit", "8K"], [], "its size limit is 8192"),
        ([], ["--size-limit", "8K"], "it has no size limit"),
        ([], ["--sector-size", "4K"], "its sector size is 512"),
        ([], ["--partscan"], "it has no partition scan"),
        (["--direct", "off"], ["--direct", "on"], "its I/O is buffered"),
        ([], ["--loop-ref", "x"], "its name (--loop-ref) is another"),
        ([], ["--autoclear"], "it stays when its last user closes it"),
        ([], ["--number", "1048575"], "it is another device than the wanted"),
    ],
)
def test_reuse_of_what_does_not_fit(
    floop, image, fine, folder, made, wanted, difference
):
    """A device that isn't as asked for isn't reused; the message says why."""
    path = image(where=fine, name="reused.img")
    device = floop.attach(*made, path)
    reuse = ["attach", "--if-attached", "reuse"]
    says = floop.refused(BUSY, *reuse, *wanted, path)
    assert f"is attached to {device} already, which can't be reused" in says
    assert difference in says
    floop("detach", device)


def test_number(floop, image):
    """--number chooses the device, which is made if it is not there."""
    number = 1001
    while os.path.exists(f"/sys/block/loop{number}"):
        number += 1
    path = image()
    try:
        device = floop.attach("--number", str(number), path)
        assert device == f"/dev/loop{number}"
        # It is taken now, and there is no other.
        says = floop.refused(
            BUSY, "attach", "--number", str(number), image(name="other.img")
        )
        assert f"{device}: {path} is attached to it; give another" in says
        floop("detach", device)
        # It is free, and there already.
        assert floop.attach("--number", str(number), path) == device
        floop("detach", device)
    finally:
        with open("/dev/loop-control", "rb") as control:
            fcntl.ioctl(control, LOOP_CTL_REMOVE, number)
    says = run(FLOOP, "attach", "--number", "x", path, check=False)
    assert says.returncode == USAGE


def test_loop_ref(floop, image):
    """--loop-ref is the name in the driver's status, that losetup shows."""

    def ref(*args):
        device = floop.attach(*args)
        # LOOP_GET_STATUS64: lo_file_name is at 56.
        with open(device, "rb") as file:
            status = fcntl.ioctl(file, LOOP_GET_STATUS64, bytes(232))
        return status[56:120].rstrip(b"\0").decode()

    path = image()
    assert ref("--read-only", path) == str(path)[:63]
    assert ref("--read-only", "--loop-ref", "the disk", path) == "the disk"
    for name, why in ("", "is empty"), ("x" * 64, "too long"):
        result = run(*[FLOOP, "attach", "--loop-ref", name, path], check=False)
        assert result.returncode == USAGE and why in result.stderr


def test_image_on_a_loop_device(floop, image):
    """A block device is an image too, a loop device among them.

    status names who holds it.
    """
    below = floop.attach(image(at={4096: b"deep"}))
    above = floop.attach("--offset", "4096", below)
    with open(above, "rb") as f:
        assert f.read(4) == b"deep"
    assert floop.status(above)["backing_file"] == below
    assert floop.status(below)["users"]["holders"] == [os.path.basename(above)]
    floop("detach", above)


def test_the_driver_that_was_asked_for(floop, image):
    """--driver loop uses the loop driver."""
    assert floop.attach("--driver", "loop", image()).startswith("/dev/loop")


def test_names_that_are_hard_to_print(floop, folder, image):
    """A name with control characters or broken UTF-8 is no danger.

    It is none to a terminal, nor to JSON.
    """
    name = os.fsdecode(b"a\nb\x1b[31m\xff.img")
    path = image(name=name)
    device = floop.attach(path)
    status = floop("status", device)
    assert f"{folder}/a\\x0ab\\x1b[31m\\xff.img" in status
    assert (
        floop.status(device)["backing_file"]
        == f"{folder}/a\nb\x1b[31m\ufffd.img"
    )
    floop("detach", path)
    assert not is_attached(device)


def test_name_that_begins_with_a_dash(floop, image, folder):
    """A file called --all is a file after --."""
    image(name="--all")
    device = floop("attach", "--", "--all", cwd=folder).strip()
    floop("detach", "--", "--all", cwd=folder)
    assert not is_attached(device)


def test_output_that_cannot_be_written(image, folder):
    """If the device can't be printed nobody knows of it.

    It is detached again, and attach fails.
    """
    output_is_lost("attach", image())
    assert attached_below(folder) == []


@pytest.mark.parametrize(
    "kind", ["folder", "character device", "pipe", "socket"]
)
def test_what_is_no_image(floop, folder, kind):
    """Only regular files and block devices can be images.

    The message says what it is instead.
    """
    path = folder / "it"
    if kind == "folder":
        path.mkdir()
        says = "is a directory"
    elif kind == "character device":
        path = "/dev/null"
        says = "is a character device"
    elif kind == "pipe":
        os.mkfifo(path)
        says = "is a pipe"
    else:
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(path))
        says = "is not a file"
    complaint = floop.refused(UNSUITABLE, "attach", path)
    assert (
        f"{path}: {says}; an image is a regular file or a block device"
        in complaint
    )


def test_no_such_file(floop, folder):
    """The message names the file that is not there."""
    path = folder / "missing.img"
    complaint = floop.refused(NOT_FOUND, "attach", path)
    assert f"{path}: no such file; " in complaint


def test_file_below_a_file(floop, image):
    """A path through something that is no folder is a path to nothing."""
    assert "not a directory" in floop.refused(
        NOT_FOUND, "attach", image() / "x"
    )


def test_empty_image(floop, image, folder):
    """An empty file makes no device; the message says how to make it larger."""
    path = image(0)
    complaint = floop.refused(UNSUITABLE, "attach", path)
    assert "disk.img: is empty; give it a size first: floop resize" in complaint
    assert attached_below(folder) == []
    floop("resize", path, "1M")
    floop.attach(path)


def test_offset_past_the_end(floop, image):
    """An offset at or past the end is an error, not a device of no size."""
    complaint = floop.refused(
        UNSUITABLE, "attach", "--offset", "1M", image(1 << 20)
    )
    assert "the offset 1048576 is past its end (1048576 bytes); " in complaint


def test_less_than_a_sector(floop, image):
    """So is an image, or what is left of it, that does not fill one sector."""
    assert "only 100 bytes would be visible" in floop.refused(
        UNSUITABLE, "attach", image(100)
    )
    complaint = floop.refused(
        UNSUITABLE,
        "attach",
        "--sector-size",
        "4096",
        "--size-limit",
        "2K",
        image(),
    )
    assert (
        "only 2048 bytes would be visible, less than a sector of 4096"
        in complaint
    )


def test_immutable_image(floop, image, fine, folder):
    """An image that may not be written at all.

    The message says what attaches it.
    """
    path = image(where=fine, name="immutable")
    run("chattr", "+i", path)
    try:
        complaint = floop.refused(PERMISSION, "attach", path)
        assert "--read-only attaches it anyway" in complaint
        floop("detach", floop.attach("--read-only", path))
    finally:
        run("chattr", "-i", path)
        path.unlink()


def test_program_that_is_running(floop, folder):
    """An image that is a running program is busy for writing."""
    program = folder / "sleep"
    shutil.copy(shutil.which("sleep"), program)
    with subprocess.Popen([program, "60"]) as process:
        try:
            complaint = floop.refused(BUSY, "attach", program)
        finally:
            process.kill()
    assert (
        f"{program}: is a program that is running; --read-only attaches it"
        in complaint
    )
