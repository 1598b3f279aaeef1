# SPDX-License-Identifier: GPL-2.0-only
"""Direct I/O: wherever the image allows it without harm.

Everywhere else there is a reason.
"""

import os

import pytest
from native import GPT_512, UNSUITABLE, attached_below, attribute, run


def ext(block_size_log, offset=0):
    """The superblock of an ext file system, as far as recognizing it goes."""
    superblock = offset + 1024
    return {
        superblock + 24: bytes([block_size_log, 0, 0, 0]),
        superblock + 56: b"\x53\xef",
    }


def test_direct_by_default(floop, image, fine):
    """Where 512-byte sectors allow direct I/O, it is on.

    The sectors stay as they are.
    """
    status = floop.status(floop.attach(image(where=fine)))
    assert (
        status["direct"],
        status["direct_reason"],
        status["sector_size"],
    ) == (True, None, 512)


def test_a_blank_image_keeps_small_sectors(floop, image, coarse):
    """Other drivers must find what is written to a blank image.

    So I/O is buffered.
    """
    status = floop.status(floop.attach(image(where=coarse)))
    assert (status["direct"], status["sector_size"]) == (False, 512)
    assert status["direct_reason"] == (
        "direct I/O on this image needs 4096-byte sectors, "
        "and it holds nothing known to be made for them"
    )


def test_sectors_grow_for_direct_io(floop, image, coarse):
    """Where direct I/O needs larger sectors, the device gets them.

    That is so if the user asks for direct I/O.
    """
    device = floop.attach("--direct", "on", image(where=coarse))
    status = floop.status(device)
    assert (status["direct"], status["sector_size"]) == (True, 4096)
    assert attribute(device, "loop/dio") == "1"


def test_direct_io_reaches_the_image(floop, image, fine):
    """Data written over direct I/O is in the image.

    What is read comes from it.
    """
    path = image(1 << 20, where=fine)
    device = floop.attach("--direct", "on", path)
    block = os.urandom(65536)
    fd = os.open(device, os.O_RDWR | os.O_DSYNC)
    try:
        os.pwrite(fd, block, 131072)
    finally:
        os.close(fd)
    with open(path, "rb") as f:
        f.seek(131072)
        assert f.read(65536) == block


@pytest.mark.parametrize(
    "content, what",
    [
        (GPT_512, "a GPT made for 512-byte sectors"),
        (ext(0), "an ext file system made for 1024-byte sectors"),
        (
            {0: b"XFSB", 102: b"\x02\x00"},
            "an XFS file system made for 512-byte sectors",
        ),
        (
            {32769: b"CD001"},
            "an ISO 9660 file system made for 2048-byte sectors",
        ),
    ],
    ids=["GPT", "ext", "XFS", "ISO 9660"],
)
def test_content_keeps_its_sectors(floop, image, coarse, content, what):
    """What was made for small sectors keeps them.

    status says that this is why.
    """
    status = floop.status(floop.attach(image(where=coarse, at=content)))
    assert (status["direct"], status["sector_size"]) == (False, 512)
    assert status["direct_reason"] == (
        f"direct I/O on this image needs 4096-byte sectors, but it holds {what}"
    )


def test_content_that_large_sectors_do_not_hurt(floop, image, coarse):
    """An ext file system with 4096-byte blocks works with 4096-byte sectors."""
    assert (
        floop.status(floop.attach(image(where=coarse, at=ext(2))))["direct"]
        is True
    )


def test_content_counts_from_the_offset_on(floop, image, coarse):
    """What lies before the offset is not on the device and does not matter."""
    path = image(where=coarse, at=GPT_512 | ext(2, 65536))
    assert floop.status(floop.attach("--offset", "64K", path))["direct"] is True


def test_no_byte_is_lost_for_direct_io(floop, image, coarse):
    """If larger sectors would cut off the image's end, it stays buffered.

    All of it is seen.
    """
    device = floop.attach(image(8192 + 512, where=coarse, at=ext(2)))
    status = floop.status(device)
    assert (status["direct"], status["sector_size"], status["size"]) == (
        False,
        512,
        8192 + 512,
    )
    assert "its last 512 bytes would be lost" in status["direct_reason"]


def test_offset_in_the_way(floop, image, coarse):
    """An offset that is not aligned makes I/O buffered, and status says so."""
    status = floop.status(floop.attach("--offset", "512", image(where=coarse)))
    assert status["direct"] is False
    assert "the offset 512 is not a multiple of 4096" in status["direct_reason"]


