# SPDX-License-Identifier: GPL-2.0-only
"""What the native tests have in common."""

import contextlib
import json
import os
import pathlib
import pty
import select
import subprocess
import termios
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
FLOOP = PROJECT / "cli" / "target" / "release" / "floop"

# The exit codes of the command: docs/command.md.
DONE, FAILED, USAGE, NO_DRIVER, BUSY, PERMISSION, NOT_FOUND, UNSUITABLE = range(
    8
)


def run(*command, check=True, **kwargs):
    """Run a command; its output is text.

    That it fails is an error unless check is off.
    """
    result = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        **kwargs,
    )
    if check and result.returncode:
        raise AssertionError(
            f"{command} ended with {result.returncode}\n"
            f"{result.stdout}{result.stderr}"
        )
    return result


def words(args):
    """A command line.

    Where floop is loaded beside loop, it asks for the loop driver.
    """
    beside = os.path.exists("/dev/floop-control") and "--driver" not in args
    if beside and args and args[0] == "attach":
        args = ["attach", "--driver", "loop", *args[1:]]
    return [FLOOP, *args]


class Floop:
    """The command."""

    def __call__(self, *args, **kwargs):
        """It must succeed; returns what it prints."""
        return run(*words(args), **kwargs).stdout

    def attach(self, *args):
        """Returns the new device."""
        return self("attach", *args).removesuffix("\n")

    def json(self, *args):
        return json.loads(self(*args, "--json"))

    def status(self, device):
        return self.json("status", device)

    def quiet(self, *args):
        """It must succeed, without a word on standard error.

        Returns what it prints.
        """
        result = run(*words(args))
        assert result.stderr == ""
        return result.stdout

    def warning(self, *args):
        """It must succeed; returns what it prints and what it warns of."""
        result = run(*words(args))
        assert result.stderr.startswith("floop: warning: ")
        return result.stdout.strip(), result.stderr

    def refused(self, code, *args, via=(), **kwargs):
        """It must fail with this exit code; returns its line of complaint."""
        result = run(*via, *words(args), check=False, **kwargs)
        assert result.returncode == code, result.stdout + result.stderr
        assert result.stdout == ""
        assert result.stderr.startswith("floop: ")
        assert result.stderr.count("\n") == 1
        return result.stderr


class Terminal:
    """The command on a terminal of its own, which it is the foreground of;
    or another program.
    """

    def __init__(self, *args, program=None):
        self.fd, other = pty.openpty()
        self.before = termios.tcgetattr(self.fd)
        # With this as its first terminal, a session's leader has it for its
        # own: ^C is for the command.
        script = 'exec 0<>"$0" 1>&0 2>&0; exec "$@"'
        self.process = subprocess.Popen(
            [
                *["sh", "-c", script, os.ttyname(other)],
                *(program or [str(word) for word in words(args)]),
            ],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "TERM": "xterm"},
        )
        self.all = b""
        self.other = other

    def read(self):
        """All that it has printed so far."""
        # Once the last one has closed the other side, reading is an error.
        with contextlib.suppress(OSError):
            while select.select([self.fd], [], [], 0)[0]:
                self.all += os.read(self.fd, 65536)
        return self.all.decode()

    def says(self, text):
        wait_until(lambda: text in self.read())

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def ends(self):
        """Returns its exit code and all that it has printed.

        The terminal is as it was.
        """

        def has_ended():
            # It may have more to print than a terminal holds.
            self.read()
            return self.process.poll() is not None

        wait_until(has_ended, 60)
        assert termios.tcgetattr(self.fd) == self.before
        return self.process.returncode, self.read().replace("\r\n", "\n")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.other)
        os.close(self.fd)


def output_is_lost(*args):
    """It must fail, and say so, if its output can't be written."""
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [FLOOP, *args],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == FAILED
    assert (
        "cannot write to standard output: no space left on device"
        in result.stderr
    )


def is_attached_below(device, folder):
    """Whether the device has an image in this folder."""
    name = f"/sys/block/{os.path.basename(device)}/loop/backing_file"
    try:
        return pathlib.Path(name).read_bytes().startswith(f"{folder}/".encode())
    except OSError:
        return False


def attached_below(folder):
    """The devices whose image is in a folder."""
    devices = [
        name for name in os.listdir("/sys/block") if name.startswith("loop")
    ]
    return [
        f"/dev/{name}" for name in devices if is_attached_below(name, folder)
    ]


def attached_on(device):
    """The devices whose image is a device, and what is on those.

    The topmost is first.
    """
    found = []
    for name in os.listdir("/sys/block"):
        path = pathlib.Path(f"/sys/block/{name}/loop/backing_file")
        if (
            name.startswith("loop")
            and path.exists()
            and path.read_text(errors="replace").strip() == device
        ):
            found += [*attached_on(f"/dev/{name}"), f"/dev/{name}"]
    return found


def detach_below(folder):
    """Detach them, at once or when their last user lets them go.

    Returns which they were. A device that a failed test left on one of them
    would keep that one.
    """
    devices = attached_below(folder)
    for device in devices:
        for above in [*attached_on(device), device]:
            run(FLOOP, "detach", above, check=False)
    return devices


def wait_until(true, seconds=20):
    """Wait until something comes true. It is an error if it never does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def is_attached(device):
    return os.path.exists(
        f"/sys/block/{os.path.basename(device)}/loop/backing_file"
    )


def attribute(device, name):
    return (
        pathlib.Path(f"/sys/block/{os.path.basename(device)}/{name}")
        .read_text()
        .strip()
    )


def private(script):
    """The start of a command that runs in mounts of its own.

    A shell script runs there before it.
    """
    return ["unshare", "--mount", "sh", "-ec", f'{script}\nexec "$@"', "sh"]


# A /dev with nothing in it but the usual trinkets.
EMPTY_DEV = """
mount -t tmpfs none /dev
mknod /dev/null c 1 3
"""


def only_sysfs_of(devices):
    """For private(): a machine that has no block devices but these."""
    script = "mount -t tmpfs none /sys/block\n"
    for device in devices:
        name = os.path.basename(device)
        script += f"ln -s /sys/devices/virtual/block/{name} /sys/block/{name}\n"
    return script


# A partition table for sectors of 512 bytes, as far as recognizing it goes: the
# MBR that protects it, and the first bytes of its header.
GPT_512 = {
    446: bytes([0, 0, 2, 0, 0xEE, 255, 255, 255, 1, 0, 0, 0, 255, 255, 0, 0]),
    510: b"\x55\xaa",
    512: b"EFI PART\0\0\1\0",
}
