# SPDX-License-Identifier: GPL-2.0-only
"""floop detach: by device, by image, all of them; and those that are in use."""

import json
import os
import subprocess
import time

from native import (
    FLOOP,
    NOT_FOUND,
    UNSUITABLE,
    attribute,
    is_attached,
    only_sysfs_of,
    private,
    run,
    wait_until,
)


def test_device(floop, image):
    """detach DEVICE detaches it, and says so on standard error only."""
    path = image()
    device = floop.attach(path)
    result = run(FLOOP, "detach", device)
    assert result.stdout == ""
    assert result.stderr == f"floop: {device} detached ({path})\n"
    assert not is_attached(device)


def test_json(floop, image):
    """detach --json prints what became of each device, and nothing else.

    It prints that on standard output.
    """
    path = image()
    device = floop.attach(path)
    result = run(FLOOP, "detach", "--json", device)
    assert result.stderr == ""
    assert json.loads(result.stdout) == {
        "devices": [
            {"device": device, "backing_file": str(path), "state": "detached"}
        ]
    }


def test_short_name(floop, image):
    """loop0 is short for /dev/loop0."""
    device = floop.attach(image())
    floop("detach", device.removeprefix("/dev/"))
    assert not is_attached(device)


def test_image_detaches_every_device_of_it(floop, image):
    """detach FILE detaches all that it is attached to, and nothing else."""
    path = image()
    devices = {floop.attach("--read-only", path) for _ in range(3)}
    other = floop.attach(image(name="other"))
    outcome = floop.json("detach", path)["devices"]
    assert {entry["device"] for entry in outcome} == devices
    assert not any(is_attached(device) for device in devices)
    assert is_attached(other)


def test_image_by_another_name(floop, image, folder):
    """The image is the file, not the name.

    Hard links and symbolic links are as good.
    """
    path = image()
    (folder / "hard").hardlink_to(path)
    (folder / "symbolic").symlink_to(path)
    for name in "hard", "symbolic":
        device = floop.attach(path)
        floop("detach", folder / name)
        assert not is_attached(device)


def test_another_file_by_the_image_s_name(floop, image):
    """A new file with the old name is not the image."""
    path = image()
    device = floop.attach(path)
    path.rename(path.with_suffix(".old"))
    image()
    assert "is not attached to any device" in floop.refused(
        NOT_FOUND, "detach", path
    )
    assert is_attached(device)


def test_deleted_image(floop, image):
    """An image that was deleted can be given by the name that it had."""
    path = image()
    device = floop.attach(path)
    path.unlink()
    floop("detach", path)
    assert not is_attached(device)


def test_files_of_the_same_number(floop, image, folder):
    """Each file system counts its own inodes.

    A file of that number elsewhere is another.
    """
    paths = []
    for name in "first", "second":
        (folder / name).mkdir()
        run("mount", "-t", "tmpfs", name, folder / name)
        paths.append(image(where=folder / name))
    assert paths[0].stat().st_ino == paths[1].stat().st_ino
    first, second = map(floop.attach, paths)
    floop("detach", paths[0])
    assert not is_attached(first)
    assert is_attached(second)


def test_block_device_as_image(floop, image):
    """A loop device that is an image itself.

    Its name stands for it, not for what is on it.
    """
    below = floop.attach(image())
    above = floop.attach(below)
    floop("detach", above)
    assert is_attached(below) and not is_attached(above)


def test_several_at_once(floop, image):
    """Several can be named; that one fails keeps none of the others from it."""
    first, second = (floop.attach(image(name=name)) for name in "ab")
    result = run(FLOOP, "detach", first, "/no/such", second, check=False)
    assert result.returncode == NOT_FOUND
    assert (
        "/no/such: no such device or image; floop list shows" in result.stderr
    )
    assert not is_attached(first) and not is_attached(second)


def test_in_use(floop, image, folder):
    """A mounted device is detached by its last user.

    detach says so, and who that is.
    """
    path = image(8 << 20)
    device = floop.attach(path)
    run("mkfs.ext4", "-q", "-F", device)
    mount = folder / "mount"
    mount.mkdir()
    run("mount", device, mount)
    stderr = run(FLOOP, "detach", device).stderr
    assert stderr.startswith(f"floop: {device} is in use: mounted on {mount}")
    assert stderr.endswith(
        f"; it will be detached when its last user closes it ({path})\n"
    )
    assert is_attached(device)
    assert floop.status(device)["autoclear"] is True
    state = floop.json("detach", device)["devices"][0]["state"]
    assert state == "pending"
    run("umount", mount)
    wait_until(lambda: not is_attached(device))


def test_open_somewhere(floop, image):
    """So is one that a process has open."""
    device = floop.attach(image())
    with open(device, "rb"):
        stderr = run(FLOOP, "detach", device).stderr
        assert f"{device} is in use: open in " in stderr
        assert "it will be detached when its last user closes it" in stderr
    wait_until(lambda: not is_attached(device))


def test_nothing_attached(floop, image):
    """Detaching twice is an error the second time."""
    device = floop.attach(image())
    # With this device alone to be seen, nobody can have attached something else
    # to it.
    floop("detach", device)
    complaint = floop.refused(
        NOT_FOUND, "detach", device, via=private(only_sysfs_of([]))
    )
    assert f"{device}: nothing is attached to it" in complaint


def test_image_that_is_not_attached(floop, image):
    """Nor can an image be detached that is not attached."""
    path = image()
    assert f"{path}: is not attached to any device" in floop.refused(
        NOT_FOUND, "detach", path
    )


