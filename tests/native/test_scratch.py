# SPDX-License-Identifier: GPL-2.0-only
"""The scratch disk of `make bench NATIVE=1`.

Nothing is taken that may hold something.
"""

import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import scratch  # noqa: E402

SIZE = scratch.LEAST


@pytest.fixture
def disk(floop, folder):
    """Makes a loop device over an empty file of a size."""

    def make(size=SIZE, *options):
        path = folder / f"disk{size}{len(options)}"
        with open(path, "w") as file:
            file.truncate(size)
        return floop.attach(path, *options), path

    return make


def test_empty_disk_is_taken(disk):
    device, _ = disk()
    assert scratch.refusal(device) == ""


@pytest.mark.parametrize("at", [0, scratch.ENDS - 1, SIZE - 1])
def test_data_at_an_end_is_refused(disk, at):
    device, path = disk()
    with open(device, "r+b", buffering=0) as file:
        file.seek(at - at % 512)
        file.write(bytes(at % 512) + b"x" + bytes(511 - at % 512))
    assert "there is data on it" in scratch.refusal(device)


def test_file_system_is_refused_by_its_name(disk):
    device, _ = disk()
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    assert scratch.refusal(device) == "it holds ext4"


def test_disk_in_use_is_refused(disk, folder):
    device, _ = disk()
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    place = folder / "mounted"
    place.mkdir()
    subprocess.run(["mount", device, place], check=True)
    assert f"mounted on {place}" in scratch.refusal(device)


def test_others_are_refused(disk, folder):
    assert scratch.refusal(str(folder / "none")) == "there is no such disk"
    assert scratch.refusal("/dev/null") == "not a block device"
    assert "too small" in scratch.refusal(disk(SIZE - 4096)[0])
    assert scratch.refusal(disk(SIZE, "--read-only")[0]) == "read-only"


def test_wiped_disk_is_empty_again(disk):
    device, _ = disk()
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    scratch.wipe(device)
    assert scratch.refusal(device) == ""
