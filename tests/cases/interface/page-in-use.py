#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# shows: A page of the device that somebody uses is read anew once
#   LOOP_SET_STATUS64 has moved the device or LOOP_CHANGE_FD has changed its
#   file: a pipe has it, or a CPU keeps its buffers at hand. The in-tree driver
#   shows the old place's content while a pipe has it.
# modes: side-by-side drop-in
# machines: lts-side-by-side stable-drop-in
import contextlib
import os
import pathlib
import subprocess
import sys

import loopctl
from loopctl import Device, Info64

WORK = pathlib.Path(os.environ["WORK"])


def image(text):
    """A file that begins with this text, and has another one at 64 KiB."""
    path = WORK / text
    path.write_bytes(
        text.encode().ljust(65536, b".") + b"moved".ljust(65536, b".")
    )
    return path


@contextlib.contextmanager
def attached(path, read_only=False):
    node = loopctl.attach(path, read_only=read_only)
    with Device(node, os.O_RDONLY if read_only else os.O_RDWR) as device:
        yield device
        device.clr_fd()


@contextlib.contextmanager
def page_in_use(device):
    """Somebody has a reference to the device's first page."""
    out, into = os.pipe()
    if os.splice(device.fd, into, 4096, offset_src=0) != 4096:
        sys.exit("nothing was spliced")
    try:
        yield
    finally:
        os.close(out)
        os.close(into)


def is_read(device, text):
    found = os.pread(device.fd, len(text), 0)
    print(f"read {found}, expected {text}")
    if found != text:
        sys.exit(f"{found} is read instead of {text}")


with attached(image("one")) as device:
    os.pwrite(device.fd, b"dirty", 0)
    with page_in_use(device):
        device.set_status64(Info64(lo_offset=65536))
        is_read(device, b"moved")
    device.set_status64(Info64())
    is_read(device, b"dirty")
    # There is none: it reads the first block, and fails.
    mounting = ["mount", "-t", "vfat", "-o", "ro", device.path, "/mnt"]
    if (
        subprocess.run(mounting, check=False, capture_output=True).returncode
        == 0
    ):
        sys.exit("a file system was mounted")
    device.set_status64(Info64(lo_offset=65536))
    is_read(device, b"moved")

other = image("two")
with attached(image("one"), read_only=True) as device:
    is_read(device, b"one")
    with page_in_use(device), open(other, "rb") as f:
        device.change_fd(f.fileno())
        is_read(device, b"two")
