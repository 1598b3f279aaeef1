# SPDX-License-Identifier: GPL-2.0-only
"""floop watch: what it reports, and how it ends."""

import json
import re
import signal
import subprocess

import pytest
from native import FLOOP, is_attached, run, wait_until


@pytest.fixture
def watch(folder):
    """watch(ARG...) starts it; its events are lines of a file."""
    started = []

    def start(*args):
        path = folder / f"events{len(started)}"
        with open(path, "w") as out:
            process = subprocess.Popen([FLOOP, "watch", *args], stdout=out)
        started.append(process)
        return process, path

    yield start
    for process in started:
        process.kill()
        process.wait()


def events(path, image):
    """Those of an image, by their names."""
    all_events = [json.loads(line) for line in path.read_text().splitlines()]
    return [e for e in all_events if e["backing_file"] == str(image)]


def names(path, image):
    return [e["event"] for e in events(path, image)]


def test_events(floop, image, watch):
    """Attach, resize and detach are events; so is what is there already."""
    old, new = image(name="old"), image(name="new")
    there = floop.attach(old)
    _, path = watch("--json", "--interval", "0.2")
    wait_until(lambda: names(path, old) == ["present"])
    assert events(path, old)[0]["device"] == there
    device = floop.attach(new)
    wait_until(lambda: names(path, new) == ["attach"])
    event = events(path, new)[0]
    assert (event["device"], event["size"]) == (device, 1 << 20)
    with open(new, "r+b") as f:
        f.truncate(3 << 20)
    run("losetup", "--set-capacity", device)
    wait_until(lambda: names(path, new) == ["attach", "resize"])
    assert events(path, new)[1]["size"] == 3 << 20
    floop("detach", device)
    wait_until(lambda: names(path, new)[-1] == "detach")
    # Nothing has happened to the other one.
    assert names(path, old) == ["present"]


def test_the_kernel_reports(floop, image, watch):
    """It doesn't wait for its next look when the kernel reports a change."""
    _, path = watch("--json", "--interval", "3600")
    wait_until(path.exists)
    other = image(name="other")
    device = floop.attach(other)
    # The first look may come after the attach.
    wait_until(lambda: names(path, other))
    floop("detach", device)
    wait_until(lambda: names(path, other)[-1] == "detach")


def test_image_exchanged(floop, image, watch):
    """One image after the other on one device is a detach and an attach."""
    one, two = image(name="one"), image(name="two")
    device = floop.attach(one)
    _, path = watch("--json", "--interval", "0.2")
    wait_until(lambda: names(path, one) == ["present"])
    floop("detach", device)
    wait_until(lambda: not is_attached(device))
    run("losetup", device, two)
    wait_until(lambda: names(path, two) == ["attach"])
    assert names(path, one) == ["present", "detach"]


def test_errors(floop, image, watch, folder):
    """Errors that ext4 finds on the device."""
    disk = image(8 << 20)
    device = floop.attach(disk)
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", device)
    mount = folder / "mnt"
    mount.mkdir()
    run("mount", "-o", "errors=continue", device, mount)
    _, path = watch("--json", "--interval", "0.2")
    wait_until(lambda: names(path, disk) == ["present"])
    name = device.removeprefix("/dev/")
    with open(f"/sys/fs/ext4/{name}/trigger_fs_error", "w") as f:
        f.write("a test of floop watch")
    wait_until(lambda: names(path, disk) == ["present", "error"])
    event = events(path, disk)[1]
    assert (event["count"], event["reason"]) == (1, "ext4")


def test_for_people(floop, image, watch):
    """A line has the time, the event, the device and the image."""
    disk = image()
    device = floop.attach(disk)
    _, path = watch()
    wait_until(lambda: str(disk) in path.read_text())
    line = next(
        line for line in path.read_text().splitlines() if str(disk) in line
    )
    assert re.fullmatch(
        rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ present {device} {disk} "
        r"size=1048576",
        line,
    )


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals(floop, image, watch, name):
    """A signal ends it, without an error."""
    disk = image()
    floop.attach(disk)
    process, path = watch("--interval", "3600")
    wait_until(lambda: str(disk) in path.read_text())
    process.send_signal(getattr(signal, name))
    assert process.wait(timeout=20) == 0


def test_nobody_reads(floop, image):
    """It ends when whoever reads it has ended, though nothing happens."""
    floop.attach(image())
    process = subprocess.Popen(
        [FLOOP, "watch", "--interval", "3600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=20) == 0
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
