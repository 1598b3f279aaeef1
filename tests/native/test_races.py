# SPDX-License-Identifier: GPL-2.0-only
"""Many at once: everyone gets a device, and each a different one."""

import concurrent.futures
import fcntl
import os

from native import FLOOP, attached_below, attribute, is_attached, run

LOOP_CTL_GET_FREE = 0x4C82


def test_many_attach_at_once(floop, image):
    """Sixteen that attach at once get sixteen devices.

    All are told of the same free one, though.
    """
    images = [image(name=f"{n}.img") for n in range(16)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        results = list(
            pool.map(lambda path: run(FLOOP, "attach", path), images)
        )
    devices = [result.stdout.strip() for result in results]
    assert len(set(devices)) == 16
    assert [result.stderr for result in results] == [""] * 16
    for device, path in zip(devices, images, strict=True):
        assert attribute(device, "loop/backing_file") == str(path)


def test_attach_and_detach_at_once(floop, image, folder):
    """Eight that attach and detach over and over never fail.

    They leave nothing behind.
    """

    def again_and_again(name):
        path = image(name=name)
        for _ in range(10):
            device = floop.attach(path)
            assert attribute(device, "loop/backing_file") == str(path)
            run(FLOOP, "detach", path)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for future in [
            pool.submit(again_and_again, f"{n}.img") for n in range(8)
        ]:
            future.result()
    assert attached_below(folder) == []


def test_device_that_is_free_and_yet_taken(floop, image):
    """Somebody has claimed the free device without attaching anything.

    attach takes another.
    """
    with open("/dev/loop-control", "rb") as control:
        number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
    free = f"/dev/loop{number}"
    fd = os.open(free, os.O_RDONLY | os.O_EXCL)
    try:
        device = floop.attach(image())
    finally:
        os.close(fd)
    assert device != free
    assert is_attached(device)


def test_list_while_devices_come_and_go(floop, image):
    """list and status of all never fail for a device that goes away."""

    def come_and_go(name):
        path = image(name=name)
        for _ in range(15):
            floop.attach(path)
            run(FLOOP, "detach", path)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(come_and_go, f"{n}.img") for n in range(3)]
        while not all(future.done() for future in futures):
            assert floop.json("list")["devices"] is not None
            floop.json("detach", "--all", "--dry-run")
        for future in futures:
            future.result()
