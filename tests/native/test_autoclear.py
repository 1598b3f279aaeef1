# SPDX-License-Identifier: GPL-2.0-only
"""floop attach --autoclear: the device goes with its last user.

It does not go before its first.
"""

import shutil
import subprocess
import time

from native import is_attached, run, wait_until


def holders_of(floop, device):
    return [
        process["pid"]
        for process in floop.status(device)["users"]["processes"]
        if process["command"] == "floop-hold"
    ]


def attach(floop, path):
    """A device with autoclear, and the process that keeps it.

    It is kept for its first user.
    """
    device = floop.attach("--autoclear", path)
    wait_until(lambda: holders_of(floop, device))
    return device, holders_of(floop, device)[0]


def test_goes_with_its_last_mount(floop, image, folder):
    """attach --autoclear, mount, umount: and the device is gone."""
    path = image(8 << 20)
    run("mkfs.ext4", "-q", "-F", path)
    device = floop.quiet("attach", "--autoclear", path).strip()
    assert floop.status(device)["autoclear"] is True
    mount = folder / "mount"
    mount.mkdir()
    run("mount", device, mount)
    # Mounted, nobody needs to keep it any longer.
    wait_until(lambda: not holders_of(floop, device))
    assert is_attached(device)
    run("umount", mount)
    wait_until(lambda: not is_attached(device))


def test_stays_for_its_first_user(floop, image):
    """It is still there a while after attach has ended.

    Nobody has used it yet.
    """
    device, _ = attach(floop, image())
    time.sleep(1)
    assert is_attached(device)


def test_who_only_looks_is_no_user(floop, image, folder):
    """udev has every new device open for a moment.

    That is not its first user.
    """
    device, pid = attach(floop, image())
    looker = folder / "udev-worker"
    shutil.copy(shutil.which("sleep"), looker)
    with open(device, "rb") as f:
        process = subprocess.Popen([looker, "1"], stdin=f)
    process.wait()
    assert holders_of(floop, device) == [pid]
    assert is_attached(device)


def test_goes_with_its_last_close(floop, image):
    """A process that has it open for long is a user too."""
    device, _ = attach(floop, image())
    with open(device, "rb"):
        wait_until(lambda: not holders_of(floop, device))
        assert is_attached(device)
    wait_until(lambda: not is_attached(device))


def test_detach_before_the_first_user(floop, image):
    """detach does not wait for a first user.

    It detaches at once, and ends who waits.
    """
    device, pid = attach(floop, image())
    floop("detach", device)
    assert not is_attached(device)
    wait_until(lambda: not alive(pid))


def alive(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read() == b"floop\0hold\0"
    except FileNotFoundError:
        return False


def test_who_waits_is_not_in_the_way(floop, image, folder):
    """What waits has no terminal, no pipe and no folder of the caller's."""
    device, pid = attach(floop, image())
    out = run(
        "readlink", f"/proc/{pid}/fd/1", f"/proc/{pid}/fd/2", f"/proc/{pid}/cwd"
    ).stdout
    assert out == "/dev/null\n/dev/null\n/\n"
    assert is_attached(device)
