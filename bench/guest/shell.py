# SPDX-License-Identifier: GPL-2.0-only
"""Commands, with what they said when they fail."""

import contextlib
import os
import shutil
import subprocess


class Failed(Exception):
    """Something that was measured, or set up to be, did not work: the text says
    what.
    """


def run(*command, text=None, timeout=600):
    """Run a command to its end, with a text as its input; what it printed."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(words)}: no end after {timeout} s") from None
    except OSError as error:
        raise Failed(f"{words[0]}: {error.strerror}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise Failed(
            f"{' '.join(words)}: exit status {done.returncode}:"
            f" {' / '.join(said)}"
        )
    return done.stdout


def stop_udev():
    """For the test machine, which needs it no more: the kernel makes the device
    nodes.

    It looks afresh at every disk that was written to and closed, which is no
    part of a run.
    """
    subprocess.run(["pkill", "-KILL", "udevd"], check=False)
    with contextlib.suppress(OSError):
        os.unlink("/run/udev/queue")
    os.environ["DM_DISABLE_UDEV"] = "1"  # or dmsetup would wait for it


def settle():
    """Until udev, if it is there, has looked at what appeared or was closed."""
    if "DM_DISABLE_UDEV" not in os.environ:
        run("udevadm", "settle")


def missing(program):
    """Why it can't be run; nothing if it can."""
    return "" if shutil.which(program) else f"no {program} in the guest"


def read(path):
    with open(path) as file:
        return file.read().strip()


def write(path, text):
    with open(path, "w") as file:
        file.write(str(text))
