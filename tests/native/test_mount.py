# SPDX-License-Identifier: GPL-2.0-only
"""mount -t floop: the helper mount.floop."""

import os

import pytest
from native import FLOOP, is_attached, run, wait_until


@pytest.fixture
def mount(folder):
    """Run the helper as mount(8) does."""
    (folder / "mnt").mkdir()
    (folder / "mount.floop").symlink_to(FLOOP)

    def call(path, *args, check=True):
        helper = folder / "mount.floop"
        return run(helper, path, folder / "mnt", *args, check=check)

    return call


@pytest.fixture
def ext4(image):
    path = image(8 << 20)
    run("mkfs.ext4", "-q", "-F", path)
    return path


def source(folder):
    return run("findmnt", "-n", "-o", "SOURCE", folder / "mnt").stdout.strip()


def attached(floop, path):
    return any(
        device["backing_file"] == os.path.realpath(path)
        for device in floop.json("list")["devices"]
    )


def test_goes_with_umount(floop, mount, ext4, folder):
    mount(ext4, "-o", "rw,noatime")
    device = source(folder)
    assert floop.status(device)["autoclear"] is True
    assert floop.status(device)["users"]["processes"] == []
    run("umount", folder / "mnt")
    wait_until(lambda: not is_attached(device))


def test_options(floop, mount, ext4, folder):
    """Those of the device and those of the file system."""
    whole = folder / "whole.img"
    whole.write_bytes(bytes(1 << 20) + ext4.read_bytes() + bytes(1 << 20))
    mount(
        whole,
        "-o",
        "ro,nosuid,offset=1M,sizelimit=8M,X-loopdev.direct-io=off",
        "-t",
        "floop.ext4",
    )
    status = floop.status(source(folder))
    assert status["read_only"] is True
    assert status["offset"] == 1 << 20
    assert status["size_limit"] == 8 << 20
    assert status["direct"] is False
    options = run("findmnt", "-n", "-o", "OPTIONS", folder / "mnt").stdout
    assert options.startswith("ro,nosuid")


def test_a_failed_mount_leaves_nothing(floop, mount, image):
    path = image()
    result = mount(path, "-t", "floop.ext4", check=False)
    assert result.returncode == 32
    assert "wrong fs type" in result.stderr
    wait_until(lambda: not attached(floop, path))


def test_errors(mount, folder, ext4):
    result = mount(folder / "none", check=False)
    assert result.returncode == 32
    assert "none: could not be attached" in result.stderr
    result = mount(ext4, "-o", "offset=x", check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("mount.floop: offset: 'x' is not a size")
    result = run(folder / "mount.floop", ext4, check=False)
    assert result.returncode == 1
    assert "usage: mount.floop IMAGE DIR" in result.stderr


def test_fake(floop, mount, ext4):
    mount(ext4, "-f")
    assert not attached(floop, ext4)


def test_twice_and_remount(floop, mount, ext4, folder):
    """The second mount is refused; a remount finds the device."""
    mount(ext4)
    device = source(folder)
    result = mount(ext4, check=False)
    assert result.returncode == 32
    assert f"already ({device})" in result.stderr
    mount(ext4, "-o", "remount,ro")
    options = run("findmnt", "-n", "-o", "OPTIONS", folder / "mnt").stdout
    assert options.startswith("ro")
    assert source(folder) == device
