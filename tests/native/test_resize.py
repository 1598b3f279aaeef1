# SPDX-License-Identifier: GPL-2.0-only
"""floop resize: images and their devices grow, and shrink where that is safe.

A resize that fails leaves both as they were.
"""

import os
import signal
import struct
import subprocess

import pytest
from native import (
    BUSY,
    FAILED,
    FLOOP,
    NOT_FOUND,
    UNSUITABLE,
    USAGE,
    attribute,
    run,
    wait_until,
)

M = 1 << 20


def sizes(path, device):
    """The size of an image and of its device."""
    return path.stat().st_size, int(attribute(device, "size")) * 512


def test_grow_by_device_and_by_image(floop, image):
    """Both are named as one likes, and grow; what is in the image stays."""
    path = image(M, at={0: b"first", M - 4: b"last"})
    device = floop.attach(path)
    says = run(FLOOP, "resize", device, "2M").stderr
    assert f"floop: {path}: 2097152 (2 MiB) now; the new part is sparse" in says
    assert sizes(path, device) == (2 * M, 2 * M)
    out = floop.json("resize", path, "+1M")
    assert out == {
        "file": str(path),
        "old_size": 2 * M,
        "size": 3 * M,
        "thin": True,
        "devices": [device],
    }
    assert sizes(path, device) == (3 * M, 3 * M)
    with open(device, "rb") as file:
        data = file.read()
    assert data[:5] == b"first" and data[M - 4 : M] == b"last"
    assert data[M:] == bytes(2 * M)


def test_image_without_device(floop, image):
    """An image that isn't attached grows as well."""
    path = image(M)
    floop("resize", path, "4M")
    assert path.stat().st_size == 4 * M


def test_thick_stays_thick(floop, fine):
    """The new part of an image that is all written is written, too."""
    path = fine / "thick.img"
    floop("create", path, str(4 * M + 512))
    says = run(FLOOP, "resize", path, "8M").stderr
    assert "the new part is written, as the image is" in says
    assert path.stat().st_blocks * 512 >= 8 * M
    assert path.read_bytes() == bytes(8 * M)
    assert "unwritten" not in run("filefrag", "-v", path).stdout
    path.unlink()


def test_every_device_of_the_image(floop, image):
    """Each device follows, but for one with a size limit, which says so."""
    path = image(M)
    first = floop.attach(path)
    second = floop.attach("--read-only", "--offset", "64K", path)
    third = floop.attach("--read-only", "--size-limit", "64K", path)
    says = run(FLOOP, "resize", second, "1M").stderr
    assert sizes(path, second) == (M + 65536, M)
    assert sizes(path, first) == (M + 65536, M + 65536)
    assert sizes(path, third)[1] == 65536
    assert f"{third}: keeps its size limit, of 65536 bytes" in says
    says = floop.refused(UNSUITABLE, "resize", third, "1M")
    assert "has a size limit, of 65536 bytes; detach it, and attach" in says


def test_file_that_has_grown_already(floop, image):
    """A device takes over the size of an image that has it already."""
    path = image(M)
    device = floop.attach(path)
    os.truncate(path, 2 * M)
    floop("resize", device, "2M")
    assert sizes(path, device) == (2 * M, 2 * M)


def test_grow_in_use(floop, image, folder):
    """A mounted file system can grow after it; the message says how."""
    path = image(16 * M)
    device = floop.attach(path)
    run("mkfs.ext4", "-q", "-F", device)
    mount = folder / "mount"
    mount.mkdir()
    run("mount", device, mount)
    says = run(FLOOP, "resize", path, "32M").stderr
    assert f"holds an ext file system; grow it: resize2fs {device}" in says
    assert sizes(path, device) == (32 * M, 32 * M)
    run("umount", mount)
    run("e2fsck", "-fp", device)
    run("resize2fs", device)


def test_no_room(floop, fine):
    """Without room image and device stay as they were."""
    path = fine / "thick.img"
    floop("create", path, "1M")
    device = floop.attach(path)
    says = floop.refused(FAILED, "resize", device, "1G")
    assert "no space left on device" in says
    assert sizes(path, device) == (M, M)
    assert path.stat().st_blocks * 512 < 2 * M
    floop("detach", device)
    path.unlink()


def test_interrupted(floop, folder):
    """So they do after a signal, which ends it."""
    path = folder / "thick.img"
    floop("create", path, "1M")
    device = floop.attach(path)
    with subprocess.Popen(
        [FLOOP, "resize", device, "16G"], stderr=subprocess.PIPE
    ) as process:
        wait_until(lambda: path.stat().st_size > M)
        process.send_signal(signal.SIGINT)
        assert b"interrupted; everything is as it was" in process.stderr.read()
    assert process.returncode == -signal.SIGINT
    assert sizes(path, device) == (M, M)
    assert path.stat().st_blocks * 512 < 2 * M


