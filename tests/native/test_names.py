# SPDX-License-Identifier: GPL-2.0-only
"""Images whose names are no text: they are printed so that a shell reads them.

A name that isn't UTF-8, or has control characters, is in the form $'...' of
bash. JSON is valid UTF-8 in any case.
"""

import json
import os
import subprocess

import pytest
from native import (
    BUSY,
    FLOOP,
    NOT_FOUND,
    UNSUITABLE,
    run,
    wait_until,
)

NAMES = [b"a\xff.img", b"it's\xff\\xfe\n.img", b"\xc3\xa4 \x1b[1m.img"]


@pytest.fixture(params=NAMES, ids=["byte", "quotes", "control"])
def odd(request, image):
    """An image of such a name."""
    return image(8 << 20, os.fsdecode(request.param))


def quoted(path):
    """The name as it is to be printed."""
    text = ""
    for c in os.fsencode(path).decode(errors="surrogateescape"):
        if "\udc80" <= c <= "\udcff":
            text += f"\\x{ord(c) - 0xDC00:02x}"
        elif ord(c) < 32:
            text += f"\\x{ord(c):02x}"
        else:
            text += {"'": "\\'", "\\": "\\\\"}.get(c, c)
    return f"$'{text}'"


def read_by_bash(text):
    """The file names that bash reads in it."""
    script = f"printf '%s\\0' {text}"
    out = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=True
    )
    return out.stdout.split(b"\0")[:-1]


def valid(out):
    """It is JSON, and UTF-8."""
    return json.loads(out.decode("utf-8"))


def output(*args):
    command = [FLOOP, *args]
    return subprocess.run(command, capture_output=True, check=False).stdout


def test_a_shell_reads_them(odd):
    """The test's own idea of it, by bash."""
    assert read_by_bash(quoted(odd)) == [os.fsencode(odd)]


def test_shown(floop, odd):
    """list, status, watch and detach."""
    device = floop.attach(odd)
    assert floop("list", device).endswith(f" {quoted(odd)}\n")
    # Without quotes, but a word.
    word = floop("list", "--raw", "-n", "-O", "NAME,BACK-FILE", device)
    name = word.removesuffix("\n").split(" ")[1]
    assert read_by_bash(f'"$(printf %b {quoted(name)}; echo .)"') == [
        os.fsencode(odd) + b"."
    ]
    status = floop("status", device)
    assert f"\nimage:          {quoted(odd)}\n" in status
    reference = os.fsencode(odd)[:63]
    if reference == os.fsencode(odd):
        assert f"\nloop ref:       {quoted(odd)}\n" in status
    for args in ["list", device], ["status", device]:
        valid(output(*args, "--json"))
    run(FLOOP, "list", odd)
    result = run(FLOOP, "detach", device)
    assert quoted(odd) in result.stderr


def test_deleted(floop, odd):
    """The kernel's remark is not a part of the name."""
    device = floop.attach(odd)
    odd.unlink()
    says = f"{quoted(odd)} (deleted)\n"
    assert floop("list", device).endswith(f" {says}")
    assert f"\nimage:          {says}" in floop("status", device)


@pytest.mark.parametrize("args", [[], ["--json"]], ids=["text", "json"])
def test_watch(floop, odd, folder, args):
    """Each event is a line."""
    device = floop.attach(odd)
    path = folder / "events"
    with open(path, "wb") as out:
        process = subprocess.Popen([FLOOP, "watch", *args], stdout=out)
    try:
        wait_until(lambda: device.encode() in path.read_bytes())
    finally:
        process.kill()
        process.wait()
    (line,) = [
        line
        for line in path.read_bytes().splitlines()
        if device.encode() in line
    ]
    if args:
        assert valid(line)["device"] == device
    else:
        assert f" {device} {quoted(odd)} size=" in line.decode()


def test_errors(floop, odd, folder):
    """Messages of attach and others name the file."""
    missing = folder / os.fsdecode(b"no\xff")
    for command in ["attach"], ["detach"], ["list"], ["status"]:
        says = floop.refused(NOT_FOUND, *command, missing)
        assert says.startswith(f"floop: {quoted(missing)}: ")
    device = floop.attach(odd)
    says = floop.refused(BUSY, "attach", odd)
    assert says.startswith(f"floop: {quoted(odd)}: ")
    says = floop.refused(UNSUITABLE, "status", odd)
    assert f"{quoted(odd)}: is not a floop or loop device" in says
    says = floop.refused(UNSUITABLE, "create", odd, "1M")
    assert f"{quoted(odd)}: " in says
    says = floop.refused(UNSUITABLE, "resize", odd, "1M")
    assert f"{quoted(odd)}: " in says
    floop("detach", device)


def test_doctor(floop, odd):
    """The name and the command, which mends what it says."""
    odd.write_bytes(b"x" * (8 << 20))
    device = floop.attach(odd)
    run("fallocate", "--punch-hole", "-o", "1M", "-l", "1M", odd)
    os.sync()

    def holes():
        found = valid(output("doctor", "--json", device))["findings"]
        return next((f for f in found if f["check"] == "holes"), None)

    wait_until(lambda: holes() and holes()["mend"])
    assert quoted(odd) in holes()["what"]
    assert f"dd if={quoted(odd)} of={quoted(odd)} " in holes()["mend"]
    run("bash", "-c", holes()["mend"])
    assert holes() is None


def test_mount_point(floop, image, folder):
    """So are other names: where a device is mounted."""
    device = floop.attach(image(8 << 20))
    run("mkfs.ext4", "-q", "-F", device)
    mount = folder / os.fsdecode(b"m\xff")
    mount.mkdir()
    run("mount", device, mount)
    try:
        text = floop("status", device)
        assert f"mounted on {quoted(mount)}\n" in text
        valid(output("status", "--json", device))
    finally:
        run("umount", mount)