def test_partition(floop, image, partition):
    """A partition can't be detached; the message names the device that can."""
    device = floop.attach(image(32 << 20))
    partition(device, 1, 2048, 16384)
    assert f"give {device} itself" in floop.refused(
        UNSUITABLE, "detach", f"{device}p1"
    )


def test_dry_run(floop, image):
    """--dry-run says what would be detached, and detaches nothing."""
    path = image()
    device = floop.attach(path)
    assert run(FLOOP, "detach", "--dry-run", path).stderr == (
        f"floop: {device} would be detached ({path})\n"
    )
    outcome = floop.json("detach", "--all", "--dry-run")["devices"]
    assert {
        "device": device,
        "backing_file": str(path),
        "state": "would-detach",
    } in outcome
    assert is_attached(device)


def test_all_means_every_device(floop, image):
    """--all --dry-run names each device that list shows.

    With --driver it names those of one driver.
    """
    floop("attach", image(name="a"))
    floop("attach", image(name="b"))
    everything = [d["device"] for d in floop.json("list")["devices"]]
    would = floop.json("detach", "--all", "--dry-run")["devices"]
    assert {d["device"] for d in would} >= {
        d for d in everything if is_attached(d)
    }
    only = ["--driver", "floop"]
    would = floop.json("detach", "--all", *only, "--dry-run")["devices"]
    assert all(d["device"].startswith("/dev/floop") for d in would)


def test_all(floop, image):
    """--all detaches all there is.

    Here it sees a /sys that has this test's devices only.
    """
    devices = [floop.attach(image(name=name)) for name in "abc"]
    other = floop.attach(image(name="other"))
    out = run(
        *private(only_sysfs_of(devices)), FLOOP, "detach", "--all", "--json"
    ).stdout
    assert [entry["device"] for entry in json.loads(out)["devices"]] == sorted(
        devices, key=lambda name: int(name.removeprefix("/dev/loop"))
    )
    assert not any(is_attached(device) for device in devices)
    assert is_attached(other)


def test_all_of_nothing(floop):
    """--all with nothing attached is done at once."""
    nothing = private(only_sysfs_of([]))
    result = run(*nothing, FLOOP, "detach", "--all")
    assert (result.stdout, result.stderr) == ("", "")


def test_unused(floop, image, folder):
    """--unused detaches what nobody uses, and nothing else.

    A user in another mount namespace is a user, too.
    """
    names = "idle", "open", "mounted", "below"
    idle, opened, mounted, below = devices = [
        floop.attach(image(8 << 20, name)) for name in names
    ]
    above = floop.attach(below)
    run("mkfs.ext4", "-q", "-F", mounted)
    mount = folder / "mount"
    mount.mkdir()
    script = f"mount {mounted} {mount} && echo && read -r _; umount {mount}"
    seen = private(only_sysfs_of(devices))
    with (
        subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process,
        open(opened, "rb"),
        open(above, "rb"),
    ):
        process.stdout.readline()
        dry = run(*seen, FLOOP, "detach", "--unused", "--dry-run").stderr
        assert "would be detached" in dry and is_attached(idle)
        # What is on another device isn't seen there: see it all.
        seen = private(only_sysfs_of([*devices, above]))
        out = run(*seen, FLOOP, "detach", "--unused", "--json").stdout
        process.stdin.close()
    assert [entry["device"] for entry in json.loads(out)["devices"]] == [idle]
    assert not is_attached(idle)
    assert all(map(is_attached, [opened, mounted, below, above]))
    floop("detach", above)


def test_unused_but_claimed(floop, image, folder):
    """--unused leaves a device alone whose file system nothing tells of.

    Such is one that was unmounted lazily and has no folder in /sys/fs, as
    squashfs.
    """
    device = floop.attach(image(8 << 20))
    run("mkfs.ext4", "-q", "-F", device)
    mount = folder / "mount"
    mount.mkdir()
    run("mount", device, mount)
    seen = private(only_sysfs_of([device]) + "mount -t tmpfs none /sys/fs\n")
    with open(mount / "file", "w"):
        run("umount", "--lazy", mount)
        status = run(*seen, FLOOP, "status", device, "--json").stdout
        users = json.loads(status)["users"]
        unused = [*seen, FLOOP, "detach", "--unused", "--dry-run", "--json"]
        would = json.loads(run(*unused).stdout)["devices"]
    assert not any(users.values())
    assert would == []


def test_deleted(floop, image):
    """--deleted detaches what has no image any more, if nobody uses it."""
    idle, opened, kept = devices = [
        floop.attach(image(name=name)) for name in ("idle", "open", "kept")
    ]
    for device in idle, opened:
        os.unlink(attribute(device, "loop/backing_file"))
    seen = private(only_sysfs_of(devices))
    with open(opened, "rb"):
        says = run(*seen, FLOOP, "detach", "--deleted").stderr
        assert f"floop: {idle} detached" in says
        assert f"floop: {opened} stays, as it is in use: open in " in says
        assert not is_attached(idle)
        assert is_attached(opened) and is_attached(kept)
        assert floop.status(opened)["autoclear"] is False
    floop("detach", opened)


def test_lazy(floop, image):
    """--lazy leaves it to the last user at once, without waiting for it."""
    took = []
    # On a busy host one of them may take long for another reason.
    while len(took) < 5 and min(took, default=1) >= 1:
        device = floop.attach(image())
        with open(device, "rb"):
            begin = time.monotonic()
            says = run(FLOOP, "detach", "--lazy", device).stderr
            took.append(time.monotonic() - begin)
            assert "it will be detached when its last user closes it" in says
        wait_until(lambda device=device: not is_attached(device))
    assert min(took) < 1