def test_shrink(floop, image):
    """It shrinks with --shrink only, and not into its file system."""
    path = image(32 * M)
    run("mkfs.ext4", "-q", "-F", path, "16M")
    device = floop.attach(path)
    says = floop.refused(UNSUITABLE, "resize", device, "20M")
    assert "has 33554432 bytes, more than that; --shrink cuts" in says
    shrink = ["resize", "--shrink", device]
    says = floop.refused(UNSUITABLE, *shrink, str(16 * M - 512))
    assert "holds an ext file system that needs 16777216 bytes" in says
    assert sizes(path, device) == (32 * M, 32 * M)
    floop(*shrink, "16M")
    assert sizes(path, device) == (16 * M, 16 * M)
    run("e2fsck", "-fn", device)


def test_shrink_in_use(floop, image, folder):
    """What is in use doesn't shrink, whoever uses it."""
    path = image(32 * M)
    run("mkfs.ext4", "-q", "-F", path, "16M")
    device = floop.attach(path)
    shrink = ["resize", "--shrink", path, "20M"]
    with open(device, "rb"):
        assert f"{device}: is in use: open in" in floop.refused(BUSY, *shrink)
        # It may grow.
        floop("resize", "--shrink", path, "+0")
    mount = folder / "mount"
    mount.mkdir()
    elsewhere = ["unshare", "--mount", "sh", "-c"]
    script = f"mount {device} {mount} && echo && read -r _; umount {mount}"
    with subprocess.Popen(
        [*elsewhere, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert f"{device}: is in use" in floop.refused(BUSY, *shrink)
        process.stdin.close()
    # Somebody has claimed it who can't be seen from there.
    claimed = os.open(device, os.O_RDONLY | os.O_EXCL)
    via = ["unshare", "--pid", "--fork", "--mount-proc"]
    assert f"{device}: is in use" in floop.refused(BUSY, *shrink, via=via)
    os.close(claimed)
    assert sizes(path, device) == (32 * M, 32 * M)
    floop(*shrink)


def gpt(last, usable):
    """A partition table with one partition, up to this sector.

    Sectors up to the other one are usable.
    """
    header = struct.pack(
        "<8sIIIIQQQQ16sQIII",
        *(b"EFI PART", 0x10000, 92, 0, 0, 1, 65535, 34, usable),
        *(b"disk", 2, 128, 128, 0),
    )
    entry = struct.pack("<16s16sQQ", b"type", b"part", 2048, last)
    return {510: b"\x55\xaa", 512: header, 1024: entry}


def dos(start, count):
    entry = struct.pack("<B3sB3sII", 0, b"", 0x83, b"", start, count)
    return {446: entry, 510: b"\x55\xaa"}


@pytest.mark.parametrize(
    "content, need",
    [
        # The partition, the copy of the entries, and that of the header.
        (gpt(40959, 40000), 40960 * 512 + 33 * 512),
        # The kernel reads no table that calls more usable than there is.
        (gpt(4095, 8191), 8192 * 512 + 33 * 512),
        (dos(2048, 8192), 10240 * 512),
        ({0: b"XFSB" + struct.pack(">IQ", 4096, 2048), 102: b"\2\0"}, 8 * M),
        (
            {65600: b"_BHRfS_M", 65680: b"\0\x10", 65745: struct.pack("<Q", M)},
            M,
        ),
    ],
)
def test_shrink_to_what_is_needed(floop, image, content, need):
    """Not a sector less than the last partition or the file system."""
    path = image(32 * M, at=content)
    shrink = ["resize", "--shrink", path]
    says = floop.refused(UNSUITABLE, *shrink, str(need - 512))
    assert f"that needs {need} bytes" in says
    floop(*shrink, str(need))
    assert path.stat().st_size == need


@pytest.mark.parametrize(
    "content, says",
    [
        ({}, "holds nothing that is known"),
        ({0: b"LUKS\xba\xbe"}, "holds a LUKS header, whose end can't be told"),
    ],
)
def test_shrink_of_what_is_not_known(floop, image, content, says):
    """Nothing is cut where the end can't be told."""
    path = image(2 * M, at=content)
    assert says in floop.refused(UNSUITABLE, "resize", "--shrink", path, "1M")
    assert path.stat().st_size == 2 * M


def test_bad_input(floop, image, folder):
    """Each refusal names the thing, and changes nothing."""
    path = image(M)
    device = floop.attach("--sector-size", "4K", path)
    floop.refused(NOT_FOUND, "resize", folder / "none", "1M")
    floop.refused(UNSUITABLE, "resize", folder, "1M")
    floop.refused(USAGE, "resize", path, "1000")
    floop.refused(UNSUITABLE, "resize", path, "+9223372036854775807")
    says = floop.refused(UNSUITABLE, "resize", path, str(M + 512))
    assert f"{device} would have no whole number of sectors of 4096" in says
    below = floop.attach(image(M, "below"))
    above = floop.attach(below)
    says = floop.refused(UNSUITABLE, "resize", above, "2M")
    assert f"the image is a block device, {below}; resize that first" in says
    assert sizes(path, device) == (M, M)
    floop("detach", above)
