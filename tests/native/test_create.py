# SPDX-License-Identifier: GPL-2.0-only
"""floop create: written zeroes, sparse files, and nothing half-made."""

import json
import os
import pty
import signal
import subprocess

import pytest
from native import (
    FAILED,
    FLOOP,
    NOT_FOUND,
    UNSUITABLE,
    USAGE,
    output_is_lost,
    run,
    wait_until,
)


def extents(path):
    """The flags of the extents of a file."""
    out = run("filefrag", "-v", path).stdout.splitlines()
    return [
        line.rsplit(":", 1)[1] for line in out if line.lstrip()[:1].isdigit()
    ]


def test_zeroes_are_written(floop, fine):
    """Each block is allocated and written, so that it can be mapped."""
    path = fine / "thick.img"
    assert floop.quiet("create", path, str((8 << 20) + 512)) == ""
    assert path.read_bytes() == bytes((8 << 20) + 512)
    assert extents(path)
    assert not any("unwritten" in flags for flags in extents(path))
    assert path.stat().st_blocks * 512 >= 8 << 20
    path.unlink()


def test_without_direct_io(floop, no_direct):
    """Without direct I/O they are written all the same."""
    path = no_direct / "thick.img"
    floop.quiet("create", path, "8M")
    assert path.read_bytes() == bytes(8 << 20)
    assert not any("unwritten" in flags for flags in extents(path))
    path.unlink()


def test_thin(floop, folder):
    """--thin makes a sparse file; --json says what was made."""
    path = folder / "thin.img"
    assert json.loads(
        floop.quiet("create", "--thin", "--json", path, "1G")
    ) == {"file": str(path), "size": 1 << 30, "thin": True}
    assert (path.stat().st_size, path.stat().st_blocks) == (1 << 30, 0)


def test_it_can_be_attached(floop, folder):
    """A relative name will do, and the image is as large as it was asked."""
    floop("create", "disk.img", "1M", cwd=folder)
    assert floop.status(floop.attach(folder / "disk.img"))["size"] == 1 << 20


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_exists(floop, folder, kind):
    """What has the name already stays as it is."""
    path = folder / "disk.img"
    if kind == "file":
        path.write_bytes(b"precious")
    elif kind == "link":
        path.symlink_to(folder / "nowhere")
    else:
        path.mkdir()
    says = floop.refused(UNSUITABLE, "create", path, "1M")
    assert f"{path}: exists already; remove it first" in says
    assert os.listdir(folder) == ["disk.img"]
    if kind == "file":
        assert path.read_bytes() == b"precious"


def test_sizes(floop, folder):
    """A size that isn't whole sectors is refused; the message has one."""
    says = floop.refused(USAGE, "create", folder / "a", "1MB")
    assert "1000000 bytes are not whole sectors of 512; 999936 would" in says
    floop.refused(USAGE, "create", folder / "a", "0")
    floop.refused(NOT_FOUND, "create", folder / "none" / "a", "1M")
    assert os.listdir(folder) == []


def test_no_room(floop, fine):
    """On a full disk nothing is left behind."""
    before = os.listdir(fine)
    says = floop.refused(FAILED, "create", fine / "large.img", "1G")
    assert "no space left on device" in says
    assert os.listdir(fine) == before
    # Nor does it take room that was given back.
    floop("create", fine / "small.img", "16M")
    (fine / "small.img").unlink()


def test_output_that_cannot_be_written(folder):
    """Nor is anything left if --json can't be printed."""
    output_is_lost("create", "--json", folder / "a", "1M")
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
)
def test_interrupted(folder, number):
    """A signal ends it, by that signal, with nothing left behind."""
    with subprocess.Popen(
        [FLOOP, "create", folder / "large.img", "16G"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        fds = f"/proc/{process.pid}/fd"
        wait_until(
            lambda: any(
                os.readlink(f"{fds}/{fd}").startswith(str(folder))
                for fd in os.listdir(fds)
            )
        )
        process.send_signal(number)
        says = process.stderr.read()
    assert process.returncode == -number
    assert "interrupted; everything is as it was" in says
    assert os.listdir(folder) == []


def test_progress_on_a_terminal(folder):
    """There is a bar on a terminal only, and nothing remains of it."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [FLOOP, "create", folder / "disk.img", "512M"],
        stderr=slave,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(slave)
        out = b""
        try:
            while data := os.read(master, 4096):
                out += data
        except OSError:
            # The other side is closed.
            pass
    assert process.returncode == 0
    assert b"512.00 MiB" in out
    assert out.rstrip(b"\r\n").endswith(b"\x1b[2K")
