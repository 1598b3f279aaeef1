# SPDX-License-Identifier: GPL-2.0-only
"""floop set: direct I/O, sector size, read-only of an attached device."""

from native import (
    BUSY,
    FLOOP,
    NOT_FOUND,
    UNSUITABLE,
    USAGE,
    attribute,
    is_attached,
    private,
    run,
    wait_until,
)


def shown(device):
    """Its sector size, and whether its I/O is direct."""
    return (
        int(attribute(device, "queue/logical_block_size")),
        attribute(device, "loop/dio") == "1",
    )


def test_direct(floop, image, fine):
    """--direct switches, of a device or of the image that it has."""
    path = image(where=fine, name="direct.img")
    device = floop.attach(path)
    assert shown(device) == (512, True)
    assert floop.quiet("set", device, "--direct", "off") == ""
    assert shown(device) == (512, False)
    assert floop.json("set", path, "--direct", "on")["direct"] is True
    assert shown(device) == (512, True)
    floop("detach", device)


def test_direct_that_cannot_be(floop, image, no_direct):
    """An image without direct I/O is refused, with the reason."""
    path = image(where=no_direct, name="buffered.img")
    device = floop.attach(path)
    says = floop.refused(UNSUITABLE, "set", device, "--direct", "on")
    assert "no direct I/O: the image's file system has no direct I/O" in says
    assert shown(device) == (512, False)
    floop("detach", device)


def test_sector_size(floop, image, coarse):
    """Another sector size, with which I/O can be direct.

    With both settings in one call the sector size is the first.
    """
    path = image(where=coarse, name="sectors.img")
    device = floop.attach(path)
    assert shown(device) == (512, False)
    floop.quiet("set", device, "--direct", "on", "--sector-size", "4K")
    assert shown(device) == (4096, True)
    _, says = floop.warning("set", device, "-b", "512")
    assert "I/O is buffered from now on: " in says
    assert shown(device) == (512, False)
    floop("detach", device)


def test_nothing_is_half_done(floop, image, no_direct, coarse):
    """If the second setting fails the first one is taken back."""
    path = image(where=no_direct, name="half.img")
    device = floop.attach(path)
    both = ["--sector-size", "4096", "--direct", "on"]
    floop.refused(UNSUITABLE, "set", device, *both)
    assert shown(device) == (512, False)
    floop("detach", device)
    # Here the driver refuses the second one: the image can't be asked.
    path = image((1 << 20) + 512, "half.img", coarse)
    device = floop.attach("--offset", "512", path)
    hidden = private(f"mount -t tmpfs none {coarse}")
    floop.refused(UNSUITABLE, "set", device, *both, via=hidden)
    assert shown(device) == (512, False)
    # What can be checked is checked before: mapping is for floop.
    both = ["--sector-size", "4096", "--mapping", "on"]
    floop.refused(UNSUITABLE, "set", device, *both)
    assert shown(device) == (512, False)
    floop("detach", device)


def test_sector_size_in_use(floop, image, folder):
    """The sector size stays while anybody uses the device."""
    device = floop.attach(image(8 << 20))
    run("mkfs.ext4", "-q", "-F", device)
    mount = folder / "mount"
    mount.mkdir()
    run("mount", device, mount)
    says = floop.refused(BUSY, "set", device, "--sector-size", "4096")
    assert f"{device}: is in use: mounted on {mount}" in says
    run("umount", mount)
    with open(device, "rb"):
        floop.refused(BUSY, "set", device, "--sector-size", "4096")
    assert shown(device)[0] == 512
    floop("set", device, "--sector-size", "4096")
    assert shown(device)[0] == 4096