def test_sector_size_in_the_way(floop, image, coarse):
    """So does a sector size that was asked for and is too small."""
    status = floop.status(
        floop.attach("--sector-size", "512", image(where=coarse, at=ext(2)))
    )
    assert status["direct"] is False
    assert "the sector size 512 is smaller than 4096" in status["direct_reason"]


def test_file_system_in_the_way(floop, image, no_direct):
    """So does a file system without direct I/O."""
    status = floop.status(floop.attach(image(where=no_direct)))
    assert status["direct"] is False
    assert (
        status["direct_reason"]
        == "the image's file system has no direct I/O for it"
    )


def test_off(floop, image, fine, coarse):
    """--direct off is buffered, with sectors of 512.

    status says that direct I/O was not asked for.
    """
    status = floop.status(floop.attach("--direct", "off", image(where=fine)))
    assert (status["direct"], status["direct_reason"]) == (
        False,
        "it was not asked for",
    )
    status = floop.status(floop.attach("--direct", "off", image(where=coarse)))
    assert (status["direct"], status["sector_size"]) == (False, 512)


def test_on(floop, image, coarse):
    """--direct on is direct where it can be."""
    status = floop.status(floop.attach("--direct", "on", image(where=coarse)))
    assert status["direct"] is True


@pytest.mark.parametrize(
    "obstacle", ["offset", "sector size", "content", "file system", "tail"]
)
def test_on_or_an_error(floop, image, coarse, no_direct, obstacle):
    """--direct on where it can't be is an error with the reason.

    Nothing is attached.
    """
    args, where, size, at = [], coarse, 1 << 20, {}
    says = {
        "offset": "the offset 512 is not a multiple of 4096",
        "sector size": "the sector size 512 is smaller than 4096",
        "content": "it holds a GPT made for 512-byte sectors",
        "file system": "the image's file system has no direct I/O for it",
        "tail": "its last 512 bytes would be lost",
    }[obstacle]
    if obstacle == "offset":
        args = ["--offset", "512"]
    elif obstacle == "sector size":
        args = ["--sector-size", "512"]
    elif obstacle == "content":
        at = GPT_512
    elif obstacle == "file system":
        where = no_direct
    else:
        size += 512
    path = image(size, where=where, at=at, name=f"{obstacle}.img")
    complaint = floop.refused(
        UNSUITABLE, "attach", "--direct", "on", *args, path
    )
    assert f"{path}: no direct I/O: " in complaint
    assert says in complaint
    assert complaint.endswith("; --direct auto attaches it buffered\n")
    assert not [
        d
        for d in attached_below(where)
        if attribute(d, "loop/backing_file") == str(path)
    ]


def test_on_over_the_content(floop, image, coarse):
    """Who asks for direct I/O and names the sector size gets both.

    What the image holds makes no difference.
    """
    path = image(where=coarse, at=GPT_512)
    device = floop.attach("--direct", "on", "--sector-size", "4096", path)
    assert floop.status(device)["direct"] is True


def test_block_device_as_image(floop, image, fine):
    """The alignment of a block device that is an image is its sector size."""
    below = floop.attach("--sector-size", "4096", image(where=fine, at=ext(2)))
    above = floop.attach(below)
    status = floop.status(above)
    assert (status["direct"], status["sector_size"]) == (True, 4096)
    floop("detach", above)
    above = floop.attach("--sector-size", "512", below)
    assert (
        "the sector size 512 is smaller than 4096"
        in floop.status(above)["direct_reason"]
    )
    floop("detach", above)


def test_attached_by_others(floop, image, fine):
    """A device that losetup attached buffered.

    status says that nobody asked for direct I/O.
    """
    device = run("losetup", "-f", "--show", image(where=fine)).stdout.strip()
    assert floop.status(device)["direct_reason"] == "it was not asked for"
    run("losetup", "--direct-io=on", device)
    assert floop.status(device)["direct_reason"] is None


def test_reason_for_an_image_that_is_gone(floop, image, fine):
    """If the image was deleted or replaced, status does not guess."""
    path = image(where=fine)
    device = floop.attach("--direct", "off", path)
    path.unlink()
    assert (
        floop.status(device)["direct_reason"]
        == "not known: the image was deleted"
    )
    image(where=fine)
    why = floop.status(device)["direct_reason"]
    assert why.startswith("not known: ")
    floop("detach", device)


def test_status_for_people(floop, image, fine, coarse):
    """status has one line about direct I/O, with the reason in it."""
    assert "direct I/O:     yes\n" in floop(
        "status", floop.attach(image(where=fine, name="a"))
    )
    device = floop.attach(image(where=coarse, at=GPT_512, name="b"))
    assert "direct I/O:     no: direct I/O on this image needs" in floop(
        "status", device
    )