def test_bad_input(floop, image):
    """Each refusal names the thing, and changes nothing."""
    path = image((1 << 20) + 512)
    floop.refused(NOT_FOUND, "set", path, "--direct", "off")
    device = floop.attach(path)
    says = floop.refused(UNSUITABLE, "set", path, "-b", "4096")
    assert "its size, 1049088, is not a multiple of 4096" in says
    second = floop.attach("--read-only", path)
    says = floop.refused(UNSUITABLE, "set", path, "--direct", "off")
    assert f"is attached to {device}, {second}; name one of them" in says
    assert is_attached(device) and shown(device)[0] == 512


def test_allocation_by_the_loop_driver(floop, image):
    """It allocates nothing ahead: an error, and nothing else is changed."""
    path = image()
    says = floop.refused(UNSUITABLE, "attach", "--allocate", "auto", path)
    assert "only floop does that" in says
    device = floop.attach("--allocate", "off", path)
    says = floop.refused(UNSUITABLE, "set", device, "--allocate", "64K")
    assert "only floop does that" in says
    assert floop.quiet("set", device, "--allocate", "off") == ""
    assert floop.json("status", device)["allocate"] == "off"
    both = ["--allocate", "8M"]
    says = run(FLOOP, "set", device, *both, check=False)
    assert says.returncode == USAGE
    assert "a power of two from 16K to 4M" in says.stderr
    floop("detach", device)


def test_discards_of_the_loop_driver(floop, image):
    """It can't keep blocks: an error, and nothing else is changed."""
    path = image()
    says = floop.refused(UNSUITABLE, "attach", "--discard", "keep", path)
    assert "only floop keeps blocks" in says
    devices = floop.json("list")["devices"]
    assert not [d for d in devices if d["backing_file"] == str(path)]
    device = floop.attach("--discard", "pass", path)
    both = ["--discard", "keep", "--direct", "off"]
    before = shown(device)
    says = floop.refused(UNSUITABLE, "set", device, *both)
    assert "only floop keeps blocks" in says
    assert shown(device) == before
    assert floop.quiet("set", device, "--discard", "pass") == ""
    assert floop.json("status", device)["discard"] == "pass"
    floop("detach", device)


def test_read_only(floop, image):
    """It can be made read-only while nobody uses it, and writable again."""
    device = floop.attach(image())
    assert floop.quiet("set", device, "--read-only", "on") == ""
    assert attribute(device, "ro") == "1"
    assert floop.status(device)["read_only"] is True
    write = ["dd", "if=/dev/zero", f"of={device}", "count=1"]
    assert "not permitted" in run(*write, check=False).stderr
    floop.quiet("set", device, "--read-only", "off")
    assert attribute(device, "ro") == "0"
    with open(device, "rb"):
        says = floop.refused(BUSY, "set", device, "--read-only", "on")
    assert "whether it is read-only can't change until that has ended" in says
    assert attribute(device, "ro") == "0"
    # It is taken back.
    both = ["--read-only", "on", "--mapping", "on"]
    floop.refused(UNSUITABLE, "set", device, *both)
    assert attribute(device, "ro") == "0"
    floop("detach", device)


def test_read_only_ends_with_the_image(floop, image):
    """The next image of the device is writable."""
    number = floop.attach(image()).removeprefix("/dev/loop")
    device = f"/dev/loop{number}"
    floop("set", device, "--read-only", "on")
    floop("detach", device)
    assert attribute(device, "ro") == "0"
    # losetup leaves it.
    floop("attach", "--number", number, image(name="second"))
    floop("set", device, "--read-only", "on")
    run("losetup", "-d", device)
    wait_until(lambda: not is_attached(device))
    assert attribute(device, "ro") == "1"
    floop("attach", "--number", number, image(name="third"))
    assert attribute(device, "ro") == "0"
    floop("detach", device)


def test_an_image_that_is_read_only(floop, image):
    """Such a device can't be made writable."""
    device = floop.attach("--read-only", image())
    says = floop.refused(UNSUITABLE, "set", device, "--read-only", "off")
    assert "its image is open for reading only" in says
    assert attribute(device, "ro") == "1"
    floop("detach", device)
